"""The API with everything around it in one process: the memory store and queue, tokens in a file, and a server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from orchestrator.api.app import create_app
from orchestrator.api.auth import Gate
from orchestrator.api.server import Server, listen, url_of
from orchestrator.api.service import Service
from orchestrator.api.tokens import Scope, TokenFile
from orchestrator.console import pages
from orchestrator.core.events import Event, RunStarted
from orchestrator.dispatch import Job
from orchestrator.inbox import Inbox
from orchestrator.settings import ModelSettings, Settings
from orchestrator.stores import Store
from orchestrator.stores.memory import MemoryStore
from orchestrator.worker.queue import make_dispatcher
from tests.build import spec, started

KEY = b"a key for tests"
NOW = 1_700_000_000.0
MODEL = ModelSettings(provider="openai", base_url="http://127.0.0.1:9/v1", model="demo")


class Place:
    """`client()` asks the application without a socket; `served()` through one."""

    def __init__(
        self,
        folder: Path,
        *,
        loopback: bool = True,
        tokens: bool = True,
        store: Store | None = None,
        url: str = "memory",
    ) -> None:
        self.store = store or MemoryStore()
        self.dispatcher = make_dispatcher(self.store, Settings(store=url))
        self.tokens = TokenFile(folder / "tokens.json")
        self.admin = self.token("admin", ["admin"], "*") if tokens else ""
        self.now = NOW
        inbox = Inbox(self.store, self.dispatcher, key=KEY, clock=self.clock)
        gate = Gate(self.tokens, loopback=loopback, clock=self.clock)
        settings = Settings(models={"main": MODEL})
        specs = (spec(), spec("pay", requires_approval=True))
        self.service = Service(self.store, self.dispatcher, inbox, settings, gate, specs, self.clock)

    def clock(self) -> float:
        return self.now

    def token(self, name: str, scopes: Sequence[Scope], tenant: str = "", *, expires_at: float | None = None) -> str:
        return self.tokens.create(name, scopes, tenant, NOW, expires_at)

    @property
    def app(self) -> Any:
        return create_app(self.service, pages.routes(self.service))

    def client(self, token: str | None = None, **headers: str) -> httpx.AsyncClient:
        """Asks as admin, unless another token is given ("" for none)."""
        text = self.admin if token is None else token
        given = {"Authorization": f"Bearer {text}"} if text else {}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(base_url="http://127.0.0.1:8700", headers={**given, **headers}, transport=transport)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """The URL of a real server, while the block lasts."""
        server = Server(self.app, self.service.closing)
        with listen("127.0.0.1", 0) as listener:
            task = asyncio.create_task(server.run_on(listener))
            try:
                while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
                    await asyncio.sleep(0.005)
                yield url_of(listener)
            finally:
                server.stop()
                await task

    async def run(self, run_id: str, *events: Event, tenant: str = "", goal: str = "Who wrote it?") -> None:
        """A run with these events after its first one."""
        first = replace(started(spec(), spec("pay", requires_approval=True), goal=goal), tenant=tenant)
        await self.begin(run_id, first)
        await self.more(run_id, *events)

    async def begin(self, run_id: str, first: RunStarted) -> None:
        await self.dispatcher.submit(Job(run_id, first.tenant), first, now=self.now)

    async def more(self, run_id: str, *events: Event) -> None:
        for event in events:
            row = await self.store.row(run_id)
            assert row is not None
            self.now += 1
            await self.store.append(run_id, row.last_seq, [event], at=self.now)


@asynccontextmanager
async def place(folder: Path, **more: Any) -> AsyncIterator[Place]:
    found = Place(folder, **more)
    await found.store.open()
    await found.dispatcher.open()
    try:
        yield found
    finally:
        await found.dispatcher.close()
        await found.store.close()
