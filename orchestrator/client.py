"""The typed client of the HTTP API.

async with Client("http://127.0.0.1:8700", token="orc_...") as client:
    run = await client.submit("Who wrote it?")
    async for entry in run.events():
        print(entry.event)
    print(await run.answer())
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from orchestrator.api.words import Health, Models, ProblemWords, RunLine, RunPage, RunState, Tools
from orchestrator.core.events import Entry, Outcome, RunEnded
from orchestrator.errors import (
    CallError,
    ConfigError,
    OrchestratorError,
    RateLimited,
    Rejected,
    Unauthorised,
    Unavailable,
)
from orchestrator.providers.sse import Events
from orchestrator.stores.record import load_entry

T = TypeVar("T", bound=BaseModel)
PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds before a broken event stream is opened again."""
SILENCE = 60.0
"""Seconds without a sign of life after which a stream counts as broken; the server gives one every 15."""
ENDLESS = 2**62
"""Bytes of an event stream that are read."""


class NotAnswered(OrchestratorError):
    """The run ended without an answer; `state` says how."""

    def __init__(self, state: RunState) -> None:
        what = state.missing or state.detail or "see its trace"
        super().__init__(f"run {state.run_id} ended {state.outcome}: {what}")
        self.state = state


class Client:
    """One server, one token. Errors are CallErrors: Rejected, Unauthorised, or Unavailable (try again)."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """ConfigError for a URL or a token that no server could be asked with."""
        if not url.startswith(("http://", "https://")) or not _host(url):
            raise ConfigError(f"{url!r} is no address of a server: write http://HOST:PORT or https://HOST")
        if token is not None and (not token.isascii() or not token.isprintable() or " " in token):
            raise ConfigError(
                "the token holds characters that no token has: write it as `orchestrator token create` printed it"
            )
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def submit(self, goal: str, **more: Any) -> RemoteRun:
        """Begin a run. `more` are the fields of `Submission`: agent, model, tools, max_steps, deadline, key, at, priority, ..."""
        state = await self.ask("POST", "/v1/runs", RunState, json={"goal": goal, **more})
        return RemoteRun(self, state.run_id)

    def run(self, run_id: str) -> RemoteRun:
        """A run by its id; nothing is asked yet."""
        return RemoteRun(self, run_id)

    async def page(self, **filters: Any) -> RunPage:
        """One page of the list. `filters` are the fields of `Listing`: outcome, agent, since, until, cursor, limit, tenant."""
        return await self.ask("GET", "/v1/runs", RunPage, params=_said(filters))

    async def runs(self, **filters: Any) -> AsyncIterator[RunLine]:
        """All runs, newest first, page by page."""
        cursor = None
        while True:
            page = await self.page(**filters, cursor=cursor)
            for line in page.runs:
                yield line
            if page.next is None:
                return
            cursor = page.next

    async def tools(self) -> Tools:
        """The tools that agents may be offered."""
        return await self.ask("GET", "/v1/tools", Tools)

    async def models(self) -> Models:
        """The configured models and agents."""
        return await self.ask("GET", "/v1/models", Models)

    async def health(self, **window: Any) -> Health:
        """The three health metrics of a window: since, until (unix seconds), agent."""
        return await self.ask("GET", "/v1/health", Health, params=_said(window))

    async def callback(self, token: str, result: Any) -> None:
        """Bring the result of a long tool."""
        await self._send("POST", f"/v1/callbacks/{quote(token, safe='')}", json=result)

    async def ask(self, method: str, path: str, words: type[T], **more: Any) -> T:
        """One request, its answer as these words."""
        response = await self._send(method, path, **more)
        try:
            return words.model_validate_json(response.content)
        except ValidationError as error:
            raise Unavailable("MALFORMED_RESPONSE", f"{path}: the answer is no {words.__name__}: {error}") from error

    def stream(self, run_id: str, after: int) -> Any:
        """The open event stream of a run, as httpx has it."""
        timeout = httpx.Timeout(self._http.timeout.connect, read=SILENCE)
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        return self._http.stream("GET", f"{_path(run_id)}/events", headers=headers, timeout=timeout)

    async def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            response = await self._http.request(method, path, **more)
        except httpx.HTTPError as error:
            raise Unavailable(
                "CONNECTION_FAILED", f"{self._http.base_url}: {error!r}; is `orchestrator serve` up?"
            ) from error
        if response.status_code >= 400:
            raise failure(response.status_code, response.content, response.headers)
        return response


class RemoteRun:
    """One run on the server."""

    def __init__(self, client: Client, run_id: str) -> None:
        self.id, self._client = run_id, client

    async def state(self) -> RunState:
        """How it stands."""
        return await self._client.ask("GET", _path(self.id), RunState)

    async def events(self, after: int = 0) -> AsyncIterator[Entry]:
        """Its entries with seq > `after`, stored and live, to its end. A broken connection is made again where it broke."""
        pause = PAUSE
        while True:
            try:
                async with self._client.stream(self.id, after) as response:
                    if response.status_code == 204:
                        return
                    if response.status_code >= 400:
                        raise failure(response.status_code, await response.aread(), response.headers)
                    async for entry in _entries(response):
                        pause, after = PAUSE, entry.seq
                        yield entry
                        if isinstance(entry.event, RunEnded):
                            return
            except (httpx.HTTPError, Unavailable):
                pause = min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def result(self) -> RunState:
        """How it ended, once it has."""
        state = await self.state()
        if state.outcome is None:
            async for _ in self.events(state.last_seq):
                pass
            state = await self.state()
        return state

    async def answer(self) -> str:
        """Its answer, once it has one. NotAnswered when it ends otherwise."""
        state = await self.result()
        if state.outcome is not Outcome.ANSWERED or state.answer is None:
            raise NotAnswered(state)
        return state.answer

    async def cancel(self, reason: str = "") -> RunState:
        """End it."""
        return await self._say("cancel", {"reason": reason})

    async def approve(self, action_id: str, reason: str = "") -> RunState:
        """Let an action that waits for a person go ahead."""
        return await self._say(f"actions/{quote(action_id, safe='')}/approve", {"reason": reason})

    async def edit(self, action_id: str, input: Mapping[str, Any], reason: str = "") -> RunState:
        """Let it go ahead with another input."""
        return await self._say(f"actions/{quote(action_id, safe='')}/edit", {"input": dict(input), "reason": reason})

    async def refuse(self, action_id: str, reason: str = "") -> RunState:
        """Refuse it."""
        return await self._say(f"actions/{quote(action_id, safe='')}/refuse", {"reason": reason})

    async def _say(self, what: str, body: Mapping[str, Any]) -> RunState:
        return await self._client.ask("POST", f"{_path(self.id)}/{what}", RunState, json=body)


def failure(status: int, body: bytes, headers: Mapping[str, str]) -> CallError:
    """What a status that is no success means to the caller."""
    try:
        problem = ProblemWords.model_validate_json(body)
        code, detail = problem.code, problem.detail
    except ValidationError:
        code, detail = f"HTTP_{status}", "the answer came from something else than the orchestrator"
    kind = Unavailable if status >= 500 else _KINDS.get(status, Rejected)
    after = headers.get("retry-after", "")
    return kind(code, detail, status=status, retry_after=float(after) if after.isdecimal() else None)


_KINDS: Mapping[int, type[CallError]] = {401: Unauthorised, 403: Unauthorised, 408: Unavailable, 429: RateLimited}


async def _entries(response: httpx.Response) -> AsyncIterator[Entry]:
    """The entries of an event stream. A CallError when the server says that it cannot go on."""
    reader = Events(ENDLESS)
    async for piece in response.aiter_bytes():
        for kind, data in reader.feed(piece):
            if kind == "problem":
                raise failure(_status(data), data, {})
            yield load_entry(data)


def _status(body: bytes) -> int:
    try:
        return ProblemWords.model_validate_json(body).status
    except ValidationError:
        return 500


def _host(url: str) -> str | None:
    try:
        return httpx.URL(url).host
    except httpx.InvalidURL:
        return None


def _path(run_id: str) -> str:
    return f"/v1/runs/{quote(run_id, safe='')}"


def _said(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Query parameters without those that say nothing."""
    return {name: value for name, value in fields.items() if value is not None}
