"""The WeCom (企业微信) group robot: one markdown message of at most 4,096 bytes, 20 a minute, and errors inside an HTTP 200.

Its markdown knows colours (`<font color="warning">`) and pings people (`<@userid>`): an angle bracket of ours is made harmless.
Source: developer.work.weixin.qq.com/document/path/91770.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from orchestrator.alerts import Notification, Wording
from orchestrator.core.spec import Language
from orchestrator.errors import RateLimited, Rejected, Unauthorised, Unavailable
from orchestrator.hooks.card import WORDS, Card, card
from orchestrator.hooks.posted import JSON, accept_status, json_of
from orchestrator.providers.wire import Reply, Request

MOST_BYTES: Final = 4096
PER_MINUTE: Final = 20
CUT: Final = "\n…"
SHORTER: Final = ((200, 5), (120, 3), (60, 2), (30, 1), (16, 0))
"""Characters of a text, and how many runs, of a card that is too long: the first that fits."""
LONGEST_LINK: Final = 500
"""Characters of a run's link that a card which is too long still shows."""

_COLOURS = {"resolved": "info", "firing": "warning"}
_RATE = frozenset({45009, 45033})
_BUSY = frozenset({-1, 50001, 50002})
_KEY = frozenset({93000, 93004, 93008, 93017, 40001, 40014, 41001, 42001})


class Wecom:
    """The dialect: a Notification into the robot's message, the robot's answer into success or a CallError."""

    def __init__(self, path: str, wording: Wording) -> None:
        self._path = path
        self._wording = wording

    def encode(self, note: Notification, now: float) -> Request:  # noqa: ARG002  nothing here is signed
        """The POST of one Notification."""
        return self.message(fitted((card(note, self._wording),), self._wording.language))

    def message(self, text: str) -> Request:
        """The POST of a markdown text, cut to the robot's limit."""
        content = cut(text, MOST_BYTES)
        return Request(self._path, JSON, orjson.dumps({"msgtype": "markdown", "markdown": {"content": content}}))

    def accept(self, reply: Reply) -> None:
        """Raise the CallError that this answer is, if it is one. An HTTP 200 without `errcode: 0` is a failure."""
        accept_status(reply)
        answer = json_of(reply)
        code = answer.get("errcode") if isinstance(answer, dict) else None
        if code == 0 and not isinstance(code, bool):
            return
        if not isinstance(code, int):
            raise Unavailable("MALFORMED_RESPONSE", "the robot's answer has no errcode: is the URL a robot's?")
        said = _said(answer)
        if code in _RATE:
            raise RateLimited(
                "RATE_LIMITED", f"the robot refuses for now: {said}", retry_after=60.0, status=reply.status
            )
        if code in _BUSY:
            raise Unavailable("HOOK_FAILED", f"the robot is busy: {said}", status=reply.status)
        if code in _KEY:
            raise Unauthorised(
                "HOOK_KEY", f"the robot's key is refused: {said}; check the hook's url", status=reply.status
            )
        raise Rejected("HOOK_REJECTED", f"the robot refuses the message: {said}", status=reply.status)


def markdown(cards: Sequence[Card], language: Language) -> str:
    """The cards in the robot's markdown, a blank line between two."""
    return "\n\n".join(_one(each, language) for each in cards)


def fitted(cards: Sequence[Card], language: Language, most: int = MOST_BYTES) -> str:
    """The cards' markdown in at most `most` bytes if that can be: with shorter texts and fewer runs, but with each figure and the runbook."""
    text = markdown(cards, language)
    for longest, runs in SHORTER:
        if len(text.encode("utf-8", "replace")) <= most:
            break
        text = markdown([_shorter(each, longest, runs) for each in cards], language)
    return text


def _shorter(each: Card, longest: int, runs: int) -> Card:
    return replace(
        each,
        severity=_short(each.severity, longest),
        title=_short(each.title, longest),
        sentence=_short(each.sentence, 2 * longest),
        facts=tuple((_short(name, longest), _short(value, longest)) for name, value in each.facts),
        runs=tuple(run for run in each.runs[:runs] if len(run) <= LONGEST_LINK),
    )


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _one(each: Card, language: Language) -> str:
    words = WORDS[language]
    lines = [
        f'<font color="{_COLOURS[each.status]}">**{words[each.status]}** {_safe(each.severity)}</font> **{_safe(each.title)}**',
        f"> {_safe(each.sentence)}",
        *(f'> {_safe(name)}: <font color="comment">{_safe(value)}</font>' for name, value in each.facts),
    ]
    if each.runs:
        lines.append(f"> {words['runs']}: {' · '.join(_link(run) for run in each.runs)}")
    if each.runbook:
        lines.append(f"> {words['runbook']}: {_link(each.runbook)}")
    return "\n".join(lines)


def cut(text: str, most: int) -> str:
    """The text, if need be cut so that it has at most `most` bytes in UTF-8, and no character in half."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= most:
        return raw.decode()
    return raw[: most - len(CUT.encode())].decode("utf-8", "ignore") + CUT


def _safe(text: str) -> str:
    return text.replace("<", "＜").replace(">", "＞").replace("`", "'")


def _link(where: str) -> str:
    safe = _safe(where)
    if not where.startswith(("http://", "https://")):
        return f"`{safe}`"
    return f"[{safe.rstrip('/').rpartition('/')[2] or safe}]({safe.replace(')', '%29').replace(' ', '%20')})"


def _said(answer: dict[str, Any]) -> str:
    return f"errcode {answer['errcode']}: {str(answer.get('errmsg', ''))[:200]}"
