"""Protocol, provider and policies in one: `turn(run)` asks a model and gives back a ModelTurn.

A Transcript keeps what has been serialised of one run for one model: each message once, joined anew for each request, so a
step costs its own new part and the copying of bytes. A Conversation is a run's chain of models; the settings' Models own the
endpoints that all runs share.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from orchestrator.core import native, render, text
from orchestrator.core.decide import AskModel
from orchestrator.core.events import Anomaly, ModelTurn
from orchestrator.core.prompt import Completion, Delta, Prompt
from orchestrator.core.quick import quick
from orchestrator.core.run import Run
from orchestrator.core.spec import JsonObject
from orchestrator.core.text.cut import Cut
from orchestrator.errors import CallError
from orchestrator.http import Endpoint, Timeouts
from orchestrator.policy import (
    Ask,
    BreakerRules,
    Guarded,
    LimitRules,
    Observer,
    Price,
    RetryRules,
    Rules,
    fallback,
    guard,
    unobserved,
)
from orchestrator.providers import PROVIDERS, Asked, Head, Options, Provider, Request
from orchestrator.providers.wire import estimated
from orchestrator.settings import ModelSettings, Settings

OK = 200
Listen = Callable[[Delta], None]


class Model(Protocol):
    """What the runner asks, for one run."""

    async def turn(self, run: Run, ask: AskModel, listen: Listen) -> ModelTurn:
        """The next turn. Raises CallError when the model failed for good; its `attempts` are the tries."""
        ...


class Models(Protocol):
    """Where a run gets its Model from."""

    def open(self, run: Run) -> Model:
        """A Model for this run; opening is cheap and keeps nothing open."""
        ...


@quick
@dataclass(frozen=True, slots=True)
class Turn:
    """What one asking is about: the input that goes through the policies."""

    run: Run
    ask: AskModel
    listen: Listen
    transcripts: dict[str, Transcript]


@dataclass(slots=True)
class Transcript:
    """The wire messages of one run for one model, each serialised once."""

    settings: ModelSettings
    provider: Provider
    parts: list[bytes] = field(default_factory=list)
    rendered: int = 0
    heads: dict[int, Head] = field(default_factory=dict)
    plain: bool = False

    def request(self, run: Run, ask: AskModel) -> Request:
        """The next request: what is new since the last one, behind what was kept."""
        model = "" if self.plain else self.settings.model
        if not self.parts:
            self.parts.extend(self.provider.parts(render.question(run), model))
        for step in run.steps[self.rendered :]:
            for message in render.messages(run, step):
                self.parts.extend(self.provider.parts(message, model))
        self.rendered = len(run.steps)
        head = self.heads.get(ask.max_output)
        if head is None:
            head = self.heads[ask.max_output] = self.provider.head(self._constant(run, ask), self._options())
        return self.provider.request(head, self.parts, render.tail(run, ask))

    def forget(self) -> None:
        """Render anew, without what the provider gave only for itself (signed thinking): it has refused that."""
        self.plain, self.rendered = True, 0
        self.parts.clear()

    def _constant(self, run: Run, ask: AskModel) -> Prompt:
        start, settings = run.start, self.settings
        if start.agent.protocol == "native":
            system = render.system(start.agent, start.tools, boundary=start.boundary)
            return Prompt(system, (), start.tools, max_tokens=ask.max_output)
        constrain = settings.constrain
        return Prompt(
            render.system(start.agent, start.tools, boundary=start.boundary, constrained=constrain == "json_schema"),
            (),
            stop=text.stops(settings.stop),
            max_tokens=ask.max_output,
            grammar=text.gbnf(start.tools) if constrain == "grammar" else None,
            json_schema=text.json_schema(start.tools) if constrain == "json_schema" else None,
        )

    def _options(self) -> Options:
        settings = self.settings
        extra: JsonObject = settings.extra
        return Options(
            settings.model,
            settings.stream,
            settings.stop != "off",
            settings.temperature,
            settings.max_tokens_field,
            extra=extra,
        )


class EndpointModels:
    """The settings' models: one endpoint and one stack of policies each, shared by all runs. An async context manager."""

    def __init__(
        self, settings: Settings, *, observe: Observer = unobserved, connect: Callable[[str], Endpoint] = Endpoint
    ) -> None:
        self._settings = settings
        self._observe = observe
        self._connect = connect
        self._endpoints: dict[str, Endpoint] = {}
        self._targets: dict[str, _Target] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as stack:
            for endpoint in self._endpoints.values():
                stack.push_async_callback(endpoint.close)

    def open(self, run: Run) -> Conversation:
        """The run's chain of models. ConfigError when a name in it is not configured."""
        return Conversation([self.target(name) for name in run.start.agent.models], self._observe)

    def target(self, name: str) -> _Target:
        """One model by its name in the settings."""
        if name not in self._targets:
            settings = self._settings.model(name)
            endpoint = self._endpoints.get(settings.base_url)
            if endpoint is None:
                endpoint = self._endpoints[settings.base_url] = self._connect(settings.base_url)
            lone = not any(name in agent.models[:-1] for agent in self._settings.agents.values())
            self._targets[name] = _Target(name, settings, endpoint, self._observe, lone=lone)
        return self._targets[name]


