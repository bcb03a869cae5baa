"""What a hook is told, and its words. Knows no hook: each of them lays these words out in its own way."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from orchestrator.alerts.rule import Comparison, Rule, Severity, Unit, shown
from orchestrator.core.spec import Language

_PLACE = re.compile(r"\{(\w+)\}")

NO_DATA: Mapping[Language, str] = {
    "en": "Closed after {lasted}, since {since}: there has been no data for so long that nobody can tell whether it is better.",
    "zh": "已关闭：持续 {lasted}（自 {since}），长时间没有数据，无法判断是否恢复。",
}
EASED: Mapping[Language, str] = {
    "en": "Resolved after {lasted}, since {since}: back at {value}, the limit is {threshold}.",
    "zh": "已恢复：持续 {lasted}（自 {since}），现为 {value}，阈值 {threshold}。",
}
OVER: Mapping[Language, str] = {
    "en": "Resolved after {lasted}, since {since}.",
    "zh": "已恢复：持续 {lasted}（自 {since}）。",
}
"""Where the value is a yes or no, there is no figure to tell."""

_SPANS: Mapping[Language, tuple[tuple[float, str], ...]] = {
    "en": ((86400, " d"), (3600, " h"), (60, " min"), (1, " s")),
    "zh": ((86400, " 天"), (3600, " 小时"), (60, " 分钟"), (1, " 秒")),
}


def lasted(seconds: float, language: Language = "en") -> str:
    """A length of time in its two largest units: `2 d 4 h`, `12 min`, `40 s`."""
    left, words = max(0, round(seconds)), []
    for size, unit in _SPANS[language]:
        count, left = divmod(left, int(size))
        if count:
            words.append(f"{count}{unit}")
        if len(words) == 2 or (words and not count):
            break
    return " ".join(words) or f"0{_SPANS[language][-1][1]}"


def moment(at: float) -> str:
    """A unix time as people read it, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@dataclass(frozen=True, slots=True)
class Notification:
    """An alert that began to fire or is over. Times are unix seconds; `runs` are ids of runs to look at.

    `closed`: it is over because there was no data for the rule's `hold`, not because it got better. `samples` is how many
    the value comes from (0: not counted).
    """

    rule: str
    status: Literal["firing", "resolved"]
    severity: Severity
    title: Mapping[Language, str]
    says: Mapping[Language, str]
    labels: Mapping[str, str]
    value: float
    threshold: float
    since: float
    at: float
    comparison: Comparison = "above"
    unit: Unit = "count"
    samples: float = 0.0
    runs: tuple[str, ...] = ()
    closed: bool = False

    @property
    def fingerprint(self) -> str:
        """The same for every Notification of one rule and group: what a receiver groups by."""
        pairs = "\0".join(f"{name}={value}" for name, value in sorted(self.labels.items()))
        return hashlib.sha256(f"{self.rule}\0{pairs}".encode("utf-8", "replace")).hexdigest()[:16]

    @property
    def key(self) -> str:
        """The same for every delivery of this Notification: what a receiver drops doubles by."""
        return f"{self.fingerprint}-{self.status}-{self.since:.0f}"

    def figure(self) -> str:
        """The value as people read it."""
        return shown(self.value, self.unit)

    def limit(self) -> str:
        """The threshold as people read it."""
        return shown(self.threshold, self.unit)

    def sentence(self, language: Language = "en") -> str:
        """What is the matter; or that it is over, since when and how long it was, and where the value is now."""
        text = self.says[language]
        words = {**self.labels, "value": self.figure(), "threshold": self.limit()}
        if self.status == "resolved":
            text = NO_DATA[language] if self.closed else OVER[language] if self.unit == "count" else EASED[language]
            words |= {"since": moment(self.since), "lasted": lasted(self.at - self.since, language)}
        return _PLACE.sub(lambda found: words.get(found[1], found[0]), text)


@dataclass(frozen=True, slots=True)
class Links:
    """Where a Notification leads. `console` is a template that holds {run}; "" gives the command `orchestrator show`."""

    runbook: str = "docs/runbook.md"
    console: str = ""

    def to_runbook(self, rule: str) -> str:
        """The runbook's section on a rule."""
        return f"{self.runbook}#{rule}"

    def to_run(self, run_id: str) -> str:
        """Where to look at a run."""
        return self.console.replace("{run}", run_id) if self.console else f"orchestrator show {run_id}"


@dataclass(frozen=True, slots=True)
class Wording:
    """How a hook speaks: its language and where its links lead."""

    language: Language = "en"
    links: Links = field(default_factory=Links)


def trial(rule: Rule, now: float) -> Notification:
    """A Notification for trying a hook: made of a real rule, and said to be a trial."""
    labels = dict.fromkeys(rule.by, "trial")
    says: dict[Language, str] = {
        "en": "This is a trial of the alert hook; nothing is the matter.",
        "zh": "这是告警通道的测试，没有任何问题。",
    }
    return Notification(
        rule=rule.name,
        status="firing",
        severity="info",
        title={"en": "Trial", "zh": "测试"},
        says=says,
        labels=labels,
        value=rule.threshold,
        threshold=rule.threshold,
        since=now,
        at=now,
        comparison=rule.comparison,
        unit=rule.unit,
    )
