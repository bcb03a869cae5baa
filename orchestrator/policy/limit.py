"""Limits of one endpoint or tool: calls at once, calls and tokens in a window; fair between tenants and runs.

Own code, and why: `aiolimiter` (and its like) queue first come first served, so one tenant's burst starves the rest; they
count one unit, not calls and tokens together; and a leaky bucket of n a minute lets nearly 2n through in some minute, which
is what providers answer with 429. Here a sliding log is exact: in no window of `window` seconds more than was allowed.

No polling: a freed place, a settled estimate, or one timer at the moment that the oldest entry leaves the window.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import ConfigError, Timeout
from orchestrator.policy.call import CIRCUIT_OPEN, DEADLINE, Ask, Call, I, O, Observer, Waited, unobserved
from orchestrator.policy.queue import FairQueue


@dataclass(frozen=True, slots=True)
class LimitRules:
    """At most `at_once` calls under way; `calls` and `tokens` in any `window` seconds. None is no limit."""

    at_once: int | None = None
    calls: int | None = None
    tokens: int | None = None
    window: float = 60.0

    def __post_init__(self) -> None:
        if any(most is not None and most < 1 for most in (self.at_once, self.calls, self.tokens)) or self.window <= 0:
            raise ConfigError(f"{self}: write numbers >= 1, or leave out what is not limited, and window > 0 (seconds)")


@dataclass(slots=True, eq=False)
class _Place:
    """One call in the window: `at` the time it was let in, `tokens` as estimated, then as settled."""

    at: float
    tokens: int


@dataclass(slots=True, eq=False)
class _Waiter:
    tokens: int
    turn: asyncio.Future[_Place]


class Limiter:
    """The policy: shared by all calls of one endpoint or one tool."""

    def __init__(
        self,
        rules: LimitRules = LimitRules(),
        target: str = "the callee",
        *,
        spent: Callable[[Any], int] | None = None,
        observe: Observer = unobserved,
    ) -> None:
        """`spent(result)` tells the tokens that a call really took; without it the estimate stands."""
        self.target = target
        self.active = 0
        self._rules = rules
        self._spent = spent
        self._observe = observe
        self._queue: FairQueue[_Waiter] = FairQueue()
        self._log: deque[_Place] = deque()
        self._tokens = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Calls in the queue, for gauges."""
        return len(self._queue)

    def __call__(self, call: Call[Ask[I], O], /) -> Call[Ask[I], O]:
        """The call, once it has its place. Raises Timeout (DEADLINE) when the run's deadline passes in the queue."""

        async def limited(ask: Ask[I]) -> O:
            place = await self._enter(ask)
            before, answered = len(ask.attempts), 0
            try:
                result = await call(ask)
                answered = 1
                if self._spent is not None:
                    self._settle(place, self._spent(result))
                return result
            finally:
                self._charge(answered + sum(each.code != CIRCUIT_OPEN for each in ask.attempts[before:]) - 1)
                self._leave()

        return limited

    async def _enter(self, ask: Ask[Any]) -> _Place:
        loop = asyncio.get_running_loop()
        now = loop.time()
        tokens = min(
            max(ask.tokens, 0), self._rules.tokens or ask.tokens
        )  # one that is larger than the limit needs it whole
        if not self._queue and self._fits(tokens, now):
            return self._let_in(tokens, now)
        return await self._stand_in_line(ask, _Waiter(tokens, loop.create_future()), now)

    async def _stand_in_line(self, ask: Ask[Any], waiter: _Waiter, since: float) -> _Place:
        loop = asyncio.get_running_loop()
        self._queue.push(ask.tenant, ask.run, waiter)
        self._arm(loop)
        served = False
        try:
            async with asyncio.timeout_at(None if ask.deadline == float("inf") else ask.deadline):
                place = await waiter.turn
            served = True
            return place
        except TimeoutError as error:
            waited = loop.time() - since
            raise Timeout(
                DEADLINE, f"waited {waited:.1f} s for a place at {self.target}, then the deadline passed"
            ) from error
        finally:
            self._observe(Waited(self.target, ask.tenant, loop.time() - since, served))
            if not served:
                self._give_up(ask, waiter)

    def _give_up(self, ask: Ask[Any], waiter: _Waiter) -> None:
        """Out of the line; if the turn had come in the same moment, nothing was sent: it goes to the next."""
        if waiter.turn.done() and not waiter.turn.cancelled():
            place = waiter.turn.result()
            self._settle(place, 0)
            self._leave()
        else:
            self._queue.discard(ask.tenant, ask.run, waiter)
            self._wake()

    @property
    def _full(self) -> bool:
        return self._rules.at_once is not None and self.active >= self._rules.at_once

    def _fits(self, tokens: int, now: float) -> bool:
        rules = self._rules
        while self._log and self._log[0].at + rules.window <= now:
            self._tokens -= self._log.popleft().tokens
        if self._full or (rules.calls is not None and len(self._log) >= rules.calls):
            return False
        return rules.tokens is None or not self._log or self._tokens + tokens <= rules.tokens

    def _let_in(self, tokens: int, now: float) -> _Place:
        place = _Place(now, tokens)
        self.active += 1
        if self._rules.calls is not None or self._rules.tokens is not None:
            self._log.append(place)
            self._tokens += tokens
        return place

    def _settle(self, place: _Place, tokens: int) -> None:
        """What the call took, in place of the estimate (while it is in the window)."""
        if self._log and self._log[0].at <= place.at:
            self._tokens += tokens - place.tokens
        place.tokens = tokens

    def _charge(self, retries: int) -> None:
        """Retries happen inside one place; they were calls all the same, and the window learns of them now."""
        if self._rules.calls is not None and retries > 0:
            now = asyncio.get_running_loop().time()
            self._log.extend(_Place(now, 0) for _ in range(retries))

    def _leave(self) -> None:
        self.active -= 1
        self._wake()

    def _wake(self) -> None:
        """Let in whoever is next, while there is room."""
        if not self._queue:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._queue and self._fits(self._queue.first().tokens, now):
            waiter = self._queue.pop()
            if waiter.turn.done():  # cancelled, and not yet out of the line
                continue
            waiter.turn.set_result(self._let_in(waiter.tokens, now))
        self._arm(loop)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer, for the moment when the oldest entry leaves the window; a full house is woken by who leaves."""
        if self._queue and self._log and not self._full and self._timer is None:
            self._timer = loop.call_at(self._log[0].at + self._rules.window, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._wake()
