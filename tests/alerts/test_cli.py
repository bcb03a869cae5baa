"""`monitor` and `alerts` as an operator types them; the two that stay are processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from orchestrator.alerts import Notification
from orchestrator.cli import main
from orchestrator.core.clean import MASK
from orchestrator.errors import Rejected
from orchestrator.hooks import Hook
from orchestrator.stores.sqlite import SqliteStore
from tests.alerts.make import receiving
from tests.alerts.test_adapter import SENT
from tests.alerts.traffic import happen, says_another
from tests.cli.said import Call, Said

KEY = "R0B0TK3Y"
SETTINGS = """
store = "sqlite:///{folder}/trace.db"
[hooks.robot]
kind = "wecom"
url = "env:ROBOT"
[hooks.ours]
kind = "command"
argv = ["true"]
[hooks.theirs]
kind = "command"
argv = ["false"]
[egress]
loopback = true
[alerts]
every = 0.2
[alerts.rules.thought_action_gap]
for = 0
[alerts.rules.worker_absent]
off = true
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "o.toml").write_text(SETTINGS.format(folder=tmp_path), "utf-8")
    monkeypatch.setenv("ORCHESTRATOR_CONFIG", str(tmp_path / "o.toml"))
    monkeypatch.setenv("ROBOT", f"http://127.0.0.1:9/send?key={KEY}")
    return tmp_path


@pytest.fixture
def cli(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line in this process."""

    def call(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["orchestrator", *words])
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        out, err = capsys.readouterr()
        assert KEY not in out + err
        return Said(code, out, err)

    return call


async def started(*words: str, robot: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "orchestrator", *words,
        env={**os.environ, "ROBOT": f"{robot}/send?key={KEY}"}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


def test_a_trial_says_how_it_was_taken(cli: Call) -> None:
    assert cli("alerts", "test", "ours") == (0, "ours (command) took it\n", "")
    code, out, err = cli("alerts", "test", "theirs", "--rule", "step_bloat")
    assert (code, out) == (1, "")
    assert "exit code 1" in err
    code, _, err = cli("alerts", "test", "robot")
    assert code == 1
    assert "127.0.0.1:9" in err


def test_a_receiver_that_repeats_the_key_does_not_get_it_onto_the_terminal(
    cli: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_self: Hook, _note: Notification) -> None:
        raise Rejected("HOOK_REJECTED", f"{KEY} is no key")

    monkeypatch.setattr(Hook, "attempt", refused)
    assert cli("alerts", "test", "robot") == (
        1,
        "",
        f"robot (wecom) did not take it: HOOK_REJECTED: {MASK} is no key\n",
    )


def test_the_help_names_the_table_of_a_hook(cli: Call) -> None:
    assert "[hooks.NAME]" in cli("alerts", "test", "--help").out


@pytest.mark.parametrize(
    "words",
    [
        ("alerts", "test", "nope"),
        ("alerts", "test", "ours", "--rule", "nope"),
        ("alerts", "rules", "--only", "nope"),
        ("alerts", "serve", "nope"),
        ("alerts", "serve", "ours"),
        ("--store", "memory", "monitor"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_a_usage_error(cli: Call, words: tuple[str, ...]) -> None:
    assert cli(*words).code == 2


def test_the_rules_come_out_with_the_settings_thresholds(cli: Call) -> None:
    _, out, _ = cli("alerts", "rules")
    assert "WorkerAbsent" not in out
    _, out, _ = cli("alerts", "rules", "--only", "thought_action_gap")
    assert "for: 0s" in out
    assert "StepBloat" not in out


def test_a_look_at_an_empty_store_finds_nothing(cli: Call) -> None:
    assert cli("monitor", "--once").out.startswith("nothing is beyond")


async def watched(folder: Path) -> str:
    """The monitor over a store with bad runs, until the robot was told; what it was told."""
    async with SqliteStore(folder / "trace.db") as store:
        for _ in range(25):
            await happen(store, says_another(), time.time())
    async with receiving() as robot:
        process = await started("monitor", robot=robot.url)
        await robot.until(lambda: bool(robot.bodies))
        process.send_signal(signal.SIGTERM)
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        assert KEY.encode() not in out + err
    return robot.texts()[0]


def test_the_monitor_tells_the_robot_and_list_shows_what_fires(folder: Path, cli: Call) -> None:
    told = asyncio.run(watched(folder))
    assert "Thought-Action gap" in told
    assert "100 %" in told
    listed = json.loads(cli("alerts", "list", "--json").out)
    assert [(each["rule"], each["state"]["phase"]) for each in listed["standing"]] == [("thought_action_gap", "firing")]
    assert "firing shop main 100 %" in " ".join(cli("alerts", "list").out.split())
    assert cli("monitor", "--once").out == "thought_action_gap agent=shop model=main: 100 %, above 5 %\n"


def test_beyond_this_machine_the_adapter_serves_with_a_secret_or_not_at_all(cli: Call) -> None:
    code, out, err = cli("alerts", "serve", "robot", "--host", "0.0.0.0", "--port", "0")
    assert (code, out) == (2, "")
    assert "set hooks.robot.secret" in err
    assert "--without-secret" in err


@pytest.mark.parametrize("guarded", [True, False])
async def test_a_secret_or_the_operators_word_lets_the_adapter_serve_beyond_this_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    if guarded:
        monkeypatch.setenv("ORCHESTRATOR_HOOKS__ROBOT__SECRET", "s3cret")
    words = () if guarded else ("--without-secret",)
    async with receiving() as robot:
        process = await started("alerts", "serve", "robot", "--host", "0.0.0.0", "--port", "0", *words, robot=robot.url)
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip().replace("0.0.0.0", "127.0.0.1")
        async with aiohttp.ClientSession() as session, session.post(url, json=SENT) as reply:
            assert reply.status == (401 if guarded else 200)
        process.send_signal(signal.SIGTERM)
        await process.communicate()


async def test_the_adapter_serves_until_it_is_told_to_stop(folder: Path) -> None:
    async with receiving() as robot:
        process = await started("alerts", "serve", "robot", "--port", "0", robot=robot.url)
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        async with aiohttp.ClientSession() as session, session.post(url, json=SENT) as reply:
            assert reply.status == 200
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        assert process.returncode == 0
    assert "ThoughtActionGap" in robot.texts()[0]
