"""What goes wrong in one world. Each world draws the kinds of faults that it has ("swarm testing"): with all of them at once
some would hide others."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

LINK = ("slow", "lost_request", "lost_answer", "disk_full", "duplicate_append")
"""Faults of a single request, by the chance of each."""

EVENTS = ("crash", "freeze", "partition", "clock_jump", "amnesia", "drain")
"""Faults that happen at a moment."""

WORLDLY = ("tool_error", "tool_hangs", "tool_answer_lost", "model_fails", "model_hangs", "model_malformed")
OUTSIDE = ("cancel", "said_again", "lost_wake", "duplicate_callback", "duplicate_submit", "duplicate_decision")
OBSERVED = ("reordered", "acknowledgement_lost_in_crash")
"""What is not injected as such but comes of the others, and is counted where it happens."""

KINDS = (*LINK, *EVENTS, *WORLDLY, *OUTSIDE, *OBSERVED)

_CHANCES = {"slow": 0.08, "lost_request": 0.03, "lost_answer": 0.03, "disk_full": 0.05, "duplicate_append": 0.08}


@dataclass(slots=True)
class Chaos:
    """The kinds of this world with their chances, and what has happened. `on` until the world is healed."""

    rng: random.Random
    chances: dict[str, float] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    on: bool = True
    _sent: int = 0
    _newest: int = 0

    @classmethod
    def drawn(cls, rng: random.Random) -> Chaos:
        """About half of the kinds, each at a strength of its own."""
        chances = {}
        for kind in (*LINK, *EVENTS, *WORLDLY, *OUTSIDE):
            if rng.random() < 0.55:
                chances[kind] = _CHANCES.get(kind, 0.12) * rng.choice((0.5, 1.0, 2.0))
        return cls(rng, chances)

    def strikes(self, kind: str) -> bool:
        """Does this kind of fault happen here and now? If so it is counted."""
        if not self.on or self.rng.random() >= self.chances.get(kind, 0.0):
            return False
        self.happened[kind] += 1
        return True

    def note(self, kind: str) -> None:
        """It has happened."""
        self.happened[kind] += 1

    def latency(self) -> float:
        """Seconds that a message is on its way."""
        return self.rng.random() * 0.02 if not self.strikes("slow") else self.rng.uniform(0.5, 12.0)

    def sent(self) -> int:
        """A request leaves: its number."""
        self._sent += 1
        return self._sent

    def arrived(self, number: int) -> None:
        """It is carried out; after one that left later it is out of order."""
        if number < self._newest:
            self.note("reordered")
        self._newest = max(self._newest, number)
