"""The stack in its order: limit → retry → breaker → timeout → call; the same for a model endpoint and for a tool.

The limit is outermost: a run that waits for its place has begun nothing. The timeout is per try, so it stands inside the
retry; the breaker sees tries, not calls. A rule that is None costs nothing: its policy is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from orchestrator.policy.breaker import Breaker, BreakerRules, Phase
from orchestrator.policy.call import Ask, Call, I, O, Observer, Policy, layered, unobserved
from orchestrator.policy.limit import Limiter, LimitRules
from orchestrator.policy.retry import RetryBudget, RetryRules, retry, unguarded
from orchestrator.policy.timeout import timeout


@dataclass(frozen=True, slots=True)
class Rules:
    """The policies of one target. Write `retry=ONCE` for a tool that is not `repeatable`."""

    timeout: float | None = 60.0
    retry: RetryRules | None = RetryRules()
    breaker: BreakerRules | None = BreakerRules()
    limit: LimitRules | None = None


@dataclass(frozen=True, slots=True)
class Guarded(Generic[I, O]):
    """The call in its policies, and the two that have something to show: gauges, and tools that are out for now."""

    call: Call[Ask[I], O]
    breaker: Breaker | None = None
    limiter: Limiter | None = None


def guard(
    call: Call[Ask[I], O],
    target: str,
    rules: Rules = Rules(),
    *,
    spent: Callable[[Any], int] | None = None,
    observe: Observer = unobserved,
) -> Guarded[I, O]:
    """Build the stack of one endpoint or one tool, once: its limiter, breaker and retry budget are shared by all runs."""
    limiter = Limiter(rules.limit, target, spent=spent, observe=observe) if rules.limit else None
    breaker = Breaker(rules.breaker, target, observe=observe) if rules.breaker else None
    budget = RetryBudget(rules.retry.share, rules.retry.floor) if rules.retry else None
    barred = partial(_bars, breaker) if breaker else unguarded
    again = retry(rules.retry, target, budget=budget, barred=barred, observe=observe) if rules.retry else None
    within = timeout(rules.timeout, target) if rules.timeout is not None else None
    policies: list[Policy] = [each for each in (limiter, again, breaker, within) if each is not None]
    return Guarded(layered(call, *policies), breaker, limiter)


def _bars(breaker: Breaker) -> bool:
    """Does it let nothing but probes through?"""
    return breaker.phase is not Phase.CLOSED
