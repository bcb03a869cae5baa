"""What all engines share: waiting for work, heartbeats against the lease, and never losing a claim to a cancellation.

An engine gives the moves that touch its queue (`_claim`, `_strays`, `_let_go`, `_renew`, `_wake`, `_woken`); it raises StoreError where
the queue cannot be reached.
"""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from orchestrator.dispatch import Dispatcher, DispatchRules, Slice
from orchestrator.errors import StoreError

TICK = 0.001
"""Seconds that any wait takes at least: sums of floats fall a little short of when something is due, and time must pass."""


@dataclass(frozen=True, slots=True)
class Done:
    """The run has ended."""


@dataclass(frozen=True, slots=True)
class Parked:
    """The run waits until `until`, or until it is woken; `approval`: for a person."""

    until: float
    approval: bool = False


@dataclass(frozen=True, slots=True)
class Released:
    """The run goes back to the queue at once."""


Fate: TypeAlias = Done | Parked | Released


class Engine(Dispatcher, ABC):
    """One process's side of an engine. `look` is how often, in seconds, a waiting `take` looks for what others have queued."""

    def __init__(self, rules: DispatchRules, look: float) -> None:
        self.worker = uuid.uuid4().hex
        self.rules = rules
        self._look = look
        self._news = asyncio.Event()
        self._held: dict[str, Slice] = {}
        self._clock: tuple[float, float] | None = None
        self._alive: tuple[float, float] | None = None
        self._doubtful: float | None = None
        self._told: frozenset[str] | None = None

    async def take(self, most: int, *, now: float, has: frozenset[str], wait: float = 1.0) -> Sequence[Slice]:
        """As the port says. Cancelled while it claims, it hands back what it has got."""
        loop = asyncio.get_running_loop()
        self._tick(now)
        start = loop.time()
        while True:
            self._news.clear()
            await self._make_sure(now + loop.time() - start)
            taken = await self._claimed(most, now + loop.time() - start, has) if most > 0 else ()
            left = wait - (loop.time() - start)
            if taken or left <= 0:
                return taken
            with suppress(TimeoutError):
                async with asyncio.timeout(max(min(left, self._pause(now + loop.time() - start)), TICK)):
                    await self._news.wait()

    async def done(self, taken: Slice) -> None:
        """As the port says."""
        await self._give(taken, Done())

    async def park(self, taken: Slice, until: float, *, approval: bool = False) -> None:
        """As the port says."""
        await self._give(taken, Parked(until, approval))

    async def release(self, taken: Slice) -> None:
        """As the port says."""
        await self._give(taken, Released())

    async def wake(self, run_id: str, *, now: float) -> None:
        """As the port says."""
        self._tick(now)
        await self._wake(run_id, now)

    async def nudged(self, held: Sequence[str]) -> frozenset[str]:
        """As the port says."""
        return await self._woken(held) if held else frozenset()

    async def beat(self, *, now: float) -> bool:
        """As the port says. It has a time limit of its own, and answers False while the lease still has time.

        A beat that failed raises StoreError (beat again within `rules.beat` seconds) as long as the next one would end in time.
        """
        self._tick(now)
        if self._lapsed(now):
            return await self._lost(now)
        try:
            async with asyncio.timeout(min(self.rules.beat, self.rules.lease / 4)):
                renewed = await self._renew(now)
        except (TimeoutError, StoreError) as error:
            if self._lapsed(self._now() + 2 * self.rules.beat):
                return await self._lost(now)
            raise StoreError(
                f"worker {self.worker}: the heartbeat failed, beat again: {error or 'no answer'}"
            ) from error
        if not renewed:
            return await self._lost(now)
        self._lived(now)
        return True

    async def _give(self, taken: Slice, fate: Fate) -> None:
        await self._let_go(taken, fate)
        if self._held.get(taken.run_id) == taken:
            del self._held[taken.run_id]

    async def _claimed(self, most: int, now: float, has: frozenset[str]) -> Sequence[Slice]:
        if self._lapsed(now):
            return ()
        claim = asyncio.ensure_future(self._claim(most, now, has))
        doubtful = asyncio.get_running_loop().time() + self.rules.lease
        try:
            taken = await asyncio.shield(claim)
        except StoreError:
            self._doubtful = doubtful
            raise
        except asyncio.CancelledError:
            self._doubtful = doubtful
            with suppress(StoreError):
                for each in await claim:
                    await self._let_go(each, Released())
            raise
        self._told = has
        if self._alive is None:
            self._lived(now)
        self._held.update((each.run_id, each) for each in taken)
        return taken

    async def _make_sure(self, now: float) -> None:
        """Until a look after `_doubtful` (the loop's seconds) the queue may hold more for us than we know of."""
        if self._doubtful is None:
            return
        begun = asyncio.get_running_loop().time()
        await self._strays(now, frozenset(self._held))
        if begun >= self._doubtful:
            self._doubtful = None

    async def _hand_back(self) -> None:
        """Release what is still held."""
        for taken in tuple(self._held.values()):
            await self._give(taken, Released())

    async def _lost(self, now: float) -> bool:
        """The lease is over: whatever is still ours on paper is anybody's; then begin anew."""
        self._alive = self._told = None
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(self.rules.beat):
                await self._forget(now)
        self._held.clear()  # after: a claim may have been answered meanwhile
        self._doubtful = asyncio.get_running_loop().time() + self.rules.lease
        return False

    def _lived(self, now: float) -> None:
        self._alive = now, asyncio.get_running_loop().time()

    def _lapsed(self, now: float) -> bool:
        """Has the lease run out, by the caller's clock or by ours? Either may have stood still."""
        if self._alive is None:
            return False
        at, mark = self._alive
        return max(now - at, asyncio.get_running_loop().time() - mark) > self.rules.lease

    def _tick(self, now: float) -> None:
        self._clock = now, asyncio.get_running_loop().time()

    def _now(self) -> float:
        """The caller's clock, as far as it is known: the newest `now`, and what has passed since."""
        if self._clock is None:
            return 0.0
        now, mark = self._clock
        return now + asyncio.get_running_loop().time() - mark

    def _pause(self, now: float) -> float:  # noqa: ARG002  an engine that knows when something is due needs it
        """Seconds to wait for news before looking again."""
        return self._look

    @abstractmethod
    async def _claim(self, most: int, now: float, has: frozenset[str]) -> Sequence[Slice]:
        """Claim up to `most` due runs now, and let the queue know what this worker `has` unless it was `_told`.

        Nothing if this worker was swept away: `beat` will say so.
        """

    @abstractmethod
    async def _strays(self, now: float, known: frozenset[str]) -> None:
        """Put back what the queue says this worker holds beyond `known`: a claim whose answer was lost, and that nobody drives."""

    @abstractmethod
    async def _let_go(self, taken: Slice, fate: Fate) -> None:
        """End a claim, if it is still the newest one of its run."""

    @abstractmethod
    async def _renew(self, now: float) -> bool:
        """Heartbeat. False: others have taken this worker for dead."""

    @abstractmethod
    async def _forget(self, now: float) -> None:
        """Put back whatever this worker holds, and sign it off."""

    @abstractmethod
    async def _wake(self, run_id: str, now: float) -> None:
        """As `wake`."""

    @abstractmethod
    async def _woken(self, held: Sequence[str]) -> frozenset[str]:
        """As `nudged`."""
