"""Every case of the conformance corpus, as a test of its own; and what the two small local models really wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.events import Actions, Final, StopReason
from orchestrator.core.prompt import Completion
from orchestrator.core.text import read
from tests.corpus import observation, text, wire
from tests.corpus.__main__ import CLASSES, cases, kind, main

DATA = Path(__file__).parent / "corpus" / "data"


def _cases(name: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in cases(DATA / f"{name}_cases.jsonl")]


@pytest.mark.parametrize("case", _cases("text"))
def test_a_text_reply_is_read_by_the_rulings(case: dict[str, Any]) -> None:
    assert kind(case) == "text"
    assert text.score(case) is None


@pytest.mark.parametrize("case", _cases("wire"))
def test_a_provider_response_is_decoded_by_the_rulings(case: dict[str, Any]) -> None:
    assert kind(case) == "wire"
    assert wire.score(case) is None


@pytest.mark.parametrize("case", _cases("observation"))
def test_what_a_tool_returned_is_cleaned_by_the_rulings(case: dict[str, Any]) -> None:
    assert kind(case) == "observation"
    assert observation.score(case) is None


def test_the_scorer_prints_three_rates_and_fails_on_a_gated_miss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = cases(DATA / "text_cases.jsonl")[0]
    wrong = {**good, "id": "wrong", "class": "safety", "expect": {**good["expect"], "final": "no"}}
    file = tmp_path / "two.jsonl"
    file.write_text("\n".join(map(json.dumps, (good, wrong))), encoding="utf-8")
    assert main([str(file)]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "MISS wrong [safety]"
    assert shown[-3:] == ["safety 0/1", "robustness 0/0", "recall 1/1"]
    assert [line.split()[0] for line in shown[-3:]] == list(CLASSES)


def _local() -> list[tuple[str, str, StopReason]]:
    found = []
    for case in cases(DATA / "local_model_outputs.jsonl"):
        choice = case["response"]["choices"][0]
        written = choice["text"] if "text" in choice else choice["message"]["content"]
        stop = StopReason.MAX_TOKENS if choice["finish_reason"] == "length" else StopReason.END_TURN
        found.append((case["prompt_id"], written, stop))
    return found


def test_what_small_local_models_write_never_becomes_a_guess() -> None:
    tools = (
        text.tool({"name": "search", "params": {"entity": "string"}}),
        text.tool({"name": "lookup", "params": {"keyword": "string"}}),
    )
    for prompt, written, stop in _local():
        intent = read(Completion(written, stop=stop), tools, 1).intent
        if isinstance(intent, Actions):
            (action,) = intent.actions
            (value,) = action.input.values()
            assert f"{action.tool}[{value}]".casefold() in written.casefold(), prompt
        elif isinstance(intent, Final):
            assert f"finish[{intent.answer}]" in written, prompt
