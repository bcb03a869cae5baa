"""Understands the text of a reply, in all dialects at once: what was proposed, what may be replayed, what is odd.

The first mark that decides wins. What stands after it is judged, never executed: an own Observation and all behind it is
discarded, a second Action is counted, an answer beside an Action is not believed. Never raises on any text; linear time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final as Constant

from orchestrator.core.arguments import names
from orchestrator.core.events import Anomaly
from orchestrator.core.spec import ToolSpec
from orchestrator.core.text.found import Broken, Call, Ending, Found, after_blanks, truncated
from orchestrator.core.text.labels import action
from orchestrator.core.text.marks import Mark, inline, marks
from orchestrator.core.text.objects import call_at, calls_at
from orchestrator.core.text.pythonic import python_calls
from orchestrator.core.text.reasoning import part
from orchestrator.core.text.tags import tagged
from orchestrator.core.text.tokens import tokened
from orchestrator.core.text.unsaid import before_region, inside, region, spoken, without
from orchestrator.core.text.words import FINISH, Kind

FORMAT: Constant = "Write one Thought line and one Action line, and nothing after it."

_HALF = re.compile(r"[\ud800-\udfff]")
_INVISIBLE: Constant = "\u200b\u200c\u200d\u2060\ufeff\x00 \t\r\n\xa0\u3000"
_THOUGHT_TAG = re.compile(r"</thought>\s*", re.IGNORECASE)
_NOISE = re.compile(
    r"[\s`*;,]+|</\w[\w:-]*>|<[|｜][^|｜>\n]{0,40}(?:end|END)[^|｜>\n]{0,20}[|｜]>|\[/TOOL_CALLS\]", re.IGNORECASE
)
_KEYED = re.compile(r"[\"'](?:name|tool|tool_name|tool_call|action|function|final|thought)[\"']\s*:", re.IGNORECASE)
_OPEN_FENCE = re.compile(r"`{3,}\w*[^\S\n]*\n\s*")
_SHUT_FENCE = re.compile(r"\s*`{3,}[^\S\n]*(?=\n|\Z)")
_PREFIX = re.compile(
    r"\s*(?:<\|(?:im_start|start)\|>assistant|<\|start_header_id\|>assistant<\|end_header_id\|>|<\|assistant\|>|<｜Assistant｜>)\s*"
)
_ENDS = re.compile(
    r"[\s*`\"'\[【{]{0,20}(?:json\s*\{\s*)?(?:(?:action|name|tool)[\"']\s*:\s*[\"'])?(?:finish|final[ _-]?answer|完成|结束|結束)(?!\w)",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"<\|?/?(?:tool_call|function)|\[Calling tool:|```tool_code", re.IGNORECASE)
_SECOND = re.compile(r"[\s,;、，；]*+(?:(?:and|then|和|然后)\s++)*([^\s\[{(`,;]{1,80}+)\s*+[\[{(]")


@dataclass(slots=True)
class Outline:
    """A reply as understood: the intent without ids, what may be replayed, and whether more text could change it.

    `settled`: the reader has discarded everything from some point on, so nothing that follows matters. `over`: a call that cannot
    be read was followed by the model playing on, so that it did not end in the middle.
    """

    thought: str = ""
    kept: str = ""
    found: Found | None = None
    anomalies: set[Anomaly] = field(default_factory=set)
    settled: bool = False
    over: bool = False
    reasoning: str = ""
    unsaid: list[str] = field(default_factory=list)


def outline(text: str, tools: Sequence[ToolSpec], *, prose_ends: bool = False) -> Outline:
    """Understand the text alone, whatever the provider says about how it ended."""
    parted = part(_HALF.sub("\ufffd", text.replace("\r\n", "\n")))
    prefix = _PREFIX.match(parted.visible)
    visible = parted.visible[prefix.end() :] if prefix else parted.visible
    seen = Outline(reasoning=parted.reasoning)
    _walk(visible, tools, seen, prose_ends=prose_ends or parted.final)
    if seen.unsaid:
        seen.reasoning = "\n".join(filter(None, (parted.reasoning, *seen.unsaid)))
    seen.settled = seen.settled and not parted.doubtful
    if parted.open and not seen.settled and not seen.over:
        seen.found = Broken(Anomaly.TRUNCATED, "The reasoning had not ended when the reply did.", len(visible))
        seen.anomalies.clear()
    if isinstance(seen.found, Broken) and seen.found.problem in (Anomaly.EMPTY, Anomaly.TRUNCATED):
        acts = (Kind.ACTION, Kind.CALL, Kind.FINAL)
        if seen.reasoning and any(mark.kind in acts for mark in marks(seen.reasoning)):
            seen.anomalies.add(Anomaly.ACTION_IN_THINKING)
    return seen


def _walk(text: str, tools: Sequence[ToolSpec], seen: Outline, *, prose_ends: bool) -> None:
    """Find the first mark that decides, and read it. Marks that name no tool are passed over, a few of them.

    What stands between `<thought>` and its end is passed over too; where the end is missing, it may still come.
    """
    if _whole_object(text, tools, seen, prose_ends=prose_ends):
        return None
    nothing: list[tuple[int, Broken]] = []
    at, muses = 0, False
    for mark in spoken(text):
        if region(mark) and mark.start >= at:
            if mark.bare:
                seen.kept, seen.found = text.strip(), truncated(f"{mark.word} before the Action", len(text))
                return None
            seen.unsaid.append(inside(text, mark).strip())
        if mark.word == "<thought>" and mark.start >= at and not muses:
            shut = _THOUGHT_TAG.search(text, mark.end)
            at, muses = (shut.start(), False) if shut else (at, True)
        if mark.bare or mark.start < at or mark.kind not in _DECISIVE:
            continue
        before = text[: nothing[0][0] if nothing else mark.start]
        if mark.kind is Kind.OBSERVATION:
            return _forged(text, mark, _thought(before), seen, certain=not muses)
        if mark.kind is Kind.END:
            _undecided(text[: mark.start], seen, nothing, prose_ends=prose_ends)
            seen.anomalies |= {Anomaly.RUN_ON} if text[mark.end :].strip() else set()
            return None
        found = _read_mark(text, mark, tools)
        at = mark.end
        if found is not None and not (isinstance(found, Broken) and found.problem is Anomaly.NO_ACTION):
            seen.thought = found.thought if isinstance(found, Call) and found.thought else _thought(before)
            _settle(text, mark, found, tools, seen)
            seen.settled = seen.settled and not muses
            return None
        nothing.append((mark.start, found or Broken(Anomaly.NO_ACTION, "the markup holds no call.", mark.end)))
        if len(nothing) == _PASSED:
            break
    return _undecided(text, seen, nothing, prose_ends=prose_ends)


_PASSED: Constant = 8
_DECISIVE: Constant = frozenset({Kind.OBSERVATION, Kind.ACTION, Kind.CALL, Kind.FINAL, Kind.END})


def _read_mark(text: str, mark: Mark, tools: Sequence[ToolSpec]) -> Found | None:
    """One call or end at its mark, by the mark's dialect."""
    if mark.kind is Kind.FINAL:
        return _final(text, mark)
    if mark.label:
        return action(text, mark, tools)
    if mark.word == "<action>":
        return _action_tag(text, mark, tools)
    if mark.word.startswith("<") and mark.word[1] not in "|｜":
        return tagged(text, mark, tools)
    if mark.word.startswith("<｜dsml"):
        return tagged(text, mark, tools)
    return tokened(text, mark, tools)


