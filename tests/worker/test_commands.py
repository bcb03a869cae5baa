"""The queue from a terminal: what the commands print, what they append, and what they refuse."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.cli.exits import Exit
from orchestrator.cli.queue import moment, span
from orchestrator.core.events import ActionStarted as Started
from orchestrator.core.events import Decision, Event, Observation, Outcome, RunEnded, RunStarted, Trace, Waiting
from orchestrator.core.spec import Limits
from orchestrator.errors import ConfigError
from orchestrator.inbox import signed
from orchestrator.settings import Settings
from orchestrator.stores.sqlite import SqliteStore
from orchestrator.worker.queue import callback_key
from tests.build import acts
from tests.worker.station import TOOLS

Cli = Callable[..., tuple[int, str, str]]
DATABASE = "var/orchestrator.db"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    for name in list(os.environ):
        if name.startswith(("ORCHESTRATOR_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    (tmp_path / "var").mkdir()

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["orchestrator", *words])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return call


def written(*events: Event, run_id: str = "r1") -> None:
    """A run whose trace is these events after its first."""

    async def write() -> None:
        async with SqliteStore(DATABASE) as store:
            first = RunStarted("Who?", limits=Limits(deadline=None), tools=tuple(tool.spec for tool in TOOLS))
            await store.append(run_id, 0, (first, *events), at=1000.0)

    asyncio.run(write())


def trace(run_id: str = "r1") -> Trace:
    async def read() -> Trace:
        async with SqliteStore(DATABASE) as store:
            return await store.read(run_id)

    return asyncio.run(read())


ASKS = (acts(1, ("fire", {"q": "boss"})), Waiting("1.0", 9e9, "approval"))
ORDERED = (acts(1, ("order", {"q": "book"})), Started("1.0", "r1:1.0"), Waiting("1.0", 9e9))


def test_a_submission_is_queued_and_a_key_makes_it_once(cli: Cli) -> None:
    code, first, _ = cli("submit", "Who?", "--key", "k1", "--tenant", "acme", "--priority", "3")
    assert (code, len(first.strip())) == (Exit.ANSWERED, 26)
    assert cli("submit", "Who?", "--key", "k1", "--tenant", "acme")[1] == first
    assert cli("submit", "Who?", "--at", "+2h")[1] != first
    status = json.loads(cli("status", "--json")[1])
    assert (status["queue"]["queued"], status["queue"]["scheduled"], status["last_day"]) == (1, 1, {"open": 2})


def test_a_file_is_submitted_in_its_order(cli: Cli) -> None:
    Path("q.jsonl").write_text("".join(json.dumps({"question": f"Q{n}?"}) + "\n" for n in range(250)), "utf-8")
    names = cli("submit", "-f", "q.jsonl", "--key", "k")[1].split()
    assert len(set(names)) == 250
    assert cli("submit", "-f", "q.jsonl", "--key", "k")[1].split() == names
    goals = [event.goal for name in names[:3] if isinstance(event := trace(name)[0].event, RunStarted)]
    assert goals == ["Q0?", "Q1?", "Q2?"]


@pytest.mark.parametrize(
    ("words", "verdict", "input"),
    [
        (("approve",), "approve", None),
        (("approve", "--input", '{"q": "nobody"}'), "edit", {"q": "nobody"}),
        (("refuse", "--reason", "no"), "refuse", None),
    ],
)
def test_a_person_decides_from_a_terminal(
    cli: Cli, words: tuple[str, ...], verdict: str, input: dict[str, str] | None
) -> None:
    written(*ASKS)
    state = json.loads(cli("status", "r1", "--json")[1])
    assert (state["state"], state["action 1.0"]["tool"], state["action 1.0"]["waits for"]) == (
        "waiting",
        "fire",
        "approval",
    )
    name, *more = words
    assert cli(name, "r1", "1.0", "--by", "ann", *more)[:2] == (Exit.ANSWERED, "r1\n")
    decision = trace()[-1].event
    assert isinstance(decision, Decision)
    assert (decision.verdict, decision.input, decision.by) == (verdict, input, "ann")
    assert json.loads(cli("status", "--json")[1])["queue"]["queued"] == 1, "the run is woken"


def test_an_edit_that_the_tool_would_not_take_is_refused_at_the_terminal(cli: Cli) -> None:
    written(*ASKS)
    code, out, err = cli("approve", "r1", "1.0", "--by", "ann", "--input", '{"q": 3}')
    assert (code, out) == (Exit.FAILED, "")
    assert "q: 3 is not of type 'string'. Allowed: q (string, required)" in err
    assert not isinstance(trace()[-1].event, Decision)


def test_a_callback_brings_a_result_with_the_key_that_is_kept_beside_the_store(cli: Cli) -> None:
    written(*ORDERED)
    settings = Settings.load()
    key = callback_key(settings)
    kept = Path(f"{DATABASE}.key")
    assert (callback_key(settings), stat.S_IMODE(kept.stat().st_mode), len(key)) == (key, 0o600, 32)
    token = signed(key, "r1", "1.0", 9e9)
    assert cli("callback", token, '{"parcel": 7}')[0] == Exit.ANSWERED
    seen = trace()[-1].event
    assert isinstance(seen, Observation)
    assert '"parcel": 7' in seen.content or '"parcel":7' in seen.content
    code, out, err = cli("callback", token, "8")
    assert (code, out, "NOT_WAITING" in err) == (Exit.FAILED, "", True)


def test_a_cancel_is_in_the_trace_and_an_ended_run_takes_none(cli: Cli) -> None:
    written(*ASKS)
    written(RunEnded(Outcome.GAVE_UP), run_id="r2")
    assert cli("cancel", "r1", "--by", "ann", "--reason", "enough")[0] == Exit.ANSWERED
    assert trace()[-1].event == Decision("", "ann", "cancel", reason="enough")
    code, _, err = cli("cancel", "r2")
    assert (code, "RUN_ENDED" in err) == (Exit.FAILED, True)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("submit",), "--file"),
        (("submit", "x", "--at", "soon"), "soon"),
        (("submit", "x", "--agent", "nobody"), "nobody"),
        (("approve", "r1", "1.0", "--input", "[1]"), "object"),
        (("approve", "r1", "1.0", "--input", "{"), "JSON"),
        (("callback", "t", "{"), "JSON"),
        (("purge", "--older-than", "long"), "30d"),
    ],
)
def test_what_is_wrong_with_the_command_is_one_line(cli: Cli, words: tuple[str, ...], names: str) -> None:
    code, out, err = cli(*words)
    assert (code, out, err.count("\n")) == (Exit.USAGE, "", 1)
    assert names in err


def test_old_runs_are_purged_and_open_ones_stay(cli: Cli) -> None:
    written(RunEnded(Outcome.GAVE_UP))
    written(run_id="r2")
    assert cli("purge", "--older-than", "30d")[1] == "1 runs deleted\n"
    assert (len(trace("r1")), len(trace("r2"))) == (0, 1)


def test_schedules_are_listed_with_their_next_time(cli: Cli) -> None:
    assert cli("schedule")[1] == "no schedules\n"
    Path("orchestrator.toml").write_text('[schedules.news]\ncron = "0 7 * * *"\nquestion = "What is new?"\n', "utf-8")
    (one,) = json.loads(cli("schedule", "--json")[1])
    assert (one["schedule"], one["next"] % 86_400) == ("news", 7 * 3600)


def test_times_and_spans() -> None:
    assert [span(text) for text in ("45s", "90m", "2h", "+1d", "2w")] == [45, 5400, 7200, 86_400, 1_209_600]
    assert moment("+1h", 10.0) == 3610.0
    assert moment("1970-01-02T00:00", 0) == moment("1970-01-02T01:00+01:00", 0) == 86_400
    for wrong in ("", "1", "h", "-1h", "1.5h", "1y", "٣h x"):
        with pytest.raises(ConfigError):
            span(wrong)
