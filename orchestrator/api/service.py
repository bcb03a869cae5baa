"""What the API stands on: a store, a queue, an inbox, and who may come in. Open it once a process."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from orchestrator.api.auth import Gate
from orchestrator.api.problems import SOON, Problem
from orchestrator.api.tokens import TokenFile
from orchestrator.assembly import Offered, open_toolbox, secrets_of
from orchestrator.core.spec import ToolSpec
from orchestrator.dispatch import Dispatcher
from orchestrator.egress.address import is_loopback
from orchestrator.inbox import Inbox
from orchestrator.policy import Observer, unobserved
from orchestrator.settings import Settings
from orchestrator.stores import Store
from orchestrator.toolbox import Toolbox
from orchestrator.worker.queue import callback_key, open_queue


@dataclass(slots=True)
class Followers:
    """Open event streams: at most `most` in this process, `each` of one principal."""

    most: int = 2000
    each: int = 1000
    _open: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """How many there are."""
        return self._open.total()

    @contextmanager
    def one_more(self, name: str) -> Iterator[None]:
        """A stream while the block lasts. Problem 503 when there are too many."""
        if self.count >= self.most or self._open[name] >= self.each:
            raise Problem(
                503, "TOO_MANY_FOLLOWERS", "too many event streams are open: close some, or try again later", SOON
            )
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]


@dataclass(frozen=True, slots=True)
class Service:
    """`specs` are the tools that runs may be offered, `toolbox` calls them, for a worker in this process. `closing` is set when the
    server is about to stop: event streams end."""

    store: Store
    dispatcher: Dispatcher
    inbox: Inbox
    settings: Settings
    gate: Gate
    specs: Sequence[ToolSpec] = ()
    clock: Callable[[], float] = time.time
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    followers: Followers = field(default_factory=Followers)
    toolbox: Toolbox = field(default_factory=Toolbox)


@asynccontextmanager
async def open_service(settings: Settings, observe: Observer = unobserved) -> AsyncIterator[Service]:
    """The service on the settings' store. `observe` is told of the tools' policies. ConfigError when it may not be bound where
    the settings say."""
    gate = Gate(TokenFile(settings.api.tokens), loopback=is_loopback(settings.api.host))
    async with open_queue(settings) as (store, dispatcher):
        inbox = Inbox(store, dispatcher, key=callback_key(settings), secrets=secrets_of(settings))
        async with open_toolbox(settings, observe) as toolbox:
            yield Service(store, dispatcher, inbox, settings, gate, Offered(toolbox), toolbox=toolbox)
