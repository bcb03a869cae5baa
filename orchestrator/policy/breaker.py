"""A circuit breaker per endpoint and per tool: when the callee is down, do not ask; ask one probe whether it is back.

Theory of operation. The state is a value: Closed, Open or HalfOpen. Four pure functions move it: `admit` before a call,
`succeeded`, `stumbled` or `released` after it. Each state bears an `epoch` that grows with every change of phase; a
call's end counts only in the epoch that admitted it, so a straggler from before cannot close or open what came after.

What counts against the callee: Timeout and Unavailable (5xx, 529, cut connections). What does not: 4xx, for they say that
it is alive; 429, for it is alive and asks for patience (Retry-After and limits answer that, not an outage); our own full
pool and our own deadline; exceptions that are no CallError, and cancellation: these give a probe's place back, unjudged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from orchestrator.errors import CallError, CircuitOpen, ConfigError, Timeout, Unavailable
from orchestrator.policy.call import CIRCUIT_OPEN, OURS, Ask, BreakerMoved, Call, I, O, Observer, unobserved


class Phase(StrEnum):
    """closed: calls pass. open: none does. half_open: only probes do."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """Open after `row` failures in a row, or when of at least `minimum` calls in `window` seconds the share `ratio` failed.

    Open for `rest` seconds, twice as long after each failed probe, at most `longest`. `probes` must succeed to close it.
    """

    row: int = 5
    ratio: float = 0.5
    minimum: int = 20
    window: float = 60.0
    rest: float = 10.0
    longest: float = 120.0
    probes: int = 1

    def __post_init__(self) -> None:
        if min(self.row, self.minimum, self.probes) < 1 or not 0 < self.ratio <= 1 or self.window <= 0:
            raise ConfigError(f"{self}: write row, minimum and probes >= 1, 0 < ratio <= 1 and window > 0")
        if not 0 < self.rest <= self.longest:
            raise ConfigError(f"{self}: write 0 < rest <= longest, in seconds")


class Closed(NamedTuple):
    """`row` failures in a row; calls and failures in this half of the window and in the one before it. Made anew with every call:
    of all immutable values a tuple is made soonest."""

    epoch: int = 0
    row: int = 0
    half: int = 0
    calls: int = 0
    bad: int = 0
    calls_before: int = 0
    bad_before: int = 0

    @property
    def phase(self) -> Phase:
        """Closed."""
        return Phase.CLOSED


@dataclass(frozen=True, slots=True)
class Open:
    """Until `until`; `times` is how often it has opened without closing."""

    epoch: int
    until: float
    times: int = 1
    phase = Phase.OPEN


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """`out` probes are under way, `passed` have come back well."""

    epoch: int
    times: int
    out: int = 0
    passed: int = 0
    phase = Phase.HALF_OPEN


State: TypeAlias = Closed | Open | HalfOpen
Verdict: TypeAlias = Callable[[State, int, float, BreakerRules], State]


def admit(state: State, now: float, rules: BreakerRules) -> tuple[State, float | None]:
    """The next state, and None to let the call pass, or the seconds until it may be worth asking again."""
    if isinstance(state, Closed):
        return state, None
    if isinstance(state, Open):
        if now < state.until:
            return state, state.until - now
        return HalfOpen(state.epoch + 1, state.times, out=1), None
    if state.out + state.passed < rules.probes:
        return HalfOpen(state.epoch, state.times, state.out + 1, state.passed), None
    return state, min(1.0, rules.rest)


def succeeded(state: State, epoch: int, now: float, rules: BreakerRules) -> State:
    """The callee answered, be it with a refusal."""
    if epoch != state.epoch or isinstance(state, Open):
        return state
    if isinstance(state, Closed):
        return _counted(state, now, rules, bad=False)
    passed = state.passed + 1
    if passed >= rules.probes:
        return Closed(state.epoch + 1, half=_half(now, rules))
    return HalfOpen(state.epoch, state.times, state.out - 1, passed)


def stumbled(state: State, epoch: int, now: float, rules: BreakerRules) -> State:
    """The callee failed. A failed probe opens at once."""
    if epoch != state.epoch or isinstance(state, Open):
        return state
    if isinstance(state, HalfOpen):
        times = state.times + 1
        return Open(state.epoch + 1, now + min(rules.longest, rules.rest * 2.0 ** min(times - 1, 60)), times)
    counted = _counted(state, now, rules, bad=True)
    calls = counted.calls + counted.calls_before
    often = calls >= rules.minimum and (counted.bad + counted.bad_before) >= rules.ratio * calls
    return Open(state.epoch + 1, now + rules.rest) if counted.row >= rules.row or often else counted


def released(state: State, epoch: int, _now: float, _rules: BreakerRules) -> State:
    """The call ended without saying anything about the callee: a probe's place is free again."""
    if epoch != state.epoch or not isinstance(state, HalfOpen):
        return state
    return HalfOpen(state.epoch, state.times, state.out - 1, state.passed)


