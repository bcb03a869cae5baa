"""Mentions of tools in a text: which tool, and whether it is meant now, later or not at all. Negated wins over later.

Every sign (a negation, a "then", a fall-back) is looked up by position in lists made by one pass over the text, so the cost is
linear however the text is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from orchestrator.core.measure.clauses import CJK, Spans, Text, lazy, spans
from orchestrator.core.measure.names import Names, Place

_W: Final = "(?<![a-z0-9_])"  # a word of Latin letters starts here; \b would take CJK characters for letters
_E: Final = "(?![a-z0-9_])"

_NOT: Final = re.compile(
    "(?P<skip>要不要|是不是|能不能|不过|不[仅但光只论断错]|不行就|不得不|差不多"
    "|别(?<=[分特识差辨鉴判]别)|别(?<=[类级区性]别)(?![用调查把让]))"
    f"|没有必要|不|别|无需|n['’]t{_E}|{_W}(?:not|no|never|without|cannot|instead of|rather than){_E}"
)
_NOT_HINTS: Final = (
    "no",
    "n't",
    "n’t",
    "without",
    "never",
    "instead of",
    "rather than",
    "不",
    "没有必要",
    "别",
    "无需",
)
_NEEDLESS: Final = re.compile(f"(?:{_W}not|n['’]t) (?:needed|necessary){_E}|不需要|先不做|不必")
_NEEDLESS_HINTS: Final = ("needed", "necessary", "不需要", "先不做", "不必")
_LATER: Final = re.compile(f"{_W}(?:then|next|after|afterwards|later){_E}|然后|再|之后|接着|随后")
_LATER_HINTS: Final = ("then", "next", "after", "later", "然后", "再", "之后", "接着", "随后")
_OTHERWISE: Final = re.compile(f"{_W}(?:otherwise|or else){_E}|若失败|如果失败|否则|不行就")
_OTHERWISE_HINTS: Final = ("otherwise", "or else", "失败", "否则", "不行就")
_BRANCHES: Final = (
    (re.compile(f"{_W}if{_E}"), re.compile(f"{_W}fails?{_E}"), ("fail",)),
    (re.compile("要是"), re.compile("就"), ("要是",)),
)

_FAR: Final = 80  # characters that three words may take
_LONGEST_VERB: Final = 8
_REACH: Final = 24  # characters before a verb that are looked at for an article
_VERB: Final = re.compile(
    f"{_W}(?:call(?:s|ed|ing)?|us(?:es?|ed|ing)|invok(?:es?|ed|ing)|runs?|ran|running|tr(?:y|ies|ied|ying)){_E}|(?<![费信不])用(?!户)|执行"
)
_NOUN: Final = re.compile(
    r"(?:^|[^a-z0-9])(?:an?|the|my|your|his|her|its|our|their|\w{1,24}['’]s|\d+(?:st|nd|rd|th)"
    r"|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)\s+$"
)
_WORD: Final = re.compile(f"[a-z0-9_'’-]+|[{CJK}]{{1,4}}")
_SHUT: Final = "[\"'’”」』`*]*"
_SAID_TOOL: Final = re.compile(f"[(\\[]|{_SHUT} ?(?:(?:tool|api|function){_E}|工具|接口|函数)")
_TICKS: Final = re.compile("`+")


class Mentions:
    """The mentions of these tools in one text: the places where they are named, in its order, and how those are meant."""

    def __init__(self, text: Text, tools: Names) -> None:
        self.text = text
        self.places = tools.find(text, self._of_a_tool)

    def meant(self, tool: str) -> bool | None:
        """Is this tool meant anywhere, now or later? None: it is not mentioned at all."""
        found = None
        for place in self.places:
            if place[0] == tool:
                if not self._negated(place):
                    return True
                found = False
        return found

    @lazy
    def plain(self) -> tuple[Place, ...]:
        """The places where a tool is meant now."""
        return tuple([place for place in self.places if not self._negated(place) and not self._is_later(place)])

    @lazy
    def _negations(self) -> Spans:
        return self.text.find(_NOT, _NOT_HINTS)

    @lazy
    def _needless(self) -> Spans:
        return self.text.find(_NEEDLESS, _NEEDLESS_HINTS)

    @lazy
    def _later(self) -> Spans:
        return self.text.find(_LATER, _LATER_HINTS)

    @lazy
    def _otherwise(self) -> Spans:
        return self.text.find(_OTHERWISE, _OTHERWISE_HINTS)

    @lazy
    def _branches(self) -> tuple[tuple[Spans, Spans], ...]:
        return tuple(
            (self.text.find(condition), self.text.find(turn))
            for condition, turn, hints in _BRANCHES
            if self.text.holds(hints)
        )

    @lazy
    def _ticks(self) -> Spans:
        return spans(_ticked(self.text.plain))

    def _negated(self, place: Place) -> bool:
        if not self._negations.starts and not self._needless.starts:
            return False
        _, start, end = place
        low, high = self.text.clause(start)
        return self._negations.within(low, start) or self._needless.within(end, high)

    def _is_later(self, place: Place) -> bool:
        _, start, _ = place
        low, _ = self.text.clause(start)
        return self._later.within(low, start) or self._is_fallback(start)

    def _is_fallback(self, start: int) -> bool:
        low, _ = self.text.sentence(start)
        if self._otherwise.within(low, start):
            return True
        for conditions, turns in self._branches:
            condition = conditions.first(low, start)
            if condition and turns.within(condition[1], start):
                return True
        return False

    def _of_a_tool(self, start: int, end: int) -> bool:
        """Does a sign say that this common word means the tool?"""
        plain = self.text.plain
        return (
            _SAID_TOOL.match(plain, end) is not None
            or ("`" in plain and self._ticks.covers(start))
            or self._after_a_verb(start)
        )

    def _after_a_verb(self, start: int) -> bool:
        """Within three words after a verb of calling that is no noun, in its clause or after a colon."""
        plain = self.text.plain
        after = low = -1
        for verb in _VERB.finditer(plain, max(0, start - _FAR - _LONGEST_VERB), start + 1):
            if low < 0:
                low = self._opening(start)
            at, end = verb.span()
            if low <= at and end <= start and not _NOUN.search(plain, max(0, at - _REACH), at):
                after = end
        return after >= max(0, start - _FAR) and len(_WORD.findall(plain, after, start)) <= 2

    def _opening(self, at: int) -> int:
        """Where the clause of this position begins, with the one before it if that ends in a colon."""
        low, _ = self.text.clause(at)
        if low and self.text.plain[low - 1] == ":":
            low, _ = self.text.clause(low - 1)
        return low


def _ticked(plain: str) -> Iterator[tuple[int, int]]:
    """What stands in code ticks: between two equal runs of them on one line."""
    opened: re.Match[str] | None = None
    for run in _TICKS.finditer(plain):
        if opened is None or len(opened[0]) != len(run[0]) or "\n" in plain[opened.end() : run.start()]:
            opened = run
        else:
            yield opened.end(), run.start()
            opened = None
