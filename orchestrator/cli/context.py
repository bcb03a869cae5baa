"""What every command shares: the settings with the global options laid over them, two consoles, and one way to run a coroutine.

stdout is the result, stderr is the log and the live view.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console

from orchestrator import log
from orchestrator.assembly import secrets_of
from orchestrator.cli.exits import Exit
from orchestrator.settings import Settings
from orchestrator.show import plain

T = TypeVar("T")
UNBROKEN = 1_000_000
"""Columns where there is no terminal."""


@dataclass(frozen=True)
class Context:
    """The global options. Settings are read when a command first asks for them, so `--help` and `version` need none."""

    config: Path | None = None
    store: str | None = None
    log_level: str | None = None
    log_format: str | None = None

    @cached_property
    def settings(self) -> Settings:
        """File and environment, with the options over both; sets up the log. ConfigError as `Settings.load`."""
        given = {"store": self.store, "log_level": self.log_level, "log_format": self.log_format}
        settings = Settings.load(self.config)
        settings = settings.model_copy(update={key: value for key, value in given.items() if value is not None})
        log.configure(settings.log_format, settings.log_level, secrets_of(settings))
        return settings

    @cached_property
    def out(self) -> Console:
        """For results that are drawn (trees, tables)."""
        return _console(stderr=False)

    @cached_property
    def err(self) -> Console:
        """For everything that is no result."""
        return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    """Off a terminal nothing is cut off or broken: a row is a line, however long."""
    stream = sys.stderr if stderr else sys.stdout
    drawn = stream.isatty()
    return Console(file=stream, highlight=False, markup=False, soft_wrap=not drawn, width=None if drawn else UNBROKEN)


def context(typed: typer.Context) -> Context:
    """Our Context inside typer's."""
    found = typed.find_object(Context)
    return Context() if found is None else found


def say(text: str) -> None:
    """A result as plain text on stdout."""
    sys.stdout.write(plain(text).rstrip("\n") + "\n")


def say_json(value: Any, *, indent: int | None = 2) -> None:
    """A result as JSON on stdout."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def spin(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; Ctrl-C is exit 130, without a traceback."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None
