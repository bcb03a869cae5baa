"""The whole product against the demo server over real HTTP, with the shipped tools: what each conversation comes to."""

import itertools
from typing import Literal

import pytest

from orchestrator.agent import Agent, Result
from orchestrator.core.events import Outcome
from orchestrator.core.spec import Language, Protocol
from orchestrator.demo.server import serve
from orchestrator.settings import ModelSettings

TWO_HOPS = "《三体》的作者出生在哪个省？该省的人口是多少？"
UNANSWERABLE = "《球状闪电》这本书的作者是谁？他哪一年出生？"
PROVIDERS: tuple[Literal["openai", "anthropic"], ...] = ("openai", "anthropic")
PROTOCOLS: tuple[Protocol, ...] = ("native", "text")


async def run(
    goal: str,
    model: str,
    protocol: Protocol,
    provider: Literal["openai", "anthropic"] = "openai",
    language: Language = "zh",
) -> Result:
    """One run, with memory for a store."""
    async with serve() as server:
        base = f"{server.url}/v1" if provider == "openai" else server.url
        settings = ModelSettings(provider=provider, base_url=base, model=model)
        async with Agent(model=settings, store="memory") as agent:
            return await agent.run(goal, protocol=protocol, language=language)


@pytest.mark.parametrize(("provider", "protocol"), list(itertools.product(PROVIDERS, PROTOCOLS)))
async def test_the_two_hop_question_takes_three_native_steps_and_five_of_text(
    provider: Literal["openai", "anthropic"], protocol: Protocol
) -> None:
    result = await run(TWO_HOPS, "demo", protocol, provider)
    assert result.outcome is Outcome.ANSWERED
    assert result.steps == (3 if protocol == "native" else 5)
    assert "3491" in (result.answer or "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "behaviour",
    ["forged", "four-actions", "thinking", "malformed", "gap", "ignore", "wander", "unknown-tool", "injected"],
)
async def test_the_right_answer_comes_in_spite_of(behaviour: str, protocol: Protocol) -> None:
    result = await run(TWO_HOPS, f"demo:{behaviour}", protocol)
    assert result.outcome is Outcome.ANSWERED
    assert "3491" in (result.answer or "")
    assert "2183.2" not in (result.answer or "")
    assert "Zeta" not in (result.answer or "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_going_round_in_new_words_ends_with_its_name(protocol: Protocol) -> None:
    result = await run(UNANSWERABLE, "demo:reworded", protocol)
    assert (result.outcome, result.answer) == (Outcome.NO_PROGRESS, None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("behaviour", ["", ":reworded-obedient"])
async def test_what_is_missing_is_said(behaviour: str, protocol: Protocol) -> None:
    result = await run(UNANSWERABLE, f"demo{behaviour}", protocol)
    assert (result.outcome, result.missing) == (Outcome.GAVE_UP, "出生年份")


@pytest.mark.parametrize(
    ("behaviour", "protocol", "outcome"),
    [
        ("prose", "text", Outcome.FORMAT),
        ("empty", "text", Outcome.EMPTY),
        ("empty", "native", Outcome.EMPTY),
        ("html", "native", Outcome.MODEL_FAILED),
    ],
)
async def test_what_is_no_answer_never_becomes_one(behaviour: str, protocol: Protocol, outcome: Outcome) -> None:
    result = await run(TWO_HOPS, f"demo:{behaviour}", protocol)
    assert (result.outcome, result.answer) == (outcome, None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_calculator_and_the_clock_are_called(protocol: Protocol) -> None:
    assert "10.5" in ((await run("What is (1.5 + 2) * 3?", "demo", protocol, language="en")).answer or "")
    assert "+08:00" in ((await run("What time is it in Asia/Shanghai?", "demo", protocol, language="en")).answer or "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_call_that_failed_is_no_answer(protocol: Protocol) -> None:
    result = await run("What is 1 / 0?", "demo", protocol, language="en")
    assert (result.outcome, result.missing) == (Outcome.GAVE_UP, "1 / 0")
