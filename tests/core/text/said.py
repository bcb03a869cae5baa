"""Short words for tests of the text protocol: tools, and what a reply comes to."""

from __future__ import annotations

from typing import Any

from orchestrator.core.events import Actions, Anomaly, Final, StopReason
from orchestrator.core.prompt import Completion
from orchestrator.core.spec import Json, ToolSpec
from orchestrator.core.text import read


def tool(name: str, /, aliases: tuple[str, ...] = (), **params: str) -> ToolSpec:
    """A tool that requires every parameter; `any` allows every type."""
    properties: dict[str, Json] = {key: {} if kind == "any" else {"type": kind} for key, kind in params.items()}
    return ToolSpec(
        name,
        f"The tool {name}.",
        {"type": "object", "properties": properties, "required": list(params)},
        aliases=aliases,
    )


TOOLS = (
    tool("search", query="string"),
    tool("delete_records", table="string"),
    tool("get_weather", city="string", unit="string"),
    tool("write_file", path="string", content="string"),
    tool("get_time"),
    tool("get_page", n="integer"),
    tool("find_docs", filter="object", limit="integer"),
)

FORGED = Anomaly.FORGED_OBSERVATION
EXTRA = Anomaly.EXTRA_ACTIONS
BOTH = Anomaly.FINAL_AND_ACTION
QUIET = {
    Anomaly.REPAIRED_ARGUMENTS,
    Anomaly.TOOL_NAME_NORMALISED,
    Anomaly.TRAILING_TEXT,
    Anomaly.RUN_ON,
    Anomaly.UNPARSED_MARKUP,
}


def said(text: str, *, stop: StopReason = StopReason.END_TURN, prose_ends: bool = False) -> tuple[Any, set[Anomaly]]:
    """What the reply comes to: `("tool", input)`, the answer as a str, or the problem; and its alarms."""
    turn = read(Completion(text, stop=stop), TOOLS, 1, prose_ends=prose_ends)
    alarms = set(turn.anomalies) - QUIET
    if isinstance(turn.intent, Actions):
        (action,) = turn.intent.actions
        return (action.tool, action.input), alarms
    if isinstance(turn.intent, Final):
        return turn.intent.answer, alarms
    assert turn.intent.detail.endswith("."), "one sentence for the model"
    return turn.intent.problem, alarms - {turn.intent.problem}
