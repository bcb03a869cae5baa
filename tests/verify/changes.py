"""Single changes to stored traces, as an accident or a person with SQL makes them. Each does one at random, and says what must be named.

The answer is what at least one message must match: the run, and the entry, body or field of the index.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tests.verify.vault import Vault

Change: TypeAlias = Callable[[Vault, random.Random], str]

FREE = -999
"""A place that no entry has, for exchanges."""


def entry(run_id: str, *seqs: int) -> str:
    """A message that names one of these entries of the run."""
    numbers = "|".join(map(str, seqs))
    return rf"run {re.escape(run_id)}: (.*\b)?(entry|entries|head is not the hash of entry) (\d+ to )?({numbers})\b"


def place(vault: Vault, rng: random.Random, *, inner: bool = False) -> tuple[str, int]:
    """Any entry; `inner`: neither the first nor the last."""
    runs = vault.ask("SELECT run_id, last_seq FROM runs ORDER BY run_id")
    run_id, last = rng.choice(runs)
    return run_id, rng.randint(2, last - 1) if inner else rng.randint(1, last)


def text(vault: Vault, run_id: str, seq: int) -> bytes:
    ((body,),) = vault.ask("SELECT body FROM entries WHERE run_id = ? AND seq = ?", run_id, seq)
    return body.encode() if isinstance(body, str) else bytes(body)


def last_of(vault: Vault, run_id: str) -> int:
    return int(vault.ask("SELECT last_seq FROM runs WHERE run_id = ?", run_id)[0][0])


def write(vault: Vault, run_id: str, seq: int, body: bytes) -> str:
    vault.do("UPDATE entries SET body = ? WHERE run_id = ? AND seq = ?", vault.body(body), run_id, seq)
    return entry(run_id, seq)


def a_character(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    body = bytearray(text(vault, run_id, seq))
    at = rng.choice([index for index, byte in enumerate(body) if chr(byte).isalnum()])
    body[at] = ord(rng.choice([each for each in "abcXYZ0123456789" if each != chr(body[at])]))
    return write(vault, run_id, seq, bytes(body))


def white_space(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    return write(vault, run_id, seq, json.dumps(json.loads(text(vault, run_id, seq))).encode())


def a_field(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    raw = json.loads(text(vault, run_id, seq))
    name = rng.choice(sorted(raw))
    raw[name] = rng.choice([other for other in ("", "approve", 0, None) if other != raw[name]])
    return write(vault, run_id, seq, json.dumps(raw, separators=(",", ":")).encode())


def emptied(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    return write(vault, run_id, seq, rng.choice([b"", b"{}", b"null", b"not json"]))


def the_time(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    ((at,),) = vault.ask("SELECT at FROM entries WHERE run_id = ? AND seq = ?", run_id, seq)
    changed = rng.choice([at + 1, at - 86400, 0.0, math.nextafter(at, math.inf)])
    vault.do("UPDATE entries SET at = ? WHERE run_id = ? AND seq = ?", changed, run_id, seq)
    return entry(run_id, seq)


def the_epoch(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    vault.do("UPDATE entries SET epoch = epoch + ? WHERE run_id = ? AND seq = ?", rng.randint(1, 9), run_id, seq)
    return entry(run_id, seq)


def the_seq(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    moved = rng.choice([last_of(vault, run_id) + 1, 0, -seq, 10**12])
    vault.do("UPDATE entries SET seq = ? WHERE run_id = ? AND seq = ?", moved, run_id, seq)
    return entry(run_id, seq, moved)


def the_run(vault: Vault, rng: random.Random) -> str:
    """Moved to another run: to the place after its end, or to a run that is not there."""
    run_id, seq = place(vault, rng)
    others = [other for (other,) in vault.ask("SELECT run_id FROM runs WHERE run_id <> ?", run_id)]
    other = rng.choice([*others, "run-nowhere"])
    free = last_of(vault, other) + 1 if other in others else seq
    vault.do("UPDATE entries SET run_id = ?, seq = ? WHERE run_id = ? AND seq = ?", other, free, run_id, seq)
    return entry(run_id, seq)


def copied_from_another_run(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    wanted = "SELECT body, hash, at, epoch FROM entries WHERE run_id <> ? AND seq = ?"
    body, hashed, at, epoch = rng.choice(vault.ask(wanted, run_id, seq) or vault.ask(wanted, run_id, 3))
    write(vault, run_id, seq, body.encode() if isinstance(body, str) else bytes(body))
    where = (run_id, seq)
    vault.do("UPDATE entries SET hash = ?, at = ?, epoch = ? WHERE run_id = ? AND seq = ?", hashed, at, epoch, *where)
    return entry(run_id, seq)


def removed(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    vault.do("DELETE FROM entries WHERE run_id = ? AND seq = ?", run_id, seq)
    return entry(run_id, seq)


def the_end_cut_off(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    vault.do("DELETE FROM entries WHERE run_id = ? AND seq >= ?", run_id, seq)
    return entry(run_id, seq, last_of(vault, run_id))


def the_end_cut_off_and_the_index_with_it(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng, inner=True)
    vault.do("DELETE FROM entries WHERE run_id = ? AND seq > ?", run_id, seq)
    vault.do("UPDATE runs SET last_seq = ?, outcome = NULL, ended_at = NULL WHERE run_id = ?", seq, run_id)
    return entry(run_id, seq)


def duplicated(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    end = last_of(vault, run_id) + 1
    vault.do(
        "INSERT INTO entries (run_id, seq, at, epoch, body, hash) "
        "SELECT run_id, ?, at, epoch, body, hash FROM entries WHERE run_id = ? AND seq = ?",
        end,
        run_id,
        seq,
    )
    return entry(run_id, end)


def inserted(vault: Vault, rng: random.Random) -> str:
    """A forged Decision in the middle; what followed moves on by one."""
    run_id, seq = place(vault, rng, inner=True)
    ((at, epoch, hashed),) = vault.ask("SELECT at, epoch, hash FROM entries WHERE run_id = ? AND seq = ?", run_id, seq)
    vault.do("UPDATE entries SET seq = -seq WHERE run_id = ? AND seq >= ?", run_id, seq)
    vault.do("UPDATE entries SET seq = 1 - seq WHERE run_id = ? AND seq < 0", run_id)
    forged = vault.body(b'{"id":"1.0","by":"eve","verdict":"approve","kind":"decision"}')
    values = (run_id, seq, at, epoch, forged, rng.choice([None, hashed, bytes(36), rng.randbytes(36), b"x"]))
    vault.do("INSERT INTO entries (run_id, seq, at, epoch, body, hash) VALUES (?, ?, ?, ?, ?, ?)", *values)
    return entry(run_id, seq)


def inserted_at_the_end(vault: Vault, rng: random.Random) -> str:
    run_id, _ = place(vault, rng)
    end = last_of(vault, run_id) + 1
    forged = vault.body(b'{"id":"1.0","by":"eve","verdict":"approve","kind":"decision"}')
    values = (run_id, end, 1.8e9, 1, forged, rng.choice([None, bytes(36), rng.randbytes(36)]))
    vault.do("INSERT INTO entries (run_id, seq, at, epoch, body, hash) VALUES (?, ?, ?, ?, ?, ?)", *values)
    vault.do("UPDATE runs SET last_seq = ? WHERE run_id = ?", rng.choice([end, end - 1]), run_id)
    return entry(run_id, end)


def bodies_swapped(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng, inner=True)
    one, other = text(vault, run_id, seq), text(vault, run_id, seq + 1)
    write(vault, run_id, seq, other)
    write(vault, run_id, seq + 1, one)
    return entry(run_id, seq)


def swapped(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng, inner=True)
    other = rng.choice([each for each in range(1, last_of(vault, run_id) + 1) if each != seq])
    for before, after in ((seq, FREE), (other, seq), (FREE, other)):
        vault.do("UPDATE entries SET seq = ? WHERE run_id = ? AND seq = ?", after, run_id, before)
    return entry(run_id, min(seq, other))


def reversed_order(vault: Vault, rng: random.Random) -> str:
    run_id, _ = place(vault, rng)
    last = last_of(vault, run_id)
    vault.do("UPDATE entries SET seq = -seq WHERE run_id = ?", run_id)
    vault.do("UPDATE entries SET seq = seq + ? WHERE run_id = ?", last + 1, run_id)
    return entry(run_id, 1)


def the_hash(vault: Vault, rng: random.Random) -> str:
    run_id, seq = place(vault, rng)
    ((hashed,),) = vault.ask("SELECT hash FROM entries WHERE run_id = ? AND seq = ?", run_id, seq)
    changed = bytearray(hashed)
    changed[rng.randrange(36)] ^= 1 << rng.randrange(8)
    forged = rng.choice([None, bytes(changed), bytes(changed), b"", bytes(36)])
    vault.do("UPDATE entries SET hash = ? WHERE run_id = ? AND seq = ?", forged, run_id, seq)
    return entry(run_id, seq)


def all_hashes_taken_away(vault: Vault, rng: random.Random) -> str:
    run_id, _ = place(vault, rng)
    vault.do("UPDATE entries SET hash = NULL WHERE run_id = ?", run_id)
    vault.do("UPDATE runs SET head = NULL WHERE run_id = ?", run_id)
    return entry(run_id, 1)


def the_head(vault: Vault, rng: random.Random) -> str:
    run_id, _ = place(vault, rng)
    forged = rng.choice([None, b"", bytes(36), rng.randbytes(36), rng.randbytes(68), b"head"])
    vault.do("UPDATE runs SET head = ? WHERE run_id = ?", forged, run_id)
    return rf"run {run_id}: index: its head"


def the_index(vault: Vault, rng: random.Random) -> str:
    run_id, _ = place(vault, rng)
    changes: Mapping[str, Any] = {
        "outcome": "gave_up", "tenant": "other", "goal": "another?", "steps": 99, "started_at": 1.5, "last_at": 2.5,
        "ended_at": 3.5, "agent": "eve", "model": "m9", "kind": "batch", "last_kind": "nothing", "epoch": 0,
    }  # fmt: skip
    name = rng.choice(sorted(changes))
    vault.do(f"UPDATE runs SET {name} = ? WHERE run_id = ?", changes[name], run_id)  # noqa: S608
    return rf"run {run_id}: index: {name}"


def the_index_line(vault: Vault, rng: random.Random) -> str:
    run_id, _ = place(vault, rng)
    vault.do(rng.choice(["DELETE FROM runs WHERE run_id = ?", "UPDATE runs SET last_seq = 0 WHERE run_id = ?"]), run_id)
    return rf"run {run_id}: index: it has no line"


def a_body(vault: Vault, rng: random.Random) -> str:
    run_id, digest, body = rng.choice(vault.ask("SELECT run_id, digest, body FROM blobs ORDER BY run_id, digest"))
    changed = bytearray(body)
    changed[rng.randrange(len(changed))] ^= 1
    forged = rng.choice([bytes(changed), b"", bytes(body[:-1])])
    vault.do("UPDATE blobs SET body = ? WHERE run_id = ? AND digest = ?", forged, run_id, digest)
    return rf"run {run_id}: body of entry \d+ .*altered"


def a_body_removed(vault: Vault, rng: random.Random) -> str:
    run_id, digest = rng.choice(vault.ask("SELECT run_id, digest FROM blobs ORDER BY run_id, digest"))
    vault.do("DELETE FROM blobs WHERE run_id = ? AND digest = ?", run_id, digest)
    return rf"run {run_id}: body of entry \d+ .*missing: {digest}"


def a_body_moved(vault: Vault, rng: random.Random) -> str:
    run_id, digest = rng.choice(vault.ask("SELECT run_id, digest FROM blobs ORDER BY run_id, digest"))
    others = [other for (other,) in vault.ask("SELECT run_id FROM runs WHERE run_id <> ?", run_id)]
    other = rng.choice([*others, "run-nowhere"])
    vault.do("UPDATE blobs SET run_id = ? WHERE run_id = ? AND digest = ?", other, run_id, digest)
    return rf"run {run_id}: body of entry \d+ .*missing: {digest}"


def a_body_under_another_name(vault: Vault, rng: random.Random) -> str:
    run_id, digest = rng.choice(vault.ask("SELECT run_id, digest FROM blobs ORDER BY run_id, digest"))
    vault.do("UPDATE blobs SET digest = ? WHERE run_id = ? AND digest = ?", "e" * 64, run_id, digest)
    return rf"run {run_id}: body (of entry \d+ .*missing: {digest}|e{{64}})"


def a_body_inserted(vault: Vault, rng: random.Random) -> str:
    run_id, _ = place(vault, rng)
    name = f"{rng.getrandbits(256):064x}"
    vault.do("INSERT INTO blobs (digest, run_id, body) VALUES (?, ?, ?)", name, run_id, b"forged")
    return rf"run {run_id}: body {name}"


CHANGES: tuple[Change, ...] = (
    a_character, white_space, a_field, emptied, the_time, the_epoch, the_seq, the_run, copied_from_another_run, removed,
    the_end_cut_off, the_end_cut_off_and_the_index_with_it, duplicated, inserted, inserted_at_the_end, bodies_swapped,
    swapped, reversed_order, the_hash, all_hashes_taken_away, the_head, the_index, the_index_line, a_body,
    a_body_removed, a_body_moved, a_body_under_another_name, a_body_inserted,
)  # fmt: skip
