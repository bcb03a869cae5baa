"""Questions that one call of one other tool answers: a sum, the time somewhere, the weather, a page."""

from __future__ import annotations

import json
import re

from orchestrator.demo.conversation import Conversation
from orchestrator.demo.known import Known, json_objects

ERRANDS = (
    ("calculator", re.compile(r"(?<![\w./-])[(\d][\d\s.()]*(?:\*\*|[-+*/^×÷])[\d\s.+\-*/^×÷()]*[\d)](?![\w-])")),
    ("now", re.compile(r"\b[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+\b")),
    ("http_get", re.compile(r"https?://[^\s，。）)\"'>]+")),
    ("get_weather", re.compile(r"weather (?:like )?(?:now )?in ([A-Z][\w' -]*?)(?=[?.,!]| now| today|$)|(?:请问|查询?一?下?)?([\u4e00-\u9fff]{2,6}?)(?:现在|今天)?的?天气")),
)  # fmt: skip
LONGEST = 300


def errand(conversation: Conversation, known: Known) -> tuple[str, str, str] | None:
    """(tool, argument, answer so far or ""), if the goal is one of these and the tool is offered."""
    for tool, pattern in ERRANDS:
        match = pattern.search(conversation.goal) if offers(conversation, tool) else None
        if match is not None:
            argument = next((group for group in match.groups() if group), match.group()).strip()
            done = known.was_asked(tool, argument) and known.texts
            return tool, argument, report(argument, known.texts[-1]) if done else ""
    return None


def offers(conversation: Conversation, tool: str) -> bool:
    """The tool is offered, natively or in the system prompt."""
    return tool in conversation.tools or (
        not conversation.native and f"{tool}" in re.findall(r"\w+", conversation.system)
    )


def report(argument: str, text: str) -> str:
    """The tool's data as `name: value` pairs."""
    for value in json_objects(text):
        data = value.get("data", value)
        if value.get("status") != "error" and isinstance(data, dict):
            if "result" in data:
                return f"{argument} = {data['result']}"
            return "; ".join(
                f"{name}: {each if isinstance(each, str) else json.dumps(each)}" for name, each in data.items()
            )[:LONGEST]
    lines = [line for line in text.splitlines() if not line.startswith(("--- ", "status: "))]
    return " ".join(" ".join(lines).split())[:LONGEST]
