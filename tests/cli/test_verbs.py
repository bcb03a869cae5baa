"""The same verbs through an API: a real server on loopback, asked by the command line."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.exits import Exit
from orchestrator.cli.standing import of_run
from orchestrator.core.events import ActionStarted, Decision, Event, Outcome, RunEnded, RunStarted, Waiting
from orchestrator.core.run import replay
from orchestrator.inbox import signed
from tests.api.place import KEY, NOW, Place, place
from tests.build import acts, final
from tests.cli.said import Call
from tests.served import in_a_thread

ASKS = (acts(1, ("pay", {"q": "boss"})), Waiting("1.0", 9e9, "approval"))
ORDERED = (acts(1, ("search", {"q": "book"})), ActionStarted("1.0", "r1:1.0"), Waiting("1.0", 9e9))
ENDED = (final("42"), RunEnded(Outcome.ANSWERED, "42"))


class Server:
    """An API in a thread of its own, and its place to look into."""

    def __init__(self, api: Place, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.place, self.url, self._loop = api, url, loop

    def does(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)


@asynccontextmanager
async def opened(folder: Path, loop: asyncio.AbstractEventLoop) -> AsyncIterator[Server]:
    async with place(folder) as api, api.served() as url:
        yield Server(api, url, loop)


@pytest.fixture
def api(tmp_path: Path, cli: Call, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """After `cli`, which empties the environment: from then on the command line asks this server."""
    with in_a_thread(partial(opened, tmp_path / "server")) as server:
        monkeypatch.setenv("ORCHESTRATOR_URL", server.url)
        monkeypatch.setenv("ORCHESTRATOR_TOKEN", server.place.admin)
        yield server


def test_a_submission_goes_to_the_server_with_all_that_was_said(cli: Call, api: Server) -> None:
    said = cli("submit", "Who?", "--key", "k", "--tenant", "acme", "--max-steps", "3", "--priority", "2")
    again = cli("submit", "Who?", "--key", "k", "--tenant", "acme")
    assert (said.code, again.out) == (Exit.ANSWERED, said.out)
    (entry,) = api.does(api.place.store.read(said.out.strip()))
    first = entry.event
    assert isinstance(first, RunStarted)
    assert (first.goal, first.tenant, first.limits.max_steps) == ("Who?", "acme", 3)
    assert not Path("var").exists(), "no store of ours is made"


def test_a_file_goes_to_the_server_line_by_line(cli: Call, api: Server) -> None:
    Path("q.jsonl").write_text(
        "".join(
            json.dumps({"question": f"Q{n}?", "run_kind": "k", "labels": {"n": str(n)}}) + "\n" for n in range(120)
        ),
        "utf-8",
    )
    names = cli("submit", "-f", "q.jsonl").out.split()
    assert len(set(names)) == 120
    first = api.does(api.place.store.read(names[7]))[0].event
    assert (first.goal, first.run_kind, first.labels["n"]) == ("Q7?", "k", "7")


@pytest.mark.parametrize(
    ("words", "verdict", "input"),
    [
        (("approve",), "approve", None),
        (("approve", "--input", '{"q": "nobody"}'), "edit", {"q": "nobody"}),
        (("refuse", "--reason", "no"), "refuse", None),
    ],
)
def test_a_person_decides_through_the_server_under_the_name_of_the_token(
    cli: Call, api: Server, words: tuple[str, ...], verdict: str, input: dict[str, str] | None
) -> None:
    api.does(api.place.run("r1", *ASKS))
    state = json.loads(cli("status", "r1", "--json").out)
    assert (state["state"], state["action 1.0"]["tool"]) == ("waiting", "pay")
    name, *more = words
    said = cli(name, "r1", "1.0", *more)
    assert (said.code, said.out) == (Exit.ANSWERED, "r1\n")
    decision = api.does(api.place.store.read("r1"))[-1].event
    assert isinstance(decision, Decision)
    assert (decision.verdict, decision.input, decision.by) == (verdict, input, "admin")


def test_status_of_what_waits_for_a_person_says_what_to_type(cli: Call, api: Server) -> None:
    api.does(api.place.run("r1", *ASKS))
    assert cli("status", "r1").out.endswith("\n  orchestrator approve r1 1.0\n  orchestrator refuse r1 1.0\n")


def test_a_run_is_cancelled_and_looked_at_through_the_server(cli: Call, api: Server) -> None:
    api.does(api.place.run("r1", *ASKS))
    api.does(api.place.run("r2", *ENDED))
    assert cli("cancel", "r1", "--reason", "enough").out == "r1\n"
    assert api.does(api.place.store.read("r1"))[-1].event.reason == "enough"
    ended = json.loads(cli("status", "r2", "--json").out)
    assert (ended["state"], ended["answer"]) == ("answered", "42")
    watched = cli("watch", "r2")
    assert (watched.code, watched.out) == (Exit.ANSWERED, "42\n")


@pytest.mark.parametrize("events", [ASKS, ENDED], ids=["waiting", "ended"])
def test_status_says_the_same_of_a_run_on_the_store_and_through_the_server(
    cli: Call, api: Server, events: tuple[Event, ...]
) -> None:
    api.does(api.place.run("r1", *events))
    here = of_run(replay(api.does(api.place.store.read("r1")))).plain()
    there = json.loads(cli("status", "r1", "--json").out)
    assert there == here
    assert here["steps"] == 1
    assert "detail" not in here, "where there is nothing to say nothing is said"


def test_a_long_tools_result_is_brought_through_the_server(cli: Call, api: Server) -> None:
    api.does(api.place.run("r1", *ORDERED))
    token = signed(KEY, "r1", "1.0", NOW + 3600)
    assert cli("callback", token, '{"parcel": 7}').code == Exit.ANSWERED
    assert "NOT_WAITING" in cli("callback", token, "8").err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("status", "nobody"), "Rejected: UNKNOWN_RUN: there is no such run"),
        (("watch", "nobody"), "Rejected: UNKNOWN_RUN"),
        (("cancel", "r2"), "RUN_ENDED"),
        (("approve", "r1", "9.9"), "NOT_WAITING"),
        (("submit", "Who?", "--agent", "nobody"), "nobody"),
        (("submit", "Who?", "--wait", "--tools", "none"), "none"),
        (("status", "r1", "--token", "orc_wrong"), "Unauthorised: UNAUTHORISED"),
        (("status", "r1", "--url", "http://127.0.0.1:9"), "is `orchestrator serve` up?"),
        (("watch", "r1", "--url", "http://127.0.0.1:9"), "is `orchestrator serve` up?"),
        (("cancel", "r1", "--by", "ann"), "--by"),
        (("status", "r1", "--url", "127.0.0.1:9"), "https://HOST"),
    ],
)
def test_what_the_server_refuses_is_one_line(cli: Call, api: Server, words: tuple[str, ...], says: str) -> None:
    api.does(api.place.run("r1", *ASKS))
    api.does(api.place.run("r2", *ENDED))
    said = cli(*words)
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.code in {Exit.FAILED, Exit.USAGE}
    assert says in said.err


class Hostile(BaseHTTPRequestHandler):
    """No orchestrator: its problem has lines and colours of its own."""

    def do_GET(self) -> None:
        body = json.dumps({"type": "t", "title": "t", "status": 409, "code": "X", "detail": "a\nb\x1b[31m\u2028c\r\n"})
        self.send_response(409)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def test_whatever_a_server_says_is_one_line_without_its_colours(cli: Call) -> None:
    server = HTTPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        said = cli("status", "r1", "--url", f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert (said.code, said.err.count("\n")) == (Exit.FAILED, 1)
    assert said.err.startswith("Rejected: X: a b")
    assert "\x1b" not in said.err
