"""What a reader cannot see is taken out: control and terminal codes, bidi overrides, zero-width and tag characters.

What carries meaning in a script stays: joiners inside emoji and between Arabic or Indic letters, one variation selector
behind its base. Idempotent; linear.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

_ANSI = re.compile(
    r"\x1b[\]PX^_][^\x07\x1b\x9c\n]{0,2048}(?:\x07|\x9c|\x1b\\)"  # OSC, DCS and their relatives, closed
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]?"  # CSI
    r"|\x1b[ -/]{0,8}[0-~]?"
)
_OVERSTRIKE = re.compile(r"_\x08(?=[^\n\x08])|(?<=([^\n\x08]))\x08\1")
_NEWLINES = re.compile("\r\n|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROL = re.compile("[\x01-\x08\x0e-\x1f\x7f-\x9f\ufff9-\ufffb\ufffe\uffff]")
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE = re.compile(f"[{_HIDDEN}]+")
_DIRTY = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufff9-\ufffb\ufffe\uffff{_HIDDEN}]")
UNSEEN_ASCII = bytes((*range(9), *range(11, 32), 127))
"""The characters of ASCII that `strip` takes out or makes others of."""

_FLAGS = frozenset(
    "".join(chr(0xE0000 + ord(letter)) for letter in code) + "\U000e007f" for code in ("gbeng", "gbsct", "gbwls")
)
_EMOJI_TIES = frozenset(("\u200d", "\ufe0f\u200d"))
_JOINING = re.compile("[\u0600-\u08ff\u0900-\u0dff\ufb50-\ufdff\ufe70-\ufefc]")


def strip(text: str) -> str:
    """`text` with every invisible or controlling character gone; newline and tab stay, other line breaks become newlines."""
    if is_clear(text):
        return text
    text = _paired(text)
    if "\x1b" in text or "\x9b" in text:
        text = _ANSI.sub("", text)
    if "\x08" in text:
        text = _OVERSTRIKE.sub("", text)
    text = _NEWLINES.sub("\n", text)
    if "\r" in text:
        text = "\n".join(map(_last_state, text.split("\n")))
    if "\x00" in text:
        text = re.sub("\x00+", " ", text)
    text = _CONTROL.sub("", text)
    return _INVISIBLE.sub(_keep, text)


def is_clear(text: str) -> bool:
    """Is every character of the text one that `strip` leaves alone wherever it stands?"""
    if text.isascii():
        plain = text.encode()
        return len(plain.translate(None, UNSEEN_ASCII)) == len(plain)
    return _DIRTY.search(text) is None


def flat(text: str, limit: int) -> str:
    """The beginning of `text` on one line, with nothing in it that cannot be seen: enough of it for `limit` characters."""
    return " ".join(strip(text[: limit * 8]).split())


def _paired(text: str) -> str:
    """Surrogate pairs joined, lone surrogates replaced by U+FFFD."""
    if re.search("[\ud800-\udfff]", text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _last_state(line: str) -> str:
    """A progress bar overwrites itself with CR: what only redraws the same words is dropped, other text becomes lines."""
    states = [state for state in line.split("\r") if state]
    kept = [state for state, following in pairwise(states) if _words(state) != _words(following)]
    return "\n".join((*kept, *states[-1:]))


def _words(state: str) -> str:
    return re.sub(r"[\W\d_]+", "", state[:200])[:24]


def _keep(run: re.Match[str]) -> str:
    text, hidden = run.string, run[0]
    before = text[run.start() - 1] if run.start() else ""
    after = text[run.end()] if run.end() < len(text) else ""
    if not before:
        return ""
    if hidden in _FLAGS:
        return hidden if before == "\U0001f3f4" else ""
    if hidden in _EMOJI_TIES and _pictorial(before) and _pictorial(after):
        return hidden
    if hidden in "\ufe0e\ufe0f":
        return hidden if _pictorial(before) or before in "#*0123456789⟧" else ""
    if hidden in "\u200c\u200d":
        return hidden if _JOINING.match(before) and _JOINING.match(after) else ""
    if len(hidden) == 1 and ("\ufe00" <= hidden <= "\ufe02" or "\U000e0100" <= hidden <= "\U000e01ef"):
        return hidden if unicodedata.category(before) == "Lo" and unicodedata.name(before, "").startswith("CJK") else ""
    return ""


def _pictorial(char: str) -> bool:
    return (
        bool(char)
        and char != "\ufffd"
        and (unicodedata.category(char) in ("So", "Sm") or "\U0001f3fb" <= char <= "\U0001f3ff")
    )
