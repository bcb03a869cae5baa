"""Another try, where the failure may pass: tenacity drives, the event loop's clock counts.

Only Transient errors are tried again, and among them neither our own DEADLINE nor, unless asked, an open breaker. The
delay is full jitter; a Retry-After is its floor, and when that does not fit into the time left the call fails at once.
A first try that succeeds never meets tenacity (20 µs measured), nor does one that fails for good.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

from tenacity import AsyncRetrying, RetryCallState

from orchestrator.errors import CallError, CircuitOpen, ConfigError, Transient
from orchestrator.policy.call import (
    CIRCUIT_OPEN,
    DEADLINE,
    Ask,
    Call,
    I,
    O,
    Observer,
    Policy,
    RetriesEnded,
    Retrying,
    failed,
    unobserved,
)

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class RetryRules:
    """At most `attempts` tries within `total` seconds (waiting included); delays grow from `base` to `cap` seconds.

    All runs together retry at most `share` of the endpoint's calls, and `floor` a minute besides: the budget.
    `waits_for_breaker`: wait until an open breaker lets a probe through (such a try is not counted, nothing was sent), and
    until a spent budget pays again, instead of failing at once, as a tool does, and a model that has a stand-in.
    """

    attempts: int = 4
    total: float = 120.0
    base: float = 0.5
    cap: float = 20.0
    waits_for_breaker: bool = False
    share: float = 0.1
    floor: float = 10.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.total <= 0 or not 0 < self.base <= self.cap:
            raise ConfigError(f"{self}: write attempts >= 1, total > 0 and 0 < base <= cap")

    def backoff(self, attempt: int) -> float:
        """The longest delay, in seconds, after try number `attempt` failed."""
        return min(self.cap, self.base * 2.0 ** min(attempt - 1, 60))


ONCE = RetryRules(attempts=1)
"""For a tool that is not `repeatable`: the one try is recorded, and there is no other."""


class RetryBudget:
    """Retries of one endpoint, all runs together: `ratio` of its calls, and `floor` a minute besides.

    A token bucket (Finagle's and gRPC's remedy): an outage costs the callee a tenth more calls, not four times as many. A retry
    that succeeds is paid back, so those who waited for the budget follow each other once the callee is well.
    """

    def __init__(self, ratio: float = 0.1, floor: float = 10.0) -> None:
        if ratio < 0 or floor <= 0:
            raise ConfigError(f"retry budget ratio={ratio}, floor={floor}: write ratio >= 0 and floor > 0 (a minute)")
        self._ratio = ratio
        self._per_second = floor / 60
        self._most = max(floor, 1.0) + 100 * ratio
        self._balance = max(floor, 1.0)
        self._at: float | None = None

    def called(self) -> None:
        """A first try was made: it earns a part of a retry."""
        if self._balance < self._most:
            self._balance = min(self._most, self._balance + self._ratio)

    def spend(self, now: float) -> bool:
        """Whether one more retry is allowed at `now`, in the event loop's seconds; if so it is paid for."""
        if self.short(now):
            return False
        self._balance -= 1
        return True

    def repaid(self) -> None:
        """A retry that was paid for succeeded: it was no part of an outage, and the next one may follow."""
        self._balance = min(self._most, self._balance + 1)

    def short(self, now: float) -> float:
        """Seconds until a retry can be paid for, if nobody else spends and nobody calls; 0.0 when it can now."""
        earned = 0.0 if self._at is None else max(0.0, now - self._at) * self._per_second
        self._balance = min(self._most, self._balance + earned)
        self._at = now
        return max(0.0, 1 - self._balance) / self._per_second


def spread(start: float | None = None) -> Callable[[], float]:
    """Numbers in [0, 1), uniform and never in clumps: a golden-ratio rotation from a random start.

    Independent draws let ten waiters fall into half the delay once in ninety outages; these do not.
    """
    at = random.random() if start is None else start  # nosec B311  # jitter

    def draw() -> float:
        nonlocal at
        at = (at + _GOLDEN) % 1.0
        return at

    return draw


def unguarded() -> bool:
    """There is no breaker."""
    return False


def retry(  # noqa: PLR0913  each is one part
    rules: RetryRules = RetryRules(),
    target: str = "the callee",
    *,
    budget: RetryBudget | None = None,
    barred: Callable[[], bool] = unguarded,
    draw: Callable[[], float] | None = None,
    observe: Observer = unobserved,
) -> Policy:
    """Try again what is Transient. `draw` gives numbers in [0, 1); every failed try goes into `Ask.attempts`.

    `barred`: does the breaker inside let nothing but its probes through? Then it, not the budget, holds patient tries back.
    """
    draw = draw or spread()

    def policy(call: Call[Ask[I], O], /) -> Call[Ask[I], O]:
        async def retried(ask: Ask[I]) -> O:
            if budget is not None:
                budget.called()
            started = asyncio.get_running_loop().time()
            try:
                return await call(ask)
            except CallError as error:
                failed(ask, target, error, started)
                if rules.attempts == 1 or not _may_pass(error, rules):
                    raise
                return await _Tries(call, ask, rules, target, budget, barred, draw, observe, started, error).go_on()

        return retried

    return policy


