"""A webhook in the shape that Alertmanager posts (version 4), signed as the Standard Webhooks specification says.

What listens to Alertmanager listens to this. `webhook-signature` is `v1,` and the base64 of HMAC-SHA256 over
`{webhook-id}.{webhook-timestamp}.{body}`; the id is the same for every delivery of one Notification. A secret that begins with `whsec_`
is the base64 of the key, as the specification writes secrets; any other is the key itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Any, Final

import orjson

from orchestrator.alerts import Notification, Wording
from orchestrator.errors import ConfigError
from orchestrator.hooks.card import iso
from orchestrator.hooks.posted import JSON, accept_status
from orchestrator.providers.wire import Reply, Request

RECEIVER: Final = "orchestrator"
PREFIX: Final = "whsec_"
NO_END: Final = "0001-01-01T00:00:00Z"


class Webhook:
    """The dialect. Without a `secret` nothing is signed."""

    def __init__(self, path: str, wording: Wording, secret: str = "") -> None:  # nosec B107  # empty is none
        self._path = path
        self._wording = wording
        self._secret = signing_key(secret)

    def encode(self, note: Notification, now: float) -> Request:
        """The POST of one Notification, signed at `now`: a receiver may refuse what is old."""
        body = orjson.dumps(document(note, self._wording))
        stamp = f"{now:.0f}"
        headers = {**JSON, "webhook-id": note.key, "webhook-timestamp": stamp}
        if self._secret:
            headers["webhook-signature"] = signature(self._secret, note.key, stamp, body)
        return Request(self._path, headers, body)

    def accept(self, reply: Reply) -> None:
        """Any 2xx is taken."""
        accept_status(reply)


def signing_key(secret: str) -> bytes:
    """The key that a secret stands for. ConfigError when it begins like the specification's and is no base64."""
    if not secret.startswith(PREFIX):
        return secret.encode()
    written = secret.removeprefix(PREFIX)
    try:
        return base64.b64decode(written + "=" * (-len(written) % 4), validate=True)
    except binascii.Error as error:
        raise ConfigError(
            f"a webhook's secret that begins with {PREFIX} is base64 behind it; this one is not"
        ) from error


def signature(secret: bytes, key: str, stamp: str, body: bytes) -> str:
    """What a receiver compares, in constant time."""
    signed = hmac.new(secret, f"{key}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def document(note: Notification, wording: Wording) -> dict[str, Any]:
    """The Notification as Alertmanager's webhook document with one alert."""
    labels = {"alertname": note.rule, "severity": note.severity, **note.labels}
    links = wording.links
    annotations = {
        "summary": note.title[wording.language],
        "description": note.sentence(wording.language),
        "value": note.figure(),
        "threshold": f"{note.comparison} {note.limit()}",
        "samples": f"{note.samples:.0f}",
        "runs": " ".join(note.runs),
        "run_links": "\n".join(links.to_run(run_id) for run_id in note.runs),
        "runbook_url": links.to_runbook(note.rule),
    }
    alert = {
        "status": note.status,
        "labels": labels,
        "annotations": annotations,
        "startsAt": iso(note.since),
        "endsAt": iso(note.at) if note.status == "resolved" else NO_END,
        "generatorURL": "",
        "fingerprint": note.fingerprint,
    }
    return {
        "version": "4",
        "groupKey": f'{{}}:{{alertname="{note.rule}"}}:{note.fingerprint}',
        "truncatedAlerts": 0,
        "status": note.status,
        "receiver": RECEIVER,
        "groupLabels": labels,
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
        "alerts": [alert],
    }
