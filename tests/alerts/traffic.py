"""Runs for the monitor to see: healthy ones, and ones with each of the three faults, as traces appended to a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from orchestrator.core.events import Event, Outcome, RunEnded, RunStarted
from orchestrator.core.spec import AgentSpec
from orchestrator.stores import Store
from tests.build import acts, final, observed, spec

_numbers = count(1)


def begun(agent: str = "shop", min_steps: int | None = None) -> RunStarted:
    tools = (spec("get_price"), spec("get_stock"))
    return RunStarted("How much is it?", AgentSpec(agent, models=("main",)), tools=tools, min_steps=min_steps)


def _turn(step: int, tool: str, thought: str) -> Event:
    return replace(acts(step, (tool, {"item": f"a-{step}"}), thought=thought), model="main")


def _end() -> tuple[Event, ...]:
    return replace(final("It is dear.", thought=""), model="main"), RunEnded(Outcome.ANSWERED, "It is dear.")


def healthy(agent: str = "shop") -> tuple[Event, ...]:
    """Says what it calls, notices the error it gets, takes as few steps as it can."""
    return (
        begun(agent, 3),
        _turn(1, "get_price", "I will use get_price."),
        observed("1.0", "status: error", tool="get_price", code="TIMEOUT"),
        _turn(2, "get_price", "It timed out, so get_price once more."),
        observed("2.0", "12 euro", tool="get_price"),
        *_end(),
    )


def says_another(agent: str = "shop") -> tuple[Event, ...]:
    """Says one tool and calls the other."""
    return (
        begun(agent, 2),
        _turn(1, "get_price", "I will use get_stock."),
        observed("1.0", "12 euro", tool="get_price"),
        *_end(),
    )


def ignores(agent: str = "shop") -> tuple[Event, ...]:
    """Reads past an error."""
    return (
        begun(agent, 3),
        _turn(1, "get_price", "I will use get_price."),
        observed("1.0", "status: error", tool="get_price", code="TIMEOUT"),
        _turn(2, "get_stock", "Now get_stock."),
        observed("2.0", "7 left", tool="get_stock"),
        *_end(),
    )


def wanders(agent: str = "shop") -> tuple[Event, ...]:
    """Six steps for what takes two."""
    steps: list[Event] = []
    for step in range(1, 6):
        steps += [
            _turn(step, "get_stock", "I will use get_stock."),
            observed(f"{step}.0", f"{step} left", tool="get_stock"),
        ]
    return (begun(agent, 2), *steps, *_end())


async def happen(store: Store, events: Sequence[Event], at: float, run_id: str = "") -> str:
    """Append a run, whole, at one moment."""
    run_id = run_id or f"run{next(_numbers):04}"
    for seq, event in enumerate(events):
        await store.append(run_id, seq, (event,), at=at)
    return run_id
