"""Outages, as an operator meets them: the demo model server is told to fail, the whole product runs, time is virtual.

Client and server share one loop and one loopback, so what is sent is readable at once, and no answer is overtaken by a time jump.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from yarl import URL

from orchestrator.assembly import RunRequest, make_toolbox, submit
from orchestrator.core.events import Attempt, ModelTurn, Observation, Outcome
from orchestrator.core.run import Run
from orchestrator.core.spec import Language, Protocol
from orchestrator.demo.server import Demo, serve
from orchestrator.errors import Unavailable
from orchestrator.http import Answer, Connections, Endpoint
from orchestrator.model import EndpointModels
from orchestrator.policy import BreakerMoved, FellBack, Incident, RetriesEnded, Retrying, Waited
from orchestrator.runner import Ports, drive
from orchestrator.settings import AgentSettings, Limit, ModelSettings, Settings
from orchestrator.stores.memory import MemoryStore
from orchestrator.tool import tool
from orchestrator.toolbox import Toolbox

pytestmark = pytest.mark.virtual
QUESTION = "《三体》的作者出生在哪个省？该省的人口是多少？"
TURNS = 3


class Recording(Connections):
    """The real connections; keeps the bodies that were sent."""

    def __init__(self, url: str, sent: list[bytes]) -> None:
        super().__init__(URL(url))
        self._sent = sent

    async def send(self, url: URL, headers: Mapping[str, str], body: bytes, connect: float | None) -> Answer:
        self._sent.append(body)
        return await super().send(url, headers, body, connect)


@dataclass
class Product:
    """Everything on, but for the store, which is in memory; what was sent and what the policies did is kept."""

    settings: Settings
    ports: Ports
    incidents: list[Incident]
    sent: list[bytes] = field(default_factory=list)

    async def run(self, *, protocol: Protocol = "native", language: Language = "zh", tenant: str = "") -> Run:
        request = RunRequest(QUESTION, protocol=protocol, language=language, tenant=tenant)
        return await drive(await submit(self.ports, self.settings, request), self.ports)

    async def runs(self, count: int) -> list[Run]:
        return list(await asyncio.gather(*(self.run() for _ in range(count))))

    async def turns(self, run: Run) -> list[ModelTurn]:
        trace = await self.ports.store.read(run.run_id)
        return [entry.event for entry in trace if isinstance(entry.event, ModelTurn)]

    async def observations(self, run: Run) -> list[Observation]:
        trace = await self.ports.store.read(run.run_id)
        return [entry.event for entry in trace if isinstance(entry.event, Observation)]


@asynccontextmanager
async def product(
    models: dict[str, ModelSettings], toolbox: Toolbox | None = None, wire: type[Recording] = Recording
) -> AsyncIterator[Product]:
    """The first model is the agent's, the others its stand-ins, in this order."""
    incidents: list[Incident] = []
    sent: list[bytes] = []
    settings = Settings(models=models, agents={"default": AgentSettings(models=tuple(models))})

    def connect(url: str) -> Endpoint:
        return Endpoint(url, connections=wire(url, sent))

    async with MemoryStore() as store, EndpointModels(settings, observe=incidents.append, connect=connect) as opened:
        box = toolbox or make_toolbox(settings, incidents.append)
        ports = Ports(store, opened, box, clock=asyncio.get_running_loop().time)
        yield Product(settings, ports, incidents, sent)


def at(server: Demo | str, model: str, **more: object) -> ModelSettings:
    url = server if isinstance(server, str) else server.url
    return ModelSettings.model_validate({"provider": "openai", "base_url": f"{url}/v1", "model": model, **more})


