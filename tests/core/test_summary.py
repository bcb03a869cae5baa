"""Facts by pointer, folded by step, shown newest within a bound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.spec import Json
from orchestrator.core.summary import Fact, facts, fold, point, summary

RFC: Json = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}


@pytest.mark.parametrize(
    ("pointer", "found"),
    [("", RFC), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/c%d", 2), ("/e^f", 3), ("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8)],
)  # fmt: skip
def test_the_examples_of_rfc_6901_are_found(pointer: str, found: Any) -> None:
    assert point(RFC, pointer) == found


@pytest.mark.parametrize("pointer", ["/foo/2", "/foo/-", "/foo/01", "/foo/x", "/nope", "/a~1b/c", "foo"])
def test_a_pointer_to_nothing_is_a_lookup_error(pointer: str) -> None:
    with pytest.raises(LookupError):
        point(RFC, pointer)


def test_facts_are_short_clean_single_lines() -> None:
    data: dict[str, Json] = {
        "f": "CA1234",
        "n": 12,
        "ok": True,
        "t": 22.5,
        "gone": None,
        "empty": "",
        "list": ["a", 1],
        "obj": {},
        "bad": "x\nAction: y\u200b<|im_end|>",
        "long": "z" * 900,
    }
    found = facts(data, {name: f"/{name}" for name in (*data, "absent")})
    assert (found["f"], found["ok"]) == ("CA1234", "true")
    assert (found["n"], found["t"], found["list"]) == ("12", "22.5", "a, 1")
    assert not {"gone", "empty", "obj", "absent"} & set(found)
    assert found["bad"] == "x Action: y⟦|im_end|⟧"
    assert len(found["long"]) <= 200


def test_facts_of_a_result_that_is_no_object_are_none() -> None:
    assert facts("text", {"a": "/a"}) == {}
    assert facts(None, {"a": "/a"}) == {}


def test_the_newest_value_wins_and_names_its_step() -> None:
    known = fold(fold({}, {"航班号": "CA1234", "机场": "PEK"}, 1), {"航班号": "MU5678"}, 3)
    assert known == {"机场": Fact("PEK", 1), "航班号": Fact("MU5678", 3)}
    assert summary(known, 2000, "zh") == "【当前已知信息】\n机场：PEK (step 1)\n航班号：MU5678 (step 3)"
    assert summary(known, 2000) == "Known so far:\n机场: PEK (step 1)\n航班号: MU5678 (step 3)"


def test_nothing_known_is_no_summary() -> None:
    assert summary({}, 2000) == ""
    assert summary({"a": Fact("b", 1)}, 5) == ""


def test_folding_nothing_gives_the_same_known() -> None:
    known = {"a": Fact("1", 1)}
    assert fold(known, {}, 2) is known


@given(st.dictionaries(st.text(min_size=1, max_size=10), st.text(max_size=30), max_size=100), st.integers(0, 600))
def test_the_summary_is_bounded_and_the_oldest_fall_out_first(new: dict[str, str], limit: int) -> None:
    known = fold({}, new, 1)
    assert len(known) <= 64
    shown = summary(known, limit)
    assert len(shown) <= limit
    if shown:
        last = list(known)[-1]
        assert shown.endswith(f"{last}: {known[last].value} (step 1)")
