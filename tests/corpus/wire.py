"""Scores one wire case of the conformance corpus by its README: None is a pass, else the reason."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from orchestrator.core import native
from orchestrator.core.events import Actions, Anomaly, Final, ModelTurn
from orchestrator.core.prompt import Completion
from orchestrator.core.spec import ToolSpec
from orchestrator.errors import CallError, Permanent
from orchestrator.providers import PROVIDERS, Asked, Reply

_FLAG = {
    Anomaly.MALFORMED: "malformed_arguments",
    Anomaly.EXTRA_ACTIONS: "multiple_actions",
    Anomaly.UNPARSED_MARKUP: "unparsed_tool_markup",
}
_ALARMS = {
    "forged_observation", "multiple_actions", "truncated", "malformed_arguments", "unknown_tool", "final_and_action", "empty",
    "empty_final", "no_action", "action_in_thinking", "missing_call_id", "duplicate_call_id", "refusal", "paused",
    "content_filtered",
}  # fmt: skip


def score(case: dict[str, Any]) -> str | None:
    """Decode, read, compare. A streamed case must come out the same however its bytes are split."""
    pieces = (1, 7, 10**9) if case["request"].get("stream") else (0,)
    for size in pieces:
        found = _observed(case, size)
        reasons = [_compared(found, wanted, case) for wanted in _wanted(case["expect"])]
        if all(reasons):
            return f"[{size} bytes a piece] {reasons[0]}"
    return None


def tool(declared: str) -> ToolSpec:
    """`name(a,b: array)` as a ToolSpec that requires every parameter; strings where no type is named."""
    name, _, inside = declared.rstrip(")").partition("(")
    fields = [field.partition(":") for field in inside.split(",") if field.strip()]
    properties = {field.strip(): {"type": kind.strip() or "string"} for field, _, kind in fields}
    return ToolSpec(name, "", {"type": "object", "properties": properties, "required": list(properties)})


def reply(case: dict[str, Any]) -> Reply:
    """The HTTP answer of a case, as the transport would hand it on."""
    encoded = case.get("body_base64")
    body = base64.b64decode(encoded) if encoded else case["body"].encode("utf-8", "surrogatepass")
    headers = {name.lower(): value for name, value in case["headers"].items()}
    return Reply(case["http_status"], headers, body, case.get("transport") == "closed_early")


def _completion(case: dict[str, Any], size: int) -> Completion:
    provider = PROVIDERS[case["provider"]]
    now = datetime.fromisoformat(case["now"]).timestamp() if case.get("now") else None
    asked = Asked("m", case["request"].get("max_tokens", 0), now)
    answer = reply(case)
    if not size or answer.status != 200:
        return provider.decode(answer, asked)
    stream = provider.stream(asked)
    for at in range(0, len(answer.body), size):
        stream.feed(answer.body[at : at + size])
    return stream.end(closed_early=answer.closed_early)


def _observed(case: dict[str, Any], size: int) -> dict[str, Any]:
    tools = [tool(each) for each in case["request"]["tools"]]
    nothing: dict[str, Any] = {"actions": [], "final": None, "thought": None, "flags": set(), "calls": []}
    try:
        completion = _completion(case, size)
    except CallError as error:
        outcome = "fail" if isinstance(error, Permanent) else "retry"
        return nothing | {"outcome": outcome, "error_code": error.code, "retry_after_s": error.retry_after}
    turn = _read(case, completion, tools)
    actions = turn.intent.actions if isinstance(turn.intent, Actions) else ()
    return {
        "outcome": "turn",
        "error_code": None,
        "retry_after_s": None,
        "thought": turn.thought or turn.reasoning,
        "actions": [{"tool": action.tool, "args": action.input} for action in actions],
        "final": turn.intent.answer.strip() if isinstance(turn.intent, Final) else None,
        "flags": {_FLAG.get(anomaly, anomaly.value) for anomaly in turn.anomalies},
        "calls": [call.id for call in completion.calls],
    }


def _read(case: dict[str, Any], completion: Completion, tools: list[ToolSpec]) -> ModelTurn:
    if "protocol" not in case["request"]:
        return native.read(completion, tools, 1)
    from orchestrator.core import text

    return text.read(completion, tools, 1)


def _wanted(expect: dict[str, Any]) -> list[dict[str, Any]]:
    return [expect, *({**expect, **override, "only": True} for override in expect.get("alt", []))]


def _compared(found: dict[str, Any], wanted: dict[str, Any], case: dict[str, Any]) -> str | None:
    if found["outcome"] not in {wanted["outcome"], *wanted.get("outcome_ok", [])}:
        return f"outcome {found['outcome']} ({found['error_code']}), wanted {wanted['outcome']}"
    if found["outcome"] != "turn":
        codes = {wanted.get("error_code"), *wanted.get("error_code_ok", [])} - {None}
        if codes and found["error_code"] not in codes:
            return f"error {found['error_code']}, wanted {wanted['error_code']}"
        return _delay(found["retry_after_s"], wanted.get("retry_after_s"))
    if wanted["outcome"] != "turn" and "turn" not in wanted.get("outcome_ok", []):
        return "a turn where none may be"
    return (
        _actions(found, wanted)
        or _final(found, wanted)
        or _flags(found["flags"], wanted)
        or _ids(found, wanted)
        or _soft(found, wanted, case)
    )


def _delay(found: float | None, wanted: float | None) -> str | None:
    same = found == wanted or (found is not None and wanted is not None and abs(found - wanted) < 0.01)
    return None if same else f"retry_after {found}, wanted {wanted}"


def _actions(found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    expected = wanted.get("actions") or []
    if len(found["actions"]) != len(expected):
        return f"actions {found['actions']}, wanted {expected}"
    unknown = "unknown_tool" in found["flags"]
    for mine, theirs in zip(found["actions"], expected, strict=True):
        free = unknown or theirs["args"] == {"__any__": True}
        if mine["tool"] != theirs["tool"] or not (free or _equal(mine["args"], theirs["args"])):
            return f"action {mine}, wanted {theirs}"
    return None


def _final(found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    expected = wanted.get("final")
    return (
        None if found["final"] == (expected and expected.strip()) else f"final {found['final']!r}, wanted {expected!r}"
    )


def _flags(found: set[str], wanted: dict[str, Any]) -> str | None:
    must = set(wanted.get("flags") or [])
    if wanted.get("only") is None:
        must &= _ALARMS
    if lacking := (must & _ALARMS) - found or (must - found if must and not must & _ALARMS else set()):
        return f"flags {sorted(found)} lack {sorted(lacking)}"
    odd = (found & _ALARMS) - must - set(wanted.get("flags_ok", []))
    return f"flags {sorted(odd)} too many" if odd else None


def _ids(found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    expected = wanted.get("calls")
    if not expected or not found["actions"]:
        return None
    same = len(expected) == len(found["calls"]) and all(
        want in (id, "__unique__") for id, want in zip(found["calls"], expected, strict=True)
    )
    unique = len(set(found["calls"])) == len(found["calls"]) and all(found["calls"])
    return None if same and unique else f"call ids {found['calls']}, wanted {expected}"


def _soft(found: dict[str, Any], wanted: dict[str, Any], case: dict[str, Any]) -> str | None:
    expected = wanted.get("thought")
    if not expected or case["class"] == "safety" or "(thought not compared)" in case["why"]:
        return None
    plain = re.sub(r"\s+", " ", expected).strip()
    return (
        None
        if plain in re.sub(r"\s+", " ", found["thought"]).strip()
        else f"thought {found['thought']!r}, wanted {expected!r}"
    )


def _equal(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        return mine.keys() == theirs.keys() and all(_equal(mine[key], theirs[key]) for key in mine)
    if isinstance(mine, list | tuple) and isinstance(theirs, list | tuple):
        return len(mine) == len(theirs) and all(map(_equal, mine, theirs))
    if isinstance(mine, bool) or isinstance(theirs, bool):
        return mine is theirs
    return bool(mine == theirs)
