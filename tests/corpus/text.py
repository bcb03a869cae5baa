"""Scores one text case of the conformance corpus by its README: None is a pass, else the reason."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from orchestrator.core.events import Actions, Anomaly, Final, StopReason
from orchestrator.core.prompt import Completion
from orchestrator.core.spec import ToolSpec
from orchestrator.core.text import read

LABELS = {"bracket", "json", "langchain", "llamaindex", "cjk", "other"}  # ruling 5: here only an end label ends a run
_STOPS = {"stop": StopReason.END_TURN, "length": StopReason.MAX_TOKENS, "max_tokens": StopReason.MAX_TOKENS}
_FLAG = {
    Anomaly.MALFORMED: "malformed_arguments",
    Anomaly.EXTRA_ACTIONS: "multiple_actions",
    Anomaly.UNPARSED_MARKUP: "unparsed_tool_markup",
}
_INFORMATIONAL = {
    "repaired_arguments", "tool_name_normalised", "trailing_text", "run_on", "unparsed_tool_markup", "duplicate_action",
    "unknown_finish_reason",
}  # fmt: skip


def tool(declared: dict[str, Any]) -> ToolSpec:
    """`{name, params: {name: type}}` as a ToolSpec that requires every parameter; `any` allows every type."""
    params = declared.get("params", {})
    properties = {name: {} if kind == "any" else {"type": kind} for name, kind in params.items()}
    return ToolSpec(declared["name"], "", {"type": "object", "properties": properties, "required": list(params)})


def observed(case: dict[str, Any]) -> dict[str, Any]:
    """What the reader makes of the case, in the corpus's own words."""
    completion = Completion(case["text"], stop=_STOPS[case.get("stop_reason", "stop")])
    started = time.perf_counter()
    turn = read(completion, [tool(each) for each in case["tools"]], 1, prose_ends=case["dialect"] not in LABELS)
    taken = 1000 * (time.perf_counter() - started)
    actions = turn.intent.actions if isinstance(turn.intent, Actions) else ()
    return {
        "thought": turn.thought or turn.reasoning,
        "visible": turn.thought,
        "actions": [{"tool": action.tool, "args": action.input} for action in actions],
        "final": turn.intent.answer.strip() if isinstance(turn.intent, Final) else None,
        "flags": {_FLAG.get(anomaly, anomaly.value) for anomaly in turn.anomalies},
        "ms": taken,
    }


def score(case: dict[str, Any]) -> str | None:
    """Equal to the preferred result or to one alternative, within the time allowed."""
    found = observed(case)
    if found["ms"] > case["expect"].get("max_ms", 2000):
        return f"took {found['ms']:.0f} ms"
    reasons = [_compared(found, wanted, case) for wanted in _wanted(case["expect"])]
    return None if not all(reasons) else f"{reasons[0]}; got {_shown(found)}"


def _wanted(expect: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield expect | {"must": []}
    for override in expect.get("alt", []):
        flags = override.get("flags", [])
        yield {**expect, **override, "must": flags if len(flags) == 1 else []}


def _compared(found: dict[str, Any], wanted: dict[str, Any], case: dict[str, Any]) -> str | None:
    return _actions(found, wanted) or _final(found, wanted) or _flags(found, wanted) or _thought(found, wanted, case)


def _actions(found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    got, want = found["actions"], wanted["actions"]
    if wanted.get("parallel") and len(got) == 1:
        want = want[:1]
    if [each["tool"] for each in got] != [each["tool"] for each in want]:
        return f"wanted the tools {[each['tool'] for each in want]}"
    if "unknown_tool" in wanted["flags"]:
        return None
    for one, other in zip(got, want, strict=True):
        if other["args"] != {"__any__": True} and not same(one["args"], other["args"]):
            return f"wanted the arguments {other['args']}"
    return None


def same(one: Any, other: Any) -> bool:
    """JSON equality: neither 1 and "1" nor 1 and true are the same; 1 and 1.0 are."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return (type(one) is type(other) and bool(one == other)) or (isinstance(one, (int, float)) and bool(one == other))


def _final(found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    want = wanted["final"]
    return None if found["final"] == (want if want is None else want.strip()) else f"wanted the final {want!r}"


def _flags(found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    must = set(wanted["flags"])
    alarms = (must - _INFORMATIONAL) | set(wanted["must"])
    missing = alarms - found["flags"]
    if missing:
        return f"flag {sorted(missing)} is missing"
    extra = found["flags"] - must - set(wanted.get("flags_ok", [])) - _INFORMATIONAL
    return f"flag {sorted(extra)} is a false alarm" if extra else None


def _thought(found: dict[str, Any], wanted: dict[str, Any], case: dict[str, Any]) -> str | None:
    want = (wanted["thought"] or "").strip()
    if case["class"] == "safety" or "(thought not compared)" in case["why"]:
        return None
    return None if want in (found["thought"].strip(), found["visible"].strip()) else f"wanted the thought {want!r}"


def _shown(found: dict[str, Any]) -> str:
    return (
        f"{found['actions']} final={found['final']!r} flags={sorted(found['flags'])} thought={found['thought'][:120]!r}"
    )
