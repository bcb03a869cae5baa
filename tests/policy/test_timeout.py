from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from orchestrator.errors import ConfigError, Timeout
from orchestrator.policy import Ask, layered, paced, timeout
from orchestrator.policy.timeout import Scope
from tests.policy.callee import Callee, now

pytestmark = pytest.mark.virtual


async def test_a_slow_call_is_cut_at_its_limit() -> None:
    callee = Callee(seconds=3600)
    with pytest.raises(Timeout, match="within 30 s") as error:
        await layered(callee, timeout(30))(Ask("x"))
    assert (error.value.code, now(), callee.busy) == ("TIMEOUT", 30, 0)


async def test_a_late_result_never_overwrites_the_timeout() -> None:
    async def stubborn(ask: Ask[str]) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        return "late"

    with pytest.raises(Timeout):
        await layered(stubborn, timeout(30))(Ask("x"))
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_an_error_made_of_the_cancellation_is_still_the_timeout() -> None:
    async def disguised(ask: Ask[str]) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            raise ValueError("connection lost") from error
        return "never"

    with pytest.raises(Timeout):
        await layered(disguised, timeout(30))(Ask("x"))


async def test_a_swallowed_cancellation_reaches_the_caller_all_the_same() -> None:
    async def swallowing(ask: Ask[str]) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "ok"

    task = asyncio.ensure_future(layered(swallowing, timeout(100))(Ask("x")))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert now() == 1


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancellation_in_the_moment_of_completion_is_not_lost(turns: int) -> None:
    done = asyncio.get_running_loop().create_future()

    async def waiting(ask: Ask[str]) -> str:
        return str(await done)

    async def run() -> str:
        await layered(waiting, timeout(100))(Ask("x"))
        await asyncio.sleep(0)
        return "went on"

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    done.set_result("ok")
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.cancel():
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_the_deadline_of_the_run_is_nobodys_failure() -> None:
    with pytest.raises(Timeout) as error:
        await layered(Callee(seconds=60), timeout(30))(Ask("x", deadline=10))
    assert (error.value.code, now()) == ("DEADLINE", 10)


async def test_nothing_is_sent_after_the_deadline() -> None:
    callee = Callee()
    await asyncio.sleep(11)
    with pytest.raises(Timeout, match="deadline has passed"):
        await layered(callee, timeout(30))(Ask("x", deadline=10))
    assert callee.at == []


async def test_a_callees_own_timeout_has_the_same_name() -> None:
    with pytest.raises(Timeout) as error:
        await layered(Callee([TimeoutError("socket")]), timeout(30))(Ask("x"))
    assert error.value.code == "TIMEOUT"


async def test_a_limit_leaves_alone_what_ends_in_time_and_who_cancels_from_outside() -> None:
    with Scope(now() + 5):
        await asyncio.sleep(4)
    await asyncio.sleep(60)

    async def limited() -> None:
        with Scope(now() + 5):
            await asyncio.sleep(60)

    task = asyncio.ensure_future(limited())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(TimeoutError):
        await limited()
    assert now() == 70


async def test_of_two_limits_the_nearer_one_is_the_one_that_passed() -> None:
    with Scope(now() + 9):
        with pytest.raises(TimeoutError), Scope(now() + 3):
            await asyncio.sleep(60)
        assert now() == 3


async def test_a_timeout_of_nothing_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="above 0"):
        timeout(0)


@pytest.mark.parametrize(("first", "gap", "cut_at"), [(61, 0, 60), (1, 31, 31), (59, 29, None)])
async def test_a_stream_has_a_limit_to_its_first_token_and_between_two(
    first: float, gap: float, cut_at: float | None
) -> None:
    async def tokens() -> AsyncIterator[str]:
        await asyncio.sleep(first)
        yield "a"
        await asyncio.sleep(gap)
        yield "b"

    seen: list[str] = []

    async def read() -> None:
        seen.extend([each async for each in paced(tokens(), first=60, between=30)])

    if cut_at is None:
        await read()
        assert seen == ["a", "b"]
        return
    with pytest.raises(Timeout):
        await read()
    assert now() == cut_at
