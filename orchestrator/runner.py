"""The heart of the imperative shell: ask `decide`, perform the command, record what happened, ask again.

Everything else is a port: a store to append to, a model to ask, a toolbox to call, observers to tell (after the append, never
before). A failure of a tool is an Observation; a failure of the model ends the run by its name; a failure of the store is an
exception, and the run is let go of without a word in its trace: it will be claimed again.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from orchestrator.core.clean import mask
from orchestrator.core.decide import APPROVAL_SECONDS, AskModel, CallTools, Command, Record, Wait, decide
from orchestrator.core.events import (
    Action,
    ActionStarted,
    Decision,
    Entry,
    Event,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    Waiting,
)
from orchestrator.core.guard import facts_in_thought
from orchestrator.core.prompt import Delta
from orchestrator.core.run import Run, evolve, replay
from orchestrator.core.secrecy import concealed
from orchestrator.errors import CallError, Conflict, IllegalEvent, StoreError
from orchestrator.model import Model, Models
from orchestrator.policy.budget import OUT_OF_BUDGET
from orchestrator.policy.call import DEADLINE
from orchestrator.policy.timeout import Scope
from orchestrator.stores import Store
from orchestrator.toolbox import Called, Context, Pending, Toolbox
from orchestrator.traceparent import traceparent

Observer = Callable[[Run, Entry], None]
"""Told of each entry once it is durable, with the run as it was before. Must not raise, must not block."""

Listener = Callable[[str, Delta], None]
"""Told of each streamed piece of a reply (run id, piece), before it is durable: for showing, never for believing."""


_NO_FAILURE = {DEADLINE: Outcome.DEADLINE, OUT_OF_BUDGET: Outcome.OUT_OF_BUDGET}
"""Codes of a call that was not made, or not to its end, for our own reasons: the model did not fail."""


OWN_RULE = "own rule: The tool wants a person to approve this very input."
"""Why an approval is asked for where the tool itself says so (`@tool(approval=...)`)."""


def _deaf(_run_id: str, _delta: Delta) -> None:
    """Nobody listens."""


Callback = Callable[[Run, str], str]
"""What a long tool hands to whoever will report its result: a signed word for (run, action id); "" where nobody listens."""


def _no_callback(_run: Run, _action_id: str) -> str:
    """Nobody listens for callbacks."""
    return ""


@dataclass(frozen=True, slots=True)
class Ports:
    """What a run is driven with. `clock` gives unix seconds; `stopping` is asked between steps: True lets the run go."""

    store: Store
    models: Models
    toolbox: Toolbox
    observers: tuple[Observer, ...] = ()
    listener: Listener = _deaf
    clock: Callable[[], float] = time.time
    stopping: Callable[[], bool] = lambda: False
    secrets: tuple[str, ...] = ()
    callback: Callback = _no_callback


async def drive(run_id: str, ports: Ports, *, epoch: int = 0) -> Run:
    """Take a run as far as it goes: to its end, to a Wait, or until told to stop. Returns it as it then stands.

    StoreError (Conflict: another worker has it) means: let go. So do ConfigError (this process has not the run's models: another
    may) and IllegalEvent (the trace is damaged).
    """
    session = Session(replay(await ports.store.read(run_id)), ports, epoch)
    while not ports.stopping() and (command := decide(session.run, ports.clock())) is not None:
        if isinstance(command, Wait):
            break
        await session.perform(command)
    return session.run


@dataclass(slots=True)
class Session:
    """One run in one process: the value as it stands, and the only place that appends to its trace."""

    run: Run
    ports: Ports
    epoch: int = 0
    _model: Model | None = None
    _appending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _ahead: tuple[Entry, Run] | None = None
    _toolbox: Toolbox = field(init=False)

    def __post_init__(self) -> None:
        """Only the tools that were offered to this run exist for it, each as it was then."""
        toolbox, offered = self.ports.toolbox, {spec.name: spec.version for spec in self.run.start.tools}
        others = {spec.name for spec in toolbox.specs if offered.get(spec.name) != spec.version}
        self._toolbox = toolbox.without(others)

    async def perform(self, command: Command) -> None:
        """Do what was decided and record what came of it."""
        match command:
            case Record(event=event, more=more):
                await self.record(event, *more)
            case AskModel():
                await self._ask(command)
            case CallTools():
                await self._call(command)
            case Wait():
                await asyncio.sleep(0)

    async def record(self, *events: Event, blobs: Mapping[str, bytes] | None = None) -> None:
        """Append, fold in, tell the observers: in this order, one caller at a time.

        Where a person or a callback has written meanwhile, their word is folded in first; what is then out of place is dropped.
        """
        async with self._appending:
            while True:
                run, now = self.run, self.ports.clock() if self._ahead is None else self._ahead[0].at
                try:
                    entries = await self.ports.store.append(
                        run.run_id, run.seq, events, at=now, epoch=self.epoch, blobs=blobs or {}
                    )
                except Conflict as conflict:
                    await self._catch_up(conflict)
                    if self.run.cancelled is not None:
                        events = tuple(event for event in events if not isinstance(event, ActionStarted))
                    if not events or not _fits(self.run, events, now):
                        return
                else:
                    self._fold(entries)
                    return

    def _fold(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            before, self.run = self.run, self._after(entry)
            for observe in self.ports.observers:
                observe(before, entry)

    def _after(self, entry: Entry) -> Run:
        """The run after this entry, which was perhaps foreseen."""
        foreseen, self._ahead = self._ahead, None
        return foreseen[1] if foreseen is not None and foreseen[0] == entry else evolve(self.run, entry)

    async def _catch_up(self, conflict: Conflict) -> None:
        """Fold in what outsiders wrote. Anything that only another worker writes means: the run is lost to it, let go."""
        row = await self.ports.store.row(self.run.run_id)
        missed = await self.ports.store.read(self.run.run_id, self.run.seq)
        outsiders = all(
            isinstance(entry.event, Decision)
            or (isinstance(entry.event, Observation) and entry.event.id in self.run.waiting)
            for entry in missed
        )
        if row is None or row.epoch > self.epoch or not missed or not outsiders:
            raise conflict
        self._fold(missed)

    async def _ask(self, ask: AskModel) -> None:
        run, out = self.run, self._out()
        ask = replace(ask, out=out) if out else ask
        self._model = self._model or self.ports.models.open(run)
        try:
            with self._in_time(self._left()):
                turn = await self._model.turn(run, ask, lambda delta: self.ports.listener(run.run_id, delta))
        except TimeoutError:
            return  # the run's own deadline: decide sees it
        except CallError as error:
            outcome = _NO_FAILURE.get(error.code, Outcome.MODEL_FAILED)
            detail = mask(error.message, self.ports.secrets)
            await self.record(RunEnded(outcome, code=error.code, detail=detail, attempts=error.attempts))
            return
        turn = concealed(turn, self.ports.secrets)
        if not any(step.observations for step in run.steps):
            turn = facts_in_thought(turn, run.start.goal)
        await self._turned(turn)

    async def _turned(self, turn: ModelTurn) -> None:
        """Record a turn, and in the same append what it already decides: its Actions begin, or the run ends."""
        entry = Entry(self.run.run_id, self.run.seq + 1, self.ports.clock(), turn)
        after = evolve(self.run, entry)
        self._ahead = entry, after
        match decide(after, entry.at):
            case CallTools() as call:
                await self._call(call, turn)
            case Record(event=event, more=more):
                await self.record(turn, event, *more)
            case _:
                await self.record(turn)

    async def _call(self, call: CallTools, *first: Event) -> None:
        """Begin these actions, durably and in one append with what comes `first`; then run them side by side."""
        run, actions = self.run, call.actions
        unasked = [each for each in actions if each.id not in run.begun and each.id not in run.decided]
        asked = {each.id for each in unasked if self._toolbox.asks(each)}
        actions = tuple(each for each in actions if each.id not in asked)
        until = self.ports.clock() + APPROVAL_SECONDS
        before = [Waiting(each, until, "approval", why=OWN_RULE) for each in sorted(asked)]
        fresh = [
            ActionStarted(each.id, f"{run.run_id}:{each.id}", call.rules.get(each.id, ""))
            for each in actions
            if each.id not in run.begun
        ]
        if first or before or fresh:
            await self.record(*first, *before, *fresh)
        if self.run.cancelled is not None:
            return
        actions = tuple(each for each in actions if each.id in self.run.begun)
        await _together([self._observe(action, resumed=action.id in run.begun) for action in actions])

    async def _observe(self, action: Action, *, resumed: bool) -> None:
        """Call the tool within the run's time, and record what came of it: an append that has begun is never cut off."""
        run, waiting, left = self.run, self.run.waiting.get(action.id), self._left()
        context = Context(
            run.run_id,
            action.id,
            f"{run.run_id}:{action.id}",
            deadline=None if left is None else self.ports.clock() + left,
            tenant=run.start.tenant,
            token="" if waiting is None else waiting.token,
            callback=self.ports.callback(run, action.id),
            traceparent=traceparent(run.run_id, run.start.labels, f"tool {action.id}"),
        )
        try:
            with self._in_time(left):
                called = await self._called(action, context, lost=resumed and waiting is None)
        except TimeoutError:
            return  # the run's own deadline: decide sees it, and closes what is still open
        if called.pending is not None:
            await self.record(_waiting(action.id, called.pending, waiting))
            return
        blobs = (
            {called.observation.digest: called.raw} if called.raw is not None and called.observation is not None else {}
        )
        if called.observation is not None:
            await self.record(called.observation, blobs=blobs)

    async def _called(self, action: Action, context: Context, *, lost: bool) -> Called:
        """Call the tool; where an earlier call was `lost`, ask it what became of that one. A waiting one is called to be polled."""
        spec = self.run.tool(action.tool)
        limit = self.run.start.limits.observation_chars
        if lost and spec is not None and spec.reconcilable and not spec.repeatable:
            return await self._toolbox.reconcile(action, context, limit=limit, secrets=self.ports.secrets)
        return await self._toolbox.call(action, context=context, limit=limit, secrets=self.ports.secrets)

    def _out(self) -> tuple[tuple[str, int], ...]:
        """The run's tools whose breaker is open, and the whole seconds until it may let a call through."""
        out = self._toolbox.out(asyncio.get_running_loop().time())
        return tuple((name, math.ceil(wait)) for name, wait in out)

    @staticmethod
    def _in_time(left: float | None) -> AbstractContextManager[object]:
        return nullcontext() if left is None else Scope(asyncio.get_running_loop().time() + left)

    def _left(self) -> float | None:
        """Seconds to the run's deadline; None without one."""
        deadline = self.run.start.limits.deadline
        return None if deadline is None else max(0.0, deadline - self.run.elapsed(self.ports.clock()))


def _waiting(action_id: str, pending: Pending, earlier: Waiting | None) -> Waiting:
    """A poll that says "not yet" may bring another token and time of the next poll; the deadline is the first one's."""
    if earlier is None:
        return Waiting(action_id, pending.until, token=pending.token, poll=pending.poll)
    until = min(pending.until, earlier.until)
    poll = None if pending.poll is None else min(pending.poll, until)
    return Waiting(action_id, until, token=pending.token or earlier.token, poll=poll)


def _fits(run: Run, events: Sequence[Event], at: float) -> bool:
    """Can these events still follow?"""
    try:
        replay((Entry(run.run_id, seq, at, event) for seq, event in enumerate(events, run.seq + 1)), run)
    except IllegalEvent:
        return False
    return True


async def _together(calls: Sequence[Coroutine[None, None, None]]) -> None:
    """All side by side. Tools do not raise; a store that does takes the whole batch down with that one error."""
    if len(calls) == 1:
        return await calls[0]
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(call)
    except* StoreError as several:
        raise several.exceptions[0] from None
