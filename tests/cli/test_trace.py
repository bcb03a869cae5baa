"""`show`, `replay` and `runs`: what is stored, read back; and what is damaged, named."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.exits import Exit
from tests.cli.said import TWO_HOPS, Call, ran


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


def test_off_a_terminal_nothing_is_cut_off_and_a_row_is_a_line(cli: Call) -> None:
    said = cli("run", "Where is " + "the very " * 40 + "end?", "--json", "--quiet")
    long = said.json()["run_id"]
    assert "the very " * 40 + "end?" in cli("show", long).out
    _, row = cli("runs").out.splitlines()
    assert row.startswith(long)


def test_show_of_an_unknown_run_says_so(cli: Call) -> None:
    said = cli("show", "nothing")
    assert (said.code, said.out) == (Exit.FAILED, "")
    assert "orchestrator runs" in said.err


@pytest.mark.parametrize("words", [("runs",), ("config", "show")])
def test_a_full_disk_is_one_line_and_exit_1(cli: Call, words: tuple[str, ...]) -> None:
    ran(cli)
    with Path("/dev/full").open("w") as full:
        said = subprocess.run(
            [sys.executable, "-m", "orchestrator", *words], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (said.returncode, said.stderr) == (1, b"nothing more can be written: No space left on device\n")


def test_a_reader_that_went_away_is_no_error_on_stderr(cli: Call) -> None:
    run_id = ran(cli)
    script = (
        f"{sys.executable} -m orchestrator show {run_id} --json | true; {sys.executable} -m orchestrator version | true"
    )
    assert subprocess.run(["sh", "-c", script], capture_output=True, check=False).stderr == b""
