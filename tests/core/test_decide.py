"""The ladder as a table: (trace, command)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.core.decide import AskModel, CallTools, Record, Wait, decide
from orchestrator.core.events import (
    Action,
    ActionStarted,
    Anomaly,
    Decision,
    Entry,
    Event,
    Observation,
    Outcome,
    RunEnded,
    Waiting,
)
from orchestrator.core.run import replay
from orchestrator.core.spec import Limits
from tests.build import acts, final, malformed, observed, run_of, spec, started, trace

SEARCH = ("search", {"q": "tides"})
PAY = ("pay", {"to": "x"})
NOW = 1010.0


def command(*events: Event, now: float = NOW) -> object:
    return decide(run_of(*events), now)


def recorded(*events: Event, now: float = NOW) -> Event:
    got = command(*events, now=now)
    assert isinstance(got, Record)
    return got.event


def test_a_new_run_asks_the_model() -> None:
    assert command(started()) == AskModel(4096)


def test_proposed_actions_are_called_together() -> None:
    assert command(started(), acts(1, SEARCH, ("search", {"q": "b"}))) == CallTools(
        (Action("1.0", "search", {"q": "tides"}), Action("1.1", "search", {"q": "b"}))
    )


def test_only_the_unobserved_actions_are_called() -> None:
    events = (started(), acts(1, SEARCH, ("search", {"q": "b"})), observed("1.1"))
    assert command(*events) == CallTools((Action("1.0", "search", {"q": "tides"}),))


def test_a_final_ends_the_run() -> None:
    assert recorded(started(), final("42")) == RunEnded(Outcome.ANSWERED, "42")


def test_an_honest_final_is_no_answer() -> None:
    assert recorded(started(), final("insufficient: missing X", missing="X")) == RunEnded(
        Outcome.GAVE_UP, "insufficient: missing X", "X"
    )


def test_an_ended_run_wants_nothing() -> None:
    assert command(started(), final(), RunEnded(Outcome.ANSWERED, "done")) is None


def test_a_started_action_that_is_not_repeatable_is_not_run_again() -> None:
    event = recorded(started(spec("pay", repeatable=False)), acts(1, PAY), ActionStarted("1.0"))
    assert isinstance(event, Observation)
    assert (event.id, event.status, event.code) == ("1.0", "error", "OUTCOME_UNKNOWN")


def test_a_started_action_that_is_repeatable_runs_again() -> None:
    assert isinstance(command(started(), acts(1, SEARCH), ActionStarted("1.0")), CallTools)


def test_a_started_action_whose_tool_can_be_asked_is_asked() -> None:
    pay = spec("pay", repeatable=False, reconcilable=True)
    assert isinstance(command(started(pay), acts(1, PAY), ActionStarted("1.0")), CallTools)


def test_an_action_that_needs_approval_waits_for_a_person() -> None:
    pay = spec("pay", requires_approval=True)
    waiting = recorded(started(pay), acts(1, PAY))
    assert isinstance(waiting, Waiting)
    assert waiting.reason == "approval"
    assert command(started(pay), acts(1, PAY), waiting) == Wait(NOW + 86_400.0)


def test_the_time_in_which_others_have_the_word_does_not_count_against_the_deadline() -> None:
    limits = Limits(deadline=60.0)
    parked = (started(spec(requires_approval=True), limits=limits), acts(1, SEARCH), Waiting("1.0", 9e4, "approval"))
    assert command(*parked, now=50_000.0) == Wait(9e4)
    late = [*trace(*parked), Entry("r1", 4, 50_000.0, Decision("1.0", "ann", "approve"))]
    assert isinstance(decide(replay(late), 50_010.0), CallTools)
    assert replay(late).elapsed(50_010.0) == 12.0


def test_an_approved_action_runs_and_a_refused_one_does_not() -> None:
    before = (started(spec("pay", requires_approval=True)), acts(1, PAY), Waiting("1.0", 2000.0, "approval"))
    assert isinstance(command(*before, Decision("1.0", "ann", "approve")), CallTools)
    refused = recorded(*before, Decision("1.0", "ann", "refuse", reason="too much"))
    assert isinstance(refused, Observation)
    assert refused.code == "REFUSED"
    assert "too much" in refused.content


def test_an_edited_action_runs_with_the_persons_input() -> None:
    before = (started(spec("pay", requires_approval=True)), acts(1, PAY), Waiting("1.0", 2000.0, "approval"))
    assert command(*before, Decision("1.0", "ann", "edit", {"to": "y"})) == CallTools(
        (Action("1.0", "pay", {"to": "y"}),)
    )


def test_a_long_tool_is_waited_for_polled_and_given_up() -> None:
    waiting = (started(), acts(1, SEARCH), ActionStarted("1.0"), Waiting("1.0", until=1300.0, poll=1100.0))
    assert command(*waiting) == Wait(1100.0)
    assert isinstance(command(*waiting, now=1100.0), CallTools)
    overdue = recorded(*waiting, now=1300.0)
    assert isinstance(overdue, Observation)
    assert overdue.code == "TOOL_TIMEOUT"


def test_the_deadline_closes_open_actions_and_then_the_run() -> None:
    limits = Limits(deadline=5.0)
    unfinished = recorded(started(limits=limits), acts(1, SEARCH), now=1006.0)
    assert isinstance(unfinished, Observation)
    assert unfinished.code == "DEADLINE"
    ended = recorded(started(limits=limits), acts(1, SEARCH), unfinished, now=1006.0)
    assert isinstance(ended, RunEnded)
    assert ended.outcome is Outcome.DEADLINE


def test_an_answer_that_came_in_time_survives_the_deadline() -> None:
    assert recorded(started(limits=Limits(deadline=5.0)), final("42"), now=5000.0) == RunEnded(Outcome.ANSWERED, "42")


def test_a_cancelled_run_tells_the_truth_about_each_action() -> None:
    cancel = Decision("", "ann", "cancel", reason="enough")
    before = (started(spec("pay", repeatable=False), spec()), acts(1, PAY, SEARCH), ActionStarted("1.0"), cancel)
    unknown = recorded(*before)
    assert isinstance(unknown, Observation)
    assert (unknown.id, unknown.code) == ("1.0", "OUTCOME_UNKNOWN")
    cancelled = recorded(*before, unknown)
    assert isinstance(cancelled, Observation)
    assert (cancelled.id, cancelled.code) == ("1.1", "CANCELLED")
    ended = recorded(*before, unknown, cancelled)
    assert isinstance(ended, RunEnded)
    assert ended.outcome is Outcome.CANCELLED


def test_the_last_step_asks_to_finish_and_runs_no_more_tools() -> None:
    limits = Limits(max_steps=2)
    first = (started(limits=limits), acts(1, SEARCH), observed("1.0"))
    assert command(*first) == AskModel(4096, finish=True)
    not_run = recorded(*first, acts(2, ("search", {"q": "other"})))
    assert isinstance(not_run, Observation)
    assert not_run.code == "OUT_OF_STEPS"
    ended = recorded(*first, acts(2, ("search", {"q": "other"})), not_run)
    assert isinstance(ended, RunEnded)
    assert ended.outcome is Outcome.OUT_OF_STEPS


def test_a_truncated_reply_gets_a_larger_budget_once_and_keeps_it() -> None:
    cut = malformed(Anomaly.TRUNCATED)
    assert command(started(), cut) == AskModel(16384)
    ended = recorded(started(), cut, cut)
    assert isinstance(ended, RunEnded)
    assert ended.outcome is Outcome.TRUNCATED
    assert command(started(), cut, acts(2, SEARCH), observed("2.0")) == AskModel(16384)


@pytest.mark.parametrize("problem", [Anomaly.TRUNCATED, Anomaly.EMPTY, Anomaly.MALFORMED])
def test_out_of_steps_says_what_was_wrong_with_the_last_reply(problem: Anomaly) -> None:
    """No step is left for another try: that is why it ends, and the reply is why there is no answer."""
    limits = Limits(max_steps=2)
    ended = recorded(started(limits=limits), acts(1, SEARCH), observed("1.0"), malformed(problem))
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.detail) == (
        Outcome.OUT_OF_STEPS,
        f"no answer after 2 steps; the last reply was unusable: {problem}",
    )


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [
        (Anomaly.NO_ACTION, Outcome.FORMAT),
        (Anomaly.MALFORMED, Outcome.FORMAT),
        (Anomaly.EMPTY, Outcome.EMPTY),
    ],
)
def test_unusable_turns_are_bounded(problem: Anomaly, outcome: Outcome) -> None:
    bad = malformed(problem)
    assert isinstance(command(started(), bad, bad), AskModel)
    ended = recorded(started(), bad, bad, bad)
    assert isinstance(ended, RunEnded)
    assert ended.outcome is outcome


def test_a_refusal_ends_the_run_at_once() -> None:
    ended = recorded(started(), malformed(Anomaly.REFUSAL))
    assert isinstance(ended, RunEnded)
    assert ended.outcome is Outcome.REFUSED


def test_tool_errors_in_a_row_end_the_run() -> None:
    events: list[Event] = [started(limits=Limits(tool_errors=3, stall_end=99))]
    for step in (1, 2, 3):
        events += [acts(step, ("search", {"q": str(step)})), observed(f"{step}.0", f"boom {step}", code="TOOL_TIMEOUT")]
    ended = recorded(*events)
    assert isinstance(ended, RunEnded)
    assert ended.outcome is Outcome.TOOL_ERRORS
    assert isinstance(command(*events[:-1], observed("3.0")), AskModel)


def test_the_same_call_for_ever_runs_twice_is_refused_and_ends() -> None:
    events: list[Event] = [started()]
    for step in (1, 2):
        events += [acts(step, SEARCH), observed(f"{step}.0", "[]")]
    events.append(acts(3, SEARCH))
    refused = recorded(*events)
    assert isinstance(refused, Observation)
    assert refused.code == "REPEATED_ACTION"
    ended = recorded(*events, refused)
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.missing) == (Outcome.NO_PROGRESS, "tides")


def test_the_same_call_with_a_changing_result_is_polling_and_runs_on() -> None:
    events: list[Event] = [started(limits=Limits(stall_end=99))]
    for step in range(1, 6):
        events += [acts(step, SEARCH), observed(f"{step}.0", f"progress {step * 13} percent of {step * 17} files")]
    assert isinstance(command(*events, acts(6, SEARCH)), CallTools)


def test_the_token_budget_reserves_the_next_prompt() -> None:
    one = (acts(1, SEARCH, tokens=100), observed("1.0"))
    assert command(started(limits=Limits(max_tokens=400)), *one) == AskModel(100)
    ended = recorded(started(limits=Limits(max_tokens=300)), *one)
    assert isinstance(ended, RunEnded)
    assert ended.outcome is Outcome.OUT_OF_BUDGET


def test_a_call_that_stands_twice_in_one_reply_has_its_side_effect_once() -> None:
    events = (started(spec("pay", repeatable=False)), acts(1, PAY, PAY, ("pay", {"to": "y"})))
    second = recorded(*events)
    assert isinstance(second, Observation)
    assert (second.id, second.code) == ("1.1", "REPEATED_ACTION")
    assert command(*events, second) == CallTools((Action("1.0", "pay", {"to": "x"}), Action("1.2", "pay", {"to": "y"})))
    repeatable = (started(spec("pay")), acts(1, PAY, PAY))
    assert isinstance(command(*repeatable), CallTools)


def test_the_second_budget_of_a_cut_reply_is_never_smaller_than_the_first() -> None:
    limits = Limits(max_output=32_000, max_output_cap=16_000)
    assert command(started(limits=limits), malformed(Anomaly.TRUNCATED)) == AskModel(32_000)


@pytest.mark.parametrize(
    ("cost", "code"), [(None, "UNKNOWN_COST"), (0.2, "OUT_OF_BUDGET"), (0.05, None)], ids=["unknown", "over", "within"]
)
def test_an_unknown_cost_is_never_a_free_turn(cost: float | None, code: str | None) -> None:
    turn = acts(1, SEARCH)
    turn = replace(turn, usage=replace(turn.usage, cost=cost))
    got = command(started(limits=Limits(max_cost=0.1)), turn, observed("1.0"))
    if code is None:
        assert isinstance(got, AskModel)
        return
    assert isinstance(got, Record)
    assert isinstance(got.event, RunEnded)
    assert (got.event.outcome, got.event.code) == (Outcome.OUT_OF_BUDGET, code)
