"""Arguments: strict JSON, or a repair that loses nothing; names: never the nearest match."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.arguments import Arguments, item, literal, names, parse, scan
from orchestrator.core.spec import Json
from tests.core.text.said import TOOLS, tool

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip
OBJECTS = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), VALUES, max_size=4)


@given(OBJECTS)
def test_strict_json_is_read_without_repair(value: dict[str, Json]) -> None:
    assert parse(json.dumps(value)) == Arguments(value)
    assert parse(json.dumps(value, ensure_ascii=False, indent=1)) == Arguments(value)


@given(OBJECTS)
def test_python_literals_and_double_encoding_lose_nothing(value: dict[str, Json]) -> None:
    written = repr(value)
    found = parse(written)
    assert found.value == value or (found.value is None and "\\" in written)
    assert parse(json.dumps(json.dumps(value))).value == value
    assert parse(f"```json\n{json.dumps(value)}\n```").value == value


@given(OBJECTS, st.integers(0, 200))
def test_a_cut_object_is_never_completed(value: dict[str, Json], keep: int) -> None:
    whole = json.dumps(value)
    cut = whole[: min(keep, len(whole) - 1)]
    found = parse(cut)
    assert found.value is None
    assert found.truncated or not cut.strip()


@given(st.text(st.sampled_from("{}[]\"':,\\/*nu0a1 \n`"), max_size=60) | st.text(max_size=60))
def test_no_text_makes_it_raise(text: str) -> None:
    found = parse(text)
    assert (found.value is None) == bool(found.problem)
    assert scan("{" + text, 0)[1] <= len(text) + 1
    assert literal(text)[0] in (True, False)
    assert item(text, 0)[2] <= len(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}), ('{"a": [1, 2,],}', {"a": [1, 2]}), ('{"a": 1 /* b */}', {"a": 1}), ('{"a": 1 // b\n}', {"a": 1}), ('{"u": "http://x"}', {"u": "http://x"}),
        ("{'a': True, 'b': None}", {"a": True, "b": None}), ("{'a': \"it's\"}", {"a": "it's"}), ("{'a': 'say \"x\"'}", {"a": 'say "x"'}), ('{"a": "x\ty\nz"}', {"a": "x\ty\nz"}),
        ("{'a': 'it\\'s \\x41'}", {"a": "it's A"}), ('~~~\n{"a": 1}\n~~~', {"a": 1}),
    ],
)  # fmt: skip
def test_a_lexical_slip_is_repaired(text: str, value: dict[str, Json]) -> None:
    assert parse(text).value == value


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "[1]", "1", '"x"', "null", "{a: 1}", '{"a": b}', '{"a" 1}', '{"a": 1 "b": 2}', '{"a": 1, "a": 1}', '{"x": {"a": 1, "a": 2}}', '{"a": NaN}', '{"a": -Infinity}',
        '{"a": 1e999}', '{"a": 1}{"b": 2}', '{"a": 1} trailing', '{"a": 1}}', "{,}", '{"a": ,}', '{"a": 1,,}', '{"a": 007}', '{"a": 0x1}', '{"a": 1_0}', '{"a": .5}', '{"a": +1}',
        '{"a": (1, 2)}', '{"a": b"x"}', '{"a": "x" "y"}', '{"a": "\\ud800"}', '{"a": "\\q"}', '{"a": 1 + 1}', "{“a”: 1}", '｛"a": 1｝', '{"a": ...}', '{"a": "x"', '{"a": [1, 2}',
        '{"a": ' + "9" * 5000 + "}", '{"a":' * 100 + "1" + "}" * 100, '{"a":' + "[" * 100000,
    ],
)  # fmt: skip
def test_a_guess_is_never_made(text: str) -> None:
    found = parse(text)
    assert found.value is None
    assert found.problem


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("search", ("search", False)), ("`search`", ("search", True)), ("**search**:", ("search", True)), ("[search]", ("search", True)), ("Search", ("search", True)),
        ("functions.search", ("search", True)), ("tools.Search", ("search", True)), ("search()", ("search", True)), ("google", ("search", False)), ("GOOGLE", ("search", True)),
        ("serch", None), ("search2", None), ("searc", None), ("", None), ("functions.", None), ("delete_record", None), ("list", None), ("LIST", None), ("List", ("List", False)),
    ],
)  # fmt: skip
def test_a_name_is_exact_after_decoration_or_unknown(name: str, want: tuple[str, bool] | None) -> None:
    tools = (tool("search", ("google",)), tool("delete_records"), tool("List"), tool("lIST"))
    found, normalised = names(name, tools)
    assert ((found.name, normalised) if found else None) == want


def test_no_tool_answers_to_another_tools_name() -> None:
    assert all(names(each.name, TOOLS) == (each, False) for each in TOOLS)
