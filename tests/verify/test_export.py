"""An export proves itself without a store: every change to the file is found, a forged signature is refused, nothing in it makes the reader fail."""

from __future__ import annotations

import json
import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.audit import Chains, Export, Signer, new_key, public_key, read_export, signer, write_export
from orchestrator.errors import ConfigError
from orchestrator.stores import Store
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.record import load
from tests.verify.world import KEY, NOW, RUNS, fill

PRIVATE, PUBLIC = new_key()
SIGNER, READER = signer(PRIVATE, "test"), public_key(PUBLIC, "test")
EVE = signer(new_key()[0], "eve")


async def exported(
    store: Store, *, key: bytes = b"", signed: Signer | None = SIGNER, heads: bool = False
) -> list[bytes]:
    lines: list[bytes] = []
    written = await write_export(
        store, RUNS, lines.append, chains=Chains(key), made=NOW, signer=signed, heads_only=heads
    )
    assert [verdict.problems for verdict in written] == [()] * len(RUNS)
    return lines


async def lines_of(*, key: bytes = b"", signed: Signer | None = SIGNER, heads: bool = False) -> list[bytes]:
    async with MemoryStore(key=key) as store:
        await fill(store)
        return await exported(store, key=key, signed=signed, heads=heads)


def told(found: Export) -> list[str]:
    return [*found.problems, *(problem for verdict in found.verdicts for problem in verdict.problems)]


async def test_an_export_is_json_lines_that_verify_offline() -> None:
    lines = await lines_of()
    assert [json.loads(line)["kind"] for line in (lines[0], lines[1], lines[-1])] == ["export", "entry", "end"]
    found = read_export(lines, Chains(), READER)
    assert (found.signature, told(found)) == ("valid", [])
    assert [verdict.run_id for verdict in found.verdicts] == list(RUNS)
    assert {json.loads(line)["event"]["kind"] for line in lines if b'"kind":"entry"' in line} >= {
        "run_started",
        "run_ended",
    }


@pytest.mark.parametrize("key", [b"", KEY], ids=["plain", "keyed"])
async def test_what_is_imported_from_an_export_has_the_same_chain(key: bytes) -> None:
    lines = await lines_of(key=key)
    end = json.loads(lines[-1])["runs"]
    async with MemoryStore(key=key) as restored:
        for line in lines[1:-1]:
            raw = json.loads(line)
            if raw["kind"] == "entry":
                event = load(json.dumps(raw["event"]).encode())
                await restored.append(raw["run_id"], raw["seq"] - 1, [event], at=raw["at"], epoch=raw["epoch"])
        again: list[bytes] = []
        await write_export(restored, RUNS, again.append, chains=Chains(key), made=NOW, heads_only=True)
        heads = {run_id: (await restored.evidence(run_id)).entries[-1].hash for run_id in RUNS}
    assert {run_id: (found or b"")[4:].hex() for run_id, found in heads.items()} == {
        run_id: head["hash"].partition(":")[2] for run_id, head in end.items()
    }


async def test_each_of_1000_random_changes_to_a_file_is_found() -> None:
    lines = await lines_of()
    rng = random.Random(5)
    missed = []
    for number in range(1000):
        changed = changed_somewhere(list(lines), rng)
        if read_export(changed, Chains(), READER).intact:
            missed.append(number)
    assert missed == []


def changed_somewhere(lines: list[bytes], rng: random.Random) -> list[bytes]:
    at, other = rng.sample(range(len(lines)), 2)
    match rng.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines[at], lines[other] = lines[other], lines[at]
        case 2:
            lines.insert(other, lines[at])
        case 3:
            del lines[max(at, 1) :]
        case 4:
            lines[at] = json.dumps(json.loads(lines[at])).encode() + b"\n"
        case _:
            line = bytearray(lines[at])
            line[rng.randrange(len(line) - 1)] ^= 1 << rng.randrange(8)
            lines[at] = bytes(line)
    return lines


async def test_without_the_public_key_the_lines_still_prove_each_other() -> None:
    lines = await lines_of()
    found = read_export(lines, Chains())
    assert (found.signature, found.intact) == ("unchecked", True)
    entry = next(n for n, line in enumerate(lines) if b'"kind":"observation"' in line)
    lines[entry] = lines[entry].replace(b"things", b"thongs")
    problems = told(read_export(lines, Chains()))
    assert any("one was changed" in problem for problem in problems)
    assert any("entry 4 was altered" in problem for problem in problems)