def _half(now: float, rules: BreakerRules) -> int:
    return int(2 * now // rules.window)


def _counted(state: Closed, now: float, rules: BreakerRules, *, bad: bool) -> Closed:
    """One more call. Two half windows roll: what is counted is between half a window and one window old."""
    half = _half(now, rules)
    row = state.row + 1 if bad else 0
    if half == state.half:
        return Closed(state.epoch, row, half, state.calls + 1, state.bad + bad, state.calls_before, state.bad_before)
    next_to_it = half == state.half + 1
    return Closed(state.epoch, row, half, 1, int(bad), state.calls * next_to_it, state.bad * next_to_it)


class Breaker:
    """The policy: one state, shared by all calls of one endpoint or one tool. Put a timeout inside it: a probe must end."""

    def __init__(
        self, rules: BreakerRules = BreakerRules(), target: str = "the callee", *, observe: Observer = unobserved
    ) -> None:
        self.target = target
        self._rules = rules
        self._observe = observe
        self._state: State = Closed()

    @property
    def phase(self) -> Phase:
        """For gauges. An open breaker whose rest is over stays "open" until somebody asks."""
        return self._state.phase

    @property
    def closed(self) -> bool:
        """Do calls pass?"""
        return isinstance(self._state, Closed)

    def back_in(self, now: float) -> float:
        """Seconds until a call may pass, 0.0 when it may now; `now` is the event loop's. Asks without taking a place."""
        return admit(self._state, now, self._rules)[1] or 0.0

    def __call__(self, call: Call[Ask[I], O], /) -> Call[Ask[I], O]:
        """The call, asked only while the breaker lets it pass. Raises CircuitOpen (CIRCUIT_OPEN) with `retry_after`."""

        async def guarded(ask: Ask[I]) -> O:
            clock = asyncio.get_running_loop().time
            state = self._state
            epoch = state.epoch if isinstance(state, Closed) else self._enter(clock())
            verdict: Verdict = released
            try:
                result = await call(ask)
                verdict = succeeded
                return result
            except CallError as error:
                verdict = judge(error)
                raise
            finally:
                now = clock()
                self._move(verdict(self._state, epoch, now, self._rules), now)

        return guarded

    def _enter(self, now: float) -> int:
        state, wait = admit(self._state, now, self._rules)
        self._move(state, now)
        if wait is not None:
            raise CircuitOpen(
                CIRCUIT_OPEN,
                f"{self.target} keeps failing and is not asked for now; expected back in {wait:.1f} s",
                retry_after=wait,
            )
        return state.epoch

    def _move(self, state: State, now: float) -> None:
        before, self._state = self._state, state
        if type(before) is not type(state):
            self._observe(BreakerMoved(self.target, before.phase, state.phase, now))


def judge(error: CallError) -> Verdict:
    """What a failed call says about its callee."""
    if error.code in OURS or isinstance(error, CircuitOpen):
        return released
    return stumbled if isinstance(error, Timeout | Unavailable) else succeeded
