"""A Step as a reply, in the protocol and style that the conversation teaches."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from orchestrator.demo.conversation import Call, Conversation
from orchestrator.demo.planner import Need, Step

JSON_STYLE = re.compile(r"Action\s*[:：]\s*[\w<>]+\s*\{", re.IGNORECASE)
BRACKET_STYLE = re.compile(r"Action\s*[:：]\s*[\w<>]+\s*\[", re.IGNORECASE)
FINISH_JSON = re.compile(r"finish\s*\{", re.IGNORECASE)
PARAMETERS = {
    "search": "entity", "lookup": "keyword", "calculator": "expression", "now": "timezone", "http_get": "url",
    "get_weather": "city",
}  # fmt: skip

Stop = Literal["end", "tools", "length", "stop_sequence"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes out. `stopped` is the stop sequence that was hit; `tokens` overrides the count of output tokens."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    stop: Stop = "end"
    stopped: str | None = None
    tokens: int | None = None


def speak(conversation: Conversation, step: Step) -> Reply:
    """Say a step."""
    if conversation.native:
        if not step.needs:
            return Reply("\n".join(filter(None, (step.answer, step.remark))))
        calls = [call(conversation, need, index) for index, need in enumerate(step.needs)]
        return Reply(" ".join(dict.fromkeys(need.thought for need in step.needs)), tuple(calls), stop="tools")
    if step.needs:
        need = step.needs[0]
        return Reply(f"Thought: {need.thought}\nAction: {action(conversation, need.tool, need.argument)}")
    return Reply(f"Thought: {step.thought or '…'}\nAction: {finish(conversation, step.answer)}")


def call(conversation: Conversation, need: Need, index: int) -> Call:
    """A native call; its id is unique in the conversation."""
    arguments = json.dumps({parameter(conversation, need.tool): need.argument}, ensure_ascii=False)
    return Call(f"demo_{conversation.step + 1}_{index}", need.tool, arguments)


def action(conversation: Conversation, tool: str, argument: str) -> str:
    """`search[X]` or `search {"entity": "X"}`, as the system prompt shows it; JSON where it shows both."""
    if BRACKET_STYLE.search(conversation.system) and not JSON_STYLE.search(conversation.system):
        return f"{tool}[{argument}]"
    return f"{tool} {json.dumps({parameter(conversation, tool): argument}, ensure_ascii=False)}"


def finish(conversation: Conversation, answer: str) -> str:
    """The end label."""
    if FINISH_JSON.search(conversation.system):
        return f"finish {json.dumps({'answer': answer}, ensure_ascii=False)}"
    return f"finish[{answer}]"


def parameter(conversation: Conversation, tool: str) -> str:
    """The name of a tool's first parameter: as offered, as the prompt shows it, or as the shipped tools have it."""
    offered = conversation.tools.get(tool)
    if offered:
        return offered[0]
    if tool in PARAMETERS and re.search(rf"\b{PARAMETERS[tool]}\b", conversation.system):
        return PARAMETERS[tool]
    shown = re.search(rf"\b{re.escape(tool)}\s*[({{]\s*\"?(\w+)", conversation.system)
    return shown.group(1) if shown else PARAMETERS.get(tool, "input")
