"""Our own cases in the corpus' words, written from the design, not from the code; each must pass as the given ones do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.corpus.__main__ import cases, kind, score

DATA = Path(__file__).parent / "data"
KINDS = ("text", "wire", "observation")
OWN = [(name, case) for name in KINDS for case in cases(DATA / f"own_{name}_cases.jsonl")]


@pytest.mark.parametrize(("name", "case"), OWN, ids=[case["id"] for _, case in OWN])
def test_a_case_that_nobody_had_seen_passes(name: str, case: dict[str, Any]) -> None:
    assert kind(case) == name
    assert score(case) is None


def test_every_id_is_used_once() -> None:
    ids = [case["id"] for _, case in OWN]
    assert len(set(ids)) == len(ids)
