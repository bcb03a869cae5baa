"""Has the run stopped learning? News per Observation, not equal strings.

A model that goes round in circles seldom repeats itself to the letter: it rewords. So the guard asks of each Observation what
the article's fourth pit asks: does it say anything that the goal, the action itself or an earlier Observation did not? Words
seen are kept in a Bloom filter of fixed size, so that the guard costs the same at step 2,000 as at step 2; one that is half full
takes new words for old ones too often, and is begun anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from json.encoder import encode_basestring
from typing import Any
from zlib import crc32

from orchestrator.core.clean import EMPTY, END
from orchestrator.core.events import Action, Actions, Anomaly, ModelTurn, Observation
from orchestrator.core.quick import quick

REPEATED_ACTION = "REPEATED_ACTION"
"""The host's answer to a call that it does not make again."""

_LOG = 16
_BITS = 1 << _LOG
_DOWN = 32 - _LOG
_NONE = bytes(_BITS // 8)
_MIX = 0x9E3779B1  # Knuth: a CRC is linear, so alike words ("v146", "v156") would fall on each other
_READ = 4000  # characters of an Observation that are looked at: news stands early, and the cost stays bounded
_REMEMBERED = 32  # distinct calls whose last result is remembered
_FRAME = f"status: success, code: error. message: untrusted {EMPTY} {END}"
_WORD = re.compile(r"[a-z0-9]+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")
_PLAIN_WORD = re.compile(rb"[a-z0-9]+")
_LONG = 600
_CLAUSE = re.compile(r"[^\n,;|{}。；，]+")
_CLAUSES = bytes.maketrans(b",;|{}", b"\n" * 5).lower()  # of ASCII text: in lower case, a line for each clause
_FIGURE = re.compile(rb"[0-9]")
_NUMBER = re.compile(r"\d[\d,.]*\d")

_SILENT = frozenset(
    {
        "TOOL_TIMEOUT",
        "TIMEOUT",
        "RATE_LIMITED",
        "UNAVAILABLE",
        "OVERLOADED",
        "SERVER_ERROR",
        "CIRCUIT_OPEN",
        "POOL_FULL",
        "INVALID_ARGUMENTS",
        "TOOL_NOT_FOUND",
        "OUTCOME_UNKNOWN",
        "REFUSED",
        "CANCELLED",
    }
)
"""Errors that say nothing about whether the question can be answered: they count as tool errors, not as no news."""

_NOTHING = (
    "not found", "no result", "no match", "no record", "nothing found", "could not find", "does not exist", "no entry",
    "没有找到", "没找到", "未找到", "找不到", "查无", "无结果", "没有结果", "不存在",
)  # fmt: skip


@quick
@dataclass(frozen=True, slots=True)
class Guard:
    """What the guard knows: words seen (a Bloom filter), the last result of recent calls, consecutive barren steps.

    `calls` are the recent calls, oldest first, each with the digest of its last result and how often in a row it was that one.
    `marks` counts the bits that are set in `seen`. `heard` and `news` are about the open step: an Observation that counts was
    folded in, and one of them was new.
    """

    seen: bytes = _NONE
    marks: int = 0
    calls: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    barren: int = 0
    heard: bool = False
    news: bool = False

    def seeded(self, goal: str) -> Guard:
        """The guard with the words of the goal known, and those of the frame around each Observation."""
        seen = bytearray(self.seen)
        marks = self.marks + len(_learn(seen, f"{goal} {_FRAME}"))
        return replace(self, seen=bytes(seen), marks=marks)

    def observe(self, action: Action, observation: Observation) -> Guard:
        """Fold in one Observation of the open step."""
        if observation.code == REPEATED_ACTION:
            return replace(self, heard=True)
        key = call_key(action)
        digest, count = self.calls.get(key, ("", 0))
        calls = dict(self.calls)
        calls.pop(key, None)
        calls[key] = observation.digest, count + 1 if digest == observation.digest else 1
        if len(calls) > _REMEMBERED:
            del calls[next(iter(calls))]
        if observation.code in _SILENT:
            return replace(self, calls=calls)
        seen = bytearray(self.seen)
        own = _learn(seen, key[:_READ])
        fresh = _learn(seen, observation.content[:_READ])
        marks = self.marks + len(own) + len(fresh)
        news = observation.status == "success" and _tells(fresh) and not _nothing(observation.content)
        return Guard(bytes(seen), marks, calls, self.barren, heard=True, news=self.news or news)

    def closed(self) -> Guard:
        """The step is over: count it as barren, or start counting anew."""
        barren = self.barren if not self.heard else 0 if self.news else self.barren + 1
        if self.marks * 2 > _BITS:
            return Guard(calls=self.calls, barren=barren)
        return Guard(self.seen, self.marks, self.calls, barren)

    def repeats(self, action: Action) -> int:
        """How often this very call has been made with the same result each time."""
        return self.calls.get(call_key(action), ("", 0))[1]


_WRITTEN = json.JSONEncoder(ensure_ascii=False, sort_keys=True)
_WRITE: Mapping[type, Callable[[Any], str]] = {
    str: encode_basestring,
    int: repr,
    bool: {False: "false", True: "true"}.__getitem__,
}
"""How the encoder writes what most inputs are made of. It is slow to begin, and there are two keys to each action."""


def call_key(action: Action) -> str:
    """Tool and input in one canonical string: equal for equal calls."""
    given, written = action.input, []
    for name in sorted(given):
        value = given[name]
        write = _WRITE.get(type(value))
        if write is None:
            return f"{action.tool} {_WRITTEN.encode(given)}"
        written.append(f"{encode_basestring(name)}: {write(value)}")
    return f"{action.tool} {{{', '.join(written)}}}"


def facts_in_thought(turn: ModelTurn, goal: str) -> ModelTurn:
    """Mark a turn whose Thought states figures before anything was observed: they can only come from the model's memory."""
    stated = [number for number in _NUMBER.findall(turn.thought) if len(number) > 2]
    if not stated:
        return turn
    calls = turn.intent.actions if isinstance(turn.intent, Actions) else ()
    given = goal + "".join(call_key(action) for action in calls)
    if Anomaly.FACT_IN_THOUGHT not in turn.anomalies and any(number not in given for number in stated):
        return replace(turn, anomalies=(*turn.anomalies, Anomaly.FACT_IN_THOUGHT))
    return turn


def _words(text: str) -> list[bytes]:
    """What counts as one thing said. In a short text: Latin words, numbers, and pairs of characters of scripts without spaces.
    In a long one: its clauses and fields, for long results do not come reworded."""
    if text.isascii():
        plain = text.encode()
        if len(plain) > _LONG:
            return [clause.strip() for clause in plain.translate(_CLAUSES).split(b"\n") if clause]
        return _PLAIN_WORD.findall(plain.lower())
    text = text.casefold()
    if text.isascii():  # there are signs whose lower case is a plain letter
        return _words(text)
    if len(text) > _LONG:
        return [clause.strip().encode("utf-8", "replace") for clause in _CLAUSE.findall(text)]
    words: list[str] = []
    for run in _WORD.findall(text):
        if run[0] < "\u3040" or len(run) == 1:
            words.append(run)
        else:
            words.extend(run[i : i + 2] for i in range(len(run) - 1))
    return [word.encode() for word in words]


def _learn(seen: bytearray, text: str) -> list[bytes]:
    """Mark every word of the text as seen; gives those that were new."""
    fresh = []
    for word in _words(text):
        at = (crc32(word) * _MIX & 0xFFFFFFFF) >> _DOWN
        place, bit = at >> 3, 1 << (at & 7)
        if not seen[place] & bit:
            seen[place] |= bit
            fresh.append(word)
    return fresh


def _tells(fresh: list[bytes]) -> bool:
    """Do these new words say something? A figure does. One new word among known ones (a field's name) does not; two do."""
    return len(fresh) > 1 or (len(fresh) == 1 and _FIGURE.search(fresh[0]) is not None)


def _nothing(content: str) -> bool:
    return len(content) < 400 and any(phrase in content.casefold() for phrase in _NOTHING)
