"""`batch`: every line once, whatever happened before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.exits import Exit
from tests.cli.said import TWO_HOPS, Call


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


def test_the_options_of_a_run_hold_for_every_line_that_does_not_say_otherwise(cli: Call) -> None:
    lines = ({"question": TWO_HOPS}, {"question": TWO_HOPS, "deadline": 70})
    Path("q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    cli("batch", "q.jsonl", "--deadline", "60", "--max-steps", "9")
    shown = [cli("show", each["run_id"], "--json").out for each in sorted(results(), key=lambda each: str(each["id"]))]
    firsts = [json.loads(trace.partition("\n")[0])["event"] for trace in shown]
    assert [(each["limits"]["deadline"], each["limits"]["max_steps"]) for each in firsts] == [(60.0, 9), (70.0, 9)]


def test_a_line_says_kind_as_the_api_does(cli: Call) -> None:
    """And run_kind, as it did."""
    lines = ({"question": TWO_HOPS, "kind": "hops"}, {"goal": TWO_HOPS, "run_kind": "hops"})
    Path("q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert cli("batch", "q.jsonl").code == Exit.ANSWERED
    shown = [json.loads(cli("show", each["run_id"], "--json").out.partition("\n")[0])["event"] for each in results()]
    assert [(each["goal"], each["run_kind"]) for each in shown] == [(TWO_HOPS, "hops")] * 2


def test_batch_goes_on_after_a_torn_result(cli: Call) -> None:
    file = questions(3)
    cli("batch", file)
    whole = Path("q.results.jsonl").read_text("utf-8").splitlines(keepends=True)
    Path("q.results.jsonl").write_text(whole[0] + whole[1][:40], "utf-8")
    assert cli("batch", file).code == Exit.ANSWERED
    assert sorted(each["id"] for each in results()) == ["q0", "q1", "q2"]
    assert len(cli("runs", "--json").out.splitlines()) == 3, "the run that was begun is finished, not run again"


def test_the_results_of_another_asking_are_never_taken_for_these(cli: Call) -> None:
    file = questions(2)
    cli("batch", file)
    first = results()
    said = cli("batch", file, "--protocol", "text")
    assert said.code == Exit.USAGE
    assert "q.results.jsonl" in said.err
    assert "choose another --out" in said.err
    assert results() == first
    assert cli("batch", file, "--protocol", "text", "--out", "text.jsonl").code == Exit.ANSWERED
    assert len(results("text.jsonl")) == 2


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
        ('{"question": "x"}\n{"question": "y", "max_step": 3}', "line 2: there is no key 'max_step'; write agent, "),
        ('{"question": "x", "id": 2}\n{"question": "y", "id": 2}', "twice"),
        ("7", "question"),
    ],
)
def test_batch_names_the_line_that_is_wrong(cli: Call, line: str, names: str) -> None:
    Path("bad.jsonl").write_text(line + "\n", "utf-8")
    said = cli("batch", "bad.jsonl")
    assert said.code == Exit.USAGE
    assert names in said.err


def test_a_tool_error_of_a_run_is_no_line_beside_the_results(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("nobody.jsonl").write_text('{"question": "Where was Nobody von Nothing born?"}\n', "utf-8")
    said = cli("batch", "nobody.jsonl")
    assert said.err == "1 of 1 runs ended: 1 gave_up; results in nobody.results.jsonl\n"
    assert said.code == Exit.FAILED
    assert '"event":"observation"' in cli("--log-level", "warning", "batch", "nobody.jsonl", "--out", "again.jsonl").err