async def test_a_forged_signature_is_refused() -> None:
    for lines in (await lines_of(signed=EVE), replaced_signature(await lines_of())):
        found = read_export(lines, Chains(), READER)
        assert (found.signature, found.intact) == ("forged", False)
        assert "the signature is not one of this key over this file" in told(found)[0]


def replaced_signature(lines: list[bytes]) -> list[bytes]:
    said = json.loads(lines[-1])
    return [*lines[:-1], lines[-1].replace(said["signature"].encode(), said["signature"][::-1].encode())]


async def test_an_unsigned_file_is_refused_where_a_signature_is_asked_for() -> None:
    lines = await lines_of(signed=None)
    assert read_export(lines, Chains()).intact
    assert told(read_export(lines, Chains(), READER)) == ["the file is not signed"]


async def test_a_keyed_trace_is_vouched_for_by_the_signature_and_without_it_by_nothing() -> None:
    signed = read_export(await lines_of(key=KEY), Chains(), READER)
    assert (signed.intact, signed.verdicts[0].unknown) == (True, 9)
    assert "not recomputed" in signed.verdicts[0].summary
    unsigned = await lines_of(key=KEY, signed=None)
    assert "neither `trace.key` nor one of `trace.old_keys`" in told(read_export(unsigned, Chains()))[0]
    assert read_export(unsigned, Chains(KEY)).intact


async def test_a_run_that_is_not_intact_is_left_out() -> None:
    async with MemoryStore() as store:
        await fill(store)
        at, epoch, body, hashed = store._entries["run-open"][2]
        store._entries["run-open"][2] = (at, epoch, body.replace(b"1.0", b"1.1"), hashed)
        lines: list[bytes] = []
        verdicts = await write_export(store, RUNS, lines.append, chains=Chains(), made=NOW, signer=SIGNER)
    assert [verdict.run_id for verdict in verdicts if not verdict.intact] == ["run-open"]
    assert "run-open" not in json.loads(lines[-1])["runs"]
    assert read_export(lines, Chains(), READER).intact


async def test_heads_alone_are_an_anchor() -> None:
    lines = await lines_of(heads=True)
    found = read_export(lines, Chains(), READER)
    assert (len(lines), found.intact, [anchor.run_id for anchor in found.anchors]) == (2, True, list(RUNS))


HEADS = st.sampled_from([b'{"kind":"export","version":1,"made":1}\n', b"{}\n", b"\n"])
HOSTILE = st.one_of(
    st.binary(max_size=60).map(lambda line: line + b"\n"),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
        lambda inner: st.dictionaries(
            st.sampled_from(["kind", "run_id", "seq", "at", "epoch", "hash", "digest", "base64", "runs", "r"]), inner
        ),
        max_leaves=10,
    ).map(lambda value: json.dumps(value).encode() + b"\n"),
    st.fixed_dictionaries(
        {"kind": st.just("entry"), "run_id": st.sampled_from(["r", "x" * 70000, "\ud800"])}
        | dict.fromkeys(("seq", "at", "epoch"), st.one_of(st.integers(), st.floats(), st.just(10**400), st.none()))
        | {"hash": st.sampled_from([None, "sha256:" + "0" * 64, "hmac-00000001:" + "1" * 64, "sha256:", 5])}
    ).map(lambda value: json.dumps(value).encode()[:-1] + b',"event":{"kind":"decision"}}\n'),
    st.just(b'{"kind":"end","runs":{"r":{"seq":1e999,"hash":[],"ended_at":{}}},"signature":"AA=="}'),
    st.just(b"[" * 100_000),
)


@given(HEADS, st.lists(HOSTILE, max_size=6))
def test_no_file_makes_the_reader_fail(first: bytes, rest: list[bytes]) -> None:
    for public in (None, READER):
        assert not read_export([first, *rest], Chains(), public).intact or not rest


def test_keys_that_are_none_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="here is no private key in PEM"):
        signer("nonsense", "here")
    with pytest.raises(ConfigError, match="here is no public key in PEM"):
        public_key(PRIVATE, "here")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    for ask in (lambda: signer(PRIVATE, "trace.signing_key"), lambda: public_key(PUBLIC, "p"), new_key):
        with pytest.raises(ConfigError, match=r"pip install '\.\[sign\]' in the checkout"):
            ask()
