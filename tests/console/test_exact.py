"""What was really sent and received: the request of a step is made again byte for byte; secrets stay masked; nothing is rendered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, get_args

import pytest
from pydantic import SecretStr

from orchestrator.assembly import RunRequest, make_toolbox, submit
from orchestrator.console.exact import DEEPEST, WIDEST, Fold, folded, request_of, turn_of
from orchestrator.core.events import ModelTurn, Observation
from orchestrator.core.spec import Protocol
from orchestrator.demo.server import serve
from orchestrator.http import Endpoint, Streamed
from orchestrator.model import EndpointModels
from orchestrator.providers import PROVIDERS, Request
from orchestrator.runner import Ports, drive
from orchestrator.settings import ModelSettings, Settings
from orchestrator.stores.memory import MemoryStore
from tests.api.place import Place
from tests.build import acts, final, observed
from tests.console.page import harmless

TWO_HOPS = "《三体》的作者出生在哪个省？该省的人口是多少？"


class Recording(Endpoint):
    """Keeps what is sent."""

    sent: list[bytes]

    async def post(self, request: Request, *more: Any) -> Any:
        self.sent.append(request.body)
        return await super().post(request, *more)

    @asynccontextmanager
    async def stream(self, request: Request, *more: Any) -> AsyncIterator[Streamed]:
        self.sent.append(request.body)
        async with super().stream(request, *more) as reply:
            yield reply


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("protocol", get_args(Protocol))
async def test_the_request_of_every_step_is_made_again_byte_for_byte(provider: Any, protocol: Protocol) -> None:
    async with serve() as server, MemoryStore() as store:
        base = f"{server.url}/v1" if provider == "openai" else server.url
        model = ModelSettings(provider=provider, base_url=base, model="demo", extra={"seed": 7})
        settings = Settings(models={"main": model}, store="memory")
        kept: list[bytes] = []

        def connect(url: str) -> Endpoint:
            endpoint = Recording(url)
            endpoint.sent = kept
            return endpoint

        async with EndpointModels(settings, connect=connect) as models:
            ports = Ports(store, models, make_toolbox(settings))
            run_id = await submit(ports, settings, RunRequest(TWO_HOPS, protocol=protocol, language="zh"))
            run = await drive(run_id, ports)
        trace = await store.read(run_id)
    turns = [entry.event for entry in trace if isinstance(entry.event, ModelTurn)]
    assert run.ended is not None
    assert len(turns) == len(kept) > 2
    again = [request_of(*turn_of(trace, step), settings).body for step in range(1, len(turns) + 1)]
    assert again == kept


async def test_request_reply_and_body_are_shown_with_secrets_masked(api: Place) -> None:
    secret = "hunter2hunter2"
    model = ModelSettings(provider="openai", base_url="http://127.0.0.1:9/v1", model="m", api_key=SecretStr(secret))
    object.__setattr__(api.service, "settings", Settings(models={"main": model}))
    turn = replace(acts(1, ("search", {"q": f"x {secret}"}), thought=f"I know {secret}."), model="main")
    seen = replace(observed("1.0", f"it said {secret}"), digest="d" * 64)
    await api.run("r", turn, goal=f"Who knows {secret}?")
    await api.store.append("r", 2, [seen], at=api.now, blobs={seen.digest: f"<b>{secret}</b>".encode()})
    await api.more("r", replace(final("Nobody."), model="main"))
    async with api.client() as http:
        for path in ("steps/2/request", "steps/2/reply", "steps/1/reply", f"raw/{seen.digest}"):
            for query in ("", "?part=1", "?as=text"):
                shown = await http.get(f"/runs/r/{path}{query}")
                assert shown.status_code == 200, shown.text
                assert secret not in shown.text
                if query == "?as=text" or path.startswith("raw"):
                    assert shown.headers["content-type"] == "text/plain; charset=utf-8"
                    assert shown.headers["content-security-policy"].startswith("sandbox")
                else:
                    harmless(shown.text)
        request = (await http.get("/runs/r/steps/2/request")).text
    for text in ("Who knows [REDACTED]?", "it said [REDACTED]", "POST /chat/completions"):
        assert text in request


@pytest.mark.parametrize("step", ["0", "3", "x", "1.0", "-1", "9" * 30, "１"])
async def test_a_step_that_is_not_there_is_not_found(api: Place, step: str) -> None:
    await api.run("r", acts(1, ("search", {})), observed("1.0"))
    async with api.client() as http:
        for kind in ("request", "reply"):
            assert (await http.get(f"/runs/r/steps/{step}/{kind}")).status_code == 404


async def test_a_model_that_is_not_configured_any_more_is_said_to_be(api: Place) -> None:
    await api.run("r", replace(acts(1, ("search", {})), model="gone"), observed("1.0"))
    async with api.client() as http:
        shown = await http.get("/runs/r/steps/1/request")
        assert (await http.get("/runs/r/steps/1/reply")).status_code == 200
    assert shown.status_code == 409
    assert "the model gone is not in this server" in harmless(shown.text).text


def size(fold: Fold) -> int:
    return 1 + sum(map(size, fold.inside))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000 + "]" * 5000,
        '{"a":' * 300 + "1" + "}" * 300,
        "[" + "1," * 100_000 + "1]",
        "no json",
        "",
        '"\\ud800"',
        "NaN",
    ],
)
def test_any_text_folds_into_little(text: str) -> None:
    fold = folded(text, ())
    assert size(fold) <= WIDEST + DEEPEST + 2


async def test_the_raw_body_of_one_run_is_not_shown_in_another(api: Place) -> None:
    seen = Observation("1.0", "search", "success", "c", digest="d" * 64)
    await api.run("r", acts(1, ("search", {})))
    await api.store.append("r", 2, [seen], at=api.now, blobs={seen.digest: b"secret"})
    await api.run("other")
    async with api.client() as http:
        assert (await http.get(f"/runs/other/raw/{seen.digest}")).status_code == 404
