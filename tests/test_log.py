"""The log: one line an event, no text of the conversation, no secret, no control characters."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from orchestrator import log
from orchestrator.core.clean import MASK
from orchestrator.core.events import ActionStarted, Anomaly, Event, Outcome, RunEnded
from orchestrator.core.run import Run, evolve
from tests import build

SECRET = "sk-0123456789"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    structlog.reset_defaults()


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
