"""Tools that hold runs up: by what was measured, else by what they declare."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from orchestrator.core.events import ActionStarted, Entry
from orchestrator.core.run import evolve, replay
from orchestrator.core.spec import ToolSpec
from orchestrator.metrics import Metrics
from orchestrator.metrics.cells import Spread
from orchestrator.metrics.slow import Measured, slow, unmeasured
from orchestrator.worker.advice import advising
from tests.build import acts, observed, spec, started

BOUNDS = (0.1, 0.5, 1.0, 2.5, 10.0)


@given(st.lists(st.floats(0, 20), min_size=1, max_size=60), st.floats(0.01, 1))
def test_a_share_is_found_in_the_bucket_where_it_is(values: list[float], share: float) -> None:
    cell = Spread(BOUNDS)
    for value in values:
        cell.add(value)
    count, found = cell.within(share)
    exact = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    lower = max((bound for bound in (0.0, *BOUNDS) if bound < exact), default=0.0)
    upper = next((bound for bound in BOUNDS if exact <= bound), BOUNDS[-1])
    assert count == len(values)
    assert min(lower, upper) - 1e-9 <= found <= upper + 1e-9


def test_nothing_measured_is_nothing_known() -> None:
    assert Spread(BOUNDS).within(0.95) == (0, 0.0)
    assert Metrics().seconds_of("search") == (0, 0.0)


@pytest.mark.parametrize(
    ("tool", "measured", "says"),
    [
        (spec(), unmeasured, ""),
        (replace(spec(), timeout=120.0), unmeasured, "timeout=120"),
        (replace(spec(), timeout=120.0), lambda _: (19, 0.2), "timeout=120"),
        (replace(spec(), timeout=120.0), lambda _: (20, 0.2), ""),
        (spec(), lambda _: (19, 9.0), ""),
        (spec(), lambda _: (20, 9.04), "1 of 20 calls takes over 9.0 s (of 20)"),
        (spec(), lambda _: (20, 3.0), ""),
        (replace(spec(), foreign=True), lambda _: (20, 9.0), ""),
    ],
)
def test_what_was_measured_goes_before_what_is_declared(tool: ToolSpec, measured: Measured, says: str) -> None:
    found = list(slow([tool], measured))
    assert bool(found) == bool(says)
    assert all(says in each.why for each in found)


def watched(metrics: Metrics, seconds: float, steps: int) -> None:
    """A run whose tool took so long in each step."""
    run = replay([Entry("r", 1, 0.0, started())])
    for step in range(1, steps + 1):
        seen = replace(observed(f"{step}.0", f"new {step}"), seconds=seconds)
        for event in (acts(step, ("search", {"q": str(step)})), ActionStarted(f"{step}.0", "k"), seen):
            entry = Entry("r", run.seq + 1, 0.0, event)
            metrics.observe(run, entry)
            run = evolve(run, entry)


@pytest.mark.virtual
async def test_a_worker_says_once_of_each_slow_tool_what_to_do() -> None:
    metrics = Metrics()
    tools = [spec(), replace(spec("ask"), timeout=300.0)]
    with capture_logs() as said:
        working = asyncio.create_task(advising(tools, metrics.seconds_of))
        await asyncio.sleep(30)
        watched(metrics, 7.0, 19)
        await asyncio.sleep(60)
        assert [each["tool"] for each in said] == ["ask"]
        watched(metrics, 7.0, 19)
        await asyncio.sleep(600)
        working.cancel()
    assert [each["tool"] for each in said] == ["ask", "search"]
    assert all("pending(...)" in each["advice"] for each in said)
