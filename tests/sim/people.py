"""Those outside: they submit, approve, call back and cancel, at odd times, twice, and try again when nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from orchestrator.core.events import Entry, RunStarted, Waiting
from orchestrator.dispatch import Job, needs_of
from orchestrator.errors import IllegalEvent, StoreError
from orchestrator.inbox import Inbox, NotTaken
from tests.sim.chaos import Chaos
from tests.sim.network import LinkedDispatcher, LinkedStore, outside

KEY = b"the key of this world"
VERDICTS: tuple[Literal["approve", "edit", "refuse"], ...] = ("approve", "approve", "edit", "refuse")


class People:
    """All who are not workers. `promised` are the runs that somebody was told exist."""

    def __init__(
        self, chaos: Chaos, store: LinkedStore, dispatcher: LinkedDispatcher, clock: Callable[[], float]
    ) -> None:
        self._chaos, self._dispatcher, self._clock = chaos, dispatcher, clock
        self._inbox = Inbox(store, dispatcher, key=KEY, clock=clock)
        self.promised: dict[str, str] = {}
        self._given = 0

    async def submit(self, key: str, first: RunStarted, priority: int) -> None:
        """As a client does: with a key, a new id each time, until it is told that the run exists."""
        while True:
            self._given += 1
            job = Job(f"r{self._given}", first.tenant, priority, key=key, needs=needs_of(first))
            try:
                submitted = await self._dispatcher.submit(job, first, now=self._clock())
            except StoreError:
                await asyncio.sleep(self._chaos.rng.random() * 2)
                continue
            known = self.promised.setdefault(key, submitted.run_id)
            if known != submitted.run_id:
                self.promised[f"{key} again"] = submitted.run_id
            return

    async def cancel(self, run_id: str, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._insist(lambda: self._inbox.cancel(run_id, by="a person"))

    def watch(self, entry: Entry) -> None:
        """An approval is asked for: somebody sees it, soon or much later."""
        event, rng = entry.event, self._chaos.rng
        if not isinstance(event, Waiting) or event.reason != "approval":
            return
        for _ in range(1 + self._chaos.strikes("duplicate_decision")):
            outside(
                self._decide(entry.run_id, event.id, rng.choice(VERDICTS), rng.choice((1, 20, 20, 90)) * rng.random())
            )

    def call_back(self, token: str, q: str) -> None:
        """A long tool will report, sooner or later than is good."""
        for _ in range(1 + self._chaos.strikes("duplicate_callback")):
            outside(self._report(token, f"exported {q} {q}-4", self._chaos.rng.random() * 50))

    async def _decide(
        self, run_id: str, action_id: str, verdict: Literal["approve", "edit", "refuse"], delay: float
    ) -> None:
        await asyncio.sleep(delay)
        edited = {"q": f"edited {action_id}"} if verdict == "edit" else None
        await self._insist(lambda: self._inbox.decide(run_id, action_id, verdict, by="a person", input=edited))

    async def _report(self, token: str, result: str, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._insist(lambda: self._inbox.callback(token, result))

    async def _insist(self, say: Callable[[], Awaitable[object]]) -> None:
        """Say it until it is taken or refused; what was said and not acknowledged is said again."""
        for _ in range(40):
            try:
                await say()
            except NotTaken as refused:
                if refused.code != "BUSY":
                    return
            except IllegalEvent:
                return  # the trace is damaged: the laws will say so
            except StoreError:
                pass
            else:
                if not self._chaos.strikes("said_again"):
                    return
            await asyncio.sleep(self._chaos.rng.random() * 2)
