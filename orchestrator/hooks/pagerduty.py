"""PagerDuty's Events API v2: trigger and resolve under one dedup key, so that an alert is one incident."""

from __future__ import annotations

from typing import Final

import orjson

from orchestrator.alerts import Notification, Wording
from orchestrator.hooks.card import iso
from orchestrator.hooks.posted import JSON, accept_status
from orchestrator.providers.wire import Reply, Request

EVENTS: Final = "https://events.pagerduty.com/v2/enqueue"
SUMMARY: Final = 1024
"""Characters that PagerDuty takes of a summary."""

_WORD = {"firing": "trigger", "resolved": "resolve"}


class PagerDuty:
    """The dialect. `key` is the integration's routing key."""

    def __init__(self, path: str, wording: Wording, key: str) -> None:
        self._path = path
        self._wording = wording
        self._key = key

    def encode(self, note: Notification, now: float) -> Request:  # noqa: ARG002  the key is in the body
        """The POST of one event."""
        links = self._wording.links
        agent, model = note.labels.get("agent", ""), note.labels.get("model", "")
        targets = [
            (links.to_runbook(note.rule), "runbook"),
            *((links.to_run(each), f"run {each}") for each in note.runs),
        ]
        event = {
            "routing_key": self._key,
            "event_action": _WORD[note.status],
            "dedup_key": note.fingerprint,
            "client": "orchestrator",
            "links": [{"href": href, "text": text} for href, text in targets if href.startswith("http")],
            "payload": {
                "summary": note.sentence(self._wording.language)[:SUMMARY],
                "source": agent or "orchestrator",
                "component": model or "orchestrator",
                "group": "orchestrator",
                "class": note.rule,
                "severity": note.severity,
                "timestamp": iso(note.since),
                "custom_details": {
                    **note.labels,
                    "value": note.figure(),
                    "threshold": f"{note.comparison} {note.limit()}",
                    "samples": note.samples,
                    "runs": [links.to_run(each) for each in note.runs],
                    "runbook": links.to_runbook(note.rule),
                },
            },
        }
        return Request(self._path, JSON, orjson.dumps(event))

    def accept(self, reply: Reply) -> None:
        """202 is taken; 400 never will be; 429 and 5xx may be."""
        accept_status(reply)