class Conversation:
    """One run's Model: its transcripts, and the chain it falls back along."""

    def __init__(self, targets: list[_Target], observe: Observer) -> None:
        self._transcripts = {target.name: Transcript(target.settings, target.provider) for target in targets}
        chain = [(target.name, target.guarded.call) for target in targets]
        self._call = fallback(chain, refused=_refused, observe=observe) if len(chain) > 1 else chain[0][1]

    async def turn(self, run: Run, ask: AskModel, listen: Listen) -> ModelTurn:
        """Ask along the chain. The turn, or the CallError, carries every try that failed."""
        deadline = run.start.limits.deadline
        left = math.inf if deadline is None else asyncio.get_running_loop().time() + deadline - run.elapsed(run.at)
        tokens = run.last_usage.input_tokens + ask.max_output
        about = Turn(run, ask, listen, self._transcripts)
        asked = Ask(about, run.run_id, run.start.tenant, left, tokens, discard=lambda: listen(Delta(discard=True)))
        try:
            turn = await self._call(asked)
        except CallError as error:
            error.attempts = tuple(asked.attempts)
            raise
        return replace(turn, attempts=tuple(asked.attempts)) if asked.attempts else turn


class _Target:
    """One configured model: its codec, its endpoint, its policies."""

    def __init__(
        self, name: str, settings: ModelSettings, endpoint: Endpoint, observe: Observer, *, lone: bool
    ) -> None:
        """`lone`: no chain goes on after this model, so a call waits for an open breaker instead of failing."""
        self.name = name
        self.settings = settings
        self.provider = PROVIDERS[settings.provider]
        self.guarded: Guarded[Turn, ModelTurn] = guard(
            self._once, name, _rules(settings, lone=lone), spent=_spent, observe=observe
        )
        self._endpoint = endpoint
        self._headers = self.provider.headers(settings.api_key.get_secret_value())
        self._timeouts = Timeouts(
            **{**settings.timeouts.model_dump(), "whole": None}
        )  # the policy's timeout holds the whole call
        self._price = None if settings.price is None else Price(**settings.price.model_dump())

    async def _once(self, asked: Ask[Turn]) -> ModelTurn:
        """One try. A provider that refuses its own thinking gets the conversation once more, without it."""
        transcript = asked.input.transcripts[self.name]
        try:
            return await self._sent(asked)
        except CallError as error:
            if error.code != "HISTORY_INVALID" or transcript.plain:
                raise
            transcript.forget()
            asked.void()
            return await self._sent(asked)

    async def _sent(self, asked: Ask[Turn]) -> ModelTurn:
        turn = asked.input
        asking = turn.transcripts[self.name].request(turn.run, turn.ask)
        request = Request(asking.path, {**self._headers, **asking.headers}, asking.body)
        about = Asked(self.settings.model, turn.ask.max_output, time.time(), len(request.body))
        loop = asyncio.get_running_loop()
        started, first = loop.time(), None
        if self.settings.stream:
            completion, first = await self._streamed(request, about, turn)
        else:
            completion = self.provider.decode(await self._endpoint.post(request, self._timeouts), about)
        read = native.read if turn.run.start.agent.protocol == "native" else text.read
        usage = estimated(completion.usage, completion, about.sent)  # an endpoint that tells none would cost nothing
        said = read(completion, turn.run.start.tools, turn.run.step)
        return ModelTurn(  # twice as fast as `replace`
            said.thought,
            said.intent,
            said.stop,
            usage if self._price is None else replace(usage, cost=self._price.cost(usage)),
            said.anomalies,
            said.reasoning,
            self.name,
            seconds=round(loop.time() - started, 6),
            first_token=None if first is None else round(first - started, 6),
            opaque=said.opaque,
        )

    async def _streamed(self, request: Request, about: Asked, turn: Turn) -> tuple[Completion, float | None]:
        """The reply as it comes; in the text protocol the stream is cut where the model begins to play the host."""
        decoder, cut, first = self.provider.stream(about), None, None
        if turn.run.start.agent.protocol == "text":
            cut = Cut()
        async with self._endpoint.stream(request, self._timeouts) as reply:
            if reply.status != OK:
                raise self.provider.failure(await reply.reply(), about.now)
            async for chunk in reply:
                for delta in decoder.feed(chunk):
                    first = first or asyncio.get_running_loop().time()
                    shown, over = cut.feed(delta.text) if cut is not None else (delta.text, False)
                    if shown or delta.reasoning:
                        turn.listen(Delta(shown, delta.reasoning))
                    if over:
                        return decoder.cut(), first
            if cut is not None and (rest := cut.rest()):
                turn.listen(Delta(rest))
            return decoder.end(closed_early=reply.closed_early), first


def _rules(settings: ModelSettings, *, lone: bool) -> Rules:
    limit = None if settings.limit is None else LimitRules(**settings.limit.model_dump())
    return Rules(
        settings.timeouts.whole,
        RetryRules(**settings.retry.model_dump(), waits_for_breaker=lone),
        BreakerRules(),
        limit,
    )


def _spent(turn: ModelTurn) -> int:
    return turn.usage.tokens


def _refused(turn: ModelTurn) -> bool:
    return Anomaly.REFUSAL in turn.anomalies or Anomaly.CONTENT_FILTERED in turn.anomalies
