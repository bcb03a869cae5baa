"""Store and settings in, a Monitor out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from orchestrator.alerts import Gauge, load_rules
from orchestrator.core.measure import measure
from orchestrator.dispatch import Dispatcher
from orchestrator.dispatch.sqlite import SqliteDispatcher
from orchestrator.errors import ConfigError
from orchestrator.hooks import Hook
from orchestrator.monitor.book import Book, MemoryBook, SqliteBook
from orchestrator.monitor.feed import Feed
from orchestrator.monitor.gauges import GaugeSource, of_depth, unknown
from orchestrator.monitor.monitor import Monitor
from orchestrator.settings import Settings
from orchestrator.stores import Store
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.sqlite import SqliteStore


def make_book(store: Store) -> Book:
    """The book that goes with a store. ConfigError for a store that has none."""
    if isinstance(store, MemoryStore):
        return MemoryBook()
    if isinstance(store, SqliteStore):
        return SqliteBook(store)
    from orchestrator.monitor.postgres import PostgresBook  # noqa: PLC0415  an optional driver
    from orchestrator.stores.postgres import PostgresStore  # noqa: PLC0415

    if isinstance(store, PostgresStore):
        return PostgresBook(store)
    raise ConfigError(f"the monitor cannot keep its state in a {type(store).__name__}: use memory, sqlite, postgresql")


def queue_of(store: Store) -> Dispatcher | None:
    """The queue beside a store, to be looked at; None for a store in memory: its queue is its process's own."""
    if isinstance(store, MemoryStore):
        return None
    if isinstance(store, SqliteStore):
        return SqliteDispatcher(store)
    from orchestrator.dispatch.procrastinate import ProcrastinateDispatcher  # noqa: PLC0415  an optional driver
    from orchestrator.stores.postgres import PostgresStore  # noqa: PLC0415

    return ProcrastinateDispatcher(store) if isinstance(store, PostgresStore) else None


def depth_of(queue: Dispatcher | None) -> GaugeSource:
    """The gauges of a queue that is open."""
    if queue is None:
        return unknown

    async def present(now: float) -> Iterable[Gauge]:
        return of_depth(await queue.depth(now=now))

    return present


def make_monitor(  # noqa: PLR0913  its parts
    settings: Settings,
    store: Store,
    hooks: Sequence[Hook],
    *,
    gauges: GaugeSource = unknown,
    book: Book | None = None,
    clock: Callable[[], float] = time.time,
) -> Monitor:
    """A monitor of this store, by the settings. `gauges` are those of the queue (`depth_of`), and of the process if it has some."""
    rules = load_rules(settings.alerts.rules)
    return Monitor(
        lambda: Feed(store, rules, measure),
        book or make_book(store),
        rules,
        hooks,
        clock=clock,
        gauges=gauges,
        every=settings.alerts.every,
        lease=max(settings.alerts.lease, 2 * settings.alerts.every),
    )
