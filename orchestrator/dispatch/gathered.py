"""Small works of one kind, done together: while one batch is on its way, the next one gathers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from orchestrator.errors import StoreError

T = TypeVar("T")

FULL_BATCH = 500


class Gathered(Generic[T]):
    """`work(batch)` does them all or raises: then each who waits for one of them is told."""

    def __init__(self, work: Callable[[Sequence[T]], Awaitable[None]]) -> None:
        self._work = work
        self._waiting: list[tuple[T, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, item: T) -> None:
        """Returns when it is done."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = asyncio.create_task(self._work_on(), name="gathered work")
        await future

    async def _work_on(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:FULL_BATCH], self._waiting[FULL_BATCH:]
                await _settle(self._work([item for item, _ in batch]), [future for _, future in batch])
        finally:
            self._task = None


async def _settle(work: Awaitable[None], futures: Sequence[asyncio.Future[None]]) -> None:
    try:
        await work
    except StoreError as error:
        for future in futures:
            if not future.done():
                future.set_exception(error)
    else:
        for future in futures:
            if not future.done():
                future.set_result(None)
    finally:
        for future in futures:
            future.cancel()
