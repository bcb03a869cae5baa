"""The series that a configuration will fill, before anything has happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.core.events import Anomaly, Outcome
from orchestrator.core.measure import Basis, Notice, Said, Sample
from orchestrator.core.measure.live import DECLARED_TOO_HIGH, NO_PROGRESS, REPEATED
from orchestrator.core.measure.series import OTHER, SANITISERS, UNKNOWN
from orchestrator.core.spec import ToolSpec
from orchestrator.settings import Settings

KINDS: Final = (*(each.value for each in Anomaly), REPEATED, NO_PROGRESS, DECLARED_TOO_HIGH)
TOKENS: Final = ("input", "output", "cached", "reasoning")
TOOL_CODES: Final = ("TOOL_TIMEOUT", "TOOL_EXECUTION_ERROR", "INVALID_ARGUMENTS")
MODEL_CODES: Final = ("RATE_LIMITED", "OVERLOADED", "SERVER_ERROR", "TIMEOUT", "CONNECTION_FAILED")
"""Codes that any tool, any model may have. The others appear when they do."""


def expected(settings: Settings, tools: Sequence[ToolSpec]) -> Iterator[Sample]:
    """Empty samples of every series whose labels are known beforehand."""
    for name, agent in settings.agents.items():
        models = tuple(dict.fromkeys(_model(settings, each) for each in agent.models)) if settings.models else ()
        yield from _agent(name)
        for model in models:
            protocol = agent.protocol or settings.model(models[0]).protocol
            yield from _model_of(name, protocol, model)
    for tool in (*(spec.name for spec in tools), UNKNOWN):
        yield Sample("orchestrator_tool_seconds", {"tool": tool})
    for spec in tools:
        for code in TOOL_CODES:
            yield Sample("orchestrator_tool_errors_total", {"tool": spec.name, "code": code})
    yield Sample("orchestrator_tool_errors_total", {"tool": UNKNOWN, "code": "TOOL_NOT_FOUND"})
    for model in settings.models:
        for code in MODEL_CODES:
            yield Sample("orchestrator_retries_total", {"kind": "model", "target": model, "code": code})
    for action in (*sorted(SANITISERS), OTHER):
        yield Sample("orchestrator_sanitised_total", {"action": action})


def _agent(agent: str) -> Iterator[Sample]:
    for outcome in Outcome:
        yield Sample("orchestrator_runs_total", {"agent": agent, "outcome": outcome.value})
    for basis in Basis:
        yield Sample("orchestrator_step_bloat_ratio", {"agent": agent, "basis": basis.value})
    yield Sample("orchestrator_run_steps", {"agent": agent})


def _model_of(agent: str, protocol: str, model: str) -> Iterator[Sample]:
    turn = {"agent": agent, "protocol": protocol, "model": model}
    pair = {"agent": agent, "model": model}
    yield Sample("orchestrator_turns_total", turn)
    yield Sample("orchestrator_corrected_total", turn)
    for said in Said:
        yield Sample("orchestrator_thought_actions_total", {**turn, "result": said.value})
    for notice in Notice:
        yield Sample("orchestrator_error_observations_total", {**turn, "result": notice.value})
    yield Sample("orchestrator_model_seconds", pair)
    yield Sample("orchestrator_first_token_seconds", pair)
    yield Sample("orchestrator_cost_total", pair)
    for kind in TOKENS:
        yield Sample("orchestrator_tokens_total", {**pair, "type": kind})
    for kind in KINDS:
        yield Sample("orchestrator_anomalies_total", {**pair, "kind": kind})


def _model(settings: Settings, name: str) -> str:
    return name if name in settings.models else next(iter(settings.models))
