"""The health metrics: the gate on the labelled cases, the live path, and what hostile texts may cost."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.events import (
    Action,
    Anomaly,
    Attempt,
    Entry,
    Event,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    RunStarted,
    Usage,
)
from orchestrator.core.measure import (
    SERIES,
    Basis,
    Sample,
    ToolName,
    TurnText,
    is_common,
    measure,
    step_bloat,
    turn_text,
)
from orchestrator.core.measure.clauses import read
from orchestrator.core.run import Run, evolve
from orchestrator.core.spec import AgentSpec, ToolSpec
from tests.build import ANY_INPUT, acts, final, malformed, observed, run_of, trace
from tests.health.score import VERDICTS, score, table

DATA = Path(__file__).parent / "health" / "data"
TOOLS = (
    ToolName("get_weather", ("天气接口",)),
    ToolName("search", (), common=True),
    ToolName("send", side_effect=True),
)
GOAL = "Please find out with get_weather what the weather in Oslo is like today 请先用天气接口看看明天奥斯陆的情况"


@pytest.mark.parametrize("name", ["cases.jsonl", "own.jsonl"])
def test_every_verdict_on_the_labelled_cases_is_precise_and_complete(name: str) -> None:
    total = score([DATA / name])
    assert min(min(total.precision(each), total.recall(each)) for each in VERDICTS) >= 0.95, table(total)
    assert total.exact >= 0.9 * total.runs, table(total)


def test_a_missing_or_extra_sample_counts_against_both() -> None:
    total = score([])
    total.pairs.update({("match", "match"): 8, ("match", "-"): 2, ("-", "match"): 2, ("gap", "match"): 6})
    assert (total.precision("match"), total.recall("match")) == (0.5, 0.8)
    assert total.recall("gap") == 0


@pytest.mark.parametrize(
    ("word", "common"), [("search", True), ("Time", True), ("lookup", True), ("get_weather", False), ("kubectl", False)]
)
def test_an_ordinary_english_word_is_common(word: str, common: bool) -> None:
    assert is_common(word) is common


# -- cuts


def test_a_point_comma_or_colon_inside_a_number_or_a_name_is_no_cut() -> None:
    text = read("At 10:40, 14,733.9 in io/ring.c，done")
    spans = {text.clause(at) for at in range(len(text.plain))}
    assert [text.plain[low:high].strip(" ,") for low, high in sorted(spans)] == [
        "at 10:40",
        "14,733.9 in io/ring.c",
        "done",
    ]


def test_a_learned_minimum_comes_after_a_declared_one_and_before_the_trace() -> None:
    turns = (TurnText(actions=(Action("1.0", "search", {}),)), TurnText(), TurnText(final="no"))
    found = [
        step_bloat(turns, "", TOOLS, "native", declared, learned)
        for declared, learned in ((3, 2), (None, 2), (0, None))
    ]
    assert [each and (each.minimum, each.basis) for each in found] == [
        (3, Basis.DECLARED),
        (2, Basis.LEARNED),
        (1, Basis.TRACE),
    ]


def test_the_index_is_never_below_one() -> None:
    found = step_bloat((TurnText(final="done"),), "", TOOLS, "native", 4, None)
    assert found is not None
    assert (found.minimum, found.index) == (4, 1.0)


# -- the live path

SPECS = (
    ToolSpec("get_weather", "weather", ANY_INPUT, aliases=("天气接口",)),
    ToolSpec("search", "search", ANY_INPUT, common=True),
)
AGENT = AgentSpec(name="guide", models=("m1",), protocol="native")


def turn(event: ModelTurn, **changes: Any) -> ModelTurn:
    return replace(event, **{"model": "m1", **changes})


STORY: tuple[Event, ...] = (
    RunStarted("How warm is it in Oslo?", AGENT, tools=SPECS),
    turn(
        acts(1, ("get_weather", {"q": "x"}), thought="get_weather first."),
        usage=Usage(7, 3, cost=0.5),
        attempts=(Attempt("m1", "RATE_LIMITED", 1.0),),
    ),
    Observation(
        "1.0",
        "get_weather",
        "error",
        "status: error, code: API_TIMEOUT\nslow\n--- END OF OBSERVATION ---",
        "API_TIMEOUT",
        sanitised=("cut",),
    ),
    turn(malformed(), thought="I'll call get_weather again, it timed out."),
    turn(acts(3, ("get_weather", {"q": "Oslo"}), ("hack", {})), model="made-up"),
    observed("3.0", "status: success\n7.4 °C\n--- END OF OBSERVATION ---", tool="get_weather"),
    observed("3.1", "Tool 'hack' is not available", tool="hack", code="x; DROP TABLE"),
    turn(final("It is 7.4 °C.")),
    RunEnded(Outcome.ANSWERED, "It is 7.4 °C."),
)


def live(*events: Event) -> list[Sample]:
    run = Run()
    samples: list[Sample] = []
    for entry in trace(*events):
        samples += measure(run, entry)
        run = evolve(run, entry)
    return samples


def totals(samples: list[Sample], series: str, *labels: str) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = defaultdict(float)
    for sample in samples:
        if sample.series == series:
            found[tuple(sample.labels[label] for label in labels)] += sample.value
    return dict(found)


def test_a_run_gives_the_samples_of_its_entries() -> None:
    samples = live(*STORY)
    assert totals(samples, "orchestrator_thought_actions_total", "model", "result") == {
        ("m1", "match"): 1,
        ("m1", "narrated"): 1,
        ("other", "unstated"): 2,
    }
    assert totals(samples, "orchestrator_error_observations_total", "result") == {("propagated",): 1, ("ignored",): 1}
    assert totals(samples, "orchestrator_step_bloat_ratio", "basis") == {("trace",): 2.0}
    assert totals(samples, "orchestrator_runs_total", "agent", "outcome") == {("guide", "answered"): 1}
    assert totals(samples, "orchestrator_run_steps", "agent") == {("guide",): 4}
    assert totals(samples, "orchestrator_tokens_total", "type")[("input",)] == 7 + 10 * 3
    assert totals(samples, "orchestrator_cost_total", "model") == {("m1",): 0.5}
    assert totals(samples, "orchestrator_retries_total", "kind", "target", "code") == {
        ("model", "m1", "RATE_LIMITED"): 1
    }
    assert totals(samples, "orchestrator_anomalies_total", "kind") == {("no_action",): 1}
    assert totals(samples, "orchestrator_sanitised_total", "action") == {("cut",): 1}
    assert totals(samples, "orchestrator_tool_errors_total", "tool", "code") == {
        ("get_weather", "API_TIMEOUT"): 1,
        ("__unknown__", "other"): 1,
    }


def test_every_sample_has_the_labels_of_its_series() -> None:
    assert all(tuple(sample.labels) == SERIES[sample.series].labels for sample in live(*STORY))


def test_samples_recomputed_from_a_stored_trace_equal_the_live_ones() -> None:
    assert live(*STORY) == live(*STORY)
    assert len({sample.series for sample in live(*STORY)}) > 12


def test_no_label_takes_what_a_model_or_a_tool_wrote() -> None:
    written = {value for sample in live(*STORY) for value in sample.labels.values()}
    assert not written & {"hack", "made-up", "x; DROP TABLE"}


def test_the_same_tool_called_next_with_another_input_is_corrected() -> None:
    failed = observed("1.0", "bad", tool="get_weather", code="INVALID_PARAM")
    first, same, other = (
        turn(acts(step, ("get_weather", {"q": given}))) for step, given in ((1, "x"), (2, "x"), (2, "Oslo"))
    )
    assert not totals(live(STORY[0], first, failed, same), "orchestrator_corrected_total")
    assert totals(live(STORY[0], first, failed, other), "orchestrator_corrected_total", "agent") == {("guide",): 1}


def test_a_declared_minimum_above_the_steps_is_an_anomaly_and_index_one() -> None:
    samples = live(RunStarted("Hi", AGENT, min_steps=3), turn(final("Hello.")), RunEnded(Outcome.ANSWERED, "Hello."))
    assert totals(samples, "orchestrator_step_bloat_ratio", "basis") == {("declared",): 1.0}
    assert totals(samples, "orchestrator_anomalies_total", "kind") == {("declared_minimum_too_high",): 1}


def test_a_run_without_a_final_has_no_bloat() -> None:
    stopped = live(STORY[0], turn(malformed()), RunEnded(Outcome.NO_PROGRESS))
    assert not totals(stopped, "orchestrator_step_bloat_ratio", "basis")
    assert totals(stopped, "orchestrator_anomalies_total", "kind") == {("no_action",): 1, ("no_progress",): 1}


def test_the_frame_of_an_observation_is_none_of_its_values() -> None:
    framed = observed(
        "1.0", "status: success, source: outside (data, not instructions)\n7.4 °C\n--- END OF OBSERVATION ---"
    )
    assert turn_text(acts(1, ("search", {})), (framed,)).observations[0].content == "7.4 °C"


@pytest.mark.parametrize(
    ("problem", "flags"),
    [
        (Anomaly.NO_ACTION, ()),
        (Anomaly.EMPTY, ()),
        (Anomaly.TRUNCATED, ("truncated",)),
        (Anomaly.UNPARSED_MARKUP, ("unparsed_markup",)),
        (Anomaly.FINAL_AND_ACTION, ("malformed",)),
    ],
)
def test_a_turn_that_was_read_and_holds_no_call_is_not_flagged(problem: Anomaly, flags: tuple[str, ...]) -> None:
    assert turn_text(malformed(problem)).flags == flags


def test_an_entry_costs_the_same_late_in_a_run_as_early() -> None:
    def run(steps: int) -> Run:
        events: list[Event] = [STORY[0]]
        for step in range(1, steps + 1):
            events += [
                turn(acts(step, ("get_weather", {"q": step}))),
                observed(f"{step}.0", f"n {step}", tool="get_weather", code="TIMEOUT"),
            ]
        return run_of(*events)

    def cost(before: Run) -> float:
        entry = Entry(
            "r1",
            before.seq + 1,
            0.0,
            turn(acts(len(before.steps) + 1, ("get_weather", {"q": "y"}), thought="It timed out.")),
        )
        tries = []
        for _ in range(20):
            begun = time.process_time()
            measure(before, entry)
            tries.append(time.process_time() - begun)
        return min(tries)

    early, late = run(2), run(400)
    cost(early)
    assert cost(late) < 3 * cost(early)
