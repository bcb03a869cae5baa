"""`token` and `serve` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from orchestrator.cli import app
from orchestrator.errors import ConfigError


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_MODEL", "demo")


def call(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_a_token_is_made_listed_and_taken_back() -> None:
    text = call("token", "create", "ci", "--tenant", "acme", "--for", "90d").stdout.strip()
    assert text.startswith("orc_")
    listed = json.loads(call("token", "list", "--json").stdout)
    assert [(each["name"], each["tenant"], each["scopes"]) for each in listed] == [("ci", "acme", ["submit", "read"])]
    assert text not in call("token", "list").stdout
    assert call("token", "revoke", "ci").stdout.strip() == listed[0]["id"]
    assert call("token", "list").stdout.strip() == "no tokens"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("token", "create", "x", "-s", "everything"), "submit, read, approve, admin"),
        (("token", "create", ""), "printable"),
        (("token", "revoke", "nobody"), "token list"),
        (("serve", "--host", "0.0.0.0", "--port", "0"), "token create"),
        (("serve", "--host", "no such host.invalid", "--port", "0"), "token create"),
        (("--store", "memory", "serve", "--port", "0"), "sqlite"),
    ],
)
def test_what_cannot_be_is_said_with_what_to_do(words: tuple[str, ...], says: str) -> None:
    error = call(*words).exception
    assert isinstance(error, ConfigError)
    assert says in str(error)


def test_a_port_that_is_taken_is_said() -> None:
    from orchestrator.api.server import listen, url_of

    with listen("127.0.0.1", 0) as taken:
        error = call("serve", "--port", url_of(taken).rpartition(":")[2]).exception
    assert isinstance(error, ConfigError)
    assert "api.port" in str(error)
