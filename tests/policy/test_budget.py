from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.events import Usage
from orchestrator.errors import ConfigError, Rejected
from orchestrator.policy import Allowance, Amount, Budget, Ledger, Price, actual, estimate, price_of

NOON = 20_000 * 86_400.0 + 43_200


def test_a_price_is_per_million_and_cached_tokens_have_their_own() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000, cached_tokens=400_000)
    assert Price(3.0, 15.0, 0.3).cost(usage) == pytest.approx(0.6 * 3 + 0.4 * 0.3 + 7.5)
    assert Price(3.0, 15.0).cost(usage) == pytest.approx(3 + 7.5)


def test_an_unknown_price_under_a_money_budget_is_an_error_never_zero() -> None:
    prices = {"known": Price(1, 2)}
    with pytest.raises(ConfigError, match="'new' has no price: write"):
        price_of("new", prices, money=5.0)
    assert price_of("new", prices, money=None) is None
    assert price_of("known", prices, money=5.0) == Price(1, 2)


def test_a_price_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="0 or more"):
        Price(-1, 2)


def test_a_reservation_holds_the_worst_case_and_settling_gives_the_rest_back() -> None:
    price = Price(1.0, 2.0)
    wanted = estimate(100_000, 50_000, price)
    assert wanted == Amount(150_000, 0.2)
    budget = Budget(Allowance(200_000, 0.3)).reserve(wanted)
    assert budget.left_tokens == 50_000
    assert budget.left_money == pytest.approx(0.1)
    with pytest.raises(Rejected, match="this run has 50000 of 200000 tokens left") as error:
        budget.reserve(wanted)
    assert error.value.code == "OUT_OF_BUDGET"
    settled = budget.settle(wanted, actual(Usage(100_000, 1_000), price))
    assert settled.left_tokens == 99_000
    assert settled.left_money == pytest.approx(0.3 - 0.102)
    assert settled.reserved.tokens == 0


def test_a_tenants_day_ends_at_midnight_and_a_late_call_is_booked_on_the_day_it_began() -> None:
    ledger = Ledger({"t": Allowance(tokens=100)})
    today = ledger.reserve("t", Amount(80), NOON)
    with pytest.raises(Rejected, match="tenant 't'") as error:
        ledger.reserve("t", Amount(30), NOON)
    assert error.value.retry_after == 43_200
    ledger.reserve("t", Amount(90), NOON + 43_200)
    ledger.settle(today, Amount(75))
    assert ledger.budget("t", NOON).spent == Amount(75)
    assert ledger.budget("t", NOON + 43_200).left_tokens == 10


def test_a_tenant_without_an_entry_has_the_default_and_no_ones_else() -> None:
    ledger = Ledger(default=Allowance(tokens=10))
    ledger.reserve("a", Amount(10), NOON)
    assert ledger.budget("b", NOON).left_tokens == 10


def test_what_a_stored_trace_says_is_counted_after_a_restart() -> None:
    ledger = Ledger({"t": Allowance(tokens=100)})
    ledger.spend("t", Amount(95), NOON)
    with pytest.raises(Rejected):
        ledger.reserve("t", Amount(10), NOON + 60)


def test_days_that_are_over_are_forgotten() -> None:
    ledger = Ledger(default=Allowance(tokens=10))
    for day in range(1000):
        ledger.settle(ledger.reserve("t", Amount(5), NOON + day * 86_400), Amount(5))
    assert len(ledger._days) <= 2


AMOUNTS = st.builds(Amount, st.integers(0, 1000), st.floats(0, 10))


@given(st.integers(0, 3000), st.floats(0, 30), st.lists(st.tuples(AMOUNTS, AMOUNTS, st.booleans()), max_size=30))
def test_a_budget_never_grants_what_it_has_not_and_is_never_below_nothing(
    tokens: int, money: float, steps: list[tuple[Amount, Amount, bool]]
) -> None:
    budget, open_ones = Budget(Allowance(tokens, money)), list[Amount]()
    for wanted, taken, settle in steps:
        before = budget
        try:
            budget = budget.reserve(wanted)
            open_ones.append(wanted)
            assert wanted.tokens <= (before.left_tokens or 0)
        except Rejected:
            assert budget == before
        if settle and open_ones:
            budget = budget.settle(open_ones.pop(), taken)
        assert (budget.left_tokens or 0) >= 0
        assert (budget.left_money or 0.0) >= 0
        assert budget.reserved.tokens == sum(each.tokens for each in open_ones)
