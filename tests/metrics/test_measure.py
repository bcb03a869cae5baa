"""`measure`: from stored traces, without a worker and without Prometheus."""

from __future__ import annotations

import json
import sqlite3

from orchestrator.cli.exits import Exit
from orchestrator.cli.measure import besides
from orchestrator.metrics import Total
from tests.cli.conftest import cli, url
from tests.cli.said import Call, ran

__all__ = ["cli", "url"]


def test_measure_prints_the_three_rates_beside_their_limits(cli: Call) -> None:
    ran(cli, "--protocol", "text", "--language", "zh")
    out = " ".join(cli("measure").out.split())
    assert "1 runs" in out
    wanted = ("Thought-Action gap", "above 5 %", "Step bloat", "above 2", "match", "too few to alert")
    assert [word for word in wanted if word not in out] == []


def test_measure_adds_up_the_verdicts_of_both_protocols(cli: Call) -> None:
    ran(cli)
    ran(cli, "--protocol", "text", "--language", "zh")
    (line,) = [line for line in cli("measure").out.splitlines() if line.startswith("Thought-Action gap")]
    assert line.count("match") == 1


def test_measure_tells_two_agents_apart_by_more_than_the_rates(cli: Call) -> None:
    ending = (
        {"agent": "a", "outcome": "answered"},
        {"agent": "a", "outcome": "gave_up"},
        {"agent": "b", "outcome": "gave_up"},
    )
    turn = {"agent": "a", "model": "m"}
    found = [
        *(Total("orchestrator_runs_total", labels, 3, 3.0) for labels in ending),
        Total("orchestrator_tokens_total", {**turn, "type": "input"}, 6, 900.0),
        Total("orchestrator_tokens_total", {**turn, "type": "output"}, 6, 60.0),
        Total("orchestrator_cost_total", turn, 6, 3.0),
        Total("orchestrator_model_seconds", turn, 8, 4.0),
    ]
    assert list(besides(found)) == [
        ("Answered", "a", "50 %", "", "answered 3, gave_up 3"),
        ("Answered", "b", "0 %", "", "gave_up 3"),
        ("Tokens a run", "a", "160", "", "input 900, output 60"),
        ("Tokens a run", "b", "0", "", "input 0, output 0"),
        ("Cost a run", "a", "0.5", "", "cost 3"),
        ("Seconds a turn", "a", "0.5", "", "turns 8"),
    ]
    assert list(besides([])) == []
    ran(cli)
    lines = cli("measure").out.splitlines()
    assert [line.split("  ")[0] for line in lines][-3:] == ["Answered", "Tokens a run", "Seconds a turn"]
    assert "100 %" in next(line for line in lines if line.startswith("Answered"))


def test_measure_gives_every_series_as_json_lines(cli: Call) -> None:
    run_id = ran(cli)
    lines = [json.loads(line) for line in cli("measure", "--run", run_id, "--json").out.splitlines()]
    runs = [each for each in lines if each["series"] == "orchestrator_runs_total"]
    assert runs == [
        {
            "series": "orchestrator_runs_total",
            "labels": {"agent": "default", "outcome": "answered"},
            "count": 1,
            "sum": 1.0,
        }
    ]


def test_a_run_that_is_named_twice_is_measured_once(cli: Call) -> None:
    run_id = ran(cli)
    assert cli("measure", "--run", run_id, "--run", run_id).out == cli("measure", "--run", run_id).out


def test_a_run_that_is_deleted_while_the_others_are_read_is_passed_over(cli: Call) -> None:
    gone, left = ran(cli), ran(cli)
    with sqlite3.connect("var/orchestrator.db") as store:
        store.execute("delete from entries where run_id = ?", (gone,))
    assert cli("measure", "--json").out == cli("measure", "--run", left, "--json").out


def test_measure_since_leaves_out_older_runs(cli: Call) -> None:
    ran(cli)
    with sqlite3.connect("var/orchestrator.db") as store:
        store.execute("update runs set started_at = started_at - 7200")
    assert "0 runs" in cli("measure", "--since", "1h").out
    assert "1 runs" in cli("measure", "--since", "3h").out
    assert "1 runs" in cli("measure", "--since", "1w").out


def test_measure_says_what_is_wrong_with_its_arguments(cli: Call) -> None:
    assert cli("measure", "--since", "soon").code == Exit.USAGE
    said = cli("measure", "--run", "nothing-of-the-kind")
    assert said.code == Exit.FAILED and "nothing-of-the-kind" in said.err


def test_a_damaged_trace_is_named_and_the_rest_is_measured(cli: Call) -> None:
    bad, good = ran(cli), ran(cli)
    with sqlite3.connect("var/orchestrator.db") as store:
        store.execute("delete from entries where run_id = ? and seq = 2", (bad,))
    said = cli("measure", "--json")
    assert bad in said.err and good not in said.err
    assert "orchestrator_runs_total" in said.out


def test_of_a_trace_that_breaks_off_nothing_is_counted(cli: Call) -> None:
    bad, good = ran(cli), ran(cli)
    with sqlite3.connect("var/orchestrator.db") as store:
        (last,) = store.execute("select max(seq) from entries where run_id = ?", (bad,)).fetchone()
        store.execute("delete from entries where run_id = ? and seq = ?", (bad, last - 1))
    said = cli("measure", "--json")
    assert bad in said.err
    assert said.out == cli("measure", "--run", good, "--json").out
