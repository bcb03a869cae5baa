"""The live metrics: equal to what stored traces say, few, there from the start, and with the run in their exemplars."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.assembly import RunRequest, finish, open_ports, submit
from orchestrator.core.events import Anomaly, Attempt, Entry, Observation, Outcome, RunEnded, Usage
from orchestrator.core.measure import SERIES, Sample, measure
from orchestrator.core.run import Run, evolve
from orchestrator.core.spec import AgentSpec, ToolSpec
from orchestrator.metrics import Metrics, live, recompute, samples, totals
from orchestrator.metrics.live import LONG, TOGETHER
from orchestrator.policy import FellBack, RetriesEnded, Waited
from orchestrator.settings import AgentSettings, ModelSettings, Retry, Settings, Timeouts
from tests.build import acts, final, malformed, observed, spec, started, trace
from tests.served import demo_server

BEHAVIOURS = ("", "gap", "ignore", "wander", "forged", "four-actions", "thinking", "malformed", "unknown-tool", "529")
GOALS = ("《三体》的作者出生在哪个省？该省的人口是多少？", "Which is longer, the River Aske or the River Tolm?")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with demo_server() as found:
        yield found


def configured(url: str) -> Settings:
    models = {
        f"{protocol}-{behaviour or 'well'}": ModelSettings(
            provider="openai",
            base_url=f"{url}/v1",
            model=f"demo:{behaviour}" if behaviour else "demo",
            protocol=protocol,
            timeouts=Timeouts(connect=2.0, first_token=2.0, between_tokens=0.4, whole=4.0),
            retry=Retry(attempts=4, total=10.0, base=0.01, cap=0.05),
        )
        for protocol in ("native", "text")
        for behaviour in BEHAVIOURS
    }
    agents = {name: AgentSettings(models=(name,), language="zh") for name in models}
    return Settings.model_construct(models=models, agents=agents, store="memory")


async def test_live_samples_equal_those_recomputed_from_the_stored_traces(url: str) -> None:
    settings, metrics = configured(url), Metrics()
    live: dict[str, list[Sample]] = {}

    def noted(run: Run, entry: Entry) -> None:
        live.setdefault(entry.run_id, []).extend(measure(run, entry))

    async with open_ports(settings, observers=(metrics.observe, noted)) as ports:
        requests = [RunRequest(goal, agent, tools=("search", "lookup")) for agent in settings.agents for goal in GOALS]
        ids = [await submit(ports, settings, each) for each in requests]
        await asyncio.gather(*(finish(run_id, ports) for run_id in ids))
        stored = {run_id: list(samples(trace)) async for run_id, trace in recompute(ports.store)}
    assert stored == live
    everything = [sample for found in stored.values() for sample in found]
    assert {sample.series for sample in everything} >= {
        "orchestrator_thought_actions_total", "orchestrator_error_observations_total", "orchestrator_step_bloat_ratio",
        "orchestrator_retries_total", "orchestrator_anomalies_total", "orchestrator_tool_errors_total",
    }  # fmt: skip
    for total in totals(everything):
        name, labels = total.series, dict(total.labels)
        if SERIES[name].kind == "counter":
            assert metrics.registry.get_sample_value(name, labels) == pytest.approx(total.sum)
        else:
            assert metrics.registry.get_sample_value(f"{name}_count", labels) == total.count
            assert metrics.registry.get_sample_value(f"{name}_sum", labels) == pytest.approx(total.sum)


def twenty_and_three() -> tuple[Settings, tuple[ToolSpec, ...]]:
    models = {name: ModelSettings(provider="openai", base_url="http://127.0.0.1:9", model=name) for name in "abc"}
    settings = Settings.model_construct(models=models, agents={"default": AgentSettings(models=("a", "b", "c"))})
    return settings, tuple(spec(f"tool_{number}") for number in range(20))


def busy(metrics: Metrics, tools: tuple[ToolSpec, ...]) -> None:
    """A day in which each tool failed in its own ways, each model was odd in every way, and runs ended in all ways."""
    first = replace(started(*tools), agent=AgentSpec(models=("a", "b", "c")))
    codes = ("TOOL_TIMEOUT", "NOT_FOUND", "RATE_LIMITED", "HTTP_500", "MADE_UP")
    for number, outcome in enumerate(Outcome):
        for model in "abc":
            turn = replace(
                acts(1, ("tool_1", {})),
                model=model,
                anomalies=tuple(Anomaly),
                first_token=0.1,
                usage=Usage(1, 1, 1, 1, 1.0),
            )
            turn = replace(turn, attempts=tuple(Attempt(model, code, 1.0) for code in codes), thought="I call tool_2.")
            ending = RunEnded(outcome, answer="x")
            story = trace(
                first,
                turn,
                observed("1.0", tool="tool_1", code="NOT_FOUND"),
                final("x"),
                ending,
                run_id=f"{number}{model}",
            )
            run = Run()
            for entry in story:
                metrics.observe(run, entry)
                run = evolve(run, entry)
    run = evolve(Run(), trace(first)[0])
    for tool in tools:
        for code in codes:
            seen = Observation("1.0", tool.name, "error", "no", code=code, attempts=(Attempt(tool.name, code, 1.0),))
            metrics.observe(run, trace(first, seen)[1])


def trouble(metrics: Metrics, tools: tuple[ToolSpec, ...]) -> None:
    """Every endpoint and every tool had to be waited for, tried again and given up."""
    kinds: tuple[tuple[Literal["model", "tool"], list[str]], ...] = (
        ("model", ["a", "b", "c"]),
        ("tool", [tool.name for tool in tools]),
    )
    for kind, targets in kinds:
        for target in targets:
            metrics.incidents.observe(kind, Waited(target, "", 2.0))
            metrics.incidents.observe(kind, RetriesEnded(target, 3, "TIMEOUT", "attempts"))
    for target, stand_in in (("a", "b"), ("b", "c")):
        metrics.incidents.observe("model", FellBack(target, stand_in, "TIMEOUT"))


OF_THE_WORKER = 40
"""Series of WorkerCollector, and of the worst runs beyond those of the busy day, at most."""


def test_a_worker_with_20_tools_and_3_models_exports_at_most_1000_series() -> None:
    settings, tools = twenty_and_three()
    metrics = Metrics()
    metrics.expect(settings, tools)
    busy(metrics, tools)
    trouble(metrics, tools)
    series = OF_THE_WORKER + sum(len(family.samples) for family in metrics.registry.collect())
    print(f"series_per_worker = {series}")
    assert 500 < series <= 1000


def told(metrics: Metrics, runs: int, **more: Any) -> None:
    """So many runs of one turn and a Final, as a worker tells of them."""
    for number in range(runs):
        run = Run()
        for entry in trace(
            started(), *more.get("between", ()), final("x"), RunEnded(Outcome.ANSWERED, "x"), run_id=f"r{number}"
        ):
            metrics.observe(run, entry)
            run = evolve(run, entry)


@pytest.mark.parametrize("runs", [1, TOGETHER // 2, TOGETHER + 5])
def test_whoever_looks_sees_all_that_was_observed(runs: int) -> None:
    metrics = Metrics()
    told(metrics, runs)
    labels = {"agent": "default", "outcome": "answered"}
    assert metrics.registry.get_sample_value("orchestrator_runs_total", labels) == runs
    assert b"orchestrator_turns_total" in metrics.render()[0]


def test_a_scrape_from_another_thread_counts_everything_once() -> None:
    metrics, over = Metrics(), threading.Event()

    def scrape() -> None:
        while not over.is_set():
            metrics.render()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(scrape)
        told(metrics, 500)
        over.set()
        done.result()
    labels = {"agent": "default", "outcome": "answered"}
    assert metrics.registry.get_sample_value("orchestrator_runs_total", labels) == 500


def test_a_go_that_takes_long_is_broken_off_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "GO", -1.0)
    metrics = Metrics()
    told(metrics, TOGETHER)
    assert len(metrics._pending) == 2 * TOGETHER
    labels = {"agent": "default", "outcome": "answered"}
    assert metrics.registry.get_sample_value("orchestrator_runs_total", labels) == TOGETHER
    assert not metrics._pending


def test_a_long_run_is_measured_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "GO", math.inf)
    metrics = Metrics()
    steps = [event for step in range(1, LONG + 2) for event in (acts(step, ("search", {})), observed(f"{step}.0"))]
    told(metrics, 1, between=steps)
    assert not metrics._pending


def test_the_series_of_what_is_configured_are_there_before_anything_happens() -> None:
    settings, tools = twenty_and_three()
    metrics = Metrics()
    metrics.expect(settings, tools)
    value = metrics.registry.get_sample_value
    for model in "abc":
        turn = {"agent": "default", "protocol": "native", "model": model}
        assert value("orchestrator_thought_actions_total", {**turn, "result": "gap"}) == 0
        assert value("orchestrator_anomalies_total", {"agent": "default", "model": model, "kind": "truncated"}) == 0
        assert value("orchestrator_breaker_open", {"kind": "model", "target": model}) == 0
    assert value("orchestrator_tool_seconds_count", {"tool": "tool_7"}) == 0
    assert value("orchestrator_runs_total", {"agent": "default", "outcome": "model_failed"}) == 0


def test_every_expected_series_is_one_that_measure_can_give() -> None:
    settings, tools = twenty_and_three()
    metrics = Metrics()
    metrics.expect(settings, tools)
    before = {
        (family.name, *sorted(each.labels.items())) for family in metrics.registry.collect() for each in family.samples
    }
    busy(metrics, tools)
    after = {
        (family.name, *sorted(each.labels.items())) for family in metrics.registry.collect() for each in family.samples
    }
    assert before <= after


def test_an_exemplar_names_the_run_and_its_trace() -> None:
    metrics = Metrics()
    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    run = evolve(Run(), trace(replace(started(), labels={"traceparent": given}), run_id="run-7")[0])
    metrics.observe(run, Entry("run-7", 2, 1001.0, malformed()))
    body, kind = metrics.render(OPENMETRICS)
    assert kind.startswith("application/openmetrics-text")
    assert b'# {run_id="run-7",trace_id="0af7651916cd43dd8448eb211c80319c"} 1.0' in body
    plain, kind = metrics.render()
    assert kind.startswith("text/plain") and b"run-7" not in plain


def test_a_run_id_that_is_too_long_for_an_exemplar_has_none() -> None:
    metrics = Metrics()
    long = "r" * 200
    metrics.observe(evolve(Run(), trace(started(), run_id=long)[0]), Entry(long, 2, 1001.0, malformed()))
    assert b"rrrr" not in metrics.render(OPENMETRICS)[0]


def test_the_time_until_an_append_is_durable_is_measured_for_our_own_appends_only() -> None:
    metrics = Metrics(clock=lambda: 1001.25)
    metrics.observe(Run(), trace(started())[0])
    assert metrics.registry.get_sample_value("orchestrator_append_seconds_sum") == pytest.approx(0.25)


def test_what_is_rendered_can_be_read_again() -> None:
    settings, tools = twenty_and_three()
    metrics = Metrics()
    metrics.expect(settings, tools)
    busy(metrics, tools)
    names = {family.name for family in text_string_to_metric_families(metrics.render()[0].decode())}
    assert {name.removesuffix("_total") for name in SERIES} <= names


def test_at_most_ten_runs_are_named_and_none_that_ended_an_hour_ago() -> None:
    now = 2000.0
    metrics = Metrics(clock=lambda: now)

    def fail(number: int, at: float) -> None:
        run = Run()
        for entry in trace(started(), RunEnded(Outcome.MODEL_FAILED), run_id=f"run-{number}", at=at):
            metrics.observe(run, entry)
            run = evolve(run, entry)

    for number in range(30):
        fail(number, 1900.0 + number)
    named = metrics.render()[0].count(b'orchestrator_worst_run_trouble{agent="default"')
    assert named == 10
    now = 1990.0 + 3600
    fail(99, now)
    assert metrics.render()[0].count(b"orchestrator_worst_run_trouble{") == 1
    assert metrics.registry.get_sample_value(
        "orchestrator_worst_run_trouble", {"run_id": "run-99", "agent": "default", "outcome": "model_failed"}
    ) == pytest.approx(3.0)
