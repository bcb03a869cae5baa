"""Each misbehaviour does what its name says, and after it the run can still come to the right answer where the name allows it."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.demo.behaviours import BEHAVIOURS
from orchestrator.demo.conversation import Call, Conversation, Turn
from orchestrator.demo.server import serve
from tests.demo.loop import BRACKET_SYSTEM, ask_native, ask_text, calls
from tests.demo.test_wire import anthropic, openai

TWO_HOPS = "《三体》的作者出生在哪个省？该省的人口是多少？"
UNANSWERABLE = "《球状闪电》这本书的作者是谁？他哪一年出生？"


def text(goal: str, model: str, **more: Any) -> dict[str, Any]:
    body = {
        "model": model,
        "max_tokens": 9000,
        "system": BRACKET_SYSTEM,
        "messages": [{"role": "user", "content": goal}],
    }
    return body | more


async def test_forged_writes_its_own_observation_even_past_a_stop_sequence(http: httpx.AsyncClient) -> None:
    reply = (
        await http.post(
            "/v1/messages", json=text("zeta-9 的研发者是谁？", "demo:forged", stop_sequences=["\nObservation:"])
        )
    ).json()
    assert "\nObservation: 本地知识库找到条目" in reply["content"][0]["text"]
    assert "Zeta Labs" in reply["content"][0]["text"]
    assert "蓝鲸实验室" in (await ask_text(http, "zeta-9 的研发者是谁？", "demo:forged"))[-1]


async def test_four_actions_writes_four_and_answers_from_memory(http: httpx.AsyncClient) -> None:
    replies = await ask_text(http, TWO_HOPS, "demo:four-actions")
    assert replies[0].count("Action:") == 4
    assert "2183.2" in replies[0]
    assert "3491" in replies[-1]
    assert len(calls((await ask_native(http, TWO_HOPS, "demo:four-actions"))[0])) == 4


@pytest.mark.parametrize("cap", [512, 2048])
async def test_thinking_eats_max_tokens_and_says_nothing(http: httpx.AsyncClient, cap: int) -> None:
    reply = (
        await http.post("/v1/messages", json=text("zeta-9 的研发者是谁？", "demo:thinking", max_tokens=cap))
    ).json()
    assert (reply["stop_reason"], reply["usage"]["output_tokens"]) == ("max_tokens", cap)
    assert [block["type"] for block in reply["content"]] == ["thinking"]


async def test_thinking_speaks_with_a_budget_of_8192(http: httpx.AsyncClient) -> None:
    reply = (
        await http.post("/v1/messages", json=text("zeta-9 的研发者是谁？", "demo:thinking", max_tokens=8192))
    ).json()
    assert (reply["stop_reason"], reply["usage"]["output_tokens"]) == ("end_turn", 91)
    assert [block["type"] for block in reply["content"]] == ["thinking", "text"]
    body = (await http.post("/v1/chat/completions", json=openai(model="demo:thinking", max_tokens=100))).json()
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["choices"][0]["message"]["content"] == ""
    assert body["choices"][0]["message"]["reasoning_content"]


async def test_reworded_never_repeats_itself_and_never_gives_up(http: httpx.AsyncClient) -> None:
    replies = await ask_text(http, UNANSWERABLE, "demo:reworded", steps=12)
    actions = [reply.split("Action: ")[1] for reply in replies]
    assert actions[1:6] == [
        "lookup[球状闪电]",
        "search[刘慈欣]",
        "lookup[刘慈欣 出生]",
        "lookup[刘慈欣]",
        "lookup[出生年份]",
    ]
    assert len(set(actions)) == 12
    assert not any("finish" in action for action in actions)


@pytest.mark.parametrize("model", ["demo:reworded", "demo:reworded-obedient"])
async def test_only_the_obedient_one_hears_an_intervention(http: httpx.AsyncClient, model: str) -> None:
    told = {
        "role": "user",
        "content": "Observation: 无\n\n最近的 Observation 没有带来新信息。不要换着说法再查同样的内容。",
    }
    messages = [
        {"role": "user", "content": UNANSWERABLE},
        {"role": "assistant", "content": "Action: lookup[刘慈欣]"},
        told,
    ]
    reply = (await http.post("/v1/messages", json=text("", model, messages=messages))).json()["content"][0]["text"]
    assert ("finish[资料不足：缺少 出生年份]" in reply) == (model == "demo:reworded-obedient")


async def test_malformed_arguments_come_once_and_then_right(http: httpx.AsyncClient) -> None:
    replies = await ask_native(http, TWO_HOPS, "demo:malformed")
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(replies[0]["tool_calls"][0]["function"]["arguments"])
    assert calls(replies[1])[0] == ("search", "三体")
    assert "3491" in replies[-1]["content"]
    written = await ask_text(http, TWO_HOPS, "demo:malformed")
    assert written[0].endswith("search {entity: 三体}")
    assert "3491" in written[-1]


@pytest.mark.parametrize(("behaviour", "status"), [("429", 429), ("529", 529)])
async def test_a_refusal_comes_twice_for_each_run_and_then_no_more(
    http: httpx.AsyncClient, behaviour: str, status: int
) -> None:
    for _ in range(2):
        statuses = [(await http.post("/v1/messages", json=anthropic(model=f"demo:{behaviour}"))) for _ in range(3)]
        assert [response.status_code for response in statuses] == [status, status, 200]
        assert statuses[0].json()["error"]["type"] in ("rate_limit_error", "overloaded_error")
        assert statuses[0].headers.get("retry-after") == ("1" if status == 429 else None)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_hang_starts_and_then_says_nothing_more(path: str, streamed: bool) -> None:
    body = (
        anthropic(model="demo:hang", stream=streamed)
        if "messages" in path
        else openai(model="demo:hang", stream=streamed)
    )
    async with serve() as server, httpx.AsyncClient(base_url=server.url, timeout=0.2, trust_env=False) as http:
        seen = b""
        with pytest.raises(httpx.ReadTimeout):
            async with http.stream("POST", path, json=body) as response:
                async for chunk in response.aiter_bytes():
                    seen += chunk
        assert seen
        assert b"message_stop" not in seen
        assert b"[DONE]" not in seen


@pytest.mark.parametrize("streamed", [True, False])
async def test_cut_closes_the_connection_in_the_middle(http: httpx.AsyncClient, streamed: bool) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await http.post("/v1/messages", json=anthropic(model="demo:cut", stream=streamed))


async def test_cut_clean_ends_without_the_terminal_event(http: httpx.AsyncClient) -> None:
    said = await http.post("/v1/messages", json=anthropic(model="demo:cut-clean", stream=True))
    assert "message_start" in said.text
    assert "message_stop" not in said.text
    said = await http.post("/v1/chat/completions", json=openai(model="demo:cut-clean", stream=True))
    assert "[DONE]" not in said.text


async def test_html_is_a_page_with_status_200(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/chat/completions", json=openai(model="demo:html"))
    assert (response.status_code, response.headers["content-type"].split(";")[0]) == (200, "text/html")


async def test_gap_names_one_tool_and_calls_another(http: httpx.AsyncClient) -> None:
    for reply in (await ask_text(http, TWO_HOPS, "demo:gap"))[:-1]:
        thought, action = reply.split("\nAction: ")
        assert ("search" in thought) == action.startswith("lookup")
    native = (await ask_native(http, TWO_HOPS, "demo:gap"))[0]
    assert ("lookup" in native["content"], calls(native)[0][0]) == (True, "search")


async def test_ignore_passes_over_an_error_code(http: httpx.AsyncClient) -> None:
    replies = await ask_text(http, "When was Ines Corvane born?", "demo:ignore")
    assert "search[a thing that is not there]" in replies[0]
    assert replies[1].startswith("Thought: Good, let me use search")
    assert "1931" in replies[-1]


async def test_wander_takes_many_steps_and_then_answers(http: httpx.AsyncClient) -> None:
    goal = "When was Ines Corvane born?"
    assert len(await ask_text(http, goal)) == 2
    replies = await ask_text(http, goal, "demo:wander", steps=15)
    assert len(replies) >= 6
    assert "1931" in replies[-1]


async def test_prose_acts_not_at_all_and_empty_says_nothing(http: httpx.AsyncClient) -> None:
    prose = (await http.post("/v1/messages", json=text(TWO_HOPS, "demo:prose"))).json()
    assert "Action" not in prose["content"][0]["text"]
    assert (await http.post("/v1/messages", json=text(TWO_HOPS, "demo:empty"))).json()["content"] == []
    body = (await http.post("/v1/chat/completions", json=openai(model="demo:empty"))).json()
    assert (body["choices"][0]["message"]["content"], body["choices"][0]["finish_reason"]) == ("", "stop")


async def test_unknown_tool_is_called_once_and_then_the_right_one(http: httpx.AsyncClient) -> None:
    replies = await ask_native(http, TWO_HOPS, "demo:unknown-tool")
    assert calls(replies[0]) == [("browse_web", "三体")]
    assert "3491" in replies[-1]["content"]


async def test_injected_calls_a_tool_the_task_has_no_use_for(http: httpx.AsyncClient) -> None:
    replies = await ask_text(http, TWO_HOPS, "demo:injected")
    assert replies[1].endswith("send_email[everything]")
    assert "3491" in replies[-1]


async def test_the_header_does_what_the_suffix_does(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/messages", json=anthropic(), headers={"x-demo-behaviour": "empty"})
    assert response.json()["content"] == []


async def test_runs_side_by_side_do_not_disturb_each_other(http: httpx.AsyncClient) -> None:
    asked = await asyncio.gather(*(ask_native(http, goal) for goal in [TWO_HOPS, "zeta-9 的研发者是谁？"] * 5))
    assert [("3491" in replies[-1]["content"], "蓝鲸" in replies[-1]["content"]) for replies in asked] == [
        (True, False),
        (False, True),
    ] * 5


HOSTILE = st.text(max_size=200) | st.sampled_from(
    [
        "Action: search[",
        "Observation: {",
        '{"entity": 1, "fields": {"Author": [1]}}',
        "a / b: c",
        "《》",
        "的",
        "Observation: x / Author: y",
    ]
)


@given(
    behaviour=st.sampled_from(sorted(BEHAVIOURS)),
    goal=HOSTILE,
    said=st.lists(st.tuples(HOSTILE, HOSTILE), max_size=4),
    native=st.booleans(),
)
def test_no_conversation_makes_the_demo_model_raise(
    behaviour: str, goal: str, said: list[tuple[str, str]], native: bool
) -> None:
    turns = [Turn("user", goal)]
    for written, seen in said:
        turns += [
            Turn("assistant", written, (Call("1", "search", written),)),
            Turn("user", seen, results=(("1", seen),) if native else ()),
        ]
    conversation = Conversation("demo", "", tuple(turns), {"search": ("entity",)} if native else {}, 100, (), False)
    assert BEHAVIOURS[behaviour](conversation) == BEHAVIOURS[behaviour](conversation)
