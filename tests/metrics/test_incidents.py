"""What policies tell becomes gauges and counters, apart for models and tools of one name."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from orchestrator.metrics import Incidents
from orchestrator.policy import BreakerMoved, FellBack, RetriesEnded, Retrying, Waited


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def incidents(registry: CollectorRegistry) -> Incidents:
    found = Incidents(registry)
    found.expect(("m",), ("m",))
    return found


def test_a_breaker_is_out_until_it_is_closed_again(registry: CollectorRegistry, incidents: Incidents) -> None:
    def value(kind: str) -> float | None:
        return registry.get_sample_value("orchestrator_breaker_open", {"kind": kind, "target": "m"})

    seen = [value("model")]
    for before, after in (("closed", "open"), ("open", "half_open"), ("half_open", "open"), ("open", "closed")):
        incidents.observe("model", BreakerMoved("m", before, after, 1.0))
        seen.append(value("model"))
    assert seen == [0, 1, 1, 1, 0]
    assert value("tool") == 0
    opened = registry.get_sample_value("orchestrator_breaker_opened_total", {"kind": "model", "target": "m"})
    assert opened == 2


def test_waits_backoff_ends_of_tries_and_stand_ins_are_counted(
    registry: CollectorRegistry, incidents: Incidents
) -> None:
    for incident in (
        Waited("m", "tenant with free text", 2.0),
        Retrying("m", 1, "OVERLOADED", 0.1, 1.5),
        RetriesEnded("m", 4, "OVERLOADED", "attempts"),
        FellBack("m", "n", "OVERLOADED"),
    ):
        incidents.observe("model", incident)
    pair = {"kind": "model", "target": "m"}
    assert registry.get_sample_value("orchestrator_limit_wait_seconds_sum", pair) == 2.0
    assert registry.get_sample_value("orchestrator_backoff_seconds_total", pair) == 1.5
    assert registry.get_sample_value("orchestrator_retries_given_up_total", {**pair, "why": "attempts"}) == 1
    assert registry.get_sample_value("orchestrator_fallbacks_total", {"target": "m", "next": "n"}) == 1
