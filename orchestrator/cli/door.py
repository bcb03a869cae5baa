"""The two doors to runs that others drive: the store with its queue, or an API by its URL. The same verbs on both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from getpass import getuser
from os import getuid
from typing import Annotated, Any, Protocol

import typer

from orchestrator.assembly import RunRequest, new_run_id, open_toolbox, secrets_of, started
from orchestrator.cli.context import Context
from orchestrator.cli.standing import Standing, of_run, of_state
from orchestrator.client import Client
from orchestrator.core.events import Entry
from orchestrator.core.run import replay
from orchestrator.core.spec import JsonObject
from orchestrator.dispatch import Dispatcher, Job, needs_of
from orchestrator.dispatch.lack import why
from orchestrator.errors import ConfigError, StoreError
from orchestrator.inbox import Inbox, Verdict
from orchestrator.settings import Settings
from orchestrator.stores import Store
from orchestrator.stores.earlier import informed
from orchestrator.worker.queue import callback_key, open_queue

Url = Annotated[
    str | None, typer.Option("--url", envvar="ORCHESTRATOR_URL", help="An API to ask, instead of the store.")
]
ApiToken = Annotated[str | None, typer.Option("--token", envvar="ORCHESTRATOR_TOKEN", help="For that API.")]
By = Annotated[
    str | None,
    typer.Option(
        "--by", help="Who decides, as the Trace will say; the user's name if not given. An API asks the token."
    ),
]

DAY = 86_400.0
TOGETHER = 100
"""Runs of a file that are submitted side by side: they share commits."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one submission says. `due` is the earliest start in unix seconds, 0: now."""

    request: RunRequest
    key: str | None = None
    due: float = 0.0
    priority: int = 0


class Door(Protocol):
    """What can be said to runs, and asked of them. Raises StoreError, or a CallError of an API."""

    def submit(self, asked: Sequence[Asked]) -> AsyncIterator[str]:
        """Begin runs; their ids in this order. ConfigError, or Rejected by an API, for what cannot be run."""
        ...

    def entries(self, run_id: str) -> AsyncGenerator[Entry, None]:
        """A run's entries to its end, stored and live."""
        ...

    async def standing(self, run_id: str) -> Standing:
        """How a run stands."""
        ...

    async def overview(self) -> dict[str, Any]:
        """How the queue stands, and how the last day's runs ended."""
        ...

    async def idle(self) -> bool:
        """Is it known that no worker is alive?"""
        ...

    async def cancel(self, run_id: str, reason: str) -> None:
        """End a run."""
        ...

    async def decide(
        self, run_id: str, action_id: str, verdict: Verdict, reason: str, input: JsonObject | None
    ) -> None:
        """A person's word on an action that waits for approval."""
        ...

    async def callback(self, token: str, result: Any) -> str:
        """Bring the result of a long tool; what to say then."""
        ...


@dataclass(frozen=True, slots=True)
class StoreDoor:
    """Straight to the store and its queue. `by` is who speaks."""

    settings: Settings
    store: Store
    dispatcher: Dispatcher
    inbox: Inbox
    by: str

    async def submit(self, asked: Sequence[Asked]) -> AsyncIterator[str]:
        """As Door's. All of them are checked before the first one is begun."""
        async with open_toolbox(self.settings) as toolbox:
            offered = toolbox.specs
        firsts = [started(self.settings, offered, each.request) for each in asked]
        begun = time.time()
        firsts = [await informed(self.store, first, now=begun) for first in firsts]
        pairs = list(zip(asked, firsts, strict=True))
        for start in range(0, len(pairs), TOGETHER):
            now = time.time()
            jobs = (
                (Job(new_run_id(now), first.tenant, each.priority, each.due, each.key, needs_of(first)), first)
                for each, first in pairs[start : start + TOGETHER]
            )
            for done in await asyncio.gather(*(self.dispatcher.submit(job, first, now=now) for job, first in jobs)):
                yield done.run_id

    async def entries(self, run_id: str) -> AsyncGenerator[Entry, None]:
        """As Door's."""
        if await self.store.row(run_id) is None:
            raise self._unknown(run_id)
        async for entry in self.store.follow(run_id):
            yield entry

    async def standing(self, run_id: str) -> Standing:
        """As Door's."""
        trace = await self.store.read(run_id)
        if not trace:
            raise self._unknown(run_id)
        run = replay(trace)
        return of_run(run, "" if run.ended else why(await self.dispatcher.lacks(run_id, now=time.time())))

    async def overview(self) -> dict[str, Any]:
        """As Door's."""
        now = time.time()
        depth = await self.dispatcher.depth(now=now)
        return {
            "queue": {**asdict(depth), "oldest": round(depth.oldest, 1)},
            "last_day": await _ended(self.store, now - DAY),
        }

    async def idle(self) -> bool:
        """As Door's."""
        return not (await self.dispatcher.depth(now=time.time())).workers

    async def cancel(self, run_id: str, reason: str) -> None:
        """As Door's."""
        await self.inbox.cancel(run_id, by=self.by, reason=reason)

    async def decide(
        self, run_id: str, action_id: str, verdict: Verdict, reason: str, input: JsonObject | None
    ) -> None:
        """As Door's."""
        await self.inbox.decide(run_id, action_id, verdict, by=self.by, input=input, reason=reason)

    async def callback(self, token: str, result: Any) -> str:
        """As Door's."""
        return (await self.inbox.callback(token, result)).run_id

    def _unknown(self, run_id: str) -> StoreError:
        return StoreError(f"no run {run_id!r} in {self.settings.place}: `orchestrator runs` lists them")


