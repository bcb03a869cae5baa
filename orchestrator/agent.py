"""The in-process Agent: a question in, a Result out, with no server. For applications and notebooks.

async with Agent(tools=[my_tool]) as agent:
    result = await agent.run("Where was the author born?")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from orchestrator.assembly import RunRequest, asked, finish, make_toolbox, open_ports, parse_request, submit
from orchestrator.core.events import Entry, Outcome, Usage
from orchestrator.core.run import Run
from orchestrator.errors import ConfigError, StoreError
from orchestrator.runner import Observer, Ports
from orchestrator.settings import ModelSettings, Settings
from orchestrator.stores import Store
from orchestrator.tool import Tool

CHANGES = frozenset(each.name for each in fields(RunRequest)) - {"goal"}
"""What `run`, `submit` and `stream` take besides the question."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run came to. `outcome` is None if it was let go before its end; `missing` is what it says it lacks.

    `answer` is None unless the outcome is ANSWERED (or what honest text there is). `seconds` is from start to last entry.
    """

    run_id: str
    outcome: Outcome | None
    answer: str | None
    missing: str | None
    steps: int
    usage: Usage
    seconds: float
    code: str | None = None
    detail: str = ""

    @classmethod
    def of(cls, run: Run) -> Result:
        """What a run comes to."""
        ended, steps = run.ended, len(run.steps) + (run.turn is not None)
        if ended is None:
            return cls(run.run_id, None, None, None, steps, run.usage, run.at - run.started_at)
        head = (run.run_id, ended.outcome, ended.answer, ended.missing)
        return cls(*head, steps, run.usage, run.at - run.started_at, ended.code, ended.detail)


class Agent:
    """One configured agent. Use it with `async with`; runs may go side by side."""

    def __init__(  # noqa: PLR0913  each is one way to differ from the settings
        self,
        name: str = "default",
        *,
        settings: Settings | None = None,
        model: str | ModelSettings | None = None,
        tools: Sequence[Tool] | None = None,
        store: Store | str | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """`settings` default to the file and the environment; `tools` to those of the settings, whose overrides, limits and egress
        hold for both; `store` to the setting's URL.

        A Store object that is given is the caller's to open and close. ConfigError when something named is not there.
        """
        settings = settings or Settings.load()
        if not isinstance(settings, Settings):
            raise ConfigError(f"settings is {settings!r}: write Settings.load(PATH)")
        if isinstance(model, ModelSettings):
            settings = settings.model_copy(update={"models": {**settings.models, "given": model}})
        if isinstance(store, str):
            settings = settings.model_copy(update={"store": store})
        self._name, self._settings = name, settings
        self._model = "given" if isinstance(model, ModelSettings) else model
        self._toolbox = None if tools is None else make_toolbox(settings, given=tools)
        self._store = None if isinstance(store, str) else store
        self._observers = tuple(observers)
        self._open: AsyncExitStack | None = None
        self._ports: Ports | None = None
        asked(settings, name, self._model).agent(name)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._ports = await stack.enter_async_context(
                open_ports(self._settings, store=self._store, toolbox=self._toolbox, observers=self._observers)
            )
            self._open = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        opened, self._open, self._ports = self._open, None, None
        if opened is not None:
            await opened.aclose()

    async def run(self, question: str, **changes: Any) -> Result:
        """Ask, and wait for the end. `changes` are fields of RunRequest (`max_steps=5`, `protocol="text"`, ...)."""
        run_id = await self.submit(question, **changes)
        return Result.of(await finish(run_id, self._entered()))

    async def resume(self, run_id: str) -> Result:
        """Go on with a run that was let go: after a crash, an interruption, or a wait. Ended ones are only read."""
        if not await self._entered().store.read(run_id):
            raise StoreError(f"no run {run_id!r} in the store {self._settings.place}")
        return Result.of(await finish(run_id, self._entered()))

    async def submit(self, question: str, **changes: Any) -> str:
        """Begin a run without taking it further; its id."""
        ports = self._entered()
        if unknown := changes.keys() - CHANGES:
            raise ConfigError(
                f"{min(unknown)!r} cannot be changed for one run; these can: {', '.join(sorted(CHANGES))}"
            )
        request = parse_request({"goal": question, "agent": self._name, "model": self._model, **changes}, "the request")
        return await submit(ports, self._settings, request)

    async def stream(self, question: str, **changes: Any) -> AsyncGenerator[Entry, None]:
        """Ask, and see each Entry as soon as it is durable. Leaving the loop early lets the run go; it can be resumed."""
        run_id = await self.submit(question, **changes)
        seen: asyncio.Queue[Entry | None] = asyncio.Queue()
        ports = self._entered()
        told = replace(ports, observers=(*ports.observers, lambda _run, entry: seen.put_nowait(entry)))
        begun = await ports.store.read(run_id)
        driving = asyncio.create_task(finish(run_id, told))
        driving.add_done_callback(lambda _task: seen.put_nowait(None))
        try:
            for entry in begun:
                yield entry
            while (entry_or_end := await seen.get()) is not None:
                yield entry_or_end
            await driving
        finally:
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)

    def _entered(self) -> Ports:
        if self._ports is None:
            raise ConfigError("the agent is not open: write `async with Agent(...) as agent:`")
        return self._ports
