"""One walk along a stored Trace, entry by entry, against its hash chain. Nothing here believes a stored value."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from orchestrator.core.chain import HASH, ID, Chain, digest_of
from orchestrator.stores.evidence import StoredEntry

_LARGEST = 2**63 - 1


class Chains:
    """The chains by which hashes may be recomputed: that without a key, and one for each key that is known."""

    def __init__(self, *keys: bytes) -> None:
        self._by_id = {chain.id: chain for chain in map(Chain, (b"", *keys))}

    def of(self, stored: bytes) -> Chain | None:
        """The chain that made this stored hash or head, by the id it begins with; None when its key is not known."""
        return self._by_id.get(stored[:ID]) if len(stored) >= HASH else None


@dataclass(slots=True)
class _Suspect:
    """An entry that is not what was hashed. Whether it or only its hash was changed, the next entry tells."""

    seq: int
    before: bytes
    recomputed: bytes


@dataclass(slots=True)
class Walk:
    """What the entries of one run show by themselves. `problems` name entry by entry what does not fit.

    `last` is the seq of the newest entry, `hashed` that of the newest with a hash, `stored` that hash. `keyed`, `plain` and
    `uncovered` count entries; `unknown` are those hashed with a key that is not known, by its id.
    """

    run_id: str
    chains: Chains
    since: float = 0.0
    problems: list[str] = field(default_factory=list)
    last: int = 0
    hashed: int = 0
    stored: bytes = b""
    keyed: int = 0
    plain: int = 0
    uncovered: int = 0
    unknown: dict[str, list[int]] = field(default_factory=dict)
    _gap: bool = False
    _suspect: _Suspect | None = None
    _first_keyed: int = 0

    def along(self, entries: Iterable[StoredEntry]) -> Walk:
        """Walk to the end."""
        for entry in entries:
            self._step(entry)
        self._judge(restored=False)
        return self

    def _step(self, entry: StoredEntry) -> None:
        seq = entry.seq
        if not _is_integer(seq):
            self.problems.append(
                f"an entry whose seq is {str(seq)[:40]!r}: entries are numbered, so it was inserted or changed"
            )
            return
        if seq <= self.last:
            self.problems.append(f"entry {seq}: there is no such place in a trace, it was inserted or its seq changed")
            return
        if seq > self.last + 1:
            self.problems.append(f"{span(self.last + 1, seq - 1)} missing: removed, or moved elsewhere")
            self._gap = True
        self.last = seq
        if entry.hash is None:
            self._bare(seq, entry.at)
        else:
            self._hashed(seq, entry, entry.hash)

    def _bare(self, seq: int, at: Any) -> None:
        """An entry without a hash: fine where it is older than hashing."""
        if isinstance(at, int | float) and self.since and at <= self.since:
            self.uncovered += 1
            return
        began = (
            f"since {datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M} UTC"
            if self.since
            else "from its beginning"
        )
        self.problems.append(
            f"entry {seq} has no hash, and this database hashes {began}: the hash was taken away, the entry was inserted, or a "
            "process of an older release wrote it during an upgrade"
        )

    def _hashed(self, seq: int, entry: StoredEntry, stored: bytes) -> None:
        chain = self.chains.of(stored)
        if chain is None and len(stored) == HASH:
            self.unknown.setdefault(stored[:ID].hex(), []).append(seq)
            self._go_on(seq, stored)
            return
        if (
            chain is None
            or len(stored) != HASH
            or not _is_integer(entry.epoch)
            or not isinstance(entry.at, int | float)
        ):
            self._judge(restored=False)
            self.problems.append(f"entry {seq} was altered: its time, epoch or hash is not of the kind that is written")
            self._go_on(seq, stored)
            return
        self._count(seq, chain)
        expected = self._link(chain, self.stored, entry)
        restored = (
            self._suspect is not None
            and expected != stored
            and self._link(chain, self._suspect.recomputed, entry) == stored
        )
        self._judge(restored=restored)
        fits = expected == stored or restored
        if not fits and not self._gap:
            self._suspect = _Suspect(seq, self.stored, expected)
        self._go_on(seq, stored)

    def _link(self, chain: Chain, before: bytes, entry: StoredEntry) -> bytes:
        """The hash that this entry would have after `before`; b"" for values that no entry has."""
        try:
            digest = digest_of(entry.body)
            return chain.links(before, self.run_id, entry.seq - 1, entry.at + 0.0, entry.epoch, (digest,))[0]
        except (struct.error, OverflowError):
            return b""

    def _count(self, seq: int, chain: Chain) -> None:
        if chain.keyed:
            self.keyed += 1
            self._first_keyed = self._first_keyed or seq
            return
        self.plain += 1
        if self._first_keyed:
            self.problems.append(
                f"entry {seq} is hashed without the key, though entry {self._first_keyed} has it: a process without `trace.key` "
                "wrote it, or someone who does not know the key"
            )

    def _go_on(self, seq: int, stored: bytes) -> None:
        self.hashed, self.stored, self._gap = seq, stored, False

    def _judge(self, *, restored: bool) -> None:
        """What is wrong with the suspect, now that the entry after it has been seen."""
        if self._suspect is None:
            return
        seq, self._suspect = self._suspect.seq, None
        self.problems.append(
            f"entry {seq}: its hash was changed (what it hashes is as it was written)"
            if restored
            else f"entry {seq} was altered: its content, time, epoch, seq, run or hash is not what was written there"
        )


def span(first: int, last: int) -> str:
    """The entries from first to last, with their verb."""
    return f"entry {first} is" if first == last else f"entries {first} to {last} are"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST
