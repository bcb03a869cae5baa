"""The command line against the demo model server: what stands on stdout, what the exit code says, what can be resumed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from orchestrator.cli import main
from orchestrator.cli.exits import Exit
from tests.served import demo_server

TWO_HOPS = "《三体》的作者出生在哪个省？该省的人口是多少？"
TEXT = ("--protocol", "text", "--language", "zh")


class Said(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Said]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with demo_server() as found:
        yield found


@pytest.fixture
def cli(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line in this process, in an empty folder, with a model at hand."""
    for name in list(os.environ):
        if name.startswith(("ORCHESTRATOR_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
    monkeypatch.setenv("OPENAI_MODEL", "demo")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    def call(*words: str, model: str = "demo") -> Said:
        monkeypatch.setenv("OPENAI_MODEL", model)
        monkeypatch.setattr(sys, "argv", ["orchestrator", *words])
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return call


def ran(cli: Call, *words: str) -> str:
    """The id of a run that has answered."""
    said = cli("run", TWO_HOPS, "--json", "--quiet", *words)
    assert said.code == Exit.ANSWERED, said.err
    return str(said.json()["run_id"])


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


def test_show_draws_the_trace(cli: Call) -> None:
    run_id = ran(cli)
    tree = cli("show", run_id).out
    wanted = (run_id, "step 1", "Action: search", "Observation: ", "answered", "tokens")
    assert [word for word in wanted if word not in tree] == []


OWN_TOOL = """
from orchestrator.tool import tool

@tool(repeatable=True)
def search(entity: str) -> dict:
    "Get the entry of one entity."
    fields = {"作者": "刘慈欣", "出生地": "山西省阳泉市", "人口": "约 3491 万"}
    return {"entity": entity, "fields": fields, "page": "\\x1b[31mred \\u202e" * 3000}
"""


def test_show_raw_shows_what_the_tools_sent_and_cannot_paint_the_terminal(cli: Call) -> None:
    Path("own.py").write_text(OWN_TOOL, "utf-8")
    Path("orchestrator.toml").write_text('tools = ["own.py"]\n', "utf-8")
    run_id = cli("run", TWO_HOPS, "--json", "--quiet").json()["run_id"]
    said = cli("show", run_id, "--raw")
    assert "Raw: " in said.out
    assert "red red red" in said.out
    assert not {"\x1b", "\u202e"} & set(said.out)


def test_show_as_json_is_the_trace(cli: Call) -> None:
    run_id = ran(cli)
    lines = [json.loads(line) for line in cli("show", run_id, "--json").out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert (lines[0]["event"]["kind"], lines[-1]["event"]["kind"]) == ("run_started", "run_ended")


def test_replay_finds_a_good_trace_equal(cli: Call) -> None:
    said = cli("replay", ran(cli), "--json")
    assert said.code == Exit.ANSWERED
    assert said.json()["equal"]


def test_replay_names_the_illegal_event_of_a_damaged_trace(cli: Call) -> None:
    run_id = ran(cli)
    alter("DELETE FROM entries WHERE run_id = ? AND seq = 3", run_id)
    said = cli("replay", run_id)
    assert said.code == Exit.FAILED
    assert "IllegalEvent" in said.out
    assert "damaged" in cli("show", run_id).out


def test_replay_names_what_differs_in_the_index(cli: Call) -> None:
    run_id = ran(cli)
    alter("UPDATE runs SET steps = 99 WHERE run_id = ?", run_id)
    said = cli("replay", run_id)
    assert said.code == Exit.FAILED
    assert "RunRow.steps: stored 99, recomputed 3" in said.out


def alter(statement: str, run_id: str) -> None:
    connection = sqlite3.connect("var/orchestrator.db")
    with connection:
        connection.execute(statement, (run_id,))
    connection.close()


def test_runs_lists_the_newest_first(cli: Call) -> None:
    older, newer = ran(cli), ran(cli)
    rows = [json.loads(line) for line in cli("runs", "--json").out.splitlines()]
    assert [row["run_id"] for row in rows] == [newer, older]
    assert newer in cli("runs", "--outcome", "answered").out
    assert older not in cli("runs", "--open").out


def test_show_of_an_unknown_run_says_so(cli: Call) -> None:
    said = cli("show", "nothing")
    assert (said.code, said.out) == (Exit.FAILED, "")
    assert "orchestrator runs" in said.err


def test_tools_can_be_listed_and_tried_alone(cli: Call) -> None:
    assert "calculator" in cli("tools", "list").out
    assert cli("tools", "schema", "calculator").json()["properties"]["expression"]["type"] == "string"
    said = cli("tools", "call", "calculator", '{"expression": "6 * 7"}')
    assert said.code == Exit.ANSWERED
    assert "42" in said.out


def test_a_tool_that_says_no_is_exit_1(cli: Call) -> None:
    said = cli("tools", "call", "calculator", '{"expression": "1 / 0"}', "--json")
    assert (said.code, said.json()["code"]) == (Exit.FAILED, "DIVISION_BY_ZERO")


def test_config_show_redacts_secrets(cli: Call) -> None:
    said = cli("config", "show")
    assert "sk-very-secret" not in said.out
    assert said.json()["models"]["openai"]["model"] == "demo"


def test_doctor_finds_everything_in_order(cli: Call) -> None:
    checks = cli("doctor", "--json").json()
    assert {check["check"]: check["ok"] for check in checks} == {
        "settings": True,
        "store": True,
        "tools": True,
        "model openai": True,
    }


def test_doctor_names_what_is_not(cli: Call) -> None:
    said = cli("doctor", model="demo:html")
    assert said.code == Exit.FAILED
    assert "FAIL" in said.out


def test_version(cli: Call) -> None:
    assert cli("version").out.startswith("orchestrator 0.")


def questions(count: int, path: str = "q.jsonl") -> str:
    Path(path).write_text(
        "".join(json.dumps({"id": f"q{n}", "question": TWO_HOPS}) + "\n" for n in range(count)), "utf-8"
    )
    return path


def results(path: str = "q.results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def test_batch_runs_every_line_once(cli: Call) -> None:
    file = questions(5)
    assert cli("batch", file, "-c", "3").code == Exit.ANSWERED
    first = results()
    assert sorted(each["id"] for each in first) == ["q0", "q1", "q2", "q3", "q4"]
    assert all(each["outcome"] == "answered" and "3491" in each["answer"] for each in first)
    assert cli("batch", file).code == Exit.ANSWERED
    assert results() == first


def test_batch_goes_on_after_a_torn_result(cli: Call) -> None:
    file = questions(3)
    cli("batch", file)
    whole = Path("q.results.jsonl").read_text("utf-8").splitlines(keepends=True)
    Path("q.results.jsonl").write_text(whole[0] + whole[1][:40], "utf-8")
    assert cli("batch", file).code == Exit.ANSWERED
    assert sorted(each["id"] for each in results()) == ["q0", "q1", "q2"]
    assert len(cli("runs", "--json").out.splitlines()) == 3, "the run that was begun is finished, not run again"


def test_batch_does_not_touch_a_file_that_is_not_its_own(cli: Call) -> None:
    file = questions(1)
    Path("notes.txt").write_text("precious", "utf-8")
    said = cli("batch", file, "--out", "notes.txt")
    assert said.code == Exit.USAGE
    assert Path("notes.txt").read_text("utf-8") == "precious"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("{", "line 1"),
        ('{"id": 1}', "goal"),
        ('{"question": "x", "max_steps": "many"}', "max_steps"),
        ('{"question": "x", "id": 2}\n{"question": "y", "id": 2}', "twice"),
        ("7", "question"),
    ],
)
def test_batch_names_the_line_that_is_wrong(cli: Call, line: str, names: str) -> None:
    Path("bad.jsonl").write_text(line + "\n", "utf-8")
    said = cli("batch", "bad.jsonl")
    assert said.code == Exit.USAGE
    assert names in said.err


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
