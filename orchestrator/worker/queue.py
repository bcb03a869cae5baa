"""The queue that goes with the settings' store, what this process can drive, and the key that signs callbacks."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from orchestrator.assembly import store_of
from orchestrator.core.spec import ToolSpec
from orchestrator.dispatch import Dispatcher, DispatchRules, need_of
from orchestrator.dispatch.memory import MemoryDispatcher
from orchestrator.errors import ConfigError
from orchestrator.settings import Settings
from orchestrator.stores import Store
from orchestrator.stores.sqlite import SqliteStore
from orchestrator.worker.rules import WorkerRules

KEY_BYTES = 32


def make_dispatcher(store: Store, settings: Settings) -> Dispatcher:
    """The engine for a store: in its own file or database, or in memory; not opened yet."""
    rules = dispatch_rules(settings)
    if isinstance(store, SqliteStore):
        from orchestrator.dispatch.sqlite import SqliteDispatcher  # noqa: PLC0415  one engine a process

        return SqliteDispatcher(store, rules)
    if settings.store.startswith("postgres"):
        from orchestrator.dispatch.procrastinate import ProcrastinateDispatcher  # noqa: PLC0415  an optional driver
        from orchestrator.stores.postgres import PostgresStore  # noqa: PLC0415  an optional driver

        if isinstance(store, PostgresStore):
            return ProcrastinateDispatcher(store, rules)
    return MemoryDispatcher(store, rules)


@asynccontextmanager
async def open_queue(settings: Settings) -> AsyncIterator[tuple[Store, Dispatcher]]:
    """The settings' store and its queue, open. ConfigError for a store that no other process can reach."""
    store = store_of(settings)
    if settings.store.startswith("memory"):
        raise ConfigError("store = 'memory' has no queue that others reach: use sqlite:///PATH or postgresql://...")
    async with store:
        dispatcher = make_dispatcher(store, settings)
        await dispatcher.open()
        try:
            yield store, dispatcher
        finally:
            await dispatcher.close()


def dispatch_rules(settings: Settings) -> DispatchRules:
    """The queue's rules: they must be the same for every process on one store."""
    limits = {name: each.concurrency for name, each in settings.tenants.items() if each.concurrency is not None}
    return DispatchRules(settings.worker.beat, settings.worker.lease, tenant_limits=limits)


def worker_rules(settings: Settings) -> WorkerRules:
    """The worker's rules."""
    given = settings.worker
    return WorkerRules(
        concurrency=given.concurrency, grace=given.grace, beat=given.beat, lease=given.lease, sweep=given.beat
    )


def abilities(settings: Settings, tools: Sequence[ToolSpec]) -> frozenset[str]:
    """The agent and tool versions and the models at hand, as a Job's `needs` names them. "default" is a model wherever there is one."""
    models = (f"model:{name}" for name in (*settings.models, *(("default",) if settings.models else ())))
    agents = (f"agent:{name}@{agent.version}" for name, agent in settings.agents.items())
    return frozenset((*agents, *models, *map(need_of, tools), *(f"mcp:{name}" for name in settings.mcp)))


def callback_key(settings: Settings) -> bytes:
    """What signs callbacks: the setting, or a key kept beside a SQLite file, made when first asked for; b"" where neither is.

    The same for every process on the store. ConfigError when the key's file cannot be read or made.
    """
    given = settings.callback_key.get_secret_value()
    if given:
        return given.encode()
    if not settings.store.startswith("sqlite:///"):
        return b""
    path = Path(settings.store.removeprefix("sqlite:///") + ".key")
    try:
        with suppress(FileExistsError):
            _make(path)
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be used: {error.strerror}; set callback_key instead") from error


def _make(path: Path) -> None:
    """Whole or absent, for its owner only, and the first one stays."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    try:
        draft.write_bytes(secrets.token_bytes(KEY_BYTES))
        os.link(draft, path)
    finally:
        draft.unlink()