@asynccontextmanager
async def late() -> AsyncIterator[int]:
    """A port where nobody listens yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    yield port


def codes(attempts: Sequence[Attempt]) -> list[str]:
    return [each.code for each in attempts]


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_rate_limited_model_is_asked_again_when_it_said() -> None:
    """demo:429 refuses twice with `retry-after: 1`: two waits of a second or more, and the Trace names both refusals."""
    async with serve() as server, product({"m": at(server, "demo:429")}) as it:
        began = now()
        run = await it.run()
        first, *others = await it.turns(run)
        assert run.ended is not None
        assert run.ended.outcome is Outcome.ANSWERED
        assert codes(first.attempts) == ["RATE_LIMITED"] * 2
        assert not any(turn.attempts for turn in others)
        waits = [each.wait for each in it.incidents if isinstance(each, Retrying)]
        assert len(waits) == 2
        assert min(waits) >= 1
        assert now() - began == pytest.approx(sum(waits), abs=0.01)
        assert server.requests == TURNS + 2


@pytest.mark.parametrize(
    ("behaviour", "code", "seconds"),
    [("html", "MALFORMED_RESPONSE", 0), ("cut", "STREAM_INTERRUPTED", 0), ("hang", "TIMEOUT", 30)],
)
async def test_a_failure_has_its_name_in_each_attempt(behaviour: str, code: str, seconds: float) -> None:
    """A page of a hotel's network, a cut stream and one that falls silent: four tries, then the run ends by that name."""
    async with serve() as server, product({"m": at(server, f"demo:{behaviour}")}) as it:
        run = await it.run()
        assert run.ended is not None
        assert (run.ended.outcome, run.ended.code) == (Outcome.MODEL_FAILED, code)
        assert codes(run.ended.attempts) == [code] * 4
        assert all(each.seconds == pytest.approx(seconds, abs=0.01) for each in run.ended.attempts)
        assert server.requests == 4


async def test_an_overloaded_model_is_asked_again_after_growing_pauses() -> None:
    async with serve() as server, product({"m": at(server, "demo:529")}) as it:
        run = await it.run()
        assert run.ended is not None
        assert run.ended.outcome is Outcome.ANSWERED
        assert codes((await it.turns(run))[0].attempts) == ["OVERLOADED"] * 2
        waits = [each.wait for each in it.incidents if isinstance(each, Retrying)]
        assert all(wait <= most for wait, most in zip(waits, (0.5, 1.0), strict=True))


async def test_the_stand_in_is_named_and_an_open_breaker_sends_nothing() -> None:
    """The first run pays for finding out; the second goes to the stand-in at once, and each turn says so."""
    async with (
        serve() as down,
        serve() as well,
        product({"down": at(down, "demo:html"), "stand-in": at(well, "demo")}) as it,
    ):
        await it.run()
        paid = down.requests
        assert paid == 5  # four tries, and the fifth failure in a row opens the breaker
        second = await it.run()
        turns = await it.turns(second)
        assert second.ended is not None
        assert second.ended.outcome is Outcome.ANSWERED
        assert [turn.model for turn in turns] == ["stand-in"] * TURNS
        assert [[(each.target, each.code) for each in turn.attempts] for turn in turns] == [
            [("down", "CIRCUIT_OPEN")]
        ] * TURNS
        assert down.requests == paid
        assert {(each.target, each.next) for each in it.incidents if isinstance(each, FellBack)} == {
            ("down", "stand-in")
        }


async def test_an_outage_is_not_multiplied_by_a_hundred_runs() -> None:
    """Four tries each would be 400 calls. While the breaker is open only its probes go out; the runs wait until their calls' time is up."""
    async with serve() as server, product({"m": at(server, "demo:html")}) as it:
        began = now()
        runs = await it.runs(100)
        assert {run.ended.outcome for run in runs if run.ended} == {Outcome.MODEL_FAILED}
        assert now() - began <= it.settings.models["m"].retry.total
        why = Counter(each.why for each in it.incidents if isinstance(each, RetriesEnded))
        assert why == {"time": 100}
        probes = [each.at for each in it.incidents if isinstance(each, BreakerMoved) and each.after == "half_open"]
        assert server.requests == 100 + len(probes) <= 100 + 10
        assert all(after - before >= 10 for before, after in itertools.pairwise(probes))


async def test_a_hundred_runs_outlive_an_outage_of_a_minute() -> None:
    """Nobody listens for 60 s. Each run finds out once; then one waits for all: the breaker's probes. When it is over they go on."""
    async with late() as port, product({"m": at(f"http://127.0.0.1:{port}", "demo")}) as it:
        driven = asyncio.create_task(it.runs(100))
        await asyncio.sleep(60)
        probes = [each for each in it.incidents if isinstance(each, BreakerMoved) and each.after == "half_open"]
        assert len(it.sent) == 100 + len(probes) <= 100 + 5
        async with serve(port) as server:
            runs = await driven
        assert {run.ended.outcome for run in runs if run.ended} == {Outcome.ANSWERED}
        assert server.requests == 100 * TURNS
        assert not [each for each in it.incidents if isinstance(each, RetriesEnded)]


