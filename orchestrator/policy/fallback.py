"""A chain of models in order of preference: the next is asked when one is out, not when one says that we are wrong.

On an open breaker, retries used up, a refusal, a prompt that does not fit. Not on a bad request or a bad key (the next
would hide a mistake that an operator must see), and not when the run's time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from orchestrator.core.events import Attempt
from orchestrator.errors import CallError, ConfigError, ContextOverflow, Transient
from orchestrator.policy.call import DEADLINE, Ask, Call, FellBack, I, O, Observer, failed, unobserved

REFUSED = "REFUSED"
"""Code of the Attempt that a model's refusal leaves."""

_REFUSALS = frozenset({REFUSED, "REFUSAL", "CONTENT_FILTER", "CONTENT_FILTERED"})


def fallback(
    targets: Sequence[tuple[str, Call[Ask[I], O]]],
    *,
    refused: Callable[[Any], bool] | None = None,
    observe: Observer = unobserved,
) -> Call[Ask[I], O]:
    """One call out of several, first preferred. `refused(result)` says that a result is a refusal.

    When all fail: a refusal that was given is the answer; else a Transient error is preferred to a Permanent one, for
    later may be better; else the last. Every failed try stands in `Ask.attempts` under its own target.
    """
    if not targets:
        raise ConfigError("a fallback chain needs at least one model: write models = [...] in the agent's table")

    async def chained(ask: Ask[I]) -> O:
        refusals: list[O] = []
        errors: list[CallError] = []
        for place, (name, call) in enumerate(targets):
            started, before = asyncio.get_running_loop().time(), len(ask.attempts)
            try:
                result = await call(ask)
            except CallError as error:
                if len(ask.attempts) == before:
                    failed(ask, name, error, started)
                if not passes_on(error):
                    raise
                errors.append(error)
                code = error.code
            else:
                if refused is None or not refused(result):
                    return result
                refusals.append(result)
                code = REFUSED
                ask.attempts.append(Attempt(name, REFUSED, round(asyncio.get_running_loop().time() - started, 6)))
            if place + 1 < len(targets):
                ask.void()
                observe(FellBack(name, targets[place + 1][0], code))
        if refusals:
            return refusals[0]
        raise next((each for each in errors if isinstance(each, Transient)), errors[-1])

    return chained


def passes_on(error: CallError) -> bool:
    """Whether another model may do better."""
    if error.code == DEADLINE:
        return False
    return isinstance(error, Transient | ContextOverflow) or error.code in _REFUSALS
