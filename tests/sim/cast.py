"""The model and the tools' far ends. What a tool does there happens outside the process that asked for it, and is counted by
idempotency key: with the length of the trace at that moment, so the laws can say what was durable before."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from orchestrator.core.decide import AskModel
from orchestrator.core.events import Anomaly, ModelTurn
from orchestrator.core.prompt import Delta
from orchestrator.core.run import Run
from orchestrator.core.spec import ToolResult
from orchestrator.errors import Unavailable
from orchestrator.tool import Tool, ToolError, context, pending, tool
from tests.build import acts, final, malformed
from tests.sim.chaos import Chaos
from tests.sim.network import Disk, outside

ONCE = frozenset({"pay", "book", "ship", "export", "render"})
"""Tools whose effect may happen once only."""


@dataclass(slots=True)
class Stage:
    """The far ends. `effects` holds, by idempotency key, how long the run's trace was each time the effect took place."""

    chaos: Chaos
    disk: Disk
    rng: random.Random
    call_back: Callable[[str, str], None]
    effects: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def happen(self, key: str) -> None:
        """The effect takes place."""
        self.effects[key].append(self.disk.length(key.partition(":")[0]))


STAGE: ContextVar[Stage] = ContextVar("stage")


async def ask_far_end(*, effect: bool = True) -> None:
    """Send a request to the tool's far end and wait for the answer; the far end does it even if nobody waits any more."""
    stage, key = STAGE.get(), context().key
    chaos = stage.chaos
    if chaos.strikes("tool_error"):
        raise (Unavailable("UNAVAILABLE", "503") if stage.rng.random() < 0.5 else ToolError("NO_SUCH_THING", "no"))
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def there_and_back() -> None:
        await asyncio.sleep(stage.rng.random() * 3)
        if effect:
            stage.happen(key)
        if chaos.strikes("tool_answer_lost"):
            return
        await asyncio.sleep(stage.rng.random() * 3 + (500 if chaos.strikes("tool_hangs") else 0))
        if not answer.done():
            answer.set_result(None)

    outside(there_and_back())
    await answer


def news(q: str) -> str:
    return f"{q}: {q}-1 {q}-2 {q}-3"


@tool(repeatable=True, timeout=10)
async def look(q: str) -> str:
    """Looks something up."""
    await ask_far_end(effect=False)
    return news(q)


@tool(timeout=20)
async def pay(q: str) -> str:
    """Pays, once."""
    await ask_far_end()
    return news(q)


async def booked(q: str) -> str | None:
    await asyncio.sleep(STAGE.get().rng.random())
    return news(q) if STAGE.get().effects.get(context().key) else None


@tool(timeout=20, reconcile=booked)
async def book(q: str) -> str:
    """Books, once, and can say afterwards whether it did."""
    await ask_far_end()
    return news(q)


@tool(timeout=20, requires_approval=True)
async def ship(q: str) -> str:
    """Ships, once, when a person has agreed."""
    await ask_far_end()
    return news(q)


@tool(timeout=20)
async def export(q: str) -> ToolResult:
    """Begins an export, once; its end is told by a callback."""
    await ask_far_end()
    STAGE.get().call_back(context().callback, q)
    return pending(context().key, deadline=45)


@tool(timeout=20)
async def render(q: str) -> ToolResult | str:
    """Begins a rendering, once; it is asked again whether it is ready."""
    if not context().token:
        await ask_far_end()
        return pending(context().key, poll=4, deadline=45)
    await ask_far_end(effect=False)
    return news(q) if STAGE.get().rng.random() < 0.6 else pending(context().token, poll=4, deadline=45)


TOOLS: tuple[Tool, ...] = (look, pay, book, ship, export, render)


class SimulatedModel:
    """Says anything that is allowed, and never the same to two who ask."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def open(self, run: Run) -> SimulatedModel:
        assert run.started is not None
        return self

    async def turn(self, run: Run, ask: AskModel, listen: Callable[[Delta], None]) -> ModelTurn:
        rng, chaos = self._stage.rng, self._stage.chaos
        await asyncio.sleep(rng.random() * 4)
        if chaos.strikes("model_hangs"):
            await asyncio.sleep(rng.uniform(20, 200))
        if chaos.strikes("model_fails") and rng.random() < 0.3:
            raise Unavailable("OVERLOADED", "529")
        if chaos.strikes("model_malformed"):
            return malformed(rng.choice((Anomaly.NO_ACTION, Anomaly.TRUNCATED, Anomaly.EMPTY)))
        if ask.finish or rng.random() < 0.25:
            return final(f"answer {run.step}")
        calls = (
            (rng.choice(TOOLS).name, {"q": f"{run.step}.{index}" if rng.random() < 0.9 else "again"})
            for index in range(rng.choice((1, 1, 1, 2, 3)))
        )
        return acts(run.step, *calls)
