"""What a text says of failures: words that count, unless they are negated, part of a compound, or only an echo of the goal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from orchestrator.core.measure.clauses import CJK, ECHO, Spans, Text, lazy, normalise, read, spans
from orchestrator.core.measure.families import COMPOUNDS, FAILURE, MARKERS, WORDS
from orchestrator.core.measure.names import HUMP, ToolName, names
from orchestrator.core.measure.tokens import Key
from orchestrator.core.measure.values import places

_W: Final = "(?<![a-z0-9_])"
_E: Final = "(?![a-z0-9_])"
_IS_CJK: Final = re.compile(f"[{CJK}]")


def words(phrase: str) -> str:
    """The pattern of a phrase of the table: any joint between its words; also with -s, -ed, -ing."""
    if _IS_CJK.search(phrase):
        return re.escape(phrase)
    return f"{_W}{'[ _-]?'.join(map(re.escape, phrase.split()))}(?:s|ed|ing)?{_E}"


def either(phrases: Iterable[str]) -> str:
    """The pattern of several phrases, the longest first."""
    return "|".join(map(words, sorted(phrases, key=len, reverse=True)))


@lru_cache(maxsize=256)
def number(digits: str) -> re.Pattern[str]:
    """The pattern of a bare number, not inside a longer one or a name; `HTTP503` has its marker with it."""
    return re.compile(rf"(?<![a-z0-9_])(?<![a-z0-9_][.-])(?:http)?{digits}(?![a-z0-9_]|[.-][a-z0-9_])")


_CONTRACTION: Final = re.compile(
    r"(?i)(?<![a-z])(can|won)['’]t(?![a-z])|n['’]t(?![a-z])|(?<=[a-z])['’](s|re|ve|ll|d)(?![a-z])"
)
_FULL: Final = {
    "can": "can not",
    "won": "will not",
    "s": " is",
    "re": " are",
    "ve": " have",
    "ll": " will",
    "d": " would",
}
_COMPOUND: Final = re.compile(either(COMPOUNDS))
_FAILURE: Final = re.compile(either(FAILURE))
_MARKER: Final = re.compile(either((*MARKERS, *FAILURE)))
_NOT: Final = re.compile(
    f"{_W}(?:no|(?:can)?not|without|never){_E}|没有|没(?![想料]到)|无(?![论疑])|未(?!来)|(?<!是)不是|并非"
)
_PHRASES: Final = {*FAILURE, *(phrase for spoken in WORDS.values() for phrase in spoken)}
_NEGATIVE: Final = re.compile(either(phrase for phrase in _PHRASES if _NOT.search(phrase)))
"""The phrases of the table that hold a negation, which negates nothing else."""
_LACK: Final = frozenset({"no", "without", "没有", "无"})
_PERMISSION: Final = re.compile("permission|权限")
_DIRECTLY: Final = re.compile(f"{_W}(?:is|was|gave|got|returned) (?:an? )?$")


_CLASS: Final = re.compile(
    "(?<![A-Za-z0-9_])(?=[A-Z]{1,16}[a-z]{1,40}[A-Z]|[A-Z]{2,16}[a-z])[A-Za-z]{4,80}(?![A-Za-z0-9_])"
)
_OF_CLASS: Final = re.compile(
    "(?:Error|Exception|Failure)$|Time(?:dO|o)ut|NotFound|NoSuch|NotExist|Unauthori[sz]ed|Forbidden|Denied|Refused|NotAllowed|RateLimit"
    "|TooMany|Throttl|Invalid|Malformed|Missing|OutOfRange|Unavailable|Overload|Conflict|AlreadyExists|CircuitOpen|Unknown"
)
_CONSTANT: Final = re.compile("(?<![A-Za-z0-9_])[A-Z][A-Z0-9]{1,40}(?:_[A-Z0-9]{1,40}){1,8}(?![A-Za-z0-9_])")
_OF_CONSTANT: Final = re.compile(
    "_(?:ERROR|EXCEPTION|FAILURE|FAILED)$|TIME(?:D_)?OUT|NOT_FOUND|NO_SUCH|NOT_EXIST|UNAUTHORI[SZ]ED|FORBIDDEN|DENIED|REFUSED"
    "|NOT_ALLOWED|RATE_LIMIT|TOO_MANY|THROTTL|INVALID|MALFORMED|MISSING|OUT_OF_RANGE|UNAVAILABLE|OVERLOAD|CONFLICT|ALREADY_EXISTS"
    "|CIRCUIT_OPEN|UNKNOWN"
)


def spread(written: str) -> str:
    """The text with what names an error cut into words: `TimeoutError`, `AccessDenied`, `GATEWAY_TIMEOUT`."""
    written = _CLASS.sub(lambda match: HUMP.sub(" ", match[0]) if _OF_CLASS.search(match[0]) else match[0], written)
    if "_" not in written:
        return written
    return _CONSTANT.sub(
        lambda match: match[0].replace("_", " ") if _OF_CONSTANT.search(match[0]) else match[0], written
    )


class Said:
    """The text of one turn, read for what it says of failures."""

    def __init__(self, written: str, goal: str) -> None:
        goal = spread(goal)
        text = read(_CONTRACTION.sub(_expanded, spread(written)), goal)
        self.text = Text(_COMPOUND.sub(lambda match: ECHO * len(match[0]), text.plain))
        self._goal = normalise(goal)
        self._in_goal: dict[str, bool] = {}

    def mentions(self, pattern: re.Pattern[str]) -> bool:
        """Does the pattern stand anywhere, negated or not?"""
        return pattern.search(self.text.plain) is not None

    def has(self, pattern: re.Pattern[str]) -> bool:
        """Does the pattern stand somewhere where it counts?"""
        return any(self._counts(*match.span()) for match in pattern.finditer(self.text.plain))

    def has_number(self, pattern: re.Pattern[str]) -> bool:
        """Does this bare number stand beside a marker, or as a whole clause?"""
        for match in pattern.finditer(self.text.plain):
            low, high = self.text.clause(match.start())
            marked = (
                match[0].startswith("http")
                or self._markers.within(low, high)
                or _DIRECTLY.search(self.text.plain, max(low, match.start() - 20), match.start())
            )
            if (marked or self._alone(low, high, match)) and self._counts(*match.span()):
                return True
        return False

    def has_all(self, patterns: tuple[re.Pattern[str], ...]) -> bool:
        """Do all of them stand in one clause, in any order?"""
        found = [self.text.find(pattern) for pattern in patterns]
        rarest = min(found, key=lambda each: len(each.starts))
        for start in rarest.starts:
            clause = self.text.clause(start)
            firsts = [first for each in found if (first := each.first(*clause))]
            if len(firsts) < len(found) or self._negated(min(firsts)[0], ""):
                continue
            if self._backed(*clause) or not all(self._of_goal(self.text.plain[low:high]) for low, high in firsts):
                return True
        return False

    def a_failure(self) -> bool:
        """Does a failure word count?"""
        return self.has(_FAILURE)

    def a_failure_beside(self, naming: Spans) -> bool:
        """Does a failure word count in a clause that names the call?"""
        return any(self._failures.within(*self.text.clause(start)) for start in naming.starts)

    def naming(self, tools: tuple[ToolName, ...], calls: Mapping[str, tuple[str, frozenset[Key]]]) -> dict[str, Spans]:
        """Where each call is named: by its tool or, where calls share a tool, by the values of its input if they are."""
        strangers = {tool for tool, _ in calls.values()} - {tool.name for tool in tools}
        known = names((*tools, *map(ToolName, sorted(strangers))))
        of_tool: dict[str, list[tuple[int, int]]] = {}
        for tool, start, end in known.find(self.text):
            of_tool.setdefault(tool, []).append((start, end))
        of_value: dict[str, list[tuple[int, int]]] = {}
        for keys, start, end in places(self.text.plain):
            for action_id, (_, own) in calls.items():
                if not own.isdisjoint(keys):
                    of_value.setdefault(action_id, []).append((start, end))
        told_apart = {calls[action_id][0] for action_id in of_value}
        return {
            action_id: spans(of_value.get(action_id) or ([] if tool in told_apart else of_tool.get(tool, [])))
            for action_id, (tool, _) in calls.items()
        }

    @lazy
    def _failures(self) -> Spans:
        """The failure words that count."""
        found = (match.span() for match in _FAILURE.finditer(self.text.plain))
        return spans(span for span in found if self._counts(*span))

    @lazy
    def _markers(self) -> Spans:
        return self.text.find(_MARKER)

    @lazy
    def _support(self) -> Spans:
        """Failure words and markers that are not the goal's own."""
        found = (match.span() for match in _MARKER.finditer(self.text.plain) if not self._of_goal(match[0]))
        return spans(found)

    @lazy
    def _negations(self) -> tuple[Spans, Spans]:
        """The negations that are no part of a phrase, and those of them that negate a permission."""
        phrases = self.text.find(_NEGATIVE)
        found = [match for match in _NOT.finditer(self.text.plain) if not phrases.covers(match.start())]
        return spans(match.span() for match in found), spans(match.span() for match in found if match[0] not in _LACK)

    def _counts(self, start: int, end: int) -> bool:
        matched = self.text.plain[start:end]
        return not self._negated(start, matched) and (
            not self._of_goal(matched) or self._backed(*self.text.clause(start))
        )

    def _negated(self, start: int, matched: str) -> bool:
        low, _ = self.text.clause(start)
        return self._negations[_PERMISSION.search(matched) is not None].within(low, start)

    def _backed(self, low: int, high: int) -> bool:
        return self._support.within(low, high)

    def _of_goal(self, matched: str) -> bool:
        if matched not in self._in_goal:
            self._in_goal[matched] = re.search(rf"(?<![a-z0-9_]){re.escape(matched)}", self._goal) is not None
        return self._in_goal[matched]

    def _alone(self, low: int, high: int, match: re.Match[str]) -> bool:
        """Is the match the whole clause, but for marks?"""
        plain = self.text.plain
        return high - low < 40 and not any(map(str.isalnum, plain[low : match.start()] + plain[match.end() : high]))


def _expanded(match: re.Match[str]) -> str:
    return _FULL[(match[1] or match[2]).lower()] if match[1] or match[2] else " not"
