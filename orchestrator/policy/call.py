"""The one calling convention of models and tools, and what a policy is: a function from a call to a call.

An `Ask` goes through the stack, the innermost call sees it too; what comes back is the callee's own result. The caller
owns `Ask.attempts` and reads it afterwards, on success and on failure alike: no context variable, no wrapped result.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

from orchestrator.core.events import Attempt
from orchestrator.core.quick import quick
from orchestrator.errors import CallError

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741

Call: TypeAlias = Callable[[I], Awaitable[O]]

CIRCUIT_OPEN = "CIRCUIT_OPEN"
"""Code of CircuitOpen: nothing was sent."""

DEADLINE = "DEADLINE"
"""Code of the Timeout that the run's own deadline caused: nobody's failure, and nothing is left to try in."""

POOL_FULL = "POOL_FULL"
"""Code of the Unavailable that our own full pool (connections, threads) caused: the callee never heard of it."""

OURS = frozenset({DEADLINE, POOL_FULL})
"""Codes that say nothing about the callee: no breaker counts them."""


@quick
@dataclass(frozen=True, slots=True)
class Ask(Generic[I]):
    """One asking of a model or a tool: the input, and on whose behalf.

    `deadline` is in the event loop's seconds. `tokens` is an estimate, for limits in tokens. Every failed try is appended
    to `attempts`. `discard` is called before another try: what a listener has been given of the last one is void.
    """

    input: I
    run: str = ""
    tenant: str = ""
    deadline: float = math.inf
    tokens: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    discard: Callable[[], None] | None = None

    def void(self) -> None:
        """Tell the listener, if there is one, that another try begins."""
        if self.discard is not None:
            self.discard()


class Policy(Protocol):
    """Wraps a call in one rule."""

    def __call__(self, call: Call[Ask[I], O], /) -> Call[Ask[I], O]:
        """The same call under one more rule."""
        ...


@quick
@dataclass(frozen=True, slots=True)
class Waited:
    """A call got its place at `target` after `seconds` in the queue, or gave up on it (`served` is False)."""

    target: str
    tenant: str
    seconds: float
    served: bool = True


@quick
@dataclass(frozen=True, slots=True)
class Retrying:
    """Try number `attempt` failed with `code` after `seconds`; the next one begins in `wait` seconds."""

    target: str
    attempt: int
    code: str
    seconds: float
    wait: float


@quick
@dataclass(frozen=True, slots=True)
class RetriesEnded:
    """No further try, though the failure was transient: `why` is attempts, time or budget."""

    target: str
    attempt: int
    code: str
    why: str


@quick
@dataclass(frozen=True, slots=True)
class BreakerMoved:
    """A breaker changed its phase; `at` is in the event loop's seconds."""

    target: str
    before: str
    after: str
    at: float


@quick
@dataclass(frozen=True, slots=True)
class FellBack:
    """`target` failed with `code`, so `next` is asked."""

    target: str
    next: str
    code: str


Incident: TypeAlias = Waited | Retrying | RetriesEnded | BreakerMoved | FellBack
Observer: TypeAlias = Callable[[Incident], None]
"""Told at once, in the middle of the call: it must be quick and must not raise."""


def unobserved(_: Incident) -> None:
    """The Observer that looks away."""


def layered(call: Call[Ask[I], O], *policies: Policy) -> Call[Ask[I], O]:
    """The call inside its policies, first outermost."""
    for policy in reversed(policies):
        call = policy(call)
    return call


def failed(ask: Ask[I], target: str, error: CallError, started: float) -> None:
    """Note a failed try that began at `started`."""
    ask.attempts.append(Attempt(target, error.code, round(asyncio.get_running_loop().time() - started, 6)))
