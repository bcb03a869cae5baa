"""Stops a stream where `read` would discard all that follows: at the model's own Observation, at an invented next Question.

It saves tokens and keeps forged text from the screen; correctness never rests on it, for `read` judges the whole reply again.
Law: for a text without an orphan `</think>`, reading what was kept at the cut and reading the whole give the same intent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from orchestrator.core.spec import ToolSpec
from orchestrator.core.text.marks import marks
from orchestrator.core.text.outline import outline
from orchestrator.core.text.words import Kind

_HELD: Final = 64  # characters of a line's beginning that may still become a label
_CHECKS: Final = 32  # looks at the whole text that may find nothing, so that hostile streams stay linear
_LONGEST_TAG: Final = 64
_QUOTES = re.compile('["`“]|~~')


class Cut:
    """Feed it the deltas of one reply. `prefilled`: the template opens `<think>` itself, so nothing is certain before its end."""

    def __init__(self, tools: Sequence[ToolSpec] = (), *, prefilled: bool = False) -> None:
        self._tools = tools
        self._prefilled = prefilled
        self._pieces: list[str] = []
        self._length = 0
        self._tail = ""
        self._before = 0
        self._quoted = False
        self._held = ""
        self._looked = -1
        self._checks = 0
        self.over = False

    @property
    def text(self) -> str:
        """All that was received, up to and with the label that cut the stream."""
        return "".join(self._pieces)

    def feed(self, delta: str) -> tuple[str, bool]:
        """Take a piece: the text that is safe to show now, and whether the stream is to be cut."""
        if self.over:
            return "", True
        shown: list[str] = []
        for line in delta.splitlines(keepends=True):
            shown.append(self._take(line))
            if self.over:
                break
        return "".join(shown), self.over

    def rest(self) -> str:
        """What was held back, once the stream has ended by itself."""
        rest, self._held = self._held, ""
        return "" if self.over else rest

    def _take(self, piece: str) -> str:
        """A piece that holds at most one line end, at its own end."""
        ended = piece.endswith(("\n", "\r"))
        self._pieces.append(piece)
        self._length += len(piece)
        self._held += piece
        seen = self._tail + piece
        lead = "." if self._before else ""
        for mark in marks(lead + seen):
            start = self._length - len(seen) + mark.start - len(lead)
            if mark.kind not in (Kind.OBSERVATION, Kind.QUESTION) or mark.bare or start <= self._looked:
                continue
            quoted = self._quoted or _QUOTES.search(seen, 0, mark.start - len(lead))
            if not ended and (not mark.coloned if mark.label else quoted):
                continue
            self._looked = start
            if self._certain():
                self.over = True
                return self._held[: max(0, len(self._held) - (self._length - start))]
        self._turn("" if ended else seen)
        return self._show(len(self._held) if ended else self._safe())

    def _turn(self, seen: str) -> None:
        """Remember the current line: its end, how much stands before that, and whether a quote does."""
        if not seen:
            self._tail, self._before, self._quoted = "", 0, False
            return
        gone = len(seen) - _LONGEST_TAG if len(seen) > 4 * _HELD else 0
        self._quoted = self._quoted or _QUOTES.search(seen, 0, gone) is not None
        self._before += gone
        self._tail = seen[gone:]

    def _safe(self) -> int:
        """How much of what is held cannot become the beginning of a label or tag any more."""
        line = self._before + len(self._tail)
        if line < _HELD:
            return max(0, len(self._held) - line)
        opened = max(self._held.rfind(char, -_LONGEST_TAG) for char in "<[✿")
        return opened if opened >= 0 else len(self._held)

    def _show(self, count: int) -> str:
        shown, self._held = self._held[:count], self._held[count:]
        return shown

    def _certain(self) -> bool:
        """Whether `read` discards from here on, whatever may follow."""
        if self._checks >= _CHECKS:
            return False
        text = self.text
        if self._prefilled and "</think>" not in text.casefold():
            return False
        settled = outline(text, self._tools).settled
        self._checks += not settled
        return settled
