"""Reads a reply of the text protocol into a ModelTurn. All dialects at once: what the model wrote decides, not a setting.

Here the outline of the text meets what the provider says about its end and what the tools allow. Never raises on any text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final as Constant

from orchestrator.core.arguments import names, parse
from orchestrator.core.events import Action, Actions, Anomaly, Final, Intent, Malformed, ModelTurn, StopReason
from orchestrator.core.prompt import Completion
from orchestrator.core.spec import ToolSpec
from orchestrator.core.text.found import Call, Ending, fit
from orchestrator.core.text.outline import FORMAT, Outline, outline
from orchestrator.core.text.way_out import missing

_TOLD: Constant = {
    StopReason.REFUSAL: (Anomaly.REFUSAL, "The provider refused to answer."),
    StopReason.CONTENT_FILTER: (Anomaly.CONTENT_FILTERED, "The provider filtered the reply."),
}


def read(completion: Completion, tools: Sequence[ToolSpec], step: int, *, prose_ends: bool = False) -> ModelTurn:
    """The turn that the model proposes in step `step` (from 1).

    `prose_ends`: text without any call is the answer, as in tag dialects; our own prompt demands an end label, so it is not.
    `opaque["text"]` is what may be replayed: nothing after the first Action, no Observation of the model's own.
    """
    seen = outline(completion.text, tools, prose_ends=prose_ends)
    anomalies = set(completion.anomalies) | seen.anomalies
    intent = _intent(seen, completion, tools, step, anomalies)
    if isinstance(intent, Malformed):
        anomalies.add(intent.problem)
    return ModelTurn(
        thought=seen.thought,
        intent=intent,
        stop=completion.stop,
        usage=completion.usage,
        anomalies=tuple(sorted(anomalies)),
        reasoning=completion.reasoning or seen.reasoning,
        opaque={"text": seen.kept},
    )


def _intent(
    seen: Outline, completion: Completion, tools: Sequence[ToolSpec], step: int, anomalies: set[Anomaly]
) -> Intent:
    """The intent with ids, unless the provider says that the reply is no whole reply."""
    if completion.stop in _TOLD:
        return Malformed(*_TOLD[completion.stop])
    if completion.stop is StopReason.MAX_TOKENS:
        anomalies -= {
            Anomaly.NO_ACTION,
            Anomaly.EMPTY,
            Anomaly.EMPTY_FINAL,
            Anomaly.FINAL_AND_ACTION,
            Anomaly.EXTRA_ACTIONS,
        }
        return Malformed(
            Anomaly.TRUNCATED, "The reply was cut off at the token limit; write a shorter Thought and the Action again."
        )
    found = seen.found
    if completion.calls and not isinstance(found, (Call, Ending)):
        return _native(completion, tools, step, anomalies)
    if isinstance(found, Ending):
        return Final(found.answer, missing(found.answer))
    if isinstance(found, Call):
        return _called(found, tools, step, anomalies)
    if found is None:
        return Malformed(Anomaly.NO_ACTION, FORMAT)
    return Malformed(found.problem, _sentence(found.detail))


def _called(call: Call, tools: Sequence[ToolSpec], step: int, anomalies: set[Anomaly]) -> Intent:
    """The call checked against the tools: who is meant, and with what."""
    tool, normalised = names(call.name, tools)
    if tool is None:
        anomalies.add(Anomaly.UNKNOWN_TOOL)
        given = getattr(call.input, "value", None) or {}
        return Actions((Action(f"{step}.0", call.name.strip()[:200], given),))
    fitted = fit(tool, call.input)
    if fitted.value is None:
        return Malformed(
            Anomaly.MALFORMED, _sentence(f"The arguments of {tool.name} could not be read: {fitted.problem}")
        )
    anomalies |= {Anomaly.TOOL_NAME_NORMALISED} if normalised else set()
    anomalies |= {Anomaly.REPAIRED_ARGUMENTS} if fitted.repaired or call.repaired else set()
    return Actions((Action(f"{step}.0", tool.name, fitted.value),))


def _native(completion: Completion, tools: Sequence[ToolSpec], step: int, anomalies: set[Anomaly]) -> Intent:
    """The endpoint has read the markup itself: its first call counts as the Action."""
    first = completion.calls[0]
    given = parse(first.arguments) if isinstance(first.arguments, str) else None
    if len(completion.calls) > 1:
        anomalies.add(Anomaly.EXTRA_ACTIONS)
    if given is not None and given.value is None:
        return Malformed(Anomaly.MALFORMED, _sentence(given.problem))
    value = given.value if given and given.value is not None else first.arguments
    tool, normalised = names(first.name, tools)
    anomalies |= {Anomaly.TOOL_NAME_NORMALISED} if normalised else set()
    anomalies |= {Anomaly.UNKNOWN_TOOL} if tool is None else set()
    return Actions(
        (Action(f"{step}.0", tool.name if tool else first.name, value if not isinstance(value, str) else {}),)
    )


def _sentence(detail: str) -> str:
    """One sentence with a capital and a stop."""
    text = " ".join(detail.split())
    return (text[:1].upper() + text[1:]).rstrip(".") + "."
