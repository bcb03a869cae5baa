"""Both wire formats are what the providers' clients expect, and a streamed reply says what the whole one says."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from orchestrator.demo.server import serve

GOAL = "《三体》的作者出生在哪个省？该省的人口是多少？"
SCHEMA = {"type": "object", "properties": {"entity": {"type": "string"}}, "required": ["entity"]}
TEXT_SYSTEM = "Action: search[三体]"


def openai(**more: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("search", "lookup")]
    return {"model": "demo", "messages": [{"role": "user", "content": GOAL}], "tools": tools} | more


def anthropic(**more: Any) -> dict[str, Any]:
    tools = [{"name": name, "input_schema": SCHEMA} for name in ("search", "lookup")]
    return {"model": "demo", "max_tokens": 900, "messages": [{"role": "user", "content": GOAL}], "tools": tools} | more


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def openai_joined(response: httpx.Response) -> dict[str, Any]:
    """A streamed chat completion put together again."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    for chunk in events(response):
        for choice in chunk["choices"]:
            message["finish"] = choice["finish_reason"]
            delta = choice["delta"]
            message["content"] += delta.get("content", "")
            message["reasoning_content"] += delta.get("reasoning_content", "")
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    message["tool_calls"].append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
                message["tool_calls"][call["index"]]["arguments"] += call["function"]["arguments"]
        message["usage"] = chunk.get("usage")
    return message


def anthropic_joined(response: httpx.Response) -> dict[str, Any]:
    """A streamed message put together again."""
    message: dict[str, Any] = {}
    pieces: list[str] = []
    for event in events(response):
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
                pieces = []
            case "content_block_delta":
                kind = event["delta"]["type"]
                name = {
                    "text_delta": "text",
                    "thinking_delta": "thinking",
                    "input_json_delta": "partial_json",
                    "signature_delta": "signature",
                }[kind]
                if name == "partial_json":
                    pieces.append(event["delta"][name])
                    message["content"][-1]["input"] = (
                        json.loads("".join(pieces) or "{}") if "".join(pieces).endswith("}") else {}
                    )
                else:
                    message["content"][-1][name] += event["delta"][name]
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
    return message


async def test_a_chat_completion_has_the_shape_clients_read(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/chat/completions", json=openai())
    body = response.json()
    choice = body["choices"][0]
    assert body["object"] == "chat.completion"
    assert choice["finish_reason"] == "tool_calls"
    assert [json.loads(call["function"]["arguments"]) for call in choice["message"]["tool_calls"]] == [
        {"entity": "三体"},
        {"entity": "刘慈欣"},
    ]
    assert len({call["id"] for call in choice["message"]["tool_calls"]}) == 2
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"] > 50


async def test_a_message_has_the_shape_clients_read(http: httpx.AsyncClient) -> None:
    body = (await http.post("/v1/messages", json=anthropic())).json()
    assert (body["type"], body["role"], body["stop_reason"], body["stop_sequence"]) == (
        "message",
        "assistant",
        "tool_use",
        None,
    )
    assert [block["type"] for block in body["content"]] == ["text", "tool_use", "tool_use"]
    assert body["content"][1]["input"] == {"entity": "三体"}
    assert body["usage"]["input_tokens"] > 50
    assert body["usage"]["output_tokens"] > 10


@pytest.mark.parametrize("model", ["demo", "demo:thinking", "demo:prose", "demo:empty"])
async def test_a_streamed_chat_completion_equals_the_whole_one(http: httpx.AsyncClient, model: str) -> None:
    whole = (await http.post("/v1/chat/completions", json=openai(model=model))).json()
    response = await http.post("/v1/chat/completions", json=openai(model=model, stream=True))
    streamed, message = openai_joined(response), whole["choices"][0]["message"]
    assert response.headers["content-type"] == "text/event-stream"
    assert response.text.endswith("data: [DONE]\n\n")
    assert streamed["content"] == (message["content"] or "")
    assert streamed["reasoning_content"] == message.get("reasoning_content", "")
    assert [(each["name"], each["arguments"]) for each in streamed["tool_calls"]] == [
        (each["function"]["name"], each["function"]["arguments"]) for each in message.get("tool_calls", [])
    ]
    assert streamed["usage"] == whole["usage"]


@pytest.mark.parametrize("model", ["demo", "demo:thinking", "demo:prose", "demo:empty"])
async def test_a_streamed_message_equals_the_whole_one(http: httpx.AsyncClient, model: str) -> None:
    whole = (await http.post("/v1/messages", json=anthropic(model=model))).json()
    response = await http.post("/v1/messages", json=anthropic(model=model, stream=True))
    assert anthropic_joined(response) == whole
    assert response.text.startswith("event: message_start\n")
    assert response.text.rstrip().endswith('data: {"type":"message_stop"}')


async def test_stop_sequences_cut_the_reply_and_are_named(http: httpx.AsyncClient) -> None:
    request = anthropic(tools=[], system=TEXT_SYSTEM, stop_sequences=["\nAction:"])
    body = (await http.post("/v1/messages", json=request)).json()
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "\nAction:")
    assert "Action" not in body["content"][0]["text"]


