"""What has failed is gone at once: no error, frame and task hold each other, and a prompt with them, until the collector comes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable

import pytest

from orchestrator.core.events import Action
from orchestrator.errors import CallError, Permanent, Unavailable
from orchestrator.policy import Ask, RetryRules, layered, retry
from orchestrator.tool import Context, Tool, tool
from orchestrator.toolbox import Toolbox
from tests.policy.callee import Callee, busy, down

TIMES = 50


async def left_by(work: Callable[[], Awaitable[object]]) -> int:
    """How many objects the collector finds after TIMES of this."""
    await work()
    gc.collect()
    gc.disable()
    try:
        for _ in range(TIMES):
            await work()
        return gc.collect()
    finally:
        gc.enable()


@tool
async def bug(text: str) -> str:
    """Has a bug."""
    return str(int(text))


@tool
def bug_in_a_thread(text: str) -> str:
    """Has a bug."""
    return str(int(text))


@tool
async def refusal(text: str) -> str:
    """Refuses."""
    raise Permanent("NO", text)


@tool
async def cancelling_itself(text: str) -> str:
    """Cancels itself."""
    raise asyncio.CancelledError(text)


@tool(timeout=0.001)
async def late(text: str) -> str:
    """Takes too long."""
    await asyncio.sleep(60)
    return text


@pytest.mark.parametrize(
    "one", [bug, bug_in_a_thread, refusal, cancelling_itself, late], ids=lambda one: str(one.spec.name)
)
async def test_a_tool_that_failed_leaves_no_circle(one: Tool) -> None:
    box = Toolbox([one])
    action, about = Action("1.0", one.spec.name, {"text": "x"}), Context("r1", "1.0", "r1:1.0")

    async def failing() -> None:
        observation = (await box.call(action, context=about)).observation
        assert observation is not None
        assert observation.status == "error"

    assert await left_by(failing) < TIMES


@pytest.mark.virtual
async def test_a_call_that_was_tried_again_leaves_no_circle() -> None:
    callee = Callee()
    call = layered(callee, retry(RetryRules(floor=1000)))

    async def in_the_end() -> None:
        callee.script = [down(), busy()]
        assert await call(Ask("x")) == "x"

    async def never() -> None:
        callee.script = [down()] * 9
        with contextlib.suppress(Unavailable):
            await call(Ask("x"))
        assert len(callee.script) == 9 - RetryRules().attempts

    assert await left_by(in_the_end) < TIMES
    assert await left_by(never) < TIMES


@pytest.mark.virtual
async def test_the_error_that_is_raised_in_the_end_is_the_last_one() -> None:
    errors = [down(), busy(), busy(), down()]
    with pytest.raises(CallError) as raised:
        await layered(Callee([*errors]), retry())(Ask("x"))
    assert raised.value is errors[-1]
