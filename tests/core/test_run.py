"""evolve folds what can have happened, and refuses what cannot."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.events import ActionStarted, Anomaly, Decision, Event, Outcome, RunEnded, StopReason, Waiting
from orchestrator.core.run import Note, Run, evolve, replay
from orchestrator.errors import IllegalEvent
from tests.build import acts, final, malformed, observed, run_of, started, trace

TWO = acts(1, ("search", {"q": "a"}), ("search", {"q": "b"}))
WHOLE: tuple[Event, ...] = (
    started(),
    TWO,
    ActionStarted("1.0"),
    ActionStarted("1.1"),
    observed("1.1", "beta particles"),
    observed("1.0", "alpha decay"),
    malformed(),
    final("alpha decay and beta particles"),
    RunEnded(Outcome.ANSWERED, "alpha decay and beta particles"),
)


def test_a_step_closes_when_its_last_action_is_observed() -> None:
    run = run_of(*WHOLE[:5])
    assert (len(run.steps), len(run.pending), run.step) == (0, 1, 1)
    run = run_of(*WHOLE[:6])
    assert (len(run.steps), run.pending, run.step, run.turn) == (1, (), 2, None)


def test_the_order_in_which_observations_arrive_leaves_no_mark_on_the_steps() -> None:
    arrived = [observed("1.0", "alpha decay"), observed("1.1", "beta particles")]
    runs = [run_of(started(), TWO, *order) for order in itertools.permutations(arrived)]
    assert runs[0].steps == runs[1].steps
    assert runs[0].facts == runs[1].facts


@given(st.integers(0, len(WHOLE)))
def test_replaying_a_prefix_and_then_the_rest_is_replaying_all(cut: int) -> None:
    entries = trace(*WHOLE)
    assert replay(entries[cut:], replay(entries[:cut])) == replay(entries)


@pytest.mark.parametrize(
    "events",
    [
        (final(),),
        (started(), started()),
        (started(), observed("1.0")),
        (started(), TWO, observed("1.7")),
        (started(), TWO, observed("1.0"), observed("1.0")),
        (started(), TWO, final()),
        (started(), TWO, ActionStarted("1.0"), ActionStarted("1.0")),
        (started(), ActionStarted("1.0")),
        (started(), acts(2, ("search", {}))),
        (started(), acts(1)),
        (started(), TWO, RunEnded(Outcome.ANSWERED)),
        (started(), RunEnded(Outcome.CANCELLED), final()),
        (started(), Waiting("1.0", 5.0)),
        (started(), Decision("1.0", "ann", "approve")),
        (started(), TWO, Decision("1.0", "ann", "edit")),
        (started(), final(), final()),
    ],
)
def test_a_history_that_cannot_have_happened_is_refused(events: tuple[Event, ...]) -> None:
    with pytest.raises(IllegalEvent):
        run_of(*events)


def test_a_gap_or_a_repeat_or_a_strangers_entry_is_refused() -> None:
    entries = trace(*WHOLE)
    for bad in (entries[2:3], entries[:2] + entries[1:2], entries[:1] + trace(*WHOLE[:2], run_id="other")[1:]):
        with pytest.raises(IllegalEvent):
            replay(bad)


def test_notes_tell_the_model_what_the_host_did() -> None:
    forged = acts(1, ("search", {"q": "a"}), anomalies=(Anomaly.FORGED_OBSERVATION, Anomaly.EXTRA_ACTIONS))
    run = run_of(started(), forged, observed("1.0"))
    assert run.steps[0].notes == (Note.FORGED_OBSERVATION, Note.EXTRA_ACTIONS)
    assert run_of(started(), malformed()).steps[0].notes == (Note.MALFORMED,)


def test_a_truncated_turn_is_hidden_from_the_conversation() -> None:
    assert run_of(started(), malformed(Anomaly.TRUNCATED)).steps[0].hidden


def test_an_unclosed_bracket_in_a_whole_reply_is_told_to_the_model() -> None:
    run = run_of(started(), replace(malformed(Anomaly.TRUNCATED), stop=StopReason.END_TURN))
    assert (run.steps[0].hidden, run.steps[0].notes, run.truncated, run.malformed) == (False, (Note.MALFORMED,), 0, 1)


def test_usage_adds_up_and_consecutive_counters_start_anew() -> None:
    run = run_of(
        started(), malformed(), malformed(), acts(3, ("search", {"q": "x"})), observed("3.0", code="TOOL_TIMEOUT")
    )
    assert (run.usage.tokens, run.malformed, run.tool_errors) == (60, 0, 1)


def test_an_empty_trace_is_an_empty_run() -> None:
    assert replay(()) == Run()
    with pytest.raises(IllegalEvent):
        _ = Run().start
    assert evolve(Run(), trace(started())[0]).started is not None
