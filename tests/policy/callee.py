"""A callee that does as it is told: the second implementation of a Call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.errors import RateLimited, Unavailable
from orchestrator.policy import Ask


def now() -> float:
    return asyncio.get_running_loop().time()


def down() -> Unavailable:
    return Unavailable("UNAVAILABLE", "503", status=503)


def busy(after: float | None = None) -> RateLimited:
    return RateLimited("RATE_LIMITED", "429", retry_after=after, status=429)


@dataclass
class Callee:
    """Answers from `script` in order (an exception is raised), then its input; `seconds` long each. `at` is when it was asked."""

    script: list[object] = field(default_factory=list)
    seconds: float = 0.0
    at: list[float] = field(default_factory=list)
    busy: int = 0
    most: int = 0
    does: Callable[[], object] | None = None

    async def __call__(self, ask: Ask[str]) -> str:
        self.at.append(now())
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.busy -= 1
        answer = self.does() if self.does else self.script.pop(0) if self.script else ask.input
        try:
            if isinstance(answer, BaseException):
                raise answer
            return str(answer)
        finally:
            del answer
