"""A minute in which the endpoint fails, in each way that it may: runs without a stand-in wait it out, and nobody asks more than the budget allows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import ClassVar

import pytest
from yarl import URL

from orchestrator.core.events import Outcome
from orchestrator.demo.server import serve
from orchestrator.errors import CallError, RateLimited, Unavailable
from orchestrator.http import Answer
from tests.demo.test_outages import TURNS, Recording, at, now, product

pytestmark = pytest.mark.virtual
MINUTE = 60.0
RUNS = 40
BUDGET = 10 + 10 + RUNS // 10
"""Retries in a minute: what there is at first, ten a minute, and a tenth of the calls."""


class Storm(Recording):
    """Fails until the minute is over."""

    error: ClassVar[CallError]
    hangs: ClassVar[bool] = False
    every: ClassVar[int] = 1

    def __init__(self, url: str, sent: list[bytes]) -> None:
        super().__init__(url, sent)
        self._over = now() + MINUTE

    async def send(self, url: URL, headers: Mapping[str, str], body: bytes, connect: float | None) -> Answer:
        if now() < self._over and len(self._sent) % self.every == 0:
            self._sent.append(body)
            await asyncio.sleep(self._over - now() if self.hangs else 0.01)
            raise type(self.error)(self.error.code, self.error.message, retry_after=self.error.retry_after)
        return await super().send(url, headers, body, connect)


class Overloaded(Storm):
    error = Unavailable("OVERLOADED", "529")


class Limited(Storm):
    error = RateLimited("RATE_LIMITED", "429")


class LimitedFor(Storm):
    error = RateLimited("RATE_LIMITED", "429", retry_after=5.0)


class Hanging(Storm):
    error = Unavailable("CONNECTION_FAILED", "reset")
    hangs = True


class Halting(Storm):
    """Every other request fails."""

    error = Unavailable("SERVER_ERROR", "500")
    every = 2


@pytest.fixture(autouse=True)
def _drawn() -> None:
    """The jitter of the retries: the same in every run of these tests."""
    random.seed(6)


@pytest.mark.parametrize(
    ("wire", "calls"),
    [(Overloaded, RUNS), (Limited, RUNS), (LimitedFor, RUNS), (Hanging, RUNS), (Halting, RUNS * TURNS)],
)
async def test_runs_outlive_a_minute_of_failures(wire: type[Storm], calls: int) -> None:
    """`calls` are those that may fail for the first time in that minute."""
    async with serve() as server, product({"m": at(server, "demo")}, wire=wire) as it:
        driven = asyncio.create_task(it.runs(RUNS))
        await asyncio.sleep(MINUTE - 0.1)
        answered = server.requests
        assert len(it.sent) - answered <= calls + BUDGET
        runs = await driven
    outcomes = [run.ended.outcome for run in runs if run.ended]
    assert outcomes.count(Outcome.ANSWERED) >= 0.97 * RUNS
    assert server.requests <= RUNS * TURNS