def _may_pass(error: BaseException | None, rules: RetryRules) -> bool:
    if isinstance(error, CircuitOpen):
        return rules.waits_for_breaker
    return isinstance(error, Transient) and error.code != DEADLINE


@dataclass(slots=True)
class _Tries(Generic[I, O]):
    """The tries of one call after the first; `sent` counts what reached the callee.

    `error` is what the last try failed with, None when it did not, `unpaid` whether the budget has still to pay for the next one,
    `paid` whether it did. What waits for the breaker is not paid for: while it is barred it sends probes only, and once closed the
    callee is back. No error passes through tenacity, and nothing is left in it: they would hold each other, and the whole prompt, in a
    circle that only the garbage collector opens.
    """

    call: Call[Ask[I], O]
    ask: Ask[I]
    rules: RetryRules
    target: str
    budget: RetryBudget | None
    barred: Callable[[], bool]
    draw: Callable[[], float]
    observe: Observer
    started: float
    error: CallError | None
    result: O = field(init=False)
    sent: int = 0
    floor: float = 0.0
    unpaid: bool = False
    paid: bool = False
    again: bool = False
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    async def go_on(self) -> O:
        """Tenacity's first attempt is the first try, which has failed: it waits, then tries."""
        again = AsyncRetrying(
            retry=self.may_pass,
            wait=self.delay,
            stop=self.ended,
            before_sleep=self.tell,
            sleep=asyncio.sleep,
            retry_error_callback=_given_up,
        )
        try:
            await again(self.attempt)
            if self.error is not None:
                raise self.error
            return self.result
        finally:
            self.error = None
            again.iter_state.reset()

    async def attempt(self) -> None:
        if not self.again:
            self.again = True
            self.count(self.failure)
            return
        if self.unpaid and not self.pays():
            return
        self.unpaid = False
        self.ask.void()
        started = self.loop.time()
        try:
            self.result = await self.call(self.ask)
        except CallError as error:
            if error.code != CIRCUIT_OPEN or self.ask.attempts[-1].code != CIRCUIT_OPEN:  # a wait is recorded once
                failed(self.ask, self.target, error, started)
            self.count(error)
            return
        self.error = None
        if self.paid and self.budget is not None:
            self.budget.repaid()

    @property
    def failure(self) -> CallError:
        if self.error is None:
            raise TypeError("only a try that failed is made again")
        return self.error

    def count(self, error: CallError) -> None:
        self.error = error
        self.sent += not isinstance(error, CircuitOpen)

    def pays(self) -> bool:
        """May another try be made as far as the budget goes? If so it is paid for, or it is the breaker's to hold back."""
        free = self.budget is None or (
            self.rules.waits_for_breaker and (isinstance(self.error, CircuitOpen) or self.barred())
        )
        self.paid = not free and self.budget is not None and self.budget.spend(self.loop.time())
        return free or self.paid

    def may_pass(self, state: RetryCallState) -> bool:
        broke = state.outcome is not None and state.outcome.failed
        return not broke and _may_pass(self.error, self.rules)

    def left(self) -> float:
        """Seconds in which another try may begin."""
        now = self.loop.time()
        return min(self.started + self.rules.total, self.ask.deadline) - now

    def delay(self, _: RetryCallState) -> float:
        """Full jitter over the back-off, or over the floor (what the callee asked for, or the budget needs) where that is longer;
        within the time left."""
        self.floor = max(0.0, self.failure.retry_after or 0.0)
        if self.unpaid and self.budget is not None:
            self.floor = self.budget.short(self.loop.time())
        span = min(self.rules.cap, max(self.rules.backoff(max(self.sent, 1)), self.floor))
        return self.floor + self.draw() * max(0.0, min(span, self.left() - self.floor))

    def ended(self, _: RetryCallState) -> bool:
        """No try is left, no time, or the endpoint's budget is spent: in this order, so that a budget is not paid in vain."""
        why = self.why_ended()
        if why:
            self.observe(RetriesEnded(self.target, self.sent, self.failure.code, why))
        return bool(why)

    def why_ended(self) -> str:
        if self.sent >= self.rules.attempts:
            return "attempts"
        if self.floor >= self.left():
            return "budget" if self.unpaid else "time"
        self.unpaid = self.unpaid or not self.pays()
        return "budget" if self.unpaid and not self.rules.waits_for_breaker else ""

    def tell(self, state: RetryCallState) -> None:
        last = self.ask.attempts[-1]
        self.observe(Retrying(self.target, self.sent, last.code, last.seconds, state.upcoming_sleep))


def _given_up(_: RetryCallState) -> None:
    """What tenacity calls at the end, in place of an error of its own."""
