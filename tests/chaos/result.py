"""What came of it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.audit import Chains, verify
from orchestrator.core.events import ActionStarted, Entry, Observation, RunEnded
from orchestrator.core.run import replay
from orchestrator.stores import Store
from tests.chaos.notes import Notes

SOON = 15.0
"""Seconds within which a dead worker's runs must be with another (p99)."""


@dataclass(frozen=True, slots=True)
class Damage:
    """(process, unix seconds) of each SIGKILL, and what else was done."""

    kills: tuple[tuple[int, float], ...]
    freezes: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """Counts of runs and effects; `takeovers` in seconds, from the kill to the next claim of each run the killed one held."""

    submitted: int
    ended: int
    lost: int
    ended_twice: int
    effects: int
    twice: int
    unknown: int
    untold: int
    takeovers: tuple[float, ...]
    unseen: int
    damage: Damage
    seconds: float
    not_intact: int = 0

    @property
    def p99(self) -> float:
        """The time within which 99 of 100 takeovers were made."""
        return self.takeovers[max(math.ceil(len(self.takeovers) * 0.99) - 1, 0)] if self.takeovers else 0.0

    @property
    def fine(self) -> bool:
        """Is it as it must be?"""
        whole = self.ended == self.submitted and not self.lost and not self.ended_twice
        return (
            whole
            and not self.twice
            and not self.untold
            and not self.not_intact
            and self.p99 <= SOON
            and bool(self.damage.kills)
        )

    def table(self) -> str:
        """For people."""
        damage, middle = self.damage, self.takeovers[len(self.takeovers) // 2] if self.takeovers else 0.0
        lines = {
            "runs submitted": self.submitted,
            "runs ended": self.ended,
            "runs lost": self.lost,
            "runs ended twice": self.ended_twice,
            "traces not intact": self.not_intact,
            "effects": self.effects,
            "effects twice": self.twice,
            "told OUTCOME_UNKNOWN": self.unknown,
            "in doubt and not told": self.untold,
            "SIGKILL": len(damage.kills),
            "SIGSTOP/SIGCONT": damage.freezes,
            "PostgreSQL restarts": damage.restarts,
            "takeovers": len(self.takeovers),
            "not timed": self.unseen,
            "takeover p50 s": f"{middle:.1f}",
            "takeover p99 s": f"{self.p99:.1f}",
            "takeover max s": f"{max(self.takeovers, default=0.0):.1f}",
            "seconds": f"{self.seconds:.0f}",
        }
        return "\n".join(f"{name:24}{value:>10}" for name, value in lines.items())


async def judged(store: Store, notes: Notes, run_ids: Sequence[str], damage: Damage, seconds: float) -> Result:
    """Read every trace and compare it with what was noted."""
    counts: Counter[str] = Counter()
    effects = notes.effects()
    for run_id in run_ids:
        trace = await store.read(run_id)
        counts["lost"] += not trace
        if not trace:
            continue
        run = replay(trace)
        ends = sum(isinstance(entry.event, RunEnded) for entry in trace)
        counts["ended"] += run.ended is not None
        counts["ended_twice"] += ends > 1
        counts["not_intact"] += not verify(await store.evidence(run_id), Chains()).intact
        _actions(run_id, trace, effects, counts)
    takeovers, unseen = _takeovers(notes, damage.kills)
    return Result(
        len(run_ids),
        counts["ended"],
        counts["lost"],
        counts["ended_twice"],
        sum(effects.values()),
        sum(count > 1 for count in effects.values()),
        counts["unknown"],
        counts["untold"],
        tuple(takeovers),
        unseen,
        damage,
        seconds,
        counts["not_intact"],
    )


def _actions(run_id: str, trace: Sequence[Entry], effects: dict[str, int], counts: Counter[str]) -> None:
    """An action that was begun and never observed, or whose effect is denied, is in doubt and not told."""
    started = {entry.event.id for entry in trace if isinstance(entry.event, ActionStarted)}
    told = {entry.event.id: entry.event for entry in trace if isinstance(entry.event, Observation)}
    counts["unknown"] += sum(each.code == "OUTCOME_UNKNOWN" for each in told.values())
    for action_id in started:
        observation, happened = told.get(action_id), effects.get(f"{run_id}:{action_id}", 0)
        if observation is None:
            counts["untold"] += 1
        elif observation.status == "success":
            counts["untold"] += happened != 1
        else:
            counts["untold"] += observation.code not in {"OUTCOME_UNKNOWN", "TOOL_TIMEOUT", "CANCELLED"}
    begun = {f"{run_id}:{action_id}" for action_id in started}
    counts["untold"] += sum(key.startswith(f"{run_id}:") and key not in begun for key in effects)


def _takeovers(notes: Notes, kills: Sequence[tuple[int, float]]) -> tuple[list[float], int]:
    """For each run that a process held when it was killed: how long until it was claimed again.

    Putting a run back raises its epoch by one, and claiming it by one more. Where it has risen further, a claim was made by one that
    was killed before it could note it: these are counted, and not timed.
    """
    killed, handed_on = dict(kills), notes.handed_on()
    claims = notes.claims()
    of_run: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for _, run_id, epoch, at in claims:
        of_run[run_id].append((epoch, at))
    found, unseen = [], 0
    for pid, run_id, epoch, at in claims:
        if pid not in killed or at > killed[pid] or (run_id, epoch) in handed_on:
            continue
        later = min((each for each in of_run[run_id] if each[0] > epoch), default=None)
        if later is None:
            continue
        if later[0] > epoch + 2:
            unseen += 1
        elif later[1] > killed[pid]:
            found.append(later[1] - killed[pid])
    return sorted(found), unseen
