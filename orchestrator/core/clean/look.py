"""One look at a text, in place of the one that every step would take of its own: what it is made of, and so what nobody has to look for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.core.clean.defuse import is_disguised
from orchestrator.core.clean.hide import LETTERS
from orchestrator.core.clean.strip import UNSEEN_ASCII, is_clear
from orchestrator.core.quick import quick

_SHAPE = bytes(0 if code in UNSEEN_ASCII else LETTERS[code] for code in range(256))
_UNSEEN = b"\x00"
_RUN = b"a" * 16
_RARE = re.compile(
    "[^\t\n -~\xa0-\xac\xae-\xbf\xdf-\xff\u2010-\u2027\u2030-\u2038\u203b-\u205e\u20a0-\u20bf\u2103\u2190-\u2235\u2237-\u23ff\u2500-\u26ff"
    "\u3001-\u3007\u300a-\u3163\u3165-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff0d\uff1a\uff1b\uff1f]"
)
"""What is not of everyday texts, Chinese, Japanese and Korean ones too: of these only ASCII has a lower case, and none hides anything."""


@quick
@dataclass(frozen=True, slots=True)
class Look:
    """`low` is the text in lower case. `shape` has a sign for each of the text's: `a` for what may stand in a token or in base64;
    `runs`: 16 of them stand in a row somewhere. `plain`: nothing in it is invisible and nothing disguised, so that `low` is what
    `defuse` compares, and `strip` leaves the text alone."""

    text: str
    low: str
    shape: bytes
    runs: bool
    plain: bool


def look(text: str) -> Look:
    """The Look of a text of bounded length: it is copied twice."""
    if text.isascii():
        shape = text.encode().translate(_SHAPE)
        return Look(text, text.lower(), shape, shape.rfind(_RUN) >= 0, _UNSEEN not in shape)
    signs = text.encode("ascii", "replace")
    shape = signs.translate(_SHAPE)
    runs = shape.rfind(_RUN) >= 0
    if _RARE.search(text) is None:
        return Look(text, text if signs.lower() == signs else text.lower(), shape, runs, plain=True)
    low = text.lower()
    return Look(text, low, shape, runs, len(low) == len(text) and is_clear(text) and not is_disguised(low))
