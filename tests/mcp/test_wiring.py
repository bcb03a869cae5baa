"""From the settings to the commands, the worker and the run: what is configured is offered, what is not there is said."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from pydantic import ValidationError

from orchestrator.assembly import open_toolbox, secrets_of
from orchestrator.cli import main
from orchestrator.core.events import RunStarted
from orchestrator.core.spec import ToolSpec
from orchestrator.dispatch import need_of, needs_of
from orchestrator.egress import EgressSettings
from orchestrator.errors import ConfigError
from orchestrator.mcp.transport import rules_for
from orchestrator.mcp_settings import McpSettings
from orchestrator.runner import Ports, drive
from orchestrator.settings import Settings, redacted
from orchestrator.stores.memory import MemoryStore
from orchestrator.toolbox import Toolbox
from orchestrator.worker.queue import abilities
from tests.build import ScriptedModel, acts, final
from tests.cli.said import TWO_HOPS
from tests.mcp.inside import Inside, echo, opened
from tests.served import demo_server, only_the_demo

RAW = str(Path(__file__).parent / "raw.py")
CONFIG = f"""
[mcp.near]
command = "{sys.executable}"
args = ["{RAW}"]
tools = ["echo", "missing"]

[mcp.gone]
command = "/nowhere/server"
tools = "*"

[egress]
loopback = true
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with demo_server() as found:
        yield found


@pytest.fixture
def run(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    only_the_demo(monkeypatch, tmp_path, url)
    (tmp_path / "orchestrator.toml").write_text(CONFIG, "utf-8")

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["orchestrator", *words])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), *capsys.readouterr()

    return call


def test_the_commands_know_the_tools_and_say_what_is_not_there(run: Run) -> None:
    _, out, err = run("tools", "list")
    assert "mcp__near__echo" in out
    assert "not here: mcp__near__missing: the server lists no such tool" in err
    assert "not here: mcp__gone__: ConnectionError: /nowhere/server cannot be started" in err
    assert '"required"' in run("tools", "schema", "mcp__near__echo")[1]
    code, out, _ = run("tools", "call", "mcp__near__echo", '{"text": "hello"}')
    assert code == 0
    assert "echo: hello" in out
    code, out, _ = run("doctor")
    assert code == 1
    assert "FAIL  mcp__gone__" in out
    assert "FAIL  mcp__near__missing" in out


