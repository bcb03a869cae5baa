"""Is a run still what was written? The chain of its entries, its line in the index, and its raw bodies, each against the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from orchestrator.audit.walk import Chains, Walk, span
from orchestrator.core.chain import newest, written
from orchestrator.core.events import Event, Observation
from orchestrator.errors import StoreError
from orchestrator.stores import UNFENCED
from orchestrator.stores.evidence import Evidence, StoredBody
from orchestrator.stores.record import load
from orchestrator.stores.row import RunRow, change, moved


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of a run. It is intact when there are no `problems`; each names the entry, the body or the index.

    `keyed` and `plain` entries were hashed with and without the operator's key, `unknown` ones with a key that is not here;
    `uncovered` ones were written before hashing, so nothing is known of them. `head` is the newest hash as text. `what` is "file" where an export as a whole is judged.
    """

    run_id: str
    entries: int
    keyed: int
    plain: int
    uncovered: int
    unknown: int
    head: str | None
    problems: tuple[str, ...]
    what: str = "run"

    @property
    def intact(self) -> bool:
        """Was nothing found?"""
        return not self.problems

    @property
    def summary(self) -> str:
        """One line, with what this does not cover."""
        parts = [f"{self.what} {self.run_id}: {'intact' if self.intact else 'NOT INTACT'}, {self.entries} entries"]
        if self.uncovered:
            parts.append(f"{self.uncovered} written before hashing: not covered")
        if self.plain:
            parts.append(f"{self.plain} hashed without a key: covered against accidents and naive edits only")
        if self.unknown:
            parts.append(f"{self.unknown} hashed with a key that is not here: not recomputed")
        return "; ".join(parts)


def verify(found: Evidence, chains: Chains) -> Verdict:
    """Judge what a store holds of a run. Never raises, whatever that is."""
    walk = Walk(found.run_id, chains, found.since).along(found.entries)
    problems = [*walk.problems, *unknown_keys(walk), *_end(found, walk)]
    told = list(events(found))
    if not problems:
        problems += _index(found, told)
    problems += bodies(told, found.bodies)
    return verdict(found.run_id, len(found.entries), walk, problems)


def verdict(run_id: str, entries: int, walk: Walk, problems: Iterable[str]) -> Verdict:
    """What the walk and others found."""
    unknown = sum(map(len, walk.unknown.values()))
    head = written(walk.stored)
    return Verdict(run_id, entries, walk.keyed, walk.plain, walk.uncovered, unknown, head, tuple(problems))


def unknown_keys(walk: Walk) -> Iterator[str]:
    """Entries whose key is not among those that are known: nothing can be said of them."""
    for key_id, seqs in walk.unknown.items():
        yield (
            f"{span(seqs[0], seqs[-1])} hashed with the key {key_id}, which is neither `trace.key` nor one of `trace.old_keys`: "
            "give that key, or an entry's hash was changed"
        )


def _end(found: Evidence, walk: Walk) -> Iterator[str]:
    """The tail: only the run's line in the index knows how far the trace went."""
    row = found.row
    if found.unreadable:
        yield f"index: the run's line cannot be read: {found.unreadable}"
    elif row is None:
        yield "index: it has no line for this run; " + (
            "the line was removed, or the entries moved here"
            if found.entries or found.bodies
            else "there is no such run"
        )
    if row is None:
        return
    if not isinstance(row.last_seq, int) or row.last_seq > walk.last:
        yield f"{span(walk.last + 1, row.last_seq)} missing: cut off the end, for the index knows {row.last_seq} entries"
    elif row.last_seq < walk.last:
        yield f"{span(row.last_seq + 1, walk.last)} after the last one that the index knows: inserted, or the index was changed"
    head = found.head or b""
    if newest(head) != walk.stored:
        yield f"index: its head is not the hash of entry {walk.last}: entries were cut off or exchanged, or the head was changed"
        return
    chain = walk.chains.of(head)
    if head and chain is not None and chain.head(found.run_id, walk.hashed, newest(head)) != head:
        yield f"index: the seal over the head does not fit entry {walk.hashed}: entries were cut off, or the head was changed"


def events(found: Evidence) -> Iterator[tuple[int, float, Event | str]]:
    """The events that can be read; of the others why not."""
    for entry in found.entries:
        try:
            yield entry.seq, entry.at, load(entry.body, found.run_id, entry.seq)
        except StoreError as error:
            yield entry.seq, entry.at, str(error)


def _index(found: Evidence, told: Iterable[tuple[int, float, Event | str]]) -> Iterator[str]:
    """The run's line must be what its entries come to. Asked only of entries that are in order."""
    row = RunRow(found.run_id)
    for seq, at, event in told:
        if isinstance(event, str):
            return  # an older or newer release's word, unaltered: nothing can be recomputed
        row = moved(row, seq, at, change((event,), at))
    stored = found.row
    if stored is None:
        return
    for field in fields(RunRow):
        ours, theirs = getattr(row, field.name), getattr(stored, field.name)
        if field.name != "epoch" and ours != theirs:
            yield f"index: {field.name} is {theirs!r}, the entries come to {ours!r}: the run's line was changed"
    epochs = [entry.epoch for entry in found.entries if isinstance(entry.epoch, int) and entry.epoch != UNFENCED]
    if not isinstance(stored.epoch, int) or stored.epoch < max(epochs, default=0):
        yield f"index: epoch is {stored.epoch!r}, though an entry has {max(epochs)}: the run's line was changed"


def bodies(told: Iterable[tuple[int, float, Event | str]], kept: Iterable[StoredBody]) -> Iterator[str]:
    """Raw bodies: each under its own digest, each named by an Observation, none missing that an Observation was cleaned from."""
    owner: dict[str, str] = {}
    needed: dict[str, str] = {}
    for seq, _, event in told:
        if isinstance(event, Observation) and event.digest:
            owner.setdefault(event.digest, f"entry {seq} (Observation {event.id} of {event.tool})")
            if event.sanitised:
                needed.setdefault(event.digest, owner[event.digest])
    for body in kept:
        where = owner.get(body.digest)
        if where is None:
            yield f"body {body.digest[:80]}: no entry names it: it was inserted, or its digest changed"
        elif body.found != body.digest:
            yield f"body of {where} was altered: its sha256 is {body.found}, not {body.digest}"
        needed.pop(body.digest, None)
    for digest, where in needed.items():
        yield f"body of {where} is missing: {digest} was removed"
