"""What the code has to offer, asked of the code itself: commands, variables, paths, metric names."""

from __future__ import annotations

import asyncio
import re
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer.main
from pydantic import BaseModel

from orchestrator.cli import app
from orchestrator.settings import Settings
from tests.dashboards.labels import Exported, exported

PACKAGE = Path(__file__).parent.parent.parent / "orchestrator"
FROM_THE_LIBRARIES = frozenset({"PGPASSWORD", "PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"})
"""Read by libpq, the shell and Python."""


@cache
def commands() -> dict[tuple[str, ...], frozenset[str]]:
    """The options of each command, by its words."""
    found: dict[tuple[str, ...], frozenset[str]] = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        found[path] = frozenset(name for each in command.params for name in (*each.opts, *each.secondary_opts))
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*path, name))

    walk(typer.main.get_command(app), ())
    return found


@cache
def variables() -> frozenset[re.Pattern[str]]:
    """Every variable that configures us; the name of a model or an agent may be any."""
    names = {"ORCHESTRATOR_" + name for name in nested(Settings)}
    names |= {str(each.envvar) for each in options() if getattr(each, "envvar", None)}
    return frozenset(re.compile(name) for name in names)


def options() -> Iterator[Any]:
    def walk(command: Any) -> Iterator[Any]:
        yield from command.params
        for inner in getattr(command, "commands", {}).values():
            yield from walk(inner)

    yield from walk(typer.main.get_command(app))


def nested(model: type[BaseModel]) -> Iterator[str]:
    """`WORKER`, `WORKER__PORT`, `MODELS__[A-Z0-9_]+__BASE_URL`."""
    for name, info in model.model_fields.items():
        yield name.upper()
        keyed = typing.get_origin(info.annotation) is dict
        for inner in tables(info.annotation):
            yield from (f"{name.upper()}__{'[A-Z0-9_]+__' if keyed else ''}{each}" for each in nested(inner))


def tables(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in typing.get_args(annotation):
        yield from tables(each)


@cache
def metrics() -> frozenset[str]:
    """Every metric that the code exports: its names as they stand in the source, with what histograms add."""
    files = [file for file in PACKAGE.rglob("*.py") if not {"alerts", "monitor"} & set(file.parts)]
    names = {
        name for file in files for name in re.findall(r"[\"'](orchestrator_[a-z0-9_]+)[\"']", file.read_text("utf-8"))
    }
    return frozenset(names | {name + end for name in names for end in ("_total", "_bucket", "_sum", "_count")})


@cache
def series() -> Exported:
    """The labels of each series that a worker exports, and their values."""
    return asyncio.run(exported())
