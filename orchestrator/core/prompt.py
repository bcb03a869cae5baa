"""The neutral words between a protocol (native, text) and a provider (OpenAI, Anthropic): 2 + 2 files, not 4 combinations.

A protocol renders a Run into a Prompt and reads a Completion into a ModelTurn. A provider turns a Prompt into an HTTP
request and a reply into a Completion. Neither knows the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from orchestrator.core.events import Anomaly, StopReason, Usage
from orchestrator.core.quick import quick
from orchestrator.core.spec import Json, JsonObject, ToolSpec


@quick
@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str


@quick
@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of an earlier assistant message. `id` is unique in the conversation and never empty."""

    id: str
    name: str
    input: JsonObject


@quick
@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The answer to the ToolCall of the same id."""

    id: str
    name: str
    text: str
    error: bool = False


Part: TypeAlias = Text | ToolCall | ToolOutput


@quick
@dataclass(frozen=True, slots=True)
class Message:
    """One message. Assistant: Text and ToolCall parts. User: ToolOutput parts first, then Text.

    `opaque` (assistant only) is what the provider gave in `Completion.opaque`; the same provider and model replay it untouched,
    any other rebuilds the message from `parts`.
    """

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]
    opaque: Mapping[str, Json] = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class Prompt:
    """All that a model is asked with. Messages only ever grow at the end; `tail` (the state summary) stands last and is not history.

    `grammar` (GBNF) and `json_schema` constrain the reply where the endpoint can; None asks for free text.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tail: str = ""
    stop: tuple[str, ...] = ()
    max_tokens: int = 4096
    grammar: str | None = None
    json_schema: JsonObject | None = None


@quick
@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call as the provider sent it. `arguments` is the raw JSON text, or an object where the wire has one.

    `id` has been made unique and non-empty by the codec.
    """

    id: str
    name: str
    arguments: str | JsonObject


@quick
@dataclass(frozen=True, slots=True)
class Completion:
    """A provider's reply, decoded: visible text, reasoning, calls. `anomalies` are the codec's (ids, finish reasons)."""

    text: str
    reasoning: str = ""
    calls: tuple[RawCall, ...] = ()
    stop: StopReason = StopReason.END_TURN
    usage: Usage = Usage()
    anomalies: tuple[Anomaly, ...] = ()
    opaque: Mapping[str, Json] = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed reply: visible text or reasoning. `discard`: what was given of this reply so far is void."""

    text: str = ""
    reasoning: str = ""
    discard: bool = False
