"""Slack's incoming webhook, and what speaks like it (Mattermost, Rocket.Chat): text and one attachment, the common ground."""

from __future__ import annotations

import orjson

from orchestrator.alerts import Notification, Wording
from orchestrator.errors import Rejected
from orchestrator.hooks.card import WORDS, Card, card
from orchestrator.hooks.posted import JSON, accept_status, json_of
from orchestrator.providers.wire import Reply, Request

_COLOURS = {"critical": "#c0392b", "warning": "#e67e22", "info": "#2980b9"}
_RESOLVED = "#27ae60"


class Slack:
    """The dialect of incoming webhooks."""

    def __init__(self, path: str, wording: Wording) -> None:
        self._path = path
        self._wording = wording

    def encode(self, note: Notification, now: float) -> Request:  # noqa: ARG002  nothing here is signed
        """The POST of one Notification."""
        each = card(note, self._wording)
        words = WORDS[self._wording.language]
        headline = f"*{words[each.status]}* {_safe(each.title)}"
        attachment = {
            "color": _RESOLVED if each.status == "resolved" else _COLOURS.get(each.severity, _COLOURS["warning"]),
            "fallback": _safe(each.sentence),
            "text": self._text(each),
            "fields": [{"title": _safe(name), "value": _safe(value), "short": True} for name, value in each.facts],
            "mrkdwn_in": ["text"],
            "ts": int(note.at),
        }
        return Request(self._path, JSON, orjson.dumps({"text": headline, "attachments": [attachment]}))

    def accept(self, reply: Reply) -> None:
        """Slack says `ok`, or a status; some look-alikes say `{"ok": false}` in a 200."""
        accept_status(reply)
        answer = json_of(reply)
        if isinstance(answer, dict) and answer.get("ok") is False:
            raise Rejected("HOOK_REJECTED", f"the receiver refuses the message: {str(answer.get('error', ''))[:200]}")

    def _text(self, each: Card) -> str:
        words = WORDS[self._wording.language]
        lines = [_safe(each.sentence)]
        if each.runs:
            lines.append(f"{words['runs']}: {' '.join(_link(run) for run in each.runs)}")
        lines.append(f"{words['runbook']}: {_link(each.runbook)}")
        return "\n".join(lines)


def _safe(text: str) -> str:
    """Slack's three escapes: no `<!channel>` comes out of a label."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _link(where: str) -> str:
    safe = _safe(where).replace("|", "%7C")
    if not where.startswith(("http://", "https://")):
        quoted = _safe(where).replace("`", "'")
        return f"`{quoted}`"
    return f"<{safe}|{safe.rstrip('/').rpartition('/')[2] or safe}>"
