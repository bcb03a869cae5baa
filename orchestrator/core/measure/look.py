"""A look at a text mostly tells whether a word stands there, at a hundredth of what it costs to read the text."""

from __future__ import annotations

import re
from typing import Final

from orchestrator.core.measure.clauses import nfkc
from orchestrator.core.measure.tokens import stands_plainly

_INNER_CAPITAL: Final = re.compile(r"[A-Z](?<=\w.)")


class Look:
    """What is seen of one text before it is read."""

    __slots__ = ("_escaped", "_flat", "_folded", "_text")

    def __init__(self, content: str) -> None:
        self._text = content if content.isascii() else nfkc(content)
        self._folded = self._text.casefold()
        self._flat = flat(self._folded)
        self._escaped = "\\" in content and content.lstrip()[:1] in ("{", "[")

    def holds(self, word: str, flattened: str) -> bool | None:
        """Does this word, or CJK run, stand there as a token? None: that must be read. It is told in its `flat` form too."""
        if self._escaped:
            return None
        if flattened not in self._flat:
            return False
        return stands_plainly(word, self._folded) or None

    @property
    def inner_capitals(self) -> bool:
        """Words that are too short or too common to tell anything do where they bear one."""
        return self._escaped or (self._text != self._folded and _INNER_CAPITAL.search(self._text) is not None)


def flat(text: str) -> str:
    """The text without what reading may take out of the middle of a token: signs and separators of digits."""
    if "-" in text:  # to find none is much cheaper than to replace none
        text = text.replace("-", "")
    if "," in text:
        text = text.replace(",", "")
    return text if text.isascii() else text.replace("\u2212", "")
