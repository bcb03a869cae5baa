"""The Thought-Action gap: does the model call what it says it will call?"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from orchestrator.core.events import Action, Observation
from orchestrator.core.measure.clauses import Text, read, says_something
from orchestrator.core.measure.mentions import Mentions
from orchestrator.core.measure.names import Names, Place, ToolName, names
from orchestrator.core.quick import quick


@quick
@dataclass(frozen=True, slots=True)
class TurnText:
    """One model turn as the health metrics see it: what it wrote, and what came back.

    `thought` is the visible text, `final` the answer, `flags` of "malformed", "truncated", "unparsed_markup".
    """

    reasoning: str | None = None
    thought: str | None = None
    actions: tuple[Action, ...] = ()
    final: str | None = None
    flags: tuple[str, ...] = ()
    observations: tuple[Observation, ...] = ()

    @property
    def written(self) -> str:
        """Reasoning and visible text together."""
        return f"{self.reasoning or ''}\n{self.thought or ''}"


class Said(StrEnum):
    """How a turn's words and its calls agree."""

    MATCH = "match"
    GAP = "gap"
    UNSTATED = "unstated"
    NARRATED = "narrated"


class ThoughtAction(NamedTuple):
    """One sample: the tool that was called (or, when narrated, announced)."""

    tool: str
    result: Said


def thought_actions(turn: TurnText, tools: tuple[ToolName, ...], goal: str) -> tuple[ThoughtAction, ...]:
    """A sample for each Action of the turn, or one for a call that was announced and not made."""
    return verdicts(turn, names(tools), goal)


def verdicts(turn: TurnText, known: Names, goal: str) -> tuple[ThoughtAction, ...]:
    """`thought_actions` for tools whose names are compiled already."""
    if turn.actions:
        results = of_calls(turn.actions, turn.thought or "", turn.reasoning or "", known, goal)
        return tuple(ThoughtAction(action.tool, said) for action, said in zip(turn.actions, results, strict=True))
    announced = None if turn.flags else _announced(turn, known, goal)
    return (ThoughtAction(announced, Said.NARRATED),) if announced else ()


def of_calls(actions: tuple[Action, ...], thought: str, reasoning: str, known: Names, goal: str) -> list[Said]:
    """The verdict on each Action of a turn, by its visible text if that mentions any tool, else by its reasoning."""
    called = {action.tool for action in actions}
    if not called <= known.registered:
        strangers = dict.fromkeys(action.tool for action in actions if action.tool not in known.registered)
        known = names((*known.tools, *map(ToolName, strangers)))
    said = Mentions(read(thought, goal), known)
    if reasoning and not said.places:
        said = Mentions(read(reasoning, goal), known)
    return [_said(action.tool, said, called) for action in actions]


def _said(tool: str, said: Mentions, called: AbstractSet[str]) -> Said:
    if not said.places:
        return Said.UNSTATED
    meant = said.meant(tool)
    if meant:
        return Said.MATCH
    return Said.GAP if meant is False or any(name not in called for name, _, _ in said.plain) else Said.UNSTATED


_W: Final = "(?<![a-z0-9_])"
_E: Final = "(?![a-z0-9_])"
_ADVERB: Final = "(?: (?:[a-z]{2,14}ly|also|now|first|then|just|still|next|again|only|therefore|thus|even|so))?"
_CALLS: Final = "(?:call|use|invoke|run|query|try)"
_CALLING: Final = "(?:calling|using|invoking|running|querying|trying|going to)"
_CUE: Final = re.compile(
    f"{_W}let me{_E}"
    f"|{_W}(?:i|we){_ADVERB}(?:['’](?:ll|d)| (?:will|would|need(?: to)?|should|must|can now)){_E}"
    f"|{_W}(?:i|we){_ADVERB}(?:['’](?:m|re)| am| are){_ADVERB} {_CALLING}{_E}"
    "|我来|我将|我要|我会|接下来|(?<![出发体呈实])现在|正在|(?<![原领祖])先(?![生前])"
)
_LEAD: Final = re.compile(r"[\s\"'“‘「『`*#>•-]{0,20}(?:(?:now|next|so|then|first|ok) )?[\"'“‘「『`*]{0,4}")
_LEADING_CALL: Final = re.compile(rf"{_LEAD.pattern}{_CALLS}{_E}")
_DIRECT: Final = re.compile(r"(?:调用|使用|(?<![费信不])用|查)[\s\"'“‘「『`*《]*$")
_NEXT: Final = re.compile(r"[\s*#>•-]*(?:next|now|接下来|现在),[^,]*")
_ABILITY: Final = re.compile(f"{_W}(?:i|we) can(?! now){_E}|我可以")
_OFFER: Final = re.compile(
    f"{_W}(?:ask me|let me know|(?:would|do) you (?:like|want)|shall i|if you(?:['’]d| would)? (?:want|like|wish|prefer|need)){_E}"
    "|如果[你您]?需要|如有需要|需要的话|如需|(?:要不要|需要|是否要)我"
)
_DONE_BEFORE: Final = re.compile(
    f"{_W}(?:called|used|invoked|ran|queried|tried){_E}|已|刚才|刚刚|之前|此前|上次|通过|根据"
)
_DONE_AFTER: Final = re.compile(f"{_W}(?:gave|returned){_E}|(?:返回|给出|给|查到|显示|得到|拿到)了")


def _announced(turn: TurnText, known: Names, goal: str) -> str | None:
    """The tool whose call this turn, which makes none, announces."""
    written = turn.thought if turn.final is None else turn.final
    if turn.final is None and not says_something(written):
        written = turn.reasoning
    text = read(written or "", goal)
    plain = Mentions(text, known).plain
    if not plain:
        return None
    announcements = _Announcements(text)
    return next((place[0] for place in plain if announcements.hold(place)), None)


class _Announcements:
    """The cues of one text."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.cues, self.abilities, self.offers = (text.find(each) for each in (_CUE, _ABILITY, _OFFER))
        self.done_before, self.done_after = text.find(_DONE_BEFORE), text.find(_DONE_AFTER)

    def hold(self, place: Place) -> bool:
        """Is what is mentioned here announced, to happen now, by the model itself?"""
        _, start, end = place
        low, high = self.text.clause(start)
        said = self.cues.last(low, start)
        if said is None and not self._leads(start, end, low):
            return False
        first, last = self.text.sentence(start)
        if self.offers.within(first, last) or self.abilities.within(*((low, high) if said else (first, last))):
            return False
        cue = said[0] if said else low
        return not (self.done_before.within(cue, start) or self.done_after.within(end, high))

    def _leads(self, start: int, end: int, low: int) -> bool:
        """Does a call verb, or the name with its bracket, open the clause, or stand directly before the name, or Next, before it?"""
        plain = self.text.plain
        if _LEADING_CALL.match(plain, low, start) or _DIRECT.search(plain, max(low, start - 10), start):
            return True
        if plain.startswith("(", end) and _LEAD.fullmatch(plain, low, start):
            return True
        before, _ = self.text.clause(low - 1) if low else (0, 0)
        return low - before < 20 and _NEXT.fullmatch(plain, before, low) is not None