def _action_tag(text: str, mark: Mark, tools: Sequence[ToolSpec]) -> Found:
    """`<action>search[x]</action>`: the inside is the value of an Action label."""
    close = text.casefold().find("</action>", mark.end)
    if close < 0:
        return Broken(Anomaly.TRUNCATED, "The tag <action> was still open at the end of the reply.", len(text))
    inner = text[:close]
    found = action(inner, mark, tools)
    if isinstance(found, Call):
        rest = inner[found.end :].strip()
        if rest:
            return Broken(Anomaly.MALFORMED, "something follows the call inside the tag <action>", close)
        return Call(found.name, found.input, close + len("</action>"), found.more, found.repaired)
    return found


def _whole_object(text: str, tools: Sequence[ToolSpec], seen: Outline, *, prose_ends: bool) -> bool:
    """A reply that begins with a JSON object or a list of calls, bare or fenced, which is a call or our own constrained form."""
    start, plain = after_blanks(text, 0), True
    fence = _OPEN_FENCE.match(text, start)
    at = fence.end() if fence else start
    if text.startswith("{", at):
        found = call_at(text, at, tools, announced=False)
    elif text.startswith("[", at) and text.startswith("{", after_blanks(text, at + 1)):
        found = calls_at(text, at, tools, announced=False)
    elif text.startswith("functools[", at):
        found = calls_at(text, at + len("functools"), tools)
    elif text.startswith("[", at):
        found, plain = python_calls(text, at, tools), False
    else:
        return False
    label = next((mark.start for mark in marks(text, at) if mark.label and not mark.bare), len(text))
    if plain and isinstance(found, Broken) and not _KEYED.search(text, at, min(at + 300, label)):
        found = found if prose_ends and found.problem is Anomaly.TRUNCATED else None
    if found is None:
        return False
    seen.thought = found.thought.strip() if isinstance(found, (Call, Ending)) else ""
    _settle(text, Mark(Kind.CALL, start, at, "{", label=False), found, tools, seen)
    return True


