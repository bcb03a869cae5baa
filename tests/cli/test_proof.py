"""`verify`, `export` and `signing-key`, as an auditor and the operator call them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from orchestrator.cli.exits import Exit
from tests.cli.said import Call, ran


def alter(sql: str, *values: object) -> None:
    with sqlite3.connect("var/orchestrator.db") as connection:
        connection.execute(sql, values)
    connection.close()


def test_what_was_not_touched_verifies(cli: Call) -> None:
    run_id = ran(cli)
    for words in ((run_id,), ("--all",), ("--since", "1h")):
        said = cli("verify", *words)
        assert (said.code, said.out.splitlines()[-1]) == (Exit.ANSWERED, "1 verified: 1 intact, 0 not")
    assert f"run {run_id}: intact, " in said.out
    assert "hashed without a key: covered against accidents and naive edits only" in said.out
    assert cli("verify", run_id, "--strict").code == Exit.FAILED


def test_with_a_key_strict_is_content_and_the_key_is_never_shown(cli: Call) -> None:
    Path("orchestrator.toml").write_text('[trace]\nkey = "file:trace.key"\n', "utf-8")
    Path("trace.key").write_text("0123456789abcdef0123456789abcdef\n", "utf-8")
    run_id = ran(cli)
    assert cli("verify", run_id, "--strict").code == Exit.ANSWERED
    assert "0123456789abcdef" not in cli("config", "show").out
    Path("trace.key").write_text("too short", "utf-8")
    said = cli("verify", run_id)
    assert said.code == Exit.USAGE
    assert "trace.key: a key has at least 16 characters" in said.err


def test_an_altered_entry_is_named(cli: Call) -> None:
    run_id = ran(cli)
    alter("UPDATE entries SET at = at + 60 WHERE run_id = ? AND seq = 3", run_id)
    said = cli("verify", "--all")
    assert said.code == Exit.FAILED
    assert f"run {run_id}: NOT INTACT" in said.out
    assert "  entry 3 was altered" in said.out
    (line,) = [json.loads(line) for line in cli("verify", run_id, "--json").out.splitlines()]
    assert (line["intact"], line["problems"][0][:19]) == (False, "entry 3 was altered")


def test_quiet_says_only_what_is_wrong_and_the_last_line(cli: Call) -> None:
    altered, intact = ran(cli), ran(cli)
    assert cli("verify", "--all", "--quiet") == (Exit.ANSWERED, "2 verified: 2 intact, 0 not\n", "")
    assert cli("verify", "--all", "--quiet", "--json") == (Exit.ANSWERED, "", "")
    strict = cli("verify", "--all", "--quiet", "--strict")
    assert strict.code == Exit.FAILED
    assert altered in strict.out, "what no key covers is what --strict calls wrong"
    alter("UPDATE entries SET at = at + 60 WHERE run_id = ? AND seq = 3", altered)
    said = cli("verify", "--all", "--quiet")
    assert said.code == Exit.FAILED
    assert "  entry 3 was altered" in said.out
    assert intact not in said.out
    assert said.out.splitlines()[-1] == "2 verified: 1 intact, 1 not"
    assert [json.loads(line)["run_id"] for line in cli("verify", "--all", "-q", "--json").out.splitlines()] == [altered]


def test_an_unknown_run_and_an_unreadable_row_are_problems_not_tracebacks(cli: Call) -> None:
    run_id = ran(cli)
    assert "there is no such run" in cli("verify", "nobody").out
    alter("UPDATE runs SET outcome = 'transcended' WHERE run_id = ?", run_id)
    said = cli("verify", "--all")
    assert said.code == Exit.FAILED
    assert "index: the run's line cannot be read" in said.out
    assert cli("verify").code == Exit.USAGE


def test_an_export_is_signed_and_an_auditor_verifies_it_offline(cli: Call) -> None:
    run_id = ran(cli)
    Path("auditor.pem").write_text(cli("signing-key", "operator.pem").out, "utf-8")
    assert Path("operator.pem").stat().st_mode & 0o777 == 0o600
    assert cli("signing-key", "operator.pem").code == Exit.USAGE, "a key is never overwritten"
    said = cli("export", run_id, "--signing-key", "operator.pem")
    assert (said.code, said.err) == (Exit.ANSWERED, "")
    Path("traces.jsonl").write_text(said.out, "utf-8")
    Path("var/orchestrator.db").unlink()
    told = cli("verify", "traces.jsonl", "--public-key", "auditor.pem")
    assert (told.code, told.out.splitlines()[-1]) == (Exit.ANSWERED, "2 verified: 2 intact, 0 not")
    assert not Path("var/orchestrator.db").exists()
    Path("traces.jsonl").write_text(said.out.replace('"seq":2', '"seq":3', 1), "utf-8")
    assert cli("verify", "traces.jsonl", "--public-key", "auditor.pem").code == Exit.FAILED
    Path("other.pem").write_text(cli("signing-key", "eve.pem").out, "utf-8")
    Path("traces.jsonl").write_text(said.out, "utf-8")
    refused = cli("verify", "traces.jsonl", "--public-key", "other.pem")
    assert refused.code == Exit.FAILED
    assert "SIGNATURE REFUSED" in refused.out


def test_an_anchor_finds_a_run_that_was_removed_as_a_whole(cli: Call) -> None:
    kept, removed = ran(cli), ran(cli)
    Path("anchor.jsonl").write_text(cli("export", "--all", "--heads").out, "utf-8")
    assert cli("verify", "--against", "anchor.jsonl").code == Exit.ANSWERED
    for table in ("runs", "entries", "blobs"):
        alter(f"DELETE FROM {table} WHERE run_id = ?", removed)  # noqa: S608
    assert cli("verify", "--all").code == Exit.ANSWERED, "a chain per run cannot show it"
    said = cli("verify", "--against", "anchor.jsonl")
    assert said.code == Exit.FAILED
    assert f"run {removed}: NOT INTACT" in said.out
    assert f"run {kept}: intact" in said.out
    assert cli("verify", "--against", "anchor.jsonl", "--purged-after", "0s").code == Exit.ANSWERED


def test_an_export_without_a_signing_key_says_so(cli: Call) -> None:
    said = cli("export", ran(cli))
    assert said.code == Exit.ANSWERED
    assert "not signed" in said.err
    assert cli("export").code == Exit.USAGE
