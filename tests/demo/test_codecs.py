"""The product's own protocols and codecs read the demo server as they read a provider: four combinations, whole and streamed."""

import itertools

import httpx
import pytest

from orchestrator.core import native, text
from orchestrator.core.events import Actions, Anomaly, Final, ModelTurn, Observation, StopReason
from orchestrator.core.prompt import Prompt
from orchestrator.core.spec import AgentSpec, Language, ToolSpec
from orchestrator.core.spec import Protocol as Kind
from orchestrator.errors import CallError
from orchestrator.providers import PROVIDERS, Asked, Options, Reply
from tests.demo.knowledge import observe

TWO_HOPS = "《三体》的作者出生在哪个省？该省的人口是多少？"
UNANSWERABLE = "《球状闪电》这本书的作者是谁？他哪一年出生？"
TOOLS = tuple(
    ToolSpec(
        name,
        f"{name} the knowledge base",
        {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]},
    )
    for name, parameter in (("search", "entity"), ("lookup", "keyword"))
)


async def run(
    http: httpx.AsyncClient,
    goal: str,
    model: str,
    kind: Kind,
    provider: str,
    *,
    stream: bool = False,
    language: Language = "zh",
) -> list[ModelTurn]:
    """The turns of a run, with the product's own prompts, requests and readers; at most ten."""
    protocol, codec = (native if kind == "native" else text), PROVIDERS[provider]
    agent = AgentSpec(protocol=kind, language=language)
    history, turns = [protocol.question(goal)], list[ModelTurn]()
    while len(turns) < 10:
        offered = TOOLS if kind == "native" else ()
        prompt = Prompt(
            protocol.system(agent, TOOLS), tuple(history), offered, stop=() if offered else text.stops("plain")
        )
        head = codec.head(prompt, Options(model, stream=stream))
        request = codec.request(head, [part for message in history for part in codec.parts(message, model)])
        answer = await http.post(
            f"/v1{request.path.removeprefix('/v1')}", content=request.body, headers=dict(request.headers)
        )
        completion = codec.decode(
            Reply(answer.status_code, dict(answer.headers), answer.content), Asked(model, prompt.max_tokens)
        )
        turns.append(protocol.read(completion, TOOLS, len(turns) + 1))
        if isinstance(turns[-1].intent, Final):
            break
        history += protocol.messages(turns[-1], observed(turns[-1]), "")
    return turns


def observed(turn: ModelTurn) -> tuple[Observation, ...]:
    actions = turn.intent.actions if isinstance(turn.intent, Actions) else ()
    texts = [(action, observe(action.tool, str(next(iter(action.input.values()))))) for action in actions]
    return tuple(
        Observation(action.id, action.tool, "error" if seen.startswith("status: error") else "success", seen)
        for action, seen in texts
    )


def answer(turns: list[ModelTurn]) -> str:
    assert isinstance(turns[-1].intent, Final), turns[-1]
    return turns[-1].intent.answer


@pytest.mark.parametrize(
    ("kind", "provider", "stream"), [*itertools.product(("native", "text"), PROVIDERS, (False, True))]
)
async def test_the_two_hop_question_is_answered_in_every_combination(
    http: httpx.AsyncClient, kind: Kind, provider: str, stream: bool
) -> None:
    turns = await run(http, TWO_HOPS, "demo", kind, provider, stream=stream)
    assert len(turns) == (3 if kind == "native" else 5)
    assert "3491" in answer(turns)
    assert not any(turn.anomalies for turn in turns)
    assert all(turn.usage.input_tokens and turn.usage.output_tokens for turn in turns)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_honest_end_names_what_is_missing(http: httpx.AsyncClient, provider: str) -> None:
    for kind in ("native", "text"):
        turns = await run(http, UNANSWERABLE, "demo", kind, provider)
        assert isinstance(turns[-1].intent, Final)
        assert turns[-1].intent.missing == "出生年份"


@pytest.mark.parametrize(
    ("model", "kind", "anomaly"),
    [
        ("demo:forged", "text", Anomaly.FORGED_OBSERVATION),
        ("demo:four-actions", "text", Anomaly.EXTRA_ACTIONS),
        ("demo:thinking", "text", Anomaly.TRUNCATED),
        ("demo:thinking", "native", Anomaly.TRUNCATED),
        ("demo:malformed", "native", Anomaly.MALFORMED),
        ("demo:prose", "text", Anomaly.NO_ACTION),
        ("demo:empty", "text", Anomaly.EMPTY),
        ("demo:empty", "native", Anomaly.EMPTY),
        ("demo:unknown-tool", "text", Anomaly.UNKNOWN_TOOL),
        ("demo:unknown-tool", "native", Anomaly.UNKNOWN_TOOL),
    ],
)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_misbehaviour_is_seen_for_what_it_is(
    http: httpx.AsyncClient, provider: str, model: str, kind: Kind, anomaly: Anomaly
) -> None:
    turns = await run(http, TWO_HOPS, model, kind, provider)
    assert anomaly in turns[0].anomalies
    if model not in ("demo:thinking", "demo:prose", "demo:empty"):
        assert "3491" in answer(turns)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_malformed_text_arguments_are_refused_and_then_right(http: httpx.AsyncClient, provider: str) -> None:
    turns = await run(http, TWO_HOPS, "demo:malformed", "text", provider)
    assert not isinstance(turns[0].intent, Actions)
    assert "3491" in answer(turns)


async def test_thinking_that_ate_the_budget_is_no_answer(http: httpx.AsyncClient) -> None:
    first = (await run(http, TWO_HOPS, "demo:thinking", "native", "anthropic"))[0]
    assert (first.stop, first.thought) == (StopReason.MAX_TOKENS, "")
    assert first.reasoning


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("model", "code", "stream"),
    [
        ("demo:429", "RATE_LIMITED", False),
        ("demo:529", "OVERLOADED", False),
        ("demo:html", "MALFORMED_RESPONSE", False),
        ("demo:cut-clean", "STREAM_INTERRUPTED", True),
    ],
)
async def test_a_fault_of_the_wire_has_its_code(
    http: httpx.AsyncClient, provider: str, model: str, code: str, stream: bool
) -> None:
    with pytest.raises(CallError) as caught:
        await run(http, TWO_HOPS, model, "native", provider, stream=stream)
    assert caught.value.code == code
    assert caught.value.retry_after == (1.0 if model == "demo:429" else None)
