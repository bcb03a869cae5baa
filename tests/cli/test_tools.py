"""`tools`, `doctor`, `config` and `version`; and the examples of the README."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cli.exits import Exit
from orchestrator.core.events import ActionStarted
from orchestrator.stores.sqlite import SqliteStore
from tests.build import acts, observed, spec, started
from tests.cli.said import Call


def test_tools_can_be_listed_and_tried_alone(cli: Call) -> None:
    assert "calculator" in cli("tools", "list").out
    assert cli("tools", "schema", "calculator").json()["properties"]["expression"]["type"] == "string"
    said = cli("tools", "call", "calculator", '{"expression": "6 * 7"}')
    assert said.code == Exit.ANSWERED
    assert "42" in said.out


def test_a_tool_that_says_no_is_exit_1(cli: Call) -> None:
    said = cli("tools", "call", "calculator", '{"expression": "1 / 0"}', "--json")
    assert (said.code, said.json()["code"]) == (Exit.FAILED, "DIVISION_BY_ZERO")


def examples() -> list[str]:
    """The Python of the README: a tool, then a program."""
    page = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_tool_of_the_readme_works(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("flights.py").write_text(examples()[0], "utf-8")
    monkeypatch.setenv("ORCHESTRATOR_TOOLS", '["flights.py"]')
    assert "CA1234" in cli("tools", "call", "next_flight", '{"origin": "PEK", "destination": "SHA"}').out
    refused = cli("tools", "call", "next_flight", '{"origin": "PEK", "destination": "PEK"}', "--json")
    assert (refused.code, refused.json()["code"]) == (Exit.FAILED, "SAME_AIRPORT")


def test_the_program_of_the_readme_works(cli: Call, capsys: pytest.CaptureFixture[str]) -> None:
    cli("version")
    exec(compile(examples()[1], "README.md", "exec"), {})  # noqa: S102  our own README
    assert capsys.readouterr().out.split()[0] in {"answered", "gave_up"}


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


def test_doctor_advises_about_tools_that_hold_runs_up(cli: Call) -> None:
    """Of the newest runs: twenty calls of nine seconds."""

    async def write() -> None:
        async with SqliteStore("var/orchestrator.db") as store:
            first = started(spec("wikipedia_search"))
            for number in range(20):
                seen = replace(observed("1.0", tool="wikipedia_search"), seconds=9.0)
                turn = acts(1, ("wikipedia_search", {"query": "x"}))
                events = (first, turn, ActionStarted("1.0", "k"), seen)
                await store.append(f"r{number}", 0, events, at=1000.0 + number)

    cli("runs")
    asyncio.run(write())
    found = {each["check"]: each for each in cli("doctor", "--json").json()}
    told = found["slow: wikipedia_search"]
    assert told["ok"]
    assert "over 9.0 s (of 20)" in told["detail"]
    assert "pending(...)" in told["detail"]


def test_doctor_warns_of_a_rule_that_means_no_tool_and_names_rule_and_pattern(cli: Call) -> None:
    """What a server that is down may bring is not called a slip."""
    rules = [
        ("typo", ["http_gte", "calc*"]),
        ("whole", ["*"]),
        ("away", ["mcp__gone__mail", "mcp__*"]),
        ("none", ["pay*"]),
    ]
    tables = (f'[[permissions]]\nname = "{name}"\nverdict = "allow"\ntools = {globs}\n' for name, globs in rules)
    gone = '[mcp.gone]\ncommand = "/nowhere/server"\ntools = "*"\n'
    Path("orchestrator.toml").write_text("".join(tables) + gone, "utf-8")
    told = [each for each in cli("doctor", "--json").json() if each["advice"]]
    assert [(each["check"], each["detail"].split()[0], each["ok"]) for each in told] == [
        ("permissions: typo", "'http_gte'", True),
        ("permissions: none", "'pay*'", True),
    ]


def test_a_warning_of_doctor_is_seen_and_is_no_failure(cli: Call) -> None:
    Path("orchestrator.toml").write_text('[[permissions]]\nname = "x"\nverdict = "allow"\ntools = ["pay*"]\n', "utf-8")
    said = cli("doctor")
    assert said.code == Exit.ANSWERED
    assert "warn  permissions: x  'pay*' in its `tools` matches no tool here" in said.out


def test_the_list_of_tools_says_which_declare_to_be_slow(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("slow.py").write_text(
        "from orchestrator.tool import tool\n\n\n@tool(timeout=120.0)\nasync def report(q: str) -> str:\n"
        '    """Reports."""\n    return q\n',
        "utf-8",
    )
    monkeypatch.setenv("ORCHESTRATOR_TOOLS", '["slow.py"]')
    assert "slow: report: it declares timeout=120" in cli("tools", "list").err


def test_doctor_names_what_is_not(cli: Call) -> None:
    said = cli("doctor", model="demo:html")
    assert said.code == Exit.FAILED
    assert "FAIL" in said.out


def test_version(cli: Call) -> None:
    assert cli("version").out.startswith("orchestrator 0.")
