"""The article's four pits, through real HTTP and the whole product: each is seen, named, and answered by the host."""

from __future__ import annotations

import pytest

from orchestrator.agent import Agent
from orchestrator.core.events import Actions, Anomaly, Event, Malformed, ModelTurn, Observation, Outcome, RunEnded
from orchestrator.demo.server import serve
from orchestrator.settings import ModelSettings, Settings

ZETA = "zeta-9 型号的研发者是谁？"
TWO_HOPS = "《三体》的作者出生在哪个省？该省的人口是多少？"
UNANSWERABLE = "《球状闪电》这本书的作者是谁？他哪一年出生？"


async def _run(behaviour: str, goal: str, protocol: str = "text") -> tuple[RunEnded, list[Event]]:
    async with serve() as server:
        model = ModelSettings(
            provider="anthropic",
            base_url=server.url,
            model=f"demo{behaviour}",
            protocol="text" if protocol == "text" else "native",
        )
        async with Agent(settings=Settings(models={"demo": model}, store="memory")) as agent:
            entries = [entry.event async for entry in agent.stream(goal, language="zh")]
    ended = entries[-1]
    assert isinstance(ended, RunEnded)
    return ended, entries


def _turns(events: list[Event]) -> list[ModelTurn]:
    return [event for event in events if isinstance(event, ModelTurn)]


async def test_pit_1_silence_at_max_tokens_gets_a_larger_budget_and_no_scolding() -> None:
    ended, events = await _run(":thinking", ZETA)
    first, *others = _turns(events)
    assert isinstance(first.intent, Malformed)
    assert (first.intent.problem, first.thought) == (Anomaly.TRUNCATED, "")
    assert all(not isinstance(turn.intent, Malformed) for turn in others)
    assert (ended.outcome, "蓝鲸实验室" in str(ended.answer)) == (Outcome.ANSWERED, True)


async def test_pit_2_the_invented_zeta_labs_is_never_believed() -> None:
    ended, events = await _run(":forged", ZETA)
    forged = [turn for turn in _turns(events) if Anomaly.FORGED_OBSERVATION in turn.anomalies]
    assert forged
    assert all(isinstance(turn.intent, Actions) for turn in forged)
    seen = [event for event in events if isinstance(event, Observation)]
    assert not any("Zeta Labs" in event.content for event in seen)
    assert "Zeta Labs" not in str(ended.answer)
    assert "蓝鲸实验室" in str(ended.answer)


async def test_pit_3_of_four_actions_in_one_reply_the_first_runs_and_the_answer_from_memory_is_dropped() -> None:
    ended, events = await _run(":four-actions", TWO_HOPS)
    first = _turns(events)[0]
    assert isinstance(first.intent, Actions)
    assert (len(first.intent.actions), Anomaly.EXTRA_ACTIONS in first.anomalies) == (1, True)
    assert "北京" not in str(ended.answer)
    assert "山西" in str(ended.answer)


@pytest.mark.parametrize(
    ("behaviour", "outcome"), [(":reworded", Outcome.NO_PROGRESS), (":reworded-obedient", Outcome.GAVE_UP)]
)
async def test_pit_4_the_reworded_loop_ends_honestly_within_six_steps(behaviour: str, outcome: Outcome) -> None:
    ended, events = await _run(behaviour, UNANSWERABLE)
    assert len(_turns(events)) <= 6
    assert ended.outcome is outcome
    assert "出生" in str(ended.missing)


@pytest.mark.parametrize(("protocol", "calls"), [("native", 3), ("text", 5)])
async def test_the_two_hop_question_takes_three_native_calls_and_five_of_text(protocol: str, calls: int) -> None:
    ended, events = await _run("", TWO_HOPS, protocol)
    assert len(_turns(events)) == calls
    assert "3491" in str(ended.answer)
