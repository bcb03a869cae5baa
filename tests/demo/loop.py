"""A ReAct loop of a few lines, apart from the product's own, to see what a conversation with the demo model comes to."""

import json
import re
from typing import Any

import httpx

from tests.demo.knowledge import observe

BRACKET_SYSTEM = "可用工具：search[实体] lookup[关键词] finish[答案]\n\nThought: 你现在想到什么\nAction: search[三体]"
JSON_SYSTEM = 'Tools: search {"entity": string}, lookup {"keyword": string}.\nAction: search {"entity": "..."}\nAction: finish[answer]'
BAD_ARGUMENTS = "status: error, code: INVALID_ARGUMENTS"
PARAMETERS = {"search": "entity", "lookup": "keyword"}


async def ask_text(
    http: httpx.AsyncClient, goal: str, model: str = "demo", system: str = BRACKET_SYSTEM, steps: int = 12
) -> list[str]:
    """The replies of a text run over the Anthropic wire; the last one holds finish[...]."""
    messages, replies = [{"role": "user", "content": f"Question: {goal}"}], []
    for _ in range(steps):
        body = {
            "model": model,
            "max_tokens": 9000,
            "system": system,
            "messages": messages,
            "stop_sequences": ["\nObservation:"],
        }
        content = (await http.post("/v1/messages", json=body)).json()["content"]
        replies.append("".join(block["text"] for block in content if block["type"] == "text"))
        action = re.search(r"Action: (\w+)\s*(?:\[(.*)\]|(\{.*\}))", replies[-1])
        if action is not None and action[1] == "finish":
            break
        given = None if action is None else action[2] if action[2] is not None else argument(action[3])
        seen = "format error" if action is None or given is None else observe(action[1], given)
        messages += [
            {"role": "assistant", "content": replies[-1] or "…"},
            {"role": "user", "content": f"Observation: {seen}"},
        ]
    return replies


async def ask_native(http: httpx.AsyncClient, goal: str, model: str = "demo", steps: int = 12) -> list[dict[str, Any]]:
    """The assistant messages of a native run over the OpenAI wire; the last one has no calls."""
    tools = [{"type": "function", "function": {"name": name, "parameters": schema(name)}} for name in PARAMETERS]
    messages: list[dict[str, Any]] = [{"role": "user", "content": goal}]
    replies: list[dict[str, Any]] = []
    for _ in range(steps):
        body = {"model": model, "tools": tools, "messages": messages}
        replies.append((await http.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"])
        messages.append(replies[-1])
        for call in replies[-1].get("tool_calls", []):
            given = argument(call["function"]["arguments"])
            seen = BAD_ARGUMENTS if given is None else observe(call["function"]["name"], given)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": seen})
        if "tool_calls" not in replies[-1]:
            break
    return replies


def argument(text: str) -> str | None:
    """The first argument of a JSON object; None if the text is none."""
    try:
        return str(next(iter(json.loads(text).values())))
    except ValueError:
        return None


def schema(name: str) -> dict[str, Any]:
    """One required string."""
    return {"type": "object", "properties": {PARAMETERS[name]: {"type": "string"}}, "required": [PARAMETERS[name]]}


def calls(message: dict[str, Any]) -> list[tuple[str, str]]:
    """A message's calls as (tool, argument)."""
    functions = [call["function"] for call in message.get("tool_calls", [])]
    return [(function["name"], next(iter(json.loads(function["arguments"]).values()))) for function in functions]