async def test_runs_outlive_an_outage_that_ends() -> None:
    """Nobody listens for 25 s. Without a stand-in the runs wait for the breaker's probe; then all of them go on."""
    async with late() as port, product({"m": at(f"http://127.0.0.1:{port}", "demo")}) as it:
        driven = asyncio.create_task(it.runs(8))
        await asyncio.sleep(25)
        async with serve(port):
            runs = await driven
            tried = [codes((await it.turns(run))[0].attempts) for run in runs]
    assert {run.ended.outcome for run in runs if run.ended} == {Outcome.ANSWERED}
    assert {code for each in tried for code in each} == {"CONNECTION_FAILED", "CIRCUIT_OPEN"}
    assert all(each.count("CONNECTION_FAILED") <= 3 for each in tried)
    phases = [each.after for each in it.incidents if isinstance(each, BreakerMoved)]
    assert (phases[0], phases[-1]) == ("open", "closed")


async def test_a_rate_limit_of_ours_holds_calls_back_and_the_wait_is_seen() -> None:
    """Ten calls a minute, fifteen to be made: five wait until the minute is over; the endpoint never has to refuse one."""
    async with serve() as server, product({"m": at(server, "demo-l200", limit=Limit(calls=10))}) as it:
        began = now()
        driven = asyncio.create_task(it.runs(5))
        await asyncio.sleep(59)
        assert server.requests == 10
        runs = await driven
        assert now() - began == pytest.approx(60.2, abs=0.1)
        assert {run.ended.outcome for run in runs if run.ended} == {Outcome.ANSWERED}
        assert not [each for run in runs for turn in await it.turns(run) for each in turn.attempts]
        waits = [each.seconds for each in it.incidents if isinstance(each, Waited) and each.seconds]
        assert waits == [pytest.approx(59.6, abs=0.1)] * 5


def register(outage: asyncio.Event) -> Toolbox:
    """The knowledge base's two tools; `search` is down as long as the outage is set."""

    @tool(repeatable=True)
    async def search(entity: str) -> str:
        """Search the entry of one entity."""
        if outage.is_set():
            raise Unavailable("UNAVAILABLE", "the register is down")
        return f"{entity}: 山西省"

    @tool(repeatable=True)
    async def lookup(keyword: str) -> str:
        """Find every field that contains a keyword."""
        return f"no field contains {keyword}"

    return Toolbox([search, lookup])


def words(body: bytes) -> str:
    """The last message of a request."""
    return str(json.loads(body)["messages"][-1]["content"])


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "Out of service now, do not call: search (expected back in about 10 s)."),
        ("zh", "以下工具暂停服务，现在不要调用：search（预计约 10 秒后恢复）。"),
    ],
    ids=["en", "zh"],
)
@pytest.mark.parametrize("protocol", ["native", "text"])
async def test_a_tool_that_is_out_is_told_withdrawn_and_offered_again(
    protocol: Protocol, language: Language, said: str
) -> None:
    """Five failures in a row open its breaker: calls are answered CIRCUIT_OPEN, the prompt's tail withdraws it, for ten seconds."""
    outage = asyncio.Event()
    outage.set()
    async with serve() as server, product({"m": at(server, "demo")}, register(outage)) as it:
        await it.run(protocol=protocol, language=language)
        await it.run(protocol=protocol, language=language)
        before = len(it.sent)
        assert said not in words(it.sent[0])
        third = await it.observations(await it.run(protocol=protocol, language=language))
        refused = [each for each in third if each.tool == "search"]
        assert {(each.status, each.code) for each in refused} == {("error", "CIRCUIT_OPEN")}
        assert all("expected back in" in each.content for each in refused)
        assert all(codes(each.attempts) == ["CIRCUIT_OPEN"] for each in refused)
        assert all(words(body).endswith(said) for body in it.sent[before:])
        fixed = {json.dumps([json.loads(body).get("tools"), json.loads(body)["messages"][0]]) for body in it.sent}
        assert len(fixed) == 3  # one a run, for its boundary: what providers cache is as it was
        outage.clear()
        await asyncio.sleep(10)
        before = len(it.sent)
        await it.run(protocol=protocol, language=language)  # one call of it is the probe
        after = await it.observations(await it.run(protocol=protocol, language=language))
        assert not [body for body in it.sent[before:] if said[:12] in words(body)]
        assert {each.code for each in after if each.tool == "search"} == {None}
