"""Some runs as two workers leave them, in any store: ended, open, taken over, with raw bodies, with a person's Decision."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from orchestrator.audit import Chains, Verdict, verify
from orchestrator.core.events import ActionStarted, Decision, Event, Observation, Outcome, RunEnded, Waiting
from orchestrator.stores import UNFENCED, Store
from tests.build import acts, final, started

KEY = b"a key that nobody else has, 32 b"
NOW = 1_796_000_000.25
RUNS = ("run-answered", "run-open", "run-taken-over", "run-waiting")


def body_of(run_id: str, step: int) -> bytes:
    """9 KB that say something new."""
    return f"{run_id} {step}: ".encode() + b"\xff raw " * 1300


def observed(run_id: str, step: int, body: bytes | None) -> Observation:
    text = f"step {step} of {run_id} found {step * 17} things"
    digest = hashlib.sha256(text.encode() if body is None else body).hexdigest()
    sanitised = () if body is None else ("cut",)
    return Observation(f"{step}.0", "search", "success", text, None, {}, len(body or text), digest, sanitised)


class Teller:
    """Appends to one run, a second a time."""

    def __init__(self, store: Store, run_id: str) -> None:
        self.store, self.run_id, self.seq, self.at, self.epoch = store, run_id, 0, NOW, 0

    async def tell(self, *events: Event, body: bytes | None = None, epoch: int | None = None) -> None:
        blobs = {} if body is None else {hashlib.sha256(body).hexdigest(): body}
        self.at += 1.125
        taken = self.epoch if epoch is None else epoch
        await self.store.append(self.run_id, self.seq, events, at=self.at, epoch=taken, blobs=blobs)
        self.seq += len(events)

    async def step(self, number: int, *, raw: bool) -> None:
        turn = acts(number, ("search", {"q": f"{self.run_id} {number} é\ud800"}), thought=f"I look, {number} times.")
        await self.tell(turn, ActionStarted(f"{number}.0", f"{self.run_id}/{number}.0"))
        body = body_of(self.run_id, number) if raw else None
        await self.tell(observed(self.run_id, number, body), body=body)


async def fill(store: Store, other: Store | None = None) -> None:
    """RUNS, by `store`; what a second process does to them is done by `other`."""
    second = other or store
    for run_id in RUNS:
        teller = Teller(store, run_id)
        await teller.tell(started(goal=f"What of {run_id}?"))
        teller.epoch = await store.bump(run_id)
        await teller.step(1, raw=True)
        await teller.step(2, raw=run_id != "run-open")
        if run_id == "run-taken-over":
            teller.store, teller.epoch = second, await second.bump(run_id)
            await teller.step(3, raw=True)
        if run_id == "run-waiting":
            await teller.tell(acts(3, ("search", {"q": "?"})), Waiting("3.0", NOW + 900.5, "approval"))
            teller.store = second
            await teller.tell(Decision("3.0", "ann", "approve"), epoch=UNFENCED)
            teller.store = store
        if run_id in {"run-answered", "run-taken-over"}:
            await teller.tell(final("42"), RunEnded(Outcome.ANSWERED, "42"))


async def judged(store: Store, *keys: bytes) -> list[Verdict]:
    """Every run of the store, and what belongs to none."""
    chains = Chains(*keys)
    return [verify(await store.evidence(run_id), chains) for run_id in sorted(await store.traced())]


def problems(verdicts: Sequence[Verdict]) -> list[str]:
    return [f"run {verdict.run_id}: {problem}" for verdict in verdicts for problem in verdict.problems]
