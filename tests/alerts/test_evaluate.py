"""One rule, one group, one moment: the whole table, and its laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.alerts import QUIET, AlertState, Notification, Reading, Rule, evaluate
from orchestrator.alerts.notice import lasted
from orchestrator.monitor.page import Owed, Page, Standing, dump, load
from tests.alerts.make import GAP, RULES, gauge, note

ENOUGH = 40.0


def play(
    values: Sequence[float | None], rule: Rule = GAP, every: float = 60.0, samples: float = ENOUGH
) -> tuple[list[str], list[Notification]]:
    """States and notifications of one reading a minute; None is no data."""
    state = QUIET
    told: list[Notification] = []
    states: list[str] = []
    for index, value in enumerate(values):
        state, said = evaluate(rule, ("shop", "main")[: len(rule.by)], Reading(value, samples), state, index * every)
        told += [said] if said else []
        states.append(state.phase)
    return states, told


def test_it_fires_after_for_and_tells_once() -> None:
    states, told = play([0.10] * 6)
    assert states == ["pending", "pending", "firing", "firing", "firing", "firing"]
    assert [(each.status, each.value, each.since, each.at) for each in told] == [("firing", 0.10, 0.0, 120.0)]


def test_exactly_at_the_threshold_nothing_fires() -> None:
    assert play([0.05] * 9) == (["quiet"] * 9, [])


def test_it_resolves_once_and_only_beyond_the_hysteresis() -> None:
    states, told = play([0.10, 0.10, 0.10, 0.045, 0.041, 0.04, 0.045, 0.0])
    assert states == ["pending", "pending", "firing", "firing", "firing", "quiet", "quiet", "quiet"]
    assert [each.status for each in told] == ["firing", "resolved"]
    assert told[1].value == 0.04
    assert told[1].since == told[0].since


def test_flapping_around_the_threshold_is_one_alert() -> None:
    _, told = play([0.10, 0.10, 0.10] + [0.049, 0.06] * 20)
    assert [each.status for each in told] == ["firing"]


def test_a_breach_that_ends_before_for_tells_nothing() -> None:
    assert play([0.10, 0.02, 0.10, 0.02])[1] == []


def test_below_rules_mirror_above_rules() -> None:
    states, told = play([0.72, 0.72, 0.72, 0.84, 0.85], RULES["error_propagation"])
    assert states == ["pending", "pending", "firing", "firing", "quiet"]
    assert [each.value for each in told] == [0.72, 0.85]


@pytest.mark.parametrize("nothing", [None, math.nan, math.inf])
def test_no_data_neither_fires_nor_resolves(nothing: float | None) -> None:
    states, told = play([nothing] * 3 + [0.10] * 3 + [nothing] * 50)
    assert states[:3] == ["quiet"] * 3
    assert set(states[5:]) == {"firing"}
    assert [each.status for each in told] == ["firing"]


def test_fewer_samples_than_the_minimum_are_no_data() -> None:
    assert play([1.0] * 9, samples=19.0) == (["quiet"] * 9, [])
    assert play([1.0] * 9, samples=20.0)[0][-1] == "firing"


def test_no_data_breaks_off_a_pending_alert() -> None:
    assert play([0.10, None, 0.10, 0.10])[0] == ["pending", "quiet", "pending", "pending"]


def test_a_firing_alert_without_data_for_a_day_is_closed_and_says_so() -> None:
    states, told = play([0.10] * 3 + [None] * 30, every=3600.0)
    assert states[1] == "firing"
    assert states[-1] == "quiet"
    assert [(each.status, each.closed) for each in told] == [("firing", False), ("resolved", True)]
    assert "no data" in told[1].sentence("en")
    assert "没有数据" in told[1].sentence("zh")


def test_without_for_it_fires_at_once() -> None:
    assert play([11.0], gauge())[0] == ["firing"]


def test_a_clock_that_goes_back_neither_fires_nor_raises() -> None:
    state, _ = evaluate(GAP, ("a", "m"), Reading(0.5, ENOUGH), QUIET, 1000.0)
    state, told = evaluate(GAP, ("a", "m"), Reading(0.5, ENOUGH), state, 10.0)
    assert (state.phase, told) == ("pending", None)


def test_the_sentence_holds_figure_threshold_and_group() -> None:
    (told,) = play([0.1234] * 3)[1]
    assert told.sentence("en") == (
        "Agent shop on main says one tool and calls another (or none) in 12.34 % of its Actions; the limit is 5 %."
    )
    assert "12.34 %" in told.sentence("zh")


def test_runs_to_open_stay_with_a_firing_alert() -> None:
    state, _ = evaluate(gauge(), (), Reading(11.0, runs=("r9",)), QUIET, 0.0)
    state, _ = evaluate(gauge(), (), Reading(12.0), state, 1.0)
    assert state.runs == ("r9",)


values = st.lists(st.one_of(st.none(), st.floats(0, 20), st.just(math.nan)), max_size=60)


@given(values, st.sampled_from([0.0, 60.0, 150.0]))
def test_firing_and_resolved_alternate_and_firing_comes_first(given_values: list[float | None], pending: float) -> None:
    _, told = play(given_values, gauge(pending=pending))
    assert [each.status for each in told] == ["firing", "resolved"] * (len(told) // 2) + ["firing"] * (len(told) % 2)


@given(values, st.integers(0, 60), st.sampled_from([0.0, 60.0]))
def test_a_restart_at_any_moment_changes_nothing(given_values: list[float | None], at: int, pending: float) -> None:
    rule, state = gauge(pending=pending), QUIET
    told: list[Notification] = []
    for index, value in enumerate(given_values):
        if index == at:
            page = load(dump(Page((Standing(rule.name, (), state),))))
            assert page is not None
            state = page.standing[0].state
        state, said = evaluate(rule, (), Reading(value, ENOUGH), state, index * 60.0)
        told += [said] if said else []
    assert told == play(given_values, rule)[1]


@given(st.lists(st.floats(0, 5), max_size=30))
def test_what_never_goes_beyond_the_threshold_is_never_told(given_values: list[float]) -> None:
    assert play(given_values, gauge())[1] == []


def test_a_page_comes_back_as_it_was() -> None:
    state = AlertState("firing", 1.0, 2.0, 0.5, ("r1",))
    page = Page((Standing("thought_action_gap", ("店", "m"), state),), (Owed("robot", note()),))
    assert load(dump(page)) == page


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"standing": 5}', b'{"standing": [{"rule": 1}]}', b"\xff", b"null"])
def test_a_page_that_cannot_be_read_is_none(body: bytes) -> None:
    assert load(body) is None


def test_the_first_page_is_empty() -> None:
    assert load(b"") == Page()


def test_key_and_fingerprint_tell_alerts_apart_and_deliveries_together() -> None:
    first: Notification = note()
    assert first.fingerprint == note(status="resolved", value=0.0).fingerprint
    assert first.key == note(at=9.0).key
    assert len({first.key, note(status="resolved").key, note(since=1.0).key, note(labels={"agent": "x"}).key}) == 4
    assert replace(first, labels={"agent": "a", "model": "b\0agent=c"}).fingerprint != first.fingerprint


def test_what_is_over_says_since_when_how_long_and_where_it_is_back_at() -> None:
    over = note(status="resolved", value=0.03, since=1_800_000_000.0, at=1_800_000_000.0 + 3900)
    assert over.sentence("en") == (
        "Resolved after 1 h 5 min, since 2027-01-15 08:00:00 UTC: back at 3 %, the limit is 5 %."
    )
    assert over.sentence("zh") == ("已恢复：持续 1 小时 5 分钟（自 2027-01-15 08:00:00 UTC），现为 3 %，阈值 5 %。")
    assert replace(over, unit="count").sentence("en") == "Resolved after 1 h 5 min, since 2027-01-15 08:00:00 UTC."
    assert replace(over, closed=True).sentence("en").startswith("Closed after 1 h 5 min, since 2027-01-15 08:00:00 UTC")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (40.4, "40 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (187_200, "2 d 4 h"),
        (-5, "0 s"),
    ],
)
def test_a_length_of_time_is_said_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert lasted(seconds) == words


def test_a_label_cannot_fill_in_another_place() -> None:
    assert "Agent {value} on main" in note(labels={"agent": "{value}", "model": "main"}).sentence("en")