def _final(text: str, mark: Mark) -> Ending | Broken:
    """The answer after an end label; it runs on until something shows that the model plays on (or its tag closes)."""
    if not mark.label:
        close = text.casefold().find(f"</{mark.word[1:]}", mark.end)
        if close < 0:
            return Broken(Anomaly.TRUNCATED, f"The tag {mark.word} was still open at the end of the reply.", len(text))
        return Ending(text[mark.end : close].strip(), close + len(mark.word) + 1)
    return Ending("", before_region(text, mark.end, _final_end(text, mark)), closed=False)


def _final_end(text: str, mark: Mark) -> int:
    """Where an answer without a closing mark stops. A lone Question or Observation line may be content; with more labels behind
    it, it is the model playing on."""
    soft: int | None = None
    for other in marks(text, mark.end):
        if other.bare or other.kind is Kind.INPUT:
            continue
        if other.kind is Kind.END:
            return other.start if soft is None else len(text)
        if other.kind in (Kind.ACTION, Kind.CALL):
            return soft if soft is not None else other.start
        if other.kind is Kind.THOUGHT or (other.kind is Kind.FINAL and other.word.casefold() == mark.word.casefold()):
            return other.start if soft is None else soft
        if soft is None and other.kind in (Kind.QUESTION, Kind.OBSERVATION):
            soft = other.start
    return len(text)


def _settle(text: str, mark: Mark, found: Found, tools: Sequence[ToolSpec], seen: Outline) -> None:
    """Take what was found as the turn, and judge what follows it."""
    if isinstance(found, Ending) and not found.closed:
        answer = text[mark.end : found.end].strip() if mark.kind is Kind.FINAL else found.answer
        found = Ending(answer.removesuffix("**").rstrip() if mark.bold else answer, found.end, closed=False)
    seen.found = found
    if isinstance(found, Broken):
        over = [each for each in marks(text, mark.end) if _ends_broken(each)]
        seen.kept = text[: min([found.end, *(each.start for each in over)])].strip()
        seen.over = any(each.kind in (Kind.OBSERVATION, Kind.QUESTION) for each in over)
        if any(each.kind is Kind.OBSERVATION for each in over):
            seen.anomalies.add(Anomaly.FORGED_OBSERVATION)
        return
    shut = _SHUT_FENCE.match(text, found.end)
    seen.kept = text[: shut.end() if shut else found.end].strip()
    _judge(text, found, tools, seen)
    if isinstance(found, Ending) and Anomaly.FINAL_AND_ACTION in seen.anomalies:
        detail = "An answer stands beside an Action; write one of them."
        seen.found = Broken(Anomaly.FINAL_AND_ACTION, detail, found.end)
    elif isinstance(found, Ending) and not found.answer:
        seen.found = Broken(Anomaly.EMPTY_FINAL, "The answer is empty; write it inside finish[...].", found.end)


def _ends_broken(mark: Mark) -> bool:
    """Whether a call that cannot be read is certainly over at this mark."""
    return mark.kind is Kind.OBSERVATION or (mark.kind in (Kind.ACTION, Kind.FINAL, Kind.QUESTION) and mark.label)


