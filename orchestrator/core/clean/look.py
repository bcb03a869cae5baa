"""One look at a text, in place of the one that every step would take of its own: what it is made of, and so what nobody has to look for."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.clean.defuse import is_disguised
from orchestrator.core.clean.everyday import is_everyday
from orchestrator.core.clean.hide import LETTERS
from orchestrator.core.clean.strip import UNSEEN_ASCII, is_clear
from orchestrator.core.quick import quick

_SHAPE = bytes(0 if code in UNSEEN_ASCII else LETTERS[code] for code in range(256))
_UNSEEN = b"\x00"
_RUN = b"a" * 16


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
    if is_everyday(text):
        return Look(text, text if signs.lower() == signs else text.lower(), shape, runs, plain=True)
    low = text.lower()
    return Look(text, low, shape, runs, len(low) == len(text) and is_clear(text) and not is_disguised(low))