@dataclass(frozen=True, slots=True)
class ApiDoor:
    """Through the API of a server; its token says who speaks."""

    client: Client

    async def submit(self, asked: Sequence[Asked]) -> AsyncIterator[str]:
        """As Door's. What the server refuses ends it: what went before is begun."""
        for start in range(0, len(asked), TOGETHER):
            some = (self.client.submit(**submission(each)) for each in asked[start : start + TOGETHER])
            for run in await asyncio.gather(*some):
                yield run.id

    async def entries(self, run_id: str) -> AsyncGenerator[Entry, None]:
        """As Door's. A server that is not there is said at once; one that goes away is waited for."""
        run = self.client.run(run_id)
        await run.state()
        async for entry in run.events():
            yield entry

    async def standing(self, run_id: str) -> Standing:
        """As Door's."""
        return of_state(await self.client.run(run_id).state())

    async def overview(self) -> dict[str, Any]:
        """As Door's, but for the queue, which an API does not tell."""
        return {"last_day": (await self.client.health(since=time.time() - DAY)).outcomes}

    async def idle(self) -> bool:
        """As Door's: an API does not tell."""
        return False

    async def cancel(self, run_id: str, reason: str) -> None:
        """As Door's."""
        await self.client.run(run_id).cancel(reason)

    async def decide(
        self, run_id: str, action_id: str, verdict: Verdict, reason: str, input: JsonObject | None
    ) -> None:
        """As Door's."""
        run = self.client.run(run_id)
        if verdict == "edit":
            await run.edit(action_id, input or {}, reason)
        elif verdict == "approve":
            await run.approve(action_id, reason)
        else:
            await run.refuse(action_id, reason)

    async def callback(self, token: str, result: Any) -> str:
        """As Door's."""
        await self.client.callback(token, result)
        return "taken"


@asynccontextmanager
async def open_door(ctx: Context, url: str | None, token: str | None, *, by: str | None = None) -> AsyncIterator[Door]:
    """To the API of `url`, or to the settings' store without one. ConfigError for a name that the API's token gives already."""
    if url is not None:
        if by is not None:
            raise ConfigError("--by: behind an API it is the token that says who decides; leave it out")
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"--url {url!r} is no address: write http://HOST:PORT or https://HOST")
        async with Client(url, token=token) as client:
            yield ApiDoor(client)
        return
    settings = ctx.settings
    async with open_queue(settings) as (store, dispatcher):
        inbox = Inbox(store, dispatcher, key=callback_key(settings), secrets=secrets_of(settings))
        yield StoreDoor(settings, store, dispatcher, inbox, by or _user())


def _user() -> str:
    """Who runs this process: a container may give it a number without a name."""
    try:
        return getuser()
    except (KeyError, OSError):
        return f"uid {getuid()}"


def submission(asked: Asked) -> Mapping[str, Any]:
    """The fields of the API's `Submission`; what is not given is left to the server's settings."""
    request = asdict(asked.request)
    words = {**request, "kind": request.pop("run_kind"), "key": asked.key, "at": asked.due or None}
    del words["run_kind"]
    words |= {"priority": asked.priority, "tenant": asked.request.tenant or None}
    return {name: value for name, value in words.items() if value is not None}


async def _ended(store: Store, since: float) -> dict[str, int]:
    """How many of the runs that began since then ended how; "open" for the rest."""
    counts: dict[str, int] = {}
    after = None
    while page := await store.runs(since=since, after=after, limit=1000):
        for row in page:
            word = row.outcome.value if row.outcome else "open"
            counts[word] = counts.get(word, 0) + 1
        after = page[-1].key
    return counts
