"""A model behind its endpoint: what a turn cost is known, or estimated, never nothing."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from orchestrator.core import native
from orchestrator.core.decide import AskModel
from orchestrator.core.events import Anomaly, Final, ModelTurn, StopReason, Usage
from orchestrator.http import Endpoint
from orchestrator.model import EndpointModels
from orchestrator.settings import ModelSettings, Price, Settings
from tests.build import run_of, started
from tests.stand_in import Answering, answer

PRICED = ModelSettings(
    provider="openai", base_url="http://localhost:1/v1", model="m", stream=False, price=Price(input=1.0, output=2.0)
)


async def turn_of(reply: dict[str, object]) -> ModelTurn:
    def connect(url: str) -> Endpoint:
        return Endpoint(url, connections=Answering(lambda _url, _body: answer(json.dumps(reply).encode())))

    async with EndpointModels(Settings(models={"default": PRICED}), connect=connect) as models:
        run = run_of(started())
        return await models.open(run).turn(run, AskModel(100), lambda _: None)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}], ids=json.dumps)
async def test_a_turn_whose_usage_is_not_told_is_not_free(usage: object) -> None:
    choice = {"index": 0, "message": {"content": "x" * 400}, "finish_reason": "stop"}
    turn = await turn_of({"choices": [choice], "usage": usage})
    assert turn.usage.output_tokens == 100
    assert turn.usage.input_tokens > 10
    assert turn.usage.cost == pytest.approx((turn.usage.input_tokens + 200) / 1e6)


async def test_a_usage_that_is_told_is_believed() -> None:
    choice = {"index": 0, "message": {"content": "x" * 400}, "finish_reason": "stop"}
    turn = await turn_of({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (7, 3)


async def test_nothing_that_was_read_is_lost_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "opaque": {"ids": ["a"]},
        "stop": StopReason.STOP_SEQUENCE,
        "anomalies": (Anomaly.RUN_ON,),
        "reasoning": "r",
    }
    read = ModelTurn("thought", Final("answer"), **told)  # type: ignore[arg-type]
    monkeypatch.setattr(native, "read", lambda *_: read)
    choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
    turn = await turn_of({"choices": [choice], "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 3}})
    usage = Usage(1_000_000, 3, cost=turn.usage.cost)
    assert turn == replace(read, usage=usage, model="default", seconds=turn.seconds)
    written_here = {"usage", "model", "seconds", "first_token", "attempts", "kind"}
    assert {each.name for each in fields(ModelTurn)} == written_here | {"thought", "intent", *told}
