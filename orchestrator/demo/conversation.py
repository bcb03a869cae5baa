"""What a request says, in one form for both wire formats: the demo model reads this and nothing else.

Hostile input is refused with `BadRequest`, which the server turns into the provider's own error body.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

HEADER = "x-demo-model"
DISCLAIMER = "rules, no language model"
LONGEST_GOAL = 4000


class BadRequest(Exception):
    """The request is not of the provider's shape; the text names the field."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call in the history or in a reply. `arguments` is JSON text, valid unless a behaviour spoils it."""

    id: str
    name: str
    arguments: str

    @property
    def input(self) -> dict[str, Any]:
        """The arguments as an object; empty if they are none."""
        try:
            value = json.loads(self.arguments)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: its text, the calls it makes (assistant), the results it brings (user): pairs of call id and text."""

    role: Literal["user", "assistant"]
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request. `tools` maps each natively offered tool to its parameter names; empty means the text protocol."""

    model: str
    system: str
    turns: tuple[Turn, ...]
    tools: Mapping[str, tuple[str, ...]]
    max_tokens: int
    stop: tuple[str, ...]
    stream: bool

    @property
    def native(self) -> bool:
        """Tools are offered natively."""
        return bool(self.tools)

    @property
    def goal(self) -> str:
        """The first message of the user, as far as it is read."""
        return next((turn.text for turn in self.turns if turn.role == "user"), "")[:LONGEST_GOAL]

    @property
    def step(self) -> int:
        """How often the model has spoken already."""
        return sum(turn.role == "assistant" for turn in self.turns)

    @property
    def last(self) -> str:
        """All that the host said after the model's last turn."""
        said: list[str] = []
        for turn in reversed(self.turns):
            if turn.role == "assistant":
                break
            said.append(turn.text)
        return "\n".join(reversed(said))


def from_openai(body: Any) -> Conversation:
    """Read a chat completions request."""
    fields = mapping(body, "body")
    system: list[str] = []
    turns: list[Turn] = []
    for message in objects(fields.get("messages"), "messages"):
        role, text = message.get("role"), plain(message.get("content"))
        if role in ("system", "developer"):
            system.append(text)
        elif role == "user":
            turns.append(Turn("user", text))
        elif role == "tool":
            turns.append(Turn("user", results=((str(message.get("tool_call_id", "")), text),)))
        elif role == "assistant":
            turns.append(Turn("assistant", text, tuple(openai_calls(message))))
        else:
            raise BadRequest(f"messages: unknown role {role!r}")
    if not turns:
        raise BadRequest("messages: must hold at least one message that is not of the system")
    offered = [mapping(each.get("function"), "tools.function") for each in objects(fields.get("tools") or [], "tools")]
    stop = fields.get("stop") or ()
    return Conversation(
        model=name(fields),
        system="\n".join(system),
        turns=tuple(turns),
        tools={str(each.get("name")): parameters(each.get("parameters")) for each in offered},
        max_tokens=whole(fields.get("max_completion_tokens") or fields.get("max_tokens") or 16384),
        stop=(stop,) if isinstance(stop, str) else tuple(map(str, stop)),
        stream=fields.get("stream") is True,
    )


def openai_calls(message: Mapping[str, Any]) -> Iterator[Call]:
    """The calls of one assistant message."""
    for call in objects(message.get("tool_calls") or [], "tool_calls"):
        function = mapping(call.get("function"), "tool_calls.function")
        yield Call(str(call.get("id", "")), str(function.get("name", "")), str(function.get("arguments", "")))


def from_anthropic(body: Any) -> Conversation:
    """Read a messages request."""
    fields = mapping(body, "body")
    if "max_tokens" not in fields:
        raise BadRequest("max_tokens: Field required")
    turns: list[Turn] = []
    for message in objects(fields.get("messages"), "messages"):
        role = message.get("role")
        if role not in ("user", "assistant"):
            raise BadRequest(f"messages: unexpected role {role!r}")
        turns.append(anthropic_turn(role, message.get("content")))
    if not turns:
        raise BadRequest("messages: at least one message is required")
    return Conversation(
        model=name(fields),
        system=plain(fields.get("system")),
        turns=tuple(turns),
        tools={
            str(e.get("name")): parameters(e.get("input_schema")) for e in objects(fields.get("tools") or [], "tools")
        },
        max_tokens=whole(fields["max_tokens"]),
        stop=tuple(map(str, fields.get("stop_sequences") or ())),
        stream=fields.get("stream") is True,
    )


def anthropic_turn(role: Literal["user", "assistant"], content: Any) -> Turn:
    """One message of content blocks."""
    if isinstance(content, str):
        return Turn(role, content)
    calls: list[Call] = []
    results: list[tuple[str, str]] = []
    for block in objects(content, "content"):
        if block.get("type") == "tool_use":
            arguments = json.dumps(block.get("input"), ensure_ascii=False)
            calls.append(Call(str(block.get("id", "")), str(block.get("name", "")), arguments))
        elif block.get("type") == "tool_result":
            results.append((str(block.get("tool_use_id", "")), plain(block.get("content"))))
    return Turn(role, plain(content), tuple(calls), tuple(results))


def plain(content: Any) -> str:
    """The text of a string or of the text blocks of a list."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(
        str(block.get("text", "")) for block in content if isinstance(block, dict) and block.get("type") == "text"
    )


def name(fields: Mapping[str, Any]) -> str:
    """The model's name."""
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model: must be a non-empty string")
    return model


def parameters(schema: Any) -> tuple[str, ...]:
    """The names of a tool's parameters, required ones first."""
    if not isinstance(schema, dict):
        return ()
    properties, required = schema.get("properties"), schema.get("required")
    names = list(properties) if isinstance(properties, dict) else []
    return tuple(sorted(names, key=lambda each: each not in required)) if isinstance(required, list) else tuple(names)


def objects(value: Any, field: str) -> list[dict[str, Any]]:
    """A list of JSON objects."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise BadRequest(f"{field}: must be a list of objects")
    return value


def mapping(value: Any, field: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise BadRequest(f"{field}: must be an object")
    return value


def whole(value: Any) -> int:
    """A positive whole number."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadRequest("max_tokens: must be a whole number of at least 1")
    return value
