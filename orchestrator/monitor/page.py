"""What the monitor must remember over a restart: which alerts are pending or firing, and which hooks are still to be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter, ValidationError

from orchestrator.alerts import AlertState, Group, Notification


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one alert that is not quiet."""

    rule: str
    group: Group
    state: AlertState


@dataclass(frozen=True, slots=True)
class Owed:
    """A Notification that a hook has not yet taken."""

    hook: str
    note: Notification


@dataclass(frozen=True, slots=True)
class Page:
    """All of it. `owed` is in the order in which each hook must be told."""

    standing: tuple[Standing, ...] = ()
    owed: tuple[Owed, ...] = ()


_PAGE: Final = TypeAdapter(Page)


def dump(page: Page) -> bytes:
    """The page as JSON."""
    return _PAGE.dump_json(page)


def load(body: bytes) -> Page | None:
    """The page that was stored; an empty one for an empty body, None when it cannot be read (another release's, damaged)."""
    if not body:
        return Page()
    try:
        return _PAGE.validate_json(body)
    except ValidationError:
        return None
