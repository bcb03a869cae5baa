from __future__ import annotations

import pytest

from orchestrator.errors import (
    CallError,
    CircuitOpen,
    ConfigError,
    ContextOverflow,
    Rejected,
    Timeout,
    Unauthorised,
    Unavailable,
)
from orchestrator.policy import Ask, FellBack, Incident, fallback, layered, retry
from tests.policy.callee import Callee, down

pytestmark = pytest.mark.virtual


@pytest.mark.parametrize(
    "error",
    [
        CircuitOpen("CIRCUIT_OPEN", "open"),
        down(),
        ContextOverflow("CONTEXT_OVERFLOW", "too long"),
        Rejected("REFUSED", "no"),
        Timeout("TIMEOUT", "slow"),
    ],
    ids=lambda error: error.code,
)
async def test_the_next_model_is_asked_when_one_is_out(error: CallError) -> None:
    ask, told = Ask("x"), list[Incident]()
    chain = fallback([("first", Callee([error])), ("second", Callee(["answer"]))], observe=told.append)
    assert await chain(ask) == "answer"
    assert [(each.target, each.code) for each in ask.attempts] == [("first", error.code)]
    assert told == [FellBack("first", "second", error.code)]


@pytest.mark.parametrize(
    "error",
    [
        Rejected("BAD_REQUEST", "400"),
        Unauthorised("UNAUTHORISED", "401"),
        Timeout("DEADLINE", "over"),
        Rejected("OUT_OF_BUDGET", "spent"),
        ValueError("a bug"),
    ],
    ids=lambda error: getattr(error, "code", "bug"),
)
async def test_what_another_model_would_only_hide_is_raised_at_once(error: Exception) -> None:
    second = Callee()
    with pytest.raises(type(error)):
        await fallback([("first", Callee([error])), ("second", second)])(Ask("x"))
    assert second.at == []


async def test_a_context_overflow_is_never_asked_twice_of_the_same_model() -> None:
    first, second = (Callee(does=lambda: ContextOverflow("CONTEXT_OVERFLOW", "too long")) for _ in range(2))
    with pytest.raises(ContextOverflow):
        await fallback([("first", layered(first, retry())), ("second", layered(second, retry()))])(Ask("x"))
    assert (len(first.at), len(second.at)) == (1, 1)


async def test_tries_of_each_model_are_recorded_once_under_its_own_name() -> None:
    ask = Ask("x")
    chain = fallback(
        [("a", layered(Callee(does=down), retry(target="a"))), ("b", layered(Callee([down()]), retry(target="b")))]
    )
    assert await chain(ask) == "x"
    assert [each.target for each in ask.attempts] == ["a", "a", "a", "a", "b"]


async def test_a_refusal_goes_to_the_next_and_is_the_answer_when_all_refuse() -> None:
    ask = Ask("x")
    chain = fallback([("a", Callee(["I refuse"])), ("b", Callee(["fine"]))], refused=lambda each: "refuse" in each)
    assert await chain(ask) == "fine"
    assert [(each.target, each.code) for each in ask.attempts] == [("a", "REFUSED")]
    chain = fallback([("a", Callee(["I refuse"])), ("b", Callee([down()]))], refused=lambda each: "refuse" in each)
    assert await chain(Ask("x")) == "I refuse"


async def test_when_all_fail_the_error_that_may_pass_is_raised() -> None:
    chain = fallback([("a", Callee([down()])), ("b", Callee([ContextOverflow("CONTEXT_OVERFLOW", "too long")]))])
    with pytest.raises(Unavailable):
        await chain(Ask("x"))


async def test_a_listener_is_told_to_discard_when_another_model_begins() -> None:
    heard: list[str] = []
    await fallback([("a", Callee([down()])), ("b", Callee())])(Ask("x", discard=lambda: heard.append("discard")))
    assert heard == ["discard"]


async def test_a_chain_of_none_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="models = "):
        fallback([])
