"""The time axis: nothing lies beside it, order is kept, long waits fold and work does not."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.console.reader import view
from orchestrator.console.view import STEPS, window
from orchestrator.console.waterfall import Axis, Part, Row, clock, tries
from orchestrator.core.events import ActionStarted, Attempt, Waiting
from tests.build import acts, final, observed, started, trace
from tests.console import scenes

SECONDS = st.floats(0, 1e7, allow_nan=False)
KINDS = st.sampled_from(["model", "tool", "error", "tried", "pause", "wait"])
PARTS = st.builds(lambda kind, start, length: Part(kind, start, start + length), KINDS, SECONDS, SECONDS)
ROWS = st.lists(st.builds(lambda parts: Row("r", "a", 1, parts=parts), st.lists(PARTS, max_size=4)), max_size=8)


@given(ROWS)
def test_every_part_lies_on_the_axis_and_later_is_further_right(rows: list[Row]) -> None:
    axis = Axis.over(rows)
    assert axis.stretches[0].left == 0
    assert axis.stretches[-1].right == pytest.approx(100)
    for row in rows:
        for part in row.parts:
            left, width = axis.span(part)
            assert width > 0
            assert -1e-6 <= left <= left + width <= 100 + 1e-6
    times = sorted({each for row in rows for part in row.parts for each in (part.start, part.end)})
    places = [axis.place(each) for each in times]
    assert all(one <= two + 1e-9 for one, two in itertools.pairwise(places))
    assert len(axis.ticks) <= 20


@given(st.lists(st.floats(0, 1e4, allow_nan=False), max_size=40), SECONDS, st.floats(0, 1e5, allow_nan=False))
def test_tries_lie_one_after_another_between_their_two_times(spent: list[float], start: float, room: float) -> None:
    attempts = [Attempt("m", "TIMEOUT", each) for each in spent]
    parts = list(tries(attempts, start, start + room))
    assert all(one.end <= two.start + 1e-3 for one, two in itertools.pairwise(parts))
    assert all(start - 1e-3 <= part.start <= part.end <= start + room + max(1e-3, room * 1e-6) for part in parts)


def test_an_hours_wait_folds_and_the_seconds_of_work_around_it_stay_wide() -> None:
    work = [Part("model", 0, 2), Part("model", 3602, 3604)]
    axis = Axis.over([Row("a", "a", 1, parts=[work[0], Part("wait", 2, 3602), work[1]])])
    assert [round(each.seconds) for each in axis.folds] == [3600]
    assert all(axis.span(part)[1] > 40 for part in work)
    assert not Axis.over([Row("a", "a", 1, parts=[Part("wait", 0, 3600)])]).folds


@pytest.mark.parametrize(("seconds", "said"), [(0, "0 s"), (3.2, "3 s"), (61, "1m 01s"), (7300, "2h 01m")])
def test_times_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert clock(seconds) == said


def test_calls_side_by_side_overlap_and_waits_and_work_of_one_call_stand_in_one_row() -> None:
    turn = acts(1, ("search", {"q": "a"}), ("search", {"q": "b"}))
    waits = Waiting("1.0", 2000.0, poll=1005.0)
    shown = view(
        trace(
            started(),
            turn,
            ActionStarted("1.0"),
            ActionStarted("1.1"),
            waits,
            observed("1.1"),
            observed("1.0"),
            final("x"),
        ),
        2000.0,
    )
    rows = {row.label: row for row in shown.rows}
    assert [part.kind for part in rows["1.0 search"].parts] == ["tool", "wait", "tool"]
    assert rows["1.1 search"].parts[0].start < rows["1.0 search"].parts[0].end


@pytest.mark.parametrize("asked", [None, 0, 1, 3, 60, 120, 121, 10_000])
def test_a_page_of_a_long_run_holds_at_most_so_many_steps_and_the_pages_hold_all(asked: int | None) -> None:
    shown = view(trace(scenes.first("q"), *(event for _, event in scenes.long(120))), 0.0)
    page = window(shown, asked)
    assert 0 < len(page.turns) <= STEPS
    assert (page.turns[0].number, page.turns[-1].number) == (page.first, page.last)
    seen, at = [], window(shown, 1)
    while True:
        seen += [turn.number for turn in at.turns]
        if at.after is None:
            break
        at = window(shown, at.after)
    assert seen == list(range(1, 122))
    assert sum(cell.last - cell.first + 1 for cell in page.cells) == 121
