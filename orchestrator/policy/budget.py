"""Tokens and money: reserved before the call, settled after it. Pure values; a price that is not known is never zero.

`Budget` is one allowance (a run's, or a tenant's for one day). `Ledger` holds the tenants' days: `now` is given, and days
are UTC days of unix seconds. A ledger knows what its own process spent; `spend` folds in what a stored trace says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from orchestrator.core.events import Usage
from orchestrator.errors import ConfigError, Rejected

DAY = 86_400
OUT_OF_BUDGET = "OUT_OF_BUDGET"


@dataclass(frozen=True, slots=True)
class Price:
    """Money per million tokens. Of `Usage.input_tokens` the `cached_tokens` cost `cached` (None: as much as the others)."""

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        if not all(0 <= each < float("inf") for each in (self.input, self.output, self.cached or 0.0)):
            raise ConfigError(f"{self}: write prices per million tokens, each 0 or more")

    def cost(self, usage: Usage) -> float:
        """What these tokens cost."""
        cached = min(max(usage.cached_tokens, 0), usage.input_tokens)
        dear = self.input if self.cached is None else self.cached
        return ((usage.input_tokens - cached) * self.input + cached * dear + usage.output_tokens * self.output) / 1e6


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens and money together, spent or to be spent."""

    tokens: int = 0
    money: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.money + other.money)

    def __sub__(self, other: Amount) -> Amount:
        """What is left of it: never below nothing."""
        return Amount(max(0, self.tokens - other.tokens), max(0.0, self.money - other.money))


@dataclass(frozen=True, slots=True)
class Allowance:
    """At most so many tokens and so much money; None is no limit."""

    tokens: int | None = None
    money: float | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """An allowance, what is spent of it, and what is reserved for calls under way."""

    allowance: Allowance = Allowance()
    spent: Amount = Amount()
    reserved: Amount = Amount()

    @property
    def left_tokens(self) -> int | None:
        """Tokens that may still be reserved; None without a limit."""
        most = self.allowance.tokens
        return None if most is None else max(0, most - self.spent.tokens - self.reserved.tokens)

    @property
    def left_money(self) -> float | None:
        """Money that may still be reserved; None without a limit."""
        most = self.allowance.money
        return None if most is None else max(0.0, most - self.spent.money - self.reserved.money)

    def reserve(self, amount: Amount, whose: str = "this run") -> Budget:
        """The budget with `amount` set aside. Raises Rejected (OUT_OF_BUDGET) when it does not fit."""
        if self.left_tokens is not None and amount.tokens > self.left_tokens:
            raise _out(whose, f"{amount.tokens} tokens", f"{self.left_tokens} of {self.allowance.tokens} tokens")
        if self.left_money is not None and amount.money > self.left_money:
            raise _out(whose, f"{amount.money:.4f}", f"{self.left_money:.4f} of {self.allowance.money}")
        return replace(self, reserved=self.reserved + amount)

    def settle(self, reserved: Amount, actual: Amount) -> Budget:
        """The reservation given back, the actual amount spent: Amount() for a call that failed and was not charged.

        What really happened is booked even where it is more than was reserved; then nothing is left.
        """
        return replace(self, reserved=self.reserved - reserved, spent=self.spent + actual)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Set aside for a tenant on the day that it was asked for; it is settled on that day, even after midnight."""

    tenant: str
    day: int
    amount: Amount


@dataclass(slots=True)
class Ledger:
    """The tenants' days. `allowances` by tenant, `default` for all others. Yesterday is forgotten when it owes nothing."""

    allowances: Mapping[str, Allowance] = field(default_factory=dict)
    default: Allowance = Allowance()
    _days: dict[tuple[int, str], Budget] = field(default_factory=dict)
    _day: int = 0

    def budget(self, tenant: str, now: float) -> Budget:
        """The tenant's budget of the day that contains `now` (unix seconds)."""
        return self._on(int(now // DAY), tenant)

    def reserve(self, tenant: str, amount: Amount, now: float) -> Reservation:
        """Set aside. Raises Rejected (OUT_OF_BUDGET) when the tenant's day has not so much left; `retry_after` is midnight."""
        day = int(now // DAY)
        self._forget_before(day)
        whose = f"tenant {tenant!r}" if tenant else "the tenant without a name"
        try:
            self._days[day, tenant] = self._on(day, tenant).reserve(amount, whose)
        except Rejected as error:
            error.retry_after = (day + 1) * DAY - now
            raise
        return Reservation(tenant, day, amount)

    def settle(self, reservation: Reservation, actual: Amount) -> None:
        """Book what the call really took."""
        key = reservation.day, reservation.tenant
        self._days[key] = self._on(*key).settle(reservation.amount, actual)

    def spend(self, tenant: str, actual: Amount, now: float) -> None:
        """Book what was spent elsewhere: by another process, or before a restart."""
        key = int(now // DAY), tenant
        self._days[key] = self._on(*key).settle(Amount(), actual)

    def _on(self, day: int, tenant: str) -> Budget:
        return self._days.get((day, tenant)) or Budget(self.allowances.get(tenant, self.default))

    def _forget_before(self, day: int) -> None:
        if day != self._day:
            self._day = day
            self._days = {key: each for key, each in self._days.items() if key[0] >= day or each.reserved != Amount()}


def price_of(model: str, prices: Mapping[str, Price], *, money: float | None) -> Price | None:
    """The model's price; None when it has none and no money budget needs one. Raises ConfigError when one does."""
    price = prices.get(model)
    if price is None and money is not None:
        raise ConfigError(
            f"a money budget of {money} is set, but model {model!r} has no price: write price = {{ input = ..., output = ... }} "
            f"(per million tokens) in its [models] table, or remove max_cost"
        )
    return price


def estimate(input_tokens: int, max_output: int, price: Price | None) -> Amount:
    """What a call may take at most: all of its input uncached, all of its permitted output."""
    usage = Usage(input_tokens, max_output)
    return Amount(usage.tokens, price.cost(usage) if price else 0.0)


def actual(usage: Usage, price: Price | None) -> Amount:
    """What a call took."""
    return Amount(usage.tokens, price.cost(usage) if price else usage.cost or 0.0)


def _out(whose: str, wanted: str, left: str) -> Rejected:
    return Rejected(
        OUT_OF_BUDGET, f"{whose} has {left} left and the next call may take {wanted}: raise the budget or ask for less"
    )