def test_a_worker_starts_without_a_server_and_says_so_where_it_says_that_it_is_ready(run: Run, tmp_path: Path) -> None:
    run_id = run("submit", TWO_HOPS)[1].strip()
    command = [sys.executable, "-m", "orchestrator", "worker"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stderr is not None
            place = next(line for line in worker.stderr if "readyz" in line).split()[-1]
            until = time.monotonic() + 30
            while "answered" not in run("status", run_id)[1]:
                assert time.monotonic() < until
            with urlopen(place) as reply:  # noqa: S310  loopback
                assert reply.status == 200
                said = reply.read().decode()
        finally:
            worker.terminate()
            worker.communicate()
    assert said.splitlines()[0] == "ready"
    assert "not here: mcp__gone__: ConnectionError: /nowhere/server cannot be started" in said
    assert "mcp__near__echo" in run("show", run_id, "--json")[1]


@pytest.mark.parametrize("words", [("serve", "--port", "0", "--worker"), ("mcp", "--worker")], ids=" ".join)
def test_a_worker_in_a_server_shares_its_tools_so_an_mcp_server_is_started_once(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    counted = f'command = "sh"\nargs = ["-c", "echo once more >> begun; exec {sys.executable} {RAW}"]\ntools = "*"\n'
    (tmp_path / "orchestrator.toml").write_text(f"[mcp.near]\n{counted}[worker]\nport = 0\n", "utf-8")
    command = [sys.executable, "-m", "orchestrator", *words]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        metrics = next(line for line in process.stderr if "readyz" in line).split()[-1].replace("readyz", "metrics")
        with urlopen(metrics) as reply:  # noqa: S310  loopback
            assert 'orchestrator_breaker_open{kind="tool",target="mcp__near__echo"} 0.0' in reply.read().decode()
    finally:
        process.terminate()
        process.communicate()
    assert (tmp_path / "begun").read_text("utf-8").splitlines() == ["once more"]


def test_a_worker_that_cannot_start_beside_an_mcp_server_is_said_at_once_and_is_its_exit_code(
    run: Run, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "orchestrator.toml").write_text(f"[worker]\nport = {taken.getsockname()[1]}\n", "utf-8")
        command = [sys.executable, "-m", "orchestrator", "mcp", "--worker"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stderr is not None
            assert "the worker has ended, runs wait for another: worker.host, worker.port" in process.stderr.readline()
            process.communicate()
    assert process.returncode == 2


MISSING = """
import sys
sys.modules["mcp"] = None
import orchestrator
from orchestrator.cli import main
sys.argv = ["orchestrator", *sys.argv[1:]]
main()
"""


def test_without_the_extra_everything_else_works_and_the_error_says_what_to_install(tmp_path: Path) -> None:
    def said(config: str, *words: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "orchestrator.toml").write_text(config, "utf-8")
        command = [sys.executable, "-c", MISSING, *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "calculator" in said("", "tools", "list").stdout
    for config, words, remedy in (
        (CONFIG, ("tools", "list"), "[mcp.near] needs the extra: pip install '.[mcp]' in the checkout"),
        ("", ("mcp",), "mcp needs the extras: pip install '.[api,mcp]' in the checkout"),
        ("[api]\nport = 0\nmcp = true", ("serve",), "api.mcp needs the extra: pip install '.[mcp]' in the checkout"),
    ):
        refused = said(config, *words)
        assert refused.returncode == 2
        assert remedy in refused.stderr


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"command": "x"}, "tools"),
        ({"tools": "*"}, "either `command`"),
        ({"tools": "*", "command": "x", "url": "http://x/"}, "either `command`"),
        ({"tools": "*", "url": "ftp://x/"}, "http:// or https://"),
        ({"tools": "*", "command": "x", "headers": {"A": "b"}}, "headers belongs"),
        ({"tools": "*", "url": "http://x/", "env": {"A": "b"}}, "env belongs"),
        ({"tools": "*", "command": "x", "env": {"A": 1}}, "env.A must be a text"),
        ({"tools": ["a"], "command": "x", "tool": {"b": {}}}, "tool.b is not among"),
        ({"tools": ["a"], "command": "x", "tool": {"a": {"facts": {"F": "no"}}}}, "JSON Pointer"),
        ({"tools": "*", "command": "x", "shell": True}, "Extra inputs"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_with_a_remedy(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        McpSettings.model_validate(given)


def test_the_settings_in_the_documents_are_settings() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text("utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for block in blocks:
        given = tomllib.loads(block.replace("file:/run/secrets/", ""))
        assert Settings.model_validate(given).mcp
    assert len(blocks) == 2


@pytest.mark.parametrize("name", ["a_b", "1a", "", "x" * 40, "a.b"])
def test_a_servers_name_stands_before_its_tools_names(name: str) -> None:
    with pytest.raises(ValidationError, match="letters, digits and -"):
        Settings.model_validate({"mcp": {name: {"command": "x", "tools": "*"}}})


def test_a_secret_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOPE", raising=False)
    with pytest.raises(ConfigError, match="env:NOPE is not set"):
        McpSettings.model_validate({"command": "x", "tools": "*", "env": {"A": "env:NOPE"}})


def test_headers_and_telling_variables_are_secrets_and_the_rest_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFERRED", "referred-value")
    env = {"TZ": "Europe/Berlin", "API_KEY": "key-value", "DSN": "env:REFERRED"}
    near = {"command": "x", "tools": "*", "env": env}
    far = {"url": "https://x.example/mcp", "tools": "*", "headers": {"Authorization": "Bearer tok-tok-tok"}}
    settings = Settings.model_validate({"mcp": {"near": near, "far": far}})
    secrets = set(secrets_of(settings))
    assert {"key-value", "referred-value", "Bearer tok-tok-tok", "tok-tok-tok"} <= secrets
    assert "Europe/Berlin" not in secrets
    assert "tok-tok-tok" not in str(redacted(settings))


def test_a_url_leads_to_its_own_host_and_port_and_inside_only_where_the_operator_says_so() -> None:
    settings = McpSettings(url="https://tools.example:8443/mcp", tools="*")
    general = EgressSettings.model_validate({"hosts": ["*.example.org"], "tools": {"in": {"private": True}}})
    strict, inside = rules_for(settings, general, "x"), rules_for(settings, general, "in")
    assert (strict.hosts, strict.ports) == (("tools.example",), frozenset({8443}))
    assert (strict.private, strict.loopback, inside.private) == (False, False, True)


def test_a_run_needs_a_worker_that_has_the_server_in_its_settings_whether_it_is_up_or_not() -> None:
    foreign = ToolSpec("mcp__near__echo", "Echoes.", {"type": "object"}, version="abc")
    needs = needs_of(RunStarted("?", tools=(foreign,)))
    assert "mcp:near" in needs
    models = {"main": {"provider": "openai", "base_url": "http://x/v1", "model": "m"}}
    settings = Settings.model_validate({"mcp": {"near": {"command": "x", "tools": "*"}}, "models": models})
    assert needs <= abilities(settings, ())
    assert needs - abilities(Settings.model_validate({"models": models}), ()) == {"mcp:near"}
    assert need_of(replace(foreign, name="mcp_helper")) == "tool:mcp_helper@abc"


@pytest.mark.virtual
async def test_a_run_that_began_with_another_description_does_not_get_the_new_one() -> None:
    server = Inside()
    server.tool("echo", echo)
    async with opened(server) as toolbox:
        older = tuple(replace(spec, version="older") for spec in toolbox.specs)
        store = MemoryStore()
        await store.open()
        await store.append("r1", 0, [RunStarted("?", tools=older)], at=0.0)
        model = ScriptedModel([acts(1, ("mcp__near__echo", {"text": "x"})), final()])
        run = await drive("r1", Ports(store, model, toolbox, clock=lambda: 1.0))
    assert [each.code for each in run.steps[0].observations] == ["TOOL_NOT_FOUND"]
    assert server.calls == []


async def test_two_servers_may_have_tools_of_the_same_name_and_a_tool_of_ours_keeps_its_own() -> None:
    near = {"command": sys.executable, "args": [RAW], "tools": "*"}
    settings = Settings.model_validate({"mcp": {"a": near, "b": near}})
    async with open_toolbox(settings) as toolbox:
        names = {spec.name for spec in toolbox.specs}
    assert {"mcp__a__echo", "mcp__b__echo", "calculator"} <= names
    assert isinstance(toolbox, Toolbox)
