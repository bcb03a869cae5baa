"""What the policies tell while they work: waits, backoff, breakers, stand-ins. It stands in no trace as it happens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from orchestrator.policy import BreakerMoved, FellBack, Incident, Phase, RetriesEnded, Retrying, Waited

Kind: TypeAlias = Literal["model", "tool"]
_WAIT: Final = (1.0, 10.0, 60.0)
_PAIR: Final = ("kind", "target")


class Incidents:
    """The policies' metrics. `kind` says whose policies they are: a model and a tool may bear one name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._open = Gauge(
            "orchestrator_breaker_open", "1 while nothing but probes is sent there.", _PAIR, registry=registry
        )
        self._opened = Counter("orchestrator_breaker_opened", "Times the breaker opened.", _PAIR, registry=registry)
        self._waits = Histogram(
            "orchestrator_limit_wait_seconds",
            "Waits for a place under a limit.",
            _PAIR,
            buckets=_WAIT,
            registry=registry,
        )
        self._backoff = Counter(
            "orchestrator_backoff_seconds", "Seconds spent waiting between tries.", _PAIR, registry=registry
        )
        self._given_up = Counter(
            "orchestrator_retries_given_up",
            "Calls not tried again though the failure may pass.",
            (*_PAIR, "why"),
            registry=registry,
        )
        self._fallbacks = Counter(
            "orchestrator_fallbacks", "Calls that went to the stand-in.", ("target", "next"), registry=registry
        )

    def expect(self, models: Iterable[str], tools: Iterable[str]) -> None:
        """Let the series of these models and tools begin at 0."""
        named: tuple[tuple[Kind, Iterable[str]], ...] = (("model", models), ("tool", tools))
        for kind, targets in named:
            for target in targets:
                self._open.labels(kind, target).set(0)
                self._opened.labels(kind, target)
                self._backoff.labels(kind, target)

    def observe(self, kind: Kind, incident: Incident) -> None:
        """The Observer of one kind's policies."""
        match incident:
            case BreakerMoved(target=target, after=after):
                self._open.labels(kind, target).set(after != Phase.CLOSED)
                if after == Phase.OPEN:
                    self._opened.labels(kind, target).inc()
            case Waited(target=target, seconds=seconds):
                self._waits.labels(kind, target).observe(seconds)
            case Retrying(target=target, wait=wait):
                self._backoff.labels(kind, target).inc(max(0.0, wait))
            case RetriesEnded(target=target, why=why):
                self._given_up.labels(kind, target, why).inc()
            case FellBack(target=target, next=stand_in):
                self._fallbacks.labels(target, stand_in).inc()
