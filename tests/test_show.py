"""A Trace as people read it."""

from __future__ import annotations

import io
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from orchestrator.core.events import ActionStarted, Anomaly, Attempt, Outcome, RunEnded, Trace, Waiting
from orchestrator.show import EXCERPT, plain, tree
from tests import build


def drawn(trace: Trace, *, whole: bool = False, raw: dict[str, bytes] | None = None) -> str:
    console = Console(file=io.StringIO(), width=200, markup=False, highlight=False)
    console.print(tree(trace, whole=whole, raw=raw))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


SEEN = replace(
    build.observed("1.0", "found", code="NOT_FOUND"),
    attempts=(Attempt("search", "TIMEOUT", 1.5), Attempt("search", "NOT_FOUND", 0.1)),
)
STORY = build.trace(
    build.started(),
    build.acts(1, ("search", {"q": "[bold]三体"}), thought="look [red]it[/red] up", anomalies=(Anomaly.EXTRA_ACTIONS,)),
    ActionStarted("1.0"),
    SEEN,
    build.final("done"),
    RunEnded(Outcome.ANSWERED, "done"),
)


def test_a_trace_shows_texts_times_tokens_errors_and_anomalies() -> None:
    text = drawn(STORY)
    wanted = (
        "run r1",
        "look [red]it[/red] up",
        '{"q": "[bold]三体"}',
        "extra_actions",
        "10 in + 10 out tokens",
        "TIMEOUT",
        "answered",
        "+1.00 s",
    )
    assert [each for each in wanted if each not in text] == []


def test_the_failure_itself_is_no_earlier_try() -> None:
    assert drawn(STORY).count("tried before") == 1


def test_an_open_run_shows_what_it_waits_for() -> None:
    trace = build.trace(build.started(), build.acts(1, ("search", {})), Waiting("1.0", until=2000.0, reason="approval"))
    assert "waiting for approval of 1.0 until 1970-01-01 00:33:20Z" in drawn(trace)


def test_long_texts_are_cut_unless_all_is_asked_for() -> None:
    trace = build.trace(build.started(), build.final("x" * 2000))
    assert f"({2000 - EXCERPT} more characters)" in drawn(trace)
    assert "more characters" not in drawn(trace, whole=True)


def test_raw_bodies_are_shown_beside_what_the_model_read() -> None:
    assert "Raw: \\xff<html>" in drawn(STORY, raw={SEEN.digest: b"\xff<html>"})


def test_a_damaged_trace_is_shown_as_far_as_it_goes() -> None:
    text = drawn((*STORY[:2], *STORY[3:]))
    assert "damaged" in text
    assert "step 1" in text


def test_an_empty_trace_is_no_error() -> None:
    assert "no entries" in drawn(())


@given(st.text())
def test_nothing_that_is_shown_can_control_the_terminal(text: str) -> None:
    assert not set(plain(text)) & {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2066)}
