"""Judges an export without a store: its signature, every run's chain, every body. The file is hostile until it has proved itself."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.audit.anchor import Anchor
from orchestrator.audit.export import EVENT, SIGNATURE, VERSION
from orchestrator.audit.sign import is_signed
from orchestrator.audit.verify import Verdict, bodies, events, unknown_keys, verdict
from orchestrator.audit.walk import Chains, Walk
from orchestrator.core.chain import read
from orchestrator.stores.evidence import Evidence, StoredBody, StoredEntry, stored_body

Signature = Literal["valid", "none", "unchecked", "forged"]
"""`unchecked`: there is one, but no public key was given to check it with."""


@dataclass(frozen=True, slots=True)
class Export:
    """What a file proves. `problems` are the file's own, the Verdicts have those of the runs; `anchors` are its heads."""

    verdicts: tuple[Verdict, ...]
    signature: Signature
    problems: tuple[str, ...]
    anchors: tuple[Anchor, ...]

    @property
    def intact(self) -> bool:
        """Is nothing wrong with the file nor with any run in it?"""
        return not self.problems and all(verdict.intact for verdict in self.verdicts)


class _Damaged(ValueError):
    """A line that no export has."""


@dataclass(slots=True)
class _Reader:
    """Reads line by line; of the runs only the present one is held."""

    chains: Chains
    sha256: Any = field(default_factory=hashlib.sha256)
    count: int = 0
    problems: list[str] = field(default_factory=list)
    walks: dict[str, tuple[Walk, int, list[str]]] = field(default_factory=dict)
    run_id: str = ""
    entries: list[StoredEntry] = field(default_factory=list)
    bodies: list[StoredBody] = field(default_factory=list)

    def take(self, line: bytes) -> None:
        """Any line but the last."""
        self.sha256.update(line)
        self.count += 1
        try:
            self._read(line.rstrip(b"\n"))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            self.problems.append(f"line {self.count} is none of an export: {str(error)[:200]}")

    def _read(self, line: bytes) -> None:
        head, _, event = line.partition(EVENT)
        raw = json.loads(head + b"}" if event else line)
        if self.count == 1:
            if raw["kind"] != "export" or raw["version"] != VERSION:
                raise _Damaged(f"an export of version {VERSION} begins otherwise")
            return
        run_id = str(raw["run_id"])
        if run_id != self.run_id:
            self.close()
            if run_id in self.walks:
                raise _Damaged(f"run {run_id} came before: its lines stand together")
            self.run_id = run_id
        if raw["kind"] == "entry":
            self.entries.append(StoredEntry(raw["seq"], float(raw["at"]), raw["epoch"], event[:-1], read(raw["hash"])))
        elif raw["kind"] == "body":
            body = base64.b64decode(raw["base64"], validate=True)
            self.bodies.append(stored_body(raw["digest"], body, keep=False))
        else:
            raise _Damaged(f"a line of the kind {str(raw['kind'])[:40]!r}")

    def close(self) -> None:
        """The run is complete."""
        if not self.run_id:
            return
        found = Evidence(self.run_id, entries=tuple(self.entries), bodies=tuple(self.bodies))
        walk = Walk(self.run_id, self.chains, math.inf).along(self.entries)
        self.walks[self.run_id] = (walk, len(self.entries), [*walk.problems, *bodies(events(found), self.bodies)])
        self.run_id, self.entries, self.bodies = "", [], []


def read_export(lines: Iterable[bytes], chains: Chains, public: bytes | None = None) -> Export:
    """Judge the lines of a file, with their line ends. `public` is the raw key of who should have signed it; None checks no signature.

    Never raises for what stands in the file. ConfigError when a signature is to be checked and the extra `[sign]` is not there.
    """
    reader = _Reader(chains)
    before: bytes | None = None
    for line in lines:
        if before is not None:
            reader.take(before)
        before = line
    reader.close()
    last = before or b""
    said = _end(last)
    if said is None:
        return Export((), "none", ("the last line is no end of an export: the file was cut off",), ())
    problems = list(reader.problems)
    if said.get("sha256") != reader.sha256.hexdigest() or said.get("lines") != reader.count:
        problems.append("the lines are not those that the last line tells of: one was changed, added, removed or moved")
    signature = _signature(last, said, public)
    if signature == "forged":
        problems.append("the signature is not one of this key over this file: it was forged, or the file was changed")
    if signature == "none" and public is not None:
        problems.append("the file is not signed")
    anchors = tuple(_anchors(said, problems))
    verdicts = _verdicts(reader, anchors, signature, problems)
    return Export(tuple(verdicts), signature, tuple(problems), anchors)


def _end(line: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    good = isinstance(said, dict) and said.get("kind") == "end" and isinstance(said.get("runs"), dict)
    return said if good else None


def _signature(line: bytes, said: dict[str, Any], public: bytes | None) -> Signature:
    signed, mark, _ = line.rpartition(SIGNATURE)
    if not mark:
        return "none"
    if public is None:
        return "unchecked"
    try:
        signature = base64.b64decode(said["signature"], validate=True)
    except (binascii.Error, ValueError, TypeError, KeyError):
        return "forged"
    exact = signed + SIGNATURE + b'"' + base64.b64encode(signature) + b'"}'
    return "valid" if exact == line.rstrip(b"\n") and is_signed(public, signature, signed) else "forged"


def _anchors(said: dict[str, Any], problems: list[str]) -> Iterator[Anchor]:
    for run_id, head in said["runs"].items():
        try:
            ended = head["ended_at"]
            yield Anchor(run_id, int(head["seq"]), read(head["hash"]), None if ended is None else float(ended))
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            problems.append(f"the head of run {run_id} cannot be read: {str(error)[:200]}")


def _verdicts(
    reader: _Reader, anchors: Iterable[Anchor], signature: Signature, problems: list[str]
) -> Iterator[Verdict]:
    """Each run that has lines, against its head. An export of heads only has no lines but the first and the last."""
    heads = {anchor.run_id: anchor for anchor in anchors}
    if reader.count > 1:
        problems += [f"run {run_id} has a head but no lines" for run_id in heads if run_id not in reader.walks]
    for run_id, (walk, count, found) in reader.walks.items():
        head = heads.get(run_id)
        if head is None or head.seq != walk.last or (head.hash or b"") != walk.stored:
            found.append(
                f"its head is not that of entry {walk.last}: entries were cut off, or the last line was changed"
            )
        unknown = () if signature == "valid" else unknown_keys(walk)
        yield verdict(run_id, count, walk, (*found, *unknown))
