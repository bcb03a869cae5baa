"""`doctor` finds what the settings speak of and is not there; a worker, a client and a list say what they lack."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Client
from orchestrator.cli import door
from orchestrator.cli.exits import Exit
from orchestrator.cli.meant import of_variables
from orchestrator.errors import ConfigError
from tests.cli.said import Call


def found(cli: Call, settings: str, **env: str) -> dict[str, Any]:
    Path("orchestrator.toml").write_text(settings, "utf-8")
    return {each["check"]: each for each in cli("doctor", "--json").json()}


@pytest.mark.parametrize(
    ("settings", "check", "told"),
    [
        ('[agents.shop]\ntools = ["now", "nope"]', "agents.shop.tools", "there is no tool nope: its runs cannot begin"),
        ('[schedules.a]\ncron = "nope"\nquestion = "q"', "schedules.a", "schedules.a.cron = 'nope': write five fields"),
        (
            '[schedules.a]\ncron = "0 9 * * *"\nquestion = "q"\nagent = "nope"',
            "schedules.a",
            "no agent 'nope': configured are ['default']",
        ),
        ('[hooks.x]\nkind = "slack"', "hooks.x", "hooks.x.url"),
        ('[hooks.x]\nkind = "webhook"\nurl = "nope"', "hooks.x", "hooks.x.url"),
        ('[hooks.x]\nkind = "command"', "hooks.x", "hooks.x.argv is empty"),
        ('[trace]\nsigning_key = "no PEM"', "trace.signing_key", "is no private key in PEM"),
    ],
)
def test_doctor_fails_what_would_fail_when_it_is_needed(cli: Call, settings: str, check: str, told: str) -> None:
    one = found(cli, settings)[check]
    assert not one["ok"]
    assert told in one["detail"]
    assert cli("doctor").code == Exit.FAILED


@pytest.mark.parametrize("table", ["tool_limits.nope]\nat_once = 1", "egress.tools.nope]\nprivate = true"])
def test_doctor_warns_of_settings_for_tools_that_are_not_there(cli: Call, table: str) -> None:
    one = found(cli, f"[{table}")[table.partition("]")[0]]
    assert (one["ok"], one["advice"]) == (True, True)
    assert "this holds for nothing" in one["detail"]


def test_doctor_is_silent_about_what_is_there(cli: Call) -> None:
    checks = found(
        cli,
        '[agents.default]\ntools = ["now", "mcp__later__x"]\n[tool_limits.now]\nat_once = 1\n[egress.tools.http_get]\nprivate = true\n'
        '[schedules.a]\ncron = "0 9 * * *"\nquestion = "q"\n[hooks.x]\nkind = "command"\nargv = ["true"]\n',
    )
    assert list(checks) == ["settings", "store", "tools", "model openai"]
    assert checks["settings"]["detail"] == "1 agent, 1 model"


def test_a_variable_that_nobody_reads_is_told_and_those_of_kubernetes_are_not() -> None:
    read = {"ORCHESTRATOR_STORE": "memory", "ORCHESTRATOR_WORKER__PORT": "1", "orchestrator_tools": "[]"}
    options = {"ORCHESTRATOR_AGENT": "shop"}
    kubernetes = {
        "ORCHESTRATOR_SERVICE_HOST": "10.0.0.1",
        "ORCHESTRATOR_API_SERVICE_PORT": "8700",
        "ORCHESTRATOR_API_SERVICE_PORT_HTTP": "8700",
        "ORCHESTRATOR_PORT": "tcp://10.0.0.1:8700",
        "ORCHESTRATOR_PORT_8700_TCP": "tcp://10.0.0.1:8700",
        "ORCHESTRATOR_PORT_8700_TCP_ADDR": "10.0.0.1",
    }
    slips = {"ORCHESTRATOR_STOER": "memory", "ORCHESTRATOR_WORKER_PORT": "9464", "ORCHESTRATOR_LOGLEVEL": "info"}
    checks = list(of_variables({**read, **options, **kubernetes, **slips, "PATH": "x"}, options))
    assert [each.name for each in checks] == sorted(slips)
    assert all(each.ok and each.advice for each in checks)


def test_doctor_knows_every_variable_of_an_option(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGENT", "MODEL", "PROTOCOL", "LANGUAGE", "MAX_STEPS", "DEADLINE", "URL", "TOKEN"):
        monkeypatch.setenv(f"ORCHESTRATOR_{name}", "default")
    monkeypatch.setenv("ORCHESTRATOR_STOER", "memory")
    told = [each["check"] for each in cli("doctor", "--json").json() if each["advice"]]
    assert told == ["ORCHESTRATOR_STOER"]


@pytest.mark.parametrize("words", [("worker",), ("serve", "--worker"), ("mcp", "--worker")])
def test_a_worker_without_a_model_does_not_begin(
    cli: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    said = cli(*words, model="")
    assert said.code == Exit.USAGE
    assert said.err.startswith("ConfigError: no model is configured, and a worker takes runs to drive them: write a")


def test_a_list_of_no_runs_says_where_it_looked(cli: Call) -> None:
    said = cli("runs")
    assert (said.code, said.err) == (0, f"no runs in sqlite:///var/orchestrator.db (from {Path.cwd()})\n")
    assert cli("runs", "--open").err.startswith("no such runs in ")
    assert cli("runs", "--json") == (0, "", "")


def test_a_process_whose_user_has_no_name_decides_as_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    assert door._user() == getpass.getuser()
    monkeypatch.setattr(door, "getuser", nameless)
    assert door._user().startswith("uid ")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8700", "localhost", "ftp://x", "http://", "https:///v1", "http://h:port"]
)
def test_a_client_with_no_address_is_refused_when_it_is_made(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a server: write http://HOST:PORT"):
        Client(url)


@pytest.mark.parametrize("token", ["orc_a\n", "orc a", "orc_ä", "\x00"])
def test_a_client_whose_token_is_none_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ConfigError, match="holds characters that no token has") as caught:
        Client("http://127.0.0.1:8700", token=token)
    assert token not in str(caught.value)
