"""What is counted, a row for each play. Knows nothing of AgentDojo."""

from __future__ import annotations

from dataclasses import dataclass

SUITES = ("workspace", "travel", "banking", "slack")


@dataclass(frozen=True, slots=True)
class Plain:
    """A user task without attack: is it done with no policy, with nobody to ask, with somebody who compares?"""

    suite: str
    task: str
    bare: bool
    alone: bool
    compared: bool
    asked: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A user task under one injection, each figure over both gullible agents. `words`: the injection needs no side effect.

    Breached with no policy, with nobody to ask, with somebody who compares; `effects` of the injection that came through with
    the latter two; the user's task done all the same (both agents, somebody compares); answers flagged where words got through.
    """

    suite: str
    task: str
    injection: str
    words: bool
    bare: bool
    alone: bool
    compared: bool
    effects: int
    useful: bool
    flagged: bool