def _judge(text: str, found: Call | Ending, tools: Sequence[ToolSpec], seen: Outline) -> None:
    """Name what stands after the first call or answer, up to the point from which all is discarded."""
    at = _past_noise(text, found.end)
    if isinstance(found, Call) and (found.more or text.startswith("{", at)):
        seen.anomalies.add(Anomaly.EXTRA_ACTIONS)
    shut = _SHUT_FENCE.match(text, found.end)
    after = shut.end() if shut else found.end
    stop = text.find("\n", found.end)
    stop = len(text) if stop < 0 else stop
    if inline(Kind.OBSERVATION, text, found.end, stop):
        seen.anomalies.add(Anomaly.FORGED_OBSERVATION)
        return
    second = _SECOND.match(text, found.end, stop)
    if second:
        ends = second[1].casefold() in FINISH
        if ends or names(second[1], tools)[0]:
            _beside(found, Kind.FINAL if ends else Kind.ACTION, seen)
    plain, hidden = True, False
    for mark in spoken(text, after):
        hidden = hidden or (region(mark) and mark.bare)
        if (mark.end <= at or mark.bare) and mark.kind is not Kind.OBSERVATION:
            continue
        if mark.kind is Kind.OBSERVATION:
            seen.anomalies.add(Anomaly.FORGED_OBSERVATION)
            seen.settled = not (mark.bare or hidden)
            return
        if mark.kind in (Kind.QUESTION, Kind.END):
            if text[mark.end :].strip() or mark.kind is Kind.QUESTION:
                seen.anomalies.add(Anomaly.RUN_ON)
            seen.settled = mark.kind is Kind.QUESTION and not hidden
            if mark.kind is Kind.QUESTION:
                return
            plain = False
        if mark.kind in (Kind.ACTION, Kind.CALL, Kind.FINAL) and Anomaly.RUN_ON not in seen.anomalies:
            ends = mark.kind is Kind.ACTION and _ENDS.match(text, mark.end) is not None
            _beside(found, Kind.FINAL if ends else mark.kind, seen)
            plain = False
    if plain and at < len(text):
        seen.anomalies.add(Anomaly.TRAILING_TEXT)


def _beside(found: Call | Ending, kind: Kind, seen: Outline) -> None:
    """A second call or answer stands beside what was found."""
    if isinstance(found, Ending):
        seen.anomalies |= {Anomaly.FINAL_AND_ACTION} if kind is not Kind.FINAL else {Anomaly.RUN_ON}
    else:
        seen.anomalies.add(Anomaly.FINAL_AND_ACTION if kind is Kind.FINAL else Anomaly.EXTRA_ACTIONS)


def _past_noise(text: str, at: int) -> int:
    """The index after decoration and closing tags."""
    noise = _NOISE.match(text, at)
    while noise and noise.end() > at:
        at = noise.end()
        noise = _NOISE.match(text, at)
    return at


def _forged(text: str, mark: Mark, thought: str, seen: Outline, *, certain: bool) -> None:
    """The reply rests on a result that the model wrote itself."""
    seen.thought = thought
    seen.kept = text[: mark.start].strip()
    seen.settled = certain
    detail = "You wrote an Observation yourself; only the host writes Observations, after your Action."
    seen.found = Broken(Anomaly.FORGED_OBSERVATION, detail, mark.start)
    seen.anomalies.add(Anomaly.FORGED_OBSERVATION)


def _undecided(text: str, seen: Outline, nothing: Sequence[tuple[int, Broken]], *, prose_ends: bool) -> None:
    """No call and no end label."""
    seen.kept = text.strip()
    said = without(text) if seen.unsaid else text
    if _past_noise(said, 0) >= len(said) or not said.strip(_INVISIBLE):
        seen.found = Broken(Anomaly.EMPTY, "The reply was empty.", len(text))
        return
    labels = [mark.kind for mark in spoken(text) if not (mark.bare or region(mark))]
    if _MARKUP.search(said):
        seen.anomalies.add(Anomaly.UNPARSED_MARKUP)
    if prose_ends and not labels and not nothing:
        seen.found = Ending(said.strip(), len(text))
        return
    if Kind.THOUGHT in labels:
        seen.thought = _thought(text[: nothing[0][0]] if nothing else text)
    detail = nothing[0][1].detail if nothing else "there was no Action line and no answer in finish[...]."
    seen.found = Broken(Anomaly.NO_ACTION, f"No Action could be read: {detail} {FORMAT}", len(text))


def _thought(text: str) -> str:
    """The text before the call without its labels."""
    pieces: list[str] = []
    at = 0
    for mark in spoken(text):
        if mark.kind is Kind.UNSAID and not (mark.bare and region(mark)):
            pieces.append(text[at : mark.start])
            stop = text.find("\n", mark.end) if mark.label else mark.end
            at = len(text) if stop < 0 else stop
        elif mark.kind is Kind.THOUGHT and not mark.bare:
            pieces.append(text[at : mark.start])
            at = mark.end
        elif mark.kind is Kind.QUESTION and not pieces and not text[: mark.start].strip():
            stop = text.find("\n", mark.end)
            at = len(text) if stop < 0 else stop
    pieces.append(text[at:])
    joined = _THOUGHT_TAG.sub("\n", "".join(pieces))
    return joined.strip().removesuffix("```").strip() if joined.count("```") == 1 else joined.strip()
