"""A Trace as people read it."""

from __future__ import annotations

import io
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from orchestrator.core.events import ActionStarted, Anomaly, Attempt, Decision, Outcome, RunEnded, Trace, Waiting
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


def test_what_the_health_metrics_hold_against_a_turn_stands_under_it() -> None:
    tools = (build.spec("search"), build.spec("lookup"))
    text = drawn(
        build.trace(
            build.started(*tools),
            build.acts(1, ("search", {"q": "x"}), thought="I will call lookup for this."),
            ActionStarted("1.0"),
            build.observed("1.0", "nothing there", code="NOT_FOUND"),
            build.acts(2, ("lookup", {"q": "x"}), thought="Great, that is 42. Now lookup, to be sure."),
            ActionStarted("2.0"),
            build.observed("2.0", "more", tool="lookup"),
            build.final("done"),
        )
    )
    assert "gap: what it says names another tool than search" in text
    assert text.count("gap: ") == 1
    assert "ignored: it passes over the error of 1.0" in text
    assert text.index("gap: ") < text.index("begun 1.0") < text.index("ignored: ") < text.index("begun 2.0")


def test_a_turn_that_does_what_it_says_has_nothing_under_it() -> None:
    told = drawn(build.trace(build.started(), build.acts(1, ("search", {"q": "x"}), thought="I will call search.")))
    assert not any(word in told for word in ("gap: ", "narrated: ", "ignored: "))


def test_an_edit_shows_the_input_that_was_run_instead() -> None:
    waiting = Waiting("1.0", until=2000.0, reason="approval")
    edit = Decision("1.0", "ann", "edit", {"amount": 20}, "half of it", "t1")
    text = drawn(build.trace(build.started(), build.acts(1, ("search", {"amount": 40})), waiting, edit))
    assert 'ann (token t1): edit 1.0 {"amount": 20} half of it' in text


def test_somebody_who_cancels_without_a_word_leaves_no_colon_behind() -> None:
    for reason, told in (("", "cancelled by ann\n"), ("enough", "cancelled by ann: enough\n")):
        ended = RunEnded(Outcome.CANCELLED, detail=f"cancelled by ann: {reason}")
        text = drawn(build.trace(build.started(), Decision("", "ann", "cancel", reason=reason), ended))
        assert told in "".join(f"{line.rstrip()}\n" for line in text.splitlines())


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
