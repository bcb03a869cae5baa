"""Counting by time: equal to a count by hand, bounded, and never younger than the window."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.alerts import Gauge, Window, read_gauges
from orchestrator.alerts.window import GRAIN, RUNS
from tests.alerts.make import GAP, RULES

METRIC = GAP.over.metric
SHOP = {"agent": "shop", "protocol": "native", "model": "main"}


def filled(*samples: tuple[str, float]) -> Window:
    window = Window([GAP])
    for index, (result, at) in enumerate(samples):
        window.add(METRIC, {**SHOP, "result": result}, 1.0, at=at, run_id=f"r{index}")
    return window


def test_a_ratio_is_the_sum_over_by_the_sum_under_per_group() -> None:
    window = filled(("gap", 0), ("narrated", 0), ("match", 1), ("match", 1), ("match", 2), ("unstated", 3))
    window.add(METRIC, {**SHOP, "agent": "other", "result": "match"}, 1.0, at=0, run_id="x")
    found = window.read(GAP, 10.0)
    assert found[("shop", "main")].value == 2 / 5
    assert found[("shop", "main")].samples == 5
    assert found[("other", "main")].value == 0.0


def test_a_group_with_nothing_under_is_no_data() -> None:
    assert filled(("unstated", 0)).read(GAP, 1.0) == {}


def test_the_runs_to_open_are_the_newest_that_did_it() -> None:
    samples = [("match", 0.0), *(("gap", float(at)) for at in range(1, 10))]
    assert filled(*samples).read(GAP, 20.0)[("shop", "main")].runs == ("r9", "r8", "r7", "r6", "r5")


def test_of_a_rate_that_must_not_fall_the_runs_are_those_that_failed_it() -> None:
    rule = RULES["error_propagation"]
    window = Window([rule])
    for run_id, result in (("good", "propagated"), ("bad", "ignored"), ("silent", "unstated")):
        window.add(rule.over.metric, {**SHOP, "result": result}, 1.0, at=0.0, run_id=run_id)
    assert window.read(rule, 0.0)[("shop", "main")].runs == ("bad",)


def test_the_worst_runs_of_a_mean_come_first_and_once() -> None:
    rule = RULES["step_bloat"]
    window = Window([rule])
    for run_id, index in (("a", 1.0), ("b", 9.0), ("c", 3.0), ("b", 2.0)):
        window.add(rule.over.metric, {"agent": "shop", "basis": "trace"}, index, at=0.0, run_id=run_id)
    reading = window.read(rule, 0.0)[("shop",)]
    assert (reading.value, reading.samples, reading.runs) == (15 / 4, 4, ("b", "c", "a"))


def test_a_sample_leaves_with_the_window() -> None:
    window = filled(("gap", 100.0), ("match", 100.0))
    assert window.read(GAP, 100.0 + GAP.window)[("shop", "main")].samples == 2
    assert window.read(GAP, 100.0 + GAP.window + 2 * GRAIN) == {}


def test_what_no_rule_reads_and_what_is_no_number_is_passed_over() -> None:
    window = Window([GAP])
    window.add("orchestrator_turns_total", {}, 1.0, at=0.0, run_id="r")
    window.add(METRIC, {**SHOP, "result": "gap"}, math.nan, at=0.0, run_id="r")
    assert window.read(GAP, 0.0) == {}


def test_memory_is_given_back() -> None:
    window = filled(*(("gap", float(at)) for at in range(0, 3000, 7)))
    window.forget(3000.0)
    assert window.read(GAP, 3000.0)[("shop", "main")].samples == pytest.approx(GAP.window / 7, abs=3)
    window.forget(99_999.0)
    assert not window._series[METRIC]


@given(
    st.lists(st.tuples(st.sampled_from(["gap", "narrated", "match", "unstated"]), st.integers(0, 3000)), max_size=80),
    st.integers(0, 3000),
)
def test_a_window_counts_what_a_count_by_hand_does(samples: list[tuple[str, int]], now: int) -> None:
    """Up to one grain more, at its old end; in any order of arrival; whether or not it has forgotten meanwhile."""
    seen = [(result, float(at)) for result, at in samples if at <= now]
    window = filled(*seen)
    first = (now - GAP.window) // GRAIN * GRAIN
    inside = [result for result, at in seen if at >= first]
    over = sum(result in {"gap", "narrated"} for result in inside)
    under = over + inside.count("match")
    for _ in range(2):
        reading = window.read(GAP, float(now)).get(("shop", "main"))
        assert (reading.samples if reading else 0) == under
        if reading and under:
            assert reading.value == over / under
            assert len(reading.runs) == min(over, RUNS)
        window.forget(float(now))


def test_a_gauge_is_the_largest_of_its_group_and_absence_is_not_ignorance() -> None:
    lag, absent = RULES["loop_lag"], RULES["worker_absent"]
    gauges = [Gauge("orchestrator_loop_lag_seconds", {"instance": "a"}, each) for each in (0.1, 0.7, math.nan)]
    assert read_gauges(lag, gauges)[("a",)].value == 0.7
    assert read_gauges(absent, []) == {}
    assert read_gauges(absent, [Gauge("orchestrator_workers", {}, 0.0)])[()].value == 1.0
    assert read_gauges(absent, [Gauge("orchestrator_workers", {}, 2.0)])[()].value == 0.0
    breaker = replace(RULES["model_breaker_open"], minimum=0)
    tool = Gauge("orchestrator_breaker_open", {"kind": "tool", "target": "search"}, 1.0)
    assert read_gauges(breaker, [tool]) == {}
