"""What a tool returned, made fit to be read by a model: text in one frame, of bounded length, with nothing hidden in it.

Status, code and meaning are never altered. Encoding, invisible characters, secrets, length and look-alikes of our own words are.
The frame is a first line with status and code, the content, and the end marker as last line. Everything is a pure function of
its arguments and linear in the size of the body.
"""

from __future__ import annotations

import hashlib

from orchestrator.core.clean.cut import MARK
from orchestrator.core.clean.defuse import END, defuse
from orchestrator.core.clean.draft import Draft, opened
from orchestrator.core.clean.hide import MASK, hidden, hide
from orchestrator.core.clean.mask import mask
from orchestrator.core.clean.result import Cleaned, Head, Rules
from orchestrator.core.clean.steps import STEPS, frame, untouched
from orchestrator.core.clean.strip import strip
from orchestrator.core.clean.value import plain
from orchestrator.core.spec import Json

__all__ = [
    "EMPTY",
    "END",
    "MARK",
    "MASK",
    "Cleaned",
    "Head",
    "Rules",
    "clean",
    "defuse",
    "hidden",
    "hide",
    "mask",
    "plain",
    "strip",
]

EMPTY = "(no output: the result is EMPTY)"
_SUCCESS = Head()
_RULES = Rules()


def clean(raw: bytes | Json, head: Head = _SUCCESS, rules: Rules = _RULES) -> Cleaned:
    """`raw` as a framed text. Never raises, for any input; a body that is no text is described, not pasted."""
    if type(raw) is str and not (head.code and rules.secrets) and untouched(raw, rules):
        draft = Draft(raw, head, rules, raw)
    else:
        draft = opened(raw, head, rules)
        for step in STEPS:
            draft = step(draft)
    body = draft.text or ("" if head.message else EMPTY)
    first, last = frame(draft.head, rules)
    source = draft.source if isinstance(draft.source, bytes) else draft.source.encode("utf-8", "replace")
    return Cleaned(
        text=f"{first}{body}{last}" if body else first.rstrip("\n") + last,
        body=body,
        data=draft.json.value if draft.json is not None else None,
        head=draft.head,
        size=len(source),
        digest=hashlib.sha256(source).hexdigest(),
        raw=source if draft.steps else None,
        steps=draft.steps,
    )
