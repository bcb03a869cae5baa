"""Which Observations an answer rests on."""

from __future__ import annotations

from orchestrator.core.measure import rests_on
from tests.build import acts, final, observed, run_of, spec, started


def test_the_answer_rests_on_what_its_values_were_found_with_and_on_nothing_else() -> None:
    run = run_of(
        started(spec("find"), spec("read")),
        acts(1, ("find", {"q": "weather"}), ("find", {"q": "the book"})),
        observed("1.0", "It rains in Oslo.", tool="find"),
        observed("1.1", "The record is QX7731.", tool="find"),
        acts(2, ("read", {"record": "QX7731"})),
        observed("2.0", "It was written by Liu Cixin in 2006.", tool="read"),
        final("Liu Cixin wrote it in 2006."),
    )
    assert rests_on(run) == {"1.1", "2.0"}
    assert rests_on(run_of(started(), final("I know it."))) == frozenset()
    assert rests_on(run_of(started())) == frozenset()
