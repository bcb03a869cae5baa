"""Call policies: what stands between the loop and everything that can fail. `limit → retry → breaker → timeout → call`.

Read `call.py` first, then `stack.py`; every other file is one rule.
"""

from orchestrator.policy.breaker import Breaker, BreakerRules, Phase
from orchestrator.policy.budget import Allowance, Amount, Budget, Ledger, Price, Reservation, actual, estimate, price_of
from orchestrator.policy.call import (
    CIRCUIT_OPEN,
    DEADLINE,
    POOL_FULL,
    Ask,
    BreakerMoved,
    Call,
    FellBack,
    Incident,
    Observer,
    Policy,
    RetriesEnded,
    Retrying,
    Waited,
    layered,
    unobserved,
)
from orchestrator.policy.fallback import fallback
from orchestrator.policy.limit import Limiter, LimitRules
from orchestrator.policy.retry import ONCE, RetryBudget, RetryRules, retry, spread
from orchestrator.policy.stack import Guarded, Rules, guard
from orchestrator.policy.timeout import paced, timeout, within

__all__ = [
    "CIRCUIT_OPEN",
    "DEADLINE",
    "ONCE",
    "POOL_FULL",
    "Allowance",
    "Amount",
    "Ask",
    "Breaker",
    "BreakerMoved",
    "BreakerRules",
    "Budget",
    "Call",
    "FellBack",
    "Guarded",
    "Incident",
    "Ledger",
    "LimitRules",
    "Limiter",
    "Observer",
    "Phase",
    "Policy",
    "Price",
    "Reservation",
    "RetriesEnded",
    "RetryBudget",
    "RetryRules",
    "Retrying",
    "Rules",
    "Waited",
    "actual",
    "estimate",
    "fallback",
    "guard",
    "layered",
    "paced",
    "price_of",
    "retry",
    "spread",
    "timeout",
    "unobserved",
    "within",
]
