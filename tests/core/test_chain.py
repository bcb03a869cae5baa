"""The hash chain: what is hashed, with a key and without, and how it is written down."""

from __future__ import annotations

import hashlib
import hmac
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.chain import HASH, PLAIN, Chain, digest_of, newest, read, written

KEY = b"sixteen or more bytes"
ENTRIES = st.tuples(
    st.text(max_size=20),
    st.integers(0, 2**62),
    st.floats(allow_nan=False),
    st.integers(0, 2**62),
    st.binary(max_size=20),
)
BEFORE = st.sampled_from([b"", bytes(HASH), PLAIN + b"\1" * 32])


def linked(chain: Chain, entry: tuple[str, int, float, int, bytes], before: bytes = b"") -> bytes:
    run_id, after, at, epoch, body = entry
    return chain.links(before, run_id, after, at, epoch, [digest_of(body)])[0]


def test_the_format_is_what_the_documents_say() -> None:
    framed = (
        b"orchestrator entry 1\0" + PLAIN + struct.pack(">dqH", 2.5, 3, 5) + b"run-1" + struct.pack(">q", 8)
        + hashlib.sha256(b"{}").digest() + bytes(HASH)
    )  # fmt: skip
    assert linked(Chain(), ("run-1", 7, 2.5, 3, b"{}"), bytes(HASH)) == PLAIN + hashlib.sha256(framed).digest()


@given(st.binary(min_size=1, max_size=200), st.binary(max_size=100))
def test_the_keyed_hash_is_an_hmac(key: bytes, newest_hash: bytes) -> None:
    chain = Chain(key)
    message = b"orchestrator head 1\0" + chain.id + struct.pack(">Hq", 1, 4) + b"r" + newest_hash
    assert chain.head("r", 4, newest_hash) == newest_hash + hmac.digest(key, message, "sha256")


@given(ENTRIES, ENTRIES, BEFORE, BEFORE)
def test_no_two_entries_share_a_hash(
    one: tuple[str, int, float, int, bytes], other: tuple[str, int, float, int, bytes], before: bytes, after: bytes
) -> None:
    same = (*one[:2], struct.pack(">d", one[2]), *one[3:], before) == (
        *other[:2], struct.pack(">d", other[2]), *other[3:], after,
    )  # fmt: skip
    for chain in (Chain(), Chain(KEY)):
        assert (linked(chain, one, before) == linked(chain, other, after)) == same


def test_many_links_at_once_are_the_same_as_one_by_one() -> None:
    chain, digests = Chain(KEY), [digest_of(bytes([n])) for n in range(5)]
    together = chain.links(b"", "r", 3, 1.0, 2, digests)
    before, alone = b"", []
    for n, digest in enumerate(digests):
        (before,) = chain.links(before, "r", 3 + n, 1.0, 2, [digest])
        alone.append(before)
    assert together == alone


def test_a_head_without_a_key_is_the_newest_hash_and_with_one_it_is_sealed() -> None:
    assert Chain().head("r", 1, bytes(HASH)) == bytes(HASH)
    sealed = Chain(KEY).head("r", 1, bytes(HASH))
    assert (newest(sealed), len(sealed)) == (bytes(HASH), HASH + 32)
    assert newest(None) == b""


@given(st.one_of(st.none(), st.binary(min_size=HASH, max_size=HASH)))
def test_a_hash_is_read_as_it_was_written(stored: bytes | None) -> None:
    assert read(written(stored)) == stored


@pytest.mark.parametrize(
    "text", ["", "sha256:", "sha256:zz", "md5:" + "0" * 64, "hmac-0000:" + "0" * 64, "hmac-00000000:" + "0" * 64]
)
def test_what_is_no_hash_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)