async def test_max_tokens_cut_the_reply(http: httpx.AsyncClient) -> None:
    body = (await http.post("/v1/chat/completions", json=openai(max_tokens=3))).json()
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 3
    assert "tool_calls" not in body["choices"][0]["message"]


async def test_the_server_says_everywhere_that_it_is_no_language_model(http: httpx.AsyncClient) -> None:
    models = await http.get("/v1/models")
    replies = [models, await http.get("/health"), await http.post("/v1/messages", json=anthropic())]
    replies.append(await http.post("/v1/chat/completions", json=openai(stream=True)))
    assert all(reply.headers["x-demo-model"] == "rules, no language model" for reply in replies)
    assert all("no language model" in model["description"] for model in models.json()["data"])
    assert {"demo", "demo:forged", "demo:429"} <= {model["id"] for model in models.json()["data"]}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/messages", b"{", 400),
        ("/v1/messages", b"[]", 400),
        ("/v1/messages", b'{"model": "demo", "messages": [{"role": "user", "content": "x"}]}', 400),
        ("/v1/messages", b'{"model": "demo", "max_tokens": 5, "messages": []}', 400),
        ("/v1/messages", b'{"model": "demo", "max_tokens": 5, "messages": [{"role": "king", "content": "x"}]}', 400),
        ("/v1/messages", b'{"model": "claude", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}', 404),
        ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "x"}]}', 400),
        ("/v1/chat/completions", b'{"model": "demo", "messages": "x"}', 400),
        ("/v1/chat/completions", b'{"model": "demo:nonsense", "messages": [{"role": "user", "content": "x"}]}', 404),
        (
            "/v1/chat/completions",
            b'{"model": "demo", "max_tokens": true, "messages": [{"role": "user", "content": "x"}]}',
            400,
        ),
    ],
)
async def test_a_bad_request_gets_the_providers_own_error(
    http: httpx.AsyncClient, path: str, body: bytes, status: int
) -> None:
    response = await http.post(path, content=body)
    assert response.status_code == status
    assert response.json()["error"]["message"]


async def test_the_connection_is_kept_and_the_latency_is_the_models_name() -> None:
    async with serve() as server, httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        loop = asyncio.get_running_loop()
        started = loop.time()
        first = await http.post("/v1/messages", json=anthropic(model="demo-l50"))
        assert loop.time() - started >= 0.05
        second = await http.post("/v1/messages", json=anthropic())
        assert first.extensions["network_stream"].get_extra_info("client_addr") == second.extensions[
            "network_stream"
        ].get_extra_info("client_addr")
        assert server.requests == 2
