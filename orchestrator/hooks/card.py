"""An alert laid out for people: headline, sentence, figures, links. Chat hooks draw it, each in its own markup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from orchestrator.alerts import Notification, Wording
from orchestrator.alerts.notice import moment
from orchestrator.core.clean.strip import strip
from orchestrator.core.spec import Language

LONGEST: Final = 600
"""Characters of any one text on a card: what comes from outside is cut here, each hook cuts the whole again."""

WORDS: Final[Mapping[Language, Mapping[str, str]]] = {
    "en": {
        "firing": "FIRING", "resolved": "RESOLVED", "value": "value", "threshold": "threshold", "since": "since",
        "above": "above", "below": "below", "samples": "samples", "runs": "runs to open", "runbook": "runbook", "ended": "until", "last": "last value while firing",
    },
    "zh": {
        "firing": "告警", "resolved": "已恢复", "value": "当前值", "threshold": "阈值", "since": "开始于",
        "above": "高于", "below": "低于", "samples": "样本数", "runs": "可查看的运行", "runbook": "处理手册", "ended": "结束于", "last": "告警期间最后值",
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Card:
    """All texts are one line each. `facts` are name and value; `runs` and `runbook` are links or commands."""

    status: Literal["firing", "resolved"]
    severity: str
    title: str
    sentence: str
    facts: tuple[tuple[str, str], ...] = ()
    runs: tuple[str, ...] = ()
    runbook: str = ""


def card(note: Notification, wording: Wording) -> Card:
    """The card of a Notification, in the hook's language."""
    words, links = WORDS[wording.language], wording.links
    facts = [
        *note.labels.items(),
        (words["value"], note.figure()),
        (words["threshold"], f"{words[note.comparison]} {note.limit()}"),
        (words["since"], moment(note.since)),
    ]
    if note.status == "resolved":
        facts.append((words["ended"], moment(note.at)))
    if note.samples:
        facts.append((words["samples"], f"{note.samples:.0f}"))
    return Card(
        note.status,
        note.severity,
        line(note.title[wording.language]),
        line(note.sentence(wording.language)),
        tuple((name, line(value)) for name, value in facts),
        tuple(links.to_run(run_id) for run_id in note.runs),
        links.to_runbook(note.rule),
    )


def iso(at: float) -> str:
    """A unix time as RFC 3339, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line(text: str) -> str:
    """The text as one line without control characters, cut at LONGEST."""
    flat = " ".join(strip(text[: LONGEST * 4]).split())
    return flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + "…"
