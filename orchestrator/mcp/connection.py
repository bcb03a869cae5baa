"""One server, kept connected: one task holds the session, looks at what the server lists, and makes it anew when it is lost.

Theory of operation. The task goes round: connect and list (within `connect` seconds), then wait for news. News is that the stream
ended, that the server says its tools changed, or that a call was given up (then a listing shows whether the server still
answers; a child process that does not is killed and started again). After a loss it waits, longer each time, and connects again.

The first listing *pins* the tools. A later one that describes a pinned tool differently is a server that changes its word after
it was trusted: the tool is refused until this process is started again. New tools are not offered before that either.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import structlog
from mcp import Client, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ToolListChangedNotification,
)
from mcp.types import Tool as Listed
from pydantic import ValidationError

from orchestrator.core.clean import mask
from orchestrator.core.spec import ToolResult
from orchestrator.errors import Permanent, Unavailable
from orchestrator.mcp.listing import Listing, Pinned, digest_of, offered_name, read
from orchestrator.mcp.result import UNAVAILABLE, error_of, lost, result_of
from orchestrator.mcp.schema import readable
from orchestrator.mcp.transport import Tail, Way
from orchestrator.mcp_settings import McpSettings
from orchestrator.tool import context

CHANGED = "TOOL_CHANGED"
PATIENCE = 5.0
"""Seconds that a call waits for a server that is being connected again."""
LOOK = 10.0
"""Seconds that a server has to list its tools again before it counts as hung."""
CALM = 1.0
"""Seconds between two looks, whatever the server says in between."""
FIRST, LONGEST = 0.5, 60.0
"""Seconds before the first try to connect again, and at most."""
STEADY = 10.0
"""Seconds that a connection must have lasted for the next one to be tried at once."""
_PAGES = 50
_US = Implementation(name="orchestrator", version="1")
_log = structlog.stdlib.get_logger("orchestrator.mcp")


class Connection:
    """One server of the settings."""

    def __init__(
        self,
        name: str,
        settings: McpSettings,
        way: Way,
        pinned: Callable[[Connection, Listing], None],
        absent: MutableMapping[str, str],
    ) -> None:
        """`way` leads to the server; `pinned` is told of the first listing, once; into `absent` goes why this server, or a
        tool of it that was offered, cannot be called now."""
        self.name, self.settings, self._way = name, settings, way
        self.changed: set[str] = set()
        self.settled = asyncio.Event()
        self._pinned, self._absent = pinned, absent
        self._listing: Listing | None = None
        self._client: Client | None = None
        self._up, self._news, self._stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._over = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Is there a session now?"""
        return self._client is not None

    def stop(self) -> None:
        """Let the session end in good order."""
        self._stop.set()
        self._over.set()
        self._news.set()

    async def run(self) -> None:
        """Keep connected until told to stop."""
        wait = FIRST
        while not self._stop.is_set():
            begun = asyncio.get_running_loop().time()
            tail = Tail()
            try:
                async with tail:
                    await self._live(tail)
            except (
                asyncio.CancelledError
            ) as error:  # from outside it is one; from the SDK's own scopes it is a loss like any other
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    self.settled.set()
                    raise
                self._down(error, tail)
            except Exception as error:  # noqa: BLE001  the SDK and a foreign server may raise anything: this connection is lost
                self._down(error, tail)
            if asyncio.get_running_loop().time() - begun > STEADY:
                wait = FIRST
            if not self._stop.is_set():
                await _first_of(self._stop, wait * random.uniform(0.8, 1.2))  # nosec B311  # jitter
                wait = min(2 * wait, LONGEST)

    async def call(self, pinned: Pinned, arguments: Mapping[str, Any]) -> ToolResult:
        """Make one call. CallError when it cannot be made, fails by the protocol, or its end will never be known."""
        if pinned.name in self.changed:
            raise Permanent(
                CHANGED,
                f"the MCP server {self.name} describes {pinned.spec.name} differently than when it was trusted; "
                "it is refused until an operator has looked at it and restarted this process",
            )
        client = await self._connected()
        meta: Any = {"orchestrator/idempotency-key": context().key}
        params = CallToolRequestParams(name=pinned.name, arguments=dict(arguments), _meta=meta)
        try:
            # not `call_tool`: that checks structured content against the server's own schema, whose patterns may never end
            answer = await client.session.send_request(CallToolRequest(params=params), CallToolResult)
        except MCPError as error:
            self._news.set()
            raise error_of(error, self.name, repeatable=pinned.spec.repeatable) from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            self._news.set()
            raise lost(self.name, repeatable=pinned.spec.repeatable) from error
        except ValidationError as error:
            said = f"the MCP server {self.name} answered {pinned.spec.name} with what is no result of a tool"
            raise Permanent("BAD_RESULT", said) from error
        except asyncio.CancelledError:
            self._news.set()
            raise
        return result_of(answer)

    async def _connected(self) -> Client:
        if self._client is None:
            await _first_of(self._up, PATIENCE)
        if self._client is None:
            raise Unavailable(
                UNAVAILABLE,
                f"the MCP server {self.name} is not there ({self._absent.get(self._key(), 'not yet')}); nothing was sent, try later",
            )
        return self._client

    async def _live(self, tail: Tail) -> None:
        """One session from its beginning to its end."""
        self._over.clear()
        self._news.clear()
        async with asyncio.timeout(self.settings.connect) as limit:
            async with Client(
                self._way(self._at_end, tail),
                client_info=_US,
                message_handler=self._told,
                cache=None,
                read_timeout_seconds=None,
            ) as client:
                await self._look(client)
                limit.reschedule(None)
                tail.forget()
                try:
                    self._client = client
                    self._up.set()
                    self._absent.pop(self._key(), None)
                    self.settled.set()
                    _log.info("mcp_server_up", server=self.name)
                    async with _listening(client, self._news):
                        await self._watch(client)
                finally:
                    self._gone()

    async def _watch(self, client: Client) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._stop.is_set():
                return
            if self._over.is_set():
                raise ConnectionError("the server ended the connection")
            async with asyncio.timeout(LOOK):
                await self._look(client)
            await _first_of(self._over, CALM)

    async def _look(self, client: Client) -> None:
        """What the server lists: pinned the first time, compared with that ever after."""
        listed = await _all_tools(client)
        if self._listing is None:
            self._listing = await asyncio.to_thread(read, self.name, self.settings, listed)
            self._pinned(self, self._listing)
            return
        for each in listed:
            known = self._listing.tools.get(each.name)
            if known is not None and each.name not in self.changed and digest_of(each) != known.digest:
                self.changed.add(each.name)
                self._absent[self._key(each.name)] = "changed since it was trusted: refused until a restart"
                _log.warning("mcp_tool_changed", server=self.name, tool=known.spec.name, does="refused until a restart")

    async def _told(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._news.set()

    def _at_end(self) -> None:
        self._gone()
        self._over.set()
        self._news.set()

    def _gone(self) -> None:
        self._client = None
        self._up.clear()

    def _down(self, error: BaseException, tail: Tail) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        said = "no answer in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        said = f"{said} ({tail.last})" if tail.last else said
        reason = readable(mask(said, self.settings.secrets), 300)
        if self._absent.get(self._key()) != reason:  # one that stays away is not said again and again
            _log.warning("mcp_server_down", server=self.name, reason=reason)
        self._absent[self._key()] = reason
        self.settled.set()

    def _key(self, tool: str = "") -> str:
        return offered_name(self.name, tool)


async def _all_tools(client: Client) -> list[Listed]:
    found: list[Listed] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise ValueError(f"the server lists its tools on more than {_PAGES} pages")


@asynccontextmanager
async def _listening(client: Client, news: asyncio.Event) -> AsyncIterator[None]:
    """Where the protocol has subscriptions (2026-07-28), hear through one that the tools changed; before, all are told anyway."""
    task = asyncio.create_task(_hear(client, news))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def _hear(client: Client, news: asyncio.Event) -> None:
    try:
        async with client.listen(tools_list_changed=True) as events:
            async for _ in events:
                news.set()
    except ListenNotSupportedError:
        return
    except (MCPError, SubscriptionLost, TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        news.set()


async def _first_of(event: asyncio.Event, seconds: float) -> None:
    """Until the event, or so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
