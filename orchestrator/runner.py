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
from orchestrator.policy.timeout import Alarm, Scope
from orchestrator.stores import Store
from orchestrator.toolbox import Called, Context, Pending, Toolbox

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
    try:
        while not ports.stopping() and (command := decide(session.run, ports.clock())) is not None:
            if isinstance(command, Wait):
                break
            await session.perform(command)
    finally:
        session.close()
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
    _alarm: Alarm = field(init=False)

    def __post_init__(self) -> None:
        """Only the tools that were offered to this run exist for it, each as it was then."""
        toolbox, offered = self.ports.toolbox, {spec.name: spec.version for spec in self.run.start.tools}
        others = {spec.name for spec in toolbox.specs if offered.get(spec.name) != spec.version}
        self._toolbox = toolbox.without(others)
        self._alarm = Alarm(asyncio.get_running_loop(), held=True)

    def close(self) -> None:
        """Nothing of it stays in the loop."""
        self._alarm.stop()

    def perform(self, command: Command) -> Coroutine[None, None, None]:
        """Do what was decided and record what came of it."""
        match command:
            case Record(event=event, more=more):
                return self.record(event, *more)
            case AskModel():
                return self._ask(command)
            case CallTools():
                return self._call(command)
            case Wait():
                return asyncio.sleep(0)

    async def record(self, *events: Event, blobs: Mapping[str, bytes] | None = None) -> None:
        """Append, fold in, tell the observers: in this order, one caller at a time.

        Where a person or a callback has written meanwhile, their word is folded in first; what is then out of place is dropped.
        """
        await self._appending.acquire()  # `async with` is two more coroutines
        try:
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
        finally:
            self._appending.release()

    def _fold(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            before, foreseen = self.run, self._ahead
            self._ahead = None
            self.run = foreseen[1] if foreseen is not None and foreseen[0] == entry else evolve(before, entry)
            for observe in self.ports.observers:
                observe(before, entry)

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
        run, asked, fresh = self.run, [], []
        for each in call.actions:
            if each.id in run.begun:
                continue
            if each.id not in run.decided and self._toolbox.asks(each):
                asked.append(each.id)
            else:
                fresh.append(ActionStarted(each.id, f"{run.run_id}:{each.id}", call.rules.get(each.id, "")))
        if asked:
            until = self.ports.clock() + APPROVAL_SECONDS
            first += tuple(Waiting(each, until, "approval", why=OWN_RULE) for each in sorted(asked))
        if first or fresh:
            await self.record(*first, *fresh)
        if self.run.cancelled is not None:
            return
        begun = self.run.begun
        calls = [self._observe(each, resumed=each.id in run.begun) for each in call.actions if each.id in begun]
        await (calls[0] if len(calls) == 1 else _together(calls))

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
            labels=run.start.labels,
        )
        try:
            with self._in_time(left):
                called = await self._called(action, context, lost=resumed and waiting is None)
        except TimeoutError:
            return  # the run's own deadline: decide sees it, and closes what is still open
        if called.pending is not None:
            await self.record(_waiting(action.id, called.pending, waiting))
            return
        seen = called.observation
        if seen is not None:
            await self.record(seen, blobs=None if called.raw is None else {seen.digest: called.raw})

    def _called(self, action: Action, context: Context, *, lost: bool) -> Coroutine[None, None, Called]:
        """Call the tool; where an earlier call was `lost`, ask it what became of that one. A waiting one is called to be polled."""
        spec = self.run.tool(action.tool) if lost else None
        limit = self.run.start.limits.observation_chars
        if spec is not None and spec.reconcilable and not spec.repeatable:
            return self._toolbox.reconcile(action, context, limit=limit, secrets=self.ports.secrets)
        return self._toolbox.call(action, context=context, limit=limit, secrets=self.ports.secrets)

    def _out(self) -> tuple[tuple[str, int], ...]:
        """The run's tools whose breaker is open, and the whole seconds until it may let a call through."""
        out = self._toolbox.out(self._alarm.loop.time())
        return tuple((name, math.ceil(wait)) for name, wait in out) if out else ()

    def _in_time(self, left: float | None) -> AbstractContextManager[object]:
        return nullcontext() if left is None else Scope(self._alarm.loop.time() + left, self._alarm)

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
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(call)
    except* StoreError as several:
        raise several.exceptions[0] from None
