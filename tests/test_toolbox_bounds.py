"""The toolbox's bounds: a question about a lost action ends, a large result holds nobody up, an odd input is an Observation.

Whose breaker is open is known, and a cancellation that comes when a tool has just ended is one all the same."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from orchestrator.core.events import Action
from orchestrator.errors import Unavailable
from orchestrator.tool import ToolError, tool
from orchestrator.toolbox import Toolbox
from tests.test_toolbox import ABOUT, called, find_flight, giving, seen


@pytest.mark.virtual
async def test_asking_about_a_lost_action_ends_with_the_tools_timeout() -> None:
    async def hang(to: str) -> None:
        await asyncio.sleep(1e6)

    @tool(name="pay", timeout=3.0, reconcile=hang)
    async def pay(to: str) -> str:
        """Pays."""
        return to

    lost = (await Toolbox([pay]).reconcile(Action("1.0", "pay", {"to": "x"}), ABOUT)).observation
    assert lost is not None
    assert lost.code == "OUTCOME_UNKNOWN"
    assert asyncio.get_running_loop().time() == pytest.approx(3.0, abs=0.1)


async def test_a_large_result_is_cleaned_beside_the_loop() -> None:
    box = Toolbox([giving("line of words, 12345\n" * 500_000)])
    turns, cleaning = 0, asyncio.create_task(seen(box, "given"))
    while not cleaning.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert "cut" in (await cleaning).sanitised
    assert turns > 4, "the loop went on meanwhile"


async def test_an_input_that_is_no_json_is_refused_not_raised() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"city": deep}
    assert (await seen(Toolbox([find_flight]), "find_flight", deep)).code == "INVALID_ARGUMENTS"


@pytest.mark.virtual
async def test_a_box_knows_which_of_its_tools_are_out_and_until_when() -> None:
    down = True

    @tool
    async def shaky() -> str:
        """Is down, then well."""
        if down:
            raise Unavailable("DOWN", "503")
        return "well"

    told: list[str] = []
    box = Toolbox([find_flight, shaky], observe=lambda incident: told.append(type(incident).__name__))
    fewer, other, loop = box.without({"find_flight"}), box.without({"shaky"}), asyncio.get_running_loop()
    for _ in range(5):
        assert box.out(loop.time()) == ()
        await seen(fewer, "shaky")
    assert box.out(loop.time()) == fewer.out(loop.time()) == (("shaky", 10.0),)
    assert other.out(loop.time()) == ()
    await asyncio.sleep(10)
    assert box.out(loop.time()) == (), "it may be asked for a probe"
    down = False
    assert (await seen(box, "shaky")).status == "success"
    assert (box.out(loop.time()), told) == ((), ["BreakerMoved"] * 3)


@pytest.mark.virtual
@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("fails", [True, False])
async def test_a_cancellation_in_the_moment_a_tool_ends_is_heard_and_leaves_nothing_behind(
    turns: int, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    done = asyncio.get_running_loop().create_future()

    @tool
    async def waits() -> str:
        """Waits."""
        await done
        if fails:
            raise ToolError("BROKEN", "it fails")
        return "ok"

    async def run() -> str:
        await called(Toolbox([waits]), "waits")
        await asyncio.sleep(0)
        return "went on"

    task = asyncio.create_task(run())
    await asyncio.sleep(0.1)
    done.set_result(None)
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.cancel():
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [each for each in asyncio.all_tasks() if each is not asyncio.current_task()] == []
    gc.collect()
    assert caplog.records == [], "no exception that nobody heard of"
