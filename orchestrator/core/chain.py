"""The hash chain of a Trace: each entry's hash covers the entry as it is stored and the hash of the one before.

What is hashed for an entry, in this order: a fixed word, the key's id, time, epoch and length of the run id (all of fixed width),
the run id, seq, the sha256 of the stored bytes (fixed width again), the hash before (nothing for the first). No two entries share it.

A stored hash is 36 bytes: the key's id (four zero bytes without a key), then SHA-256, or HMAC-SHA-256 under the operator's key.
The head of a run is the hash of its newest entry; with a key a *seal* follows, an HMAC over run id, seq and that hash: who can
write in the database knows every hash of the chain, but cannot seal a shorter one.

No call here gives up the interpreter lock: a thread that writes must not wait for a busy event loop to give it back.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable

ID = 4
HASH = ID + 32
PLAIN = bytes(ID)
"""The id that stands for: no key."""

_ENTRY = b"orchestrator entry 1\0"
_HEAD = b"orchestrator head 1\0"
_FRAME = struct.Struct(">dqH")
_SEQ = struct.Struct(">q")
_PLACE = struct.Struct(">Hq")
_BLOCK = 64


class Chain:
    """Hashes entries, under `key` if there is one (it is used as it is: let it be long and random)."""

    def __init__(self, key: bytes = b"") -> None:
        self.id = hmac.digest(key, b"orchestrator trace key id", "sha256")[:ID] if key else PLAIN
        self._key = key
        block = (hashlib.sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))
        self._entry = _ENTRY + self.id
        self._mac = self._keyed if key else digest_of

    @property
    def keyed(self) -> bool:
        """Is there a key?"""
        return bool(self._key)

    def links(  # noqa: PLR0913, PLR0917  what entries are
        self, before: bytes, run_id: str, after: int, at: float, epoch: int, digests: Iterable[bytes]
    ) -> list[bytes]:
        """The hashes of the entries after seq `after`, one for each sha256 `digest` of stored bytes.

        `before` is the hash that they follow: b"" when nothing of the run was hashed yet.
        """
        name = run_id.encode("utf-8", "surrogatepass")
        frame = self._entry + _FRAME.pack(at, epoch, len(name)) + name
        mac, key_id, seq_of = self._mac, self.id, _SEQ.pack
        return [
            before := key_id + mac(frame + seq_of(seq) + digest + before)
            for seq, digest in enumerate(digests, after + 1)
        ]

    def head(self, run_id: str, seq: int, newest: bytes) -> bytes:
        """What the run's line keeps: the hash of its newest entry, and the seal if there is a key."""
        if not self._key:
            return newest
        name = run_id.encode("utf-8", "surrogatepass")
        return newest + self._mac(_HEAD + self.id + _PLACE.pack(len(name), seq) + name + newest)

    def _keyed(self, message: bytes) -> bytes:
        """HMAC in four quick calls: the standard library's own would give up the interpreter lock."""
        inner = self._inner.copy()
        inner.update(message)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()


def digest_of(body: bytes) -> bytes:
    """The sha256 of these bytes."""
    return hashlib.sha256(body).digest()


def newest(head: bytes | None) -> bytes:
    """The hash in a run's head, without its seal; b"" when nothing of the run is hashed yet."""
    return (head or b"")[:HASH]


def written(stored: bytes | None) -> str | None:
    """A stored hash as text: `sha256:HEX`, or `hmac-KEYID:HEX`; None stays None."""
    if not stored:
        return None
    return f"sha256:{stored[ID:].hex()}" if stored[:ID] == PLAIN else f"hmac-{stored[:ID].hex()}:{stored[ID:].hex()}"


def read(text: str | None) -> bytes | None:
    """What `written` wrote. ValueError for anything else."""
    if text is None:
        return None
    name, _, digest = text.partition(":")
    kind, _, key_id = name.partition("-")
    stored = (PLAIN if name == "sha256" else bytes.fromhex(key_id)) + bytes.fromhex(digest)
    if len(stored) < HASH or written(stored) != text or kind not in {"sha256", "hmac"}:
        raise ValueError(f"{text[:80]!r} is no hash of an entry")
    return stored
