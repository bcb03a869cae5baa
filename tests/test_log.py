"""The log: one line an event, no text of the conversation, no secret, no control characters."""

from __future__ import annotations

import contextvars
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from orchestrator import log
from orchestrator.core.clean import MASK
from orchestrator.core.events import ActionStarted, Anomaly, Event, Outcome, RunEnded
from orchestrator.core.run import Run, evolve
from orchestrator.tool.context import Context, on_behalf_of
from orchestrator.traceparent import trace_id
from tests import build

SECRET = "sk-0123456789"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    logging.getLogger().removeHandler(log._foreign)


def lines(*events: Event, level: str = "debug", secrets: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    stream, run = io.StringIO(), Run()
    log.configure("json", level, secrets, stream)
    for entry in build.trace(*events):
        log.log_entry(run, entry)
        run = evolve(run, entry)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


STORY = (
    build.started(goal="a private question"),
    build.acts(1, ("search", {"q": "private"}), thought="a private thought", anomalies=(Anomaly.EXTRA_ACTIONS,)),
    ActionStarted("1.0"),
    build.observed("1.0", "private content", code="NOT_FOUND"),
    build.final("a private answer"),
    RunEnded(Outcome.ANSWERED, "a private answer"),
)


def test_every_event_is_one_line_bound_to_its_run() -> None:
    found = lines(*STORY)
    assert [each["event"] for each in found] == [
        "run_started",
        "model_turn",
        "action_started",
        "observation",
        "model_turn",
        "run_ended",
    ]
    assert {each["run"] for each in found} == {"r1"}
    assert [each["seq"] for each in found] == [1, 2, 3, 4, 5, 6]


def test_a_line_carries_step_tool_and_code() -> None:
    seen = lines(*STORY)[3]
    assert (seen["step"], seen["tool"], seen["code"], seen["level"]) == (1, "search", "NOT_FOUND", "warning")


def test_the_conversation_is_not_logged() -> None:
    assert "private" not in json.dumps(lines(*STORY))


def test_warnings_are_the_odd_ones() -> None:
    assert [each["event"] for each in lines(*STORY, level="warning")] == ["model_turn", "observation"]


def test_secrets_are_masked_wherever_they_stand() -> None:
    ended = RunEnded(Outcome.MODEL_FAILED, code="UNAUTHORISED", detail=f"key {SECRET} refused")
    found = lines(build.started(), ended, secrets=(SECRET, "", "no"))
    assert found[-1]["detail"] == "key [REDACTED] refused"


def test_masking_reaches_any_depth_and_keeps_figures() -> None:
    value = {"a": [SECRET, 1, {SECRET: (None, 2.5, True)}], "b": ValueError(SECRET)}
    assert log.masked(value, (SECRET,)) == {"a": [MASK, 1, {MASK: [None, 2.5, True]}], "b": MASK}


def test_a_traceback_is_masked_too() -> None:
    stream = io.StringIO()
    log.configure("json", "info", (SECRET,), stream)
    try:
        raise ValueError(SECRET)
    except ValueError:
        structlog.get_logger().exception("failed")
    assert SECRET not in stream.getvalue()
    assert "ValueError" in json.loads(stream.getvalue())["exception"]


def test_a_name_that_the_model_made_up_cannot_paint_the_terminal() -> None:
    found = lines(build.started(), build.acts(1, ("\x1b[31mrm\u202e" + "x" * 100, {})))
    assert found[-1]["actions"] == ["rm" + "x" * 62]


def test_half_characters_do_not_break_the_log() -> None:
    stream = io.StringIO()
    log.configure("json", "info", (), stream)
    structlog.get_logger().info("odd", text="\ud800", number=2**70)
    assert json.loads(stream.getvalue())["number"] == 2**70


def test_console_lines_have_no_colours_off_a_terminal() -> None:
    stream = io.StringIO()
    log.configure("console", "info", (SECRET,), stream)
    structlog.get_logger().info("hello", key=SECRET)
    assert "hello" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    assert SECRET not in stream.getvalue()


def written(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_what_libraries_log_is_a_line_like_ours_and_masked() -> None:
    stream = io.StringIO()
    log.configure("json", "warning", (SECRET,), stream)
    log.configure("json", "warning", (SECRET,), stream)
    library = logging.getLogger("some.library")
    library.info("nobody asked")
    library.warning("the key %s was refused", SECRET)
    log._foreign.handle(library.makeRecord("some.library", logging.WARNING, "", 0, "%d of them", ("three",), None))
    try:
        raise ValueError(SECRET)
    except ValueError:
        library.critical("100% sure", exc_info=True)
    found = written(stream)
    assert [(each["event"], each["level"], each["logger"]) for each in found] == [
        ("the key [REDACTED] was refused", "warning", "some.library"),
        ("%d of them", "warning", "some.library"),
        ("100% sure", "error", "some.library"),
    ]
    assert "ValueError" in found[-1]["exception"]
    assert SECRET not in stream.getvalue()


def test_a_line_of_a_tool_bears_its_run_step_and_action() -> None:
    stream = io.StringIO()
    log.configure("json", "info", (), stream)

    def inside() -> None:
        on_behalf_of(Context("r1", "3.1", "r1:3.1"))
        structlog.get_logger().info("looked", rows=2)
        structlog.get_logger().info("looked", run="another")

    contextvars.copy_context().run(inside)
    structlog.get_logger().info("outside")
    mine, other, outside = written(stream)
    assert (mine["run"], mine["step"], mine["action"], mine["rows"]) == ("r1", 3, "3.1", 2)
    assert mine["trace"] == trace_id("r1", {})
    assert (other["run"], "action" in other, "run" in outside) == ("another", False, False)


def test_of_what_each_step_says_a_burst_is_written_and_the_rest_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [7.2]
    monkeypatch.setattr(log, "_sampler", log._Sampler(lambda: now[0]))
    stream, run = io.StringIO(), Run()
    log.configure("json", "info", (), stream)
    begun, asked, *_ = build.trace(*STORY)
    log.log_entry(run, begun)
    run = evolve(run, begun)
    for _ in range(log.BURST + 30):
        log.log_entry(run, asked)
    for _ in range(log.BURST + 30):
        log.log_entry(Run(), begun)
    now[0] = 8.0
    log.log_entry(run, asked)
    log.log_entry(run, asked)
    found = written(stream)
    turns = [each for each in found if each["event"] == "model_turn"]
    assert len(turns) == log.BURST + 2
    assert [each.get("left_out") for each in turns[-3:]] == [None, 30, None]
    assert len(found) - len(turns) == log.BURST + 31


def test_lines_of_another_level_are_counted_apart() -> None:
    sampler = log._Sampler(lambda: 1.0)
    taken = [sampler.take(str, logging.INFO) for _ in range(log.BURST + 1)]
    assert taken == [0] * log.BURST + [None]
    assert sampler.take(str, logging.WARNING) == 0
