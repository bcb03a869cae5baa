"""`run` and `resume`: what stands on stdout, what the exit code says, what can be resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.exits import Exit
from tests.cli.said import TEXT, TWO_HOPS, Call, ran


def test_run_prints_the_answer_alone_and_the_live_view_on_stderr(cli: Call) -> None:
    said = cli("run", TWO_HOPS, *TEXT)
    assert said.code == Exit.ANSWERED, said.err
    assert "3491" in said.out
    assert said.out.count("\n") == 1
    assert [
        word for word in ("Thought: ", "Action: search", "Observation: ", "Final: ", "5 steps") if word not in said.err
    ] == []


def test_run_as_json_is_one_object(cli: Call) -> None:
    result = cli("run", TWO_HOPS, "--json", "--quiet").json()
    assert (result["outcome"], result["steps"]) == ("answered", 3)
    assert result["usage"]["input_tokens"] > 0
    assert len(result["run_id"]) == 26


def test_a_run_that_says_what_is_missing_is_exit_3(cli: Call) -> None:
    said = cli("run", "《球状闪电》的作者的出生年份是哪一年？", *TEXT, model="demo:reworded-obedient")
    assert said.code == Exit.GAVE_UP
    assert said.out.strip()


def test_out_of_steps_is_exit_3(cli: Call) -> None:
    assert cli("run", TWO_HOPS, "--quiet", "--max-steps", "2", *TEXT, model="demo:wander").code == Exit.GAVE_UP


def test_a_run_that_has_ended_does_not_go_on(cli: Call) -> None:
    run_id = ran(cli)
    said = cli("resume", run_id)
    assert said.code == Exit.ANSWERED
    assert said.err == f"run {run_id} has ended already\n"
    assert "3491" in said.out


def test_the_deadline_is_exit_124(cli: Call) -> None:
    said = cli("run", TWO_HOPS, "--deadline", "0.3", model="demo:hang")
    assert (said.code, said.out) == (Exit.TIMEOUT, "")


def test_an_unusable_model_is_exit_1(cli: Call) -> None:
    said = cli("run", TWO_HOPS, "--quiet", *TEXT, model="demo:prose")
    assert (said.code, said.out) == (Exit.FAILED, "")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("run", TWO_HOPS, "--model", "nobody"), "nobody"),
        (("run", TWO_HOPS, "--agent", "nobody"), "nobody"),
        (("run", TWO_HOPS, "--tools", "search,nothing"), "nothing"),
        (("run", "  "), "empty"),
        (("--store", "mysql://x", "runs"), "mysql"),
        (("--config", "nowhere.toml", "runs"), "nowhere.toml"),
        (("tools", "call", "search", "{"), "JSON"),
        (("tools", "call", "search", "[1]"), "object"),
        (("tools", "schema", "nothing"), "nothing"),
        (("batch", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_what_is_wrong_with_the_command_is_one_line_and_exit_2(cli: Call, words: tuple[str, ...], names: str) -> None:
    said = cli(*words)
    assert (said.code, said.out) == (Exit.USAGE, "")
    assert names in said.err
    assert "Traceback" not in said.err
    assert said.err.count("\n") == 1


def test_without_a_model_the_error_says_what_to_set(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    said = cli("run", TWO_HOPS, model="")
    assert said.code == Exit.USAGE
    assert "OPENAI_BASE_URL" in said.err


@pytest.mark.parametrize(
    "words", [("--nonsense",), ("run",), ("run", "x", "--protocol", "smoke"), ("run", "x", "--max-steps", "0")]
)
def test_usage_errors_are_exit_2(cli: Call, words: tuple[str, ...]) -> None:
    assert cli(*words).code == Exit.USAGE


def test_help_names_the_exit_codes_and_the_variables(cli: Call) -> None:
    said = cli("--help")
    assert "124" in said.out
    assert "130" in said.out
    assert "ORCHESTRATOR_STORE" in said.out
    assert "ORCHESTRATOR_MODEL" in cli("run", "--help").out


def test_ctrl_c_lets_the_run_go_and_says_how_to_resume(cli: Call, tmp_path: Path) -> None:
    environment = {**os.environ, "OPENAI_MODEL": "demo:hang", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "orchestrator", "run", TWO_HOPS]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=-1, stderr=-1, text=True) as process:
        assert process.stderr
        assert process.stderr.readline().startswith("run ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (Exit.INTERRUPTED, "")
    assert "Traceback" not in err
    run_id = err.rpartition("orchestrator resume ")[2].strip()
    assert run_id in cli("runs", "--open").out
    said = cli("resume", run_id)
    assert (said.code, "3491" in said.out) == (Exit.ANSWERED, True)


def test_help_shows_every_command_under_a_heading(cli: Call) -> None:
    told = cli("--help").out
    assert [
        each for each in ("Ask", "Look", "Drive and serve", "Keep and prove", "Set up") if f"─ {each} ─" not in told
    ] == []
    assert "─ Commands ─" not in told
