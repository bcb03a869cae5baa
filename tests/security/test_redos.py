"""No regular expression that sees foreign text takes more than about linear time, on texts made from the expression itself."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.security.patterns import Found, Pump, built, found, pumps

OPERATORS = ("orchestrator.demo", "orchestrator/demo")
"""What sees no foreign text: the demo model on loopback."""

PASSED_ON: Mapping[str, str] = {
    "orchestrator.core.text.tokens._ARGS": "match",
    "orchestrator.core.text.tokens._CALL_ID": "match",
    "orchestrator.core.text.tokens._DSPY_ARGS": "match",
    "orchestrator.core.text.tokens._HARMONY": "match",
    "orchestrator.core.text.tokens._QWEN_ARGS": "match",
}
"""Expressions that a function is given as an argument, and what it calls on them."""

BUILT = {
    "orchestrator/core/clean/defuse.py:_labels",
    "orchestrator/core/clean/hide.py:hide",
    "orchestrator/core/measure/errors.py:_own_words",
    "orchestrator/core/measure/errors.py:_spelled",
    "orchestrator/core/measure/names.py:_pattern",
    "orchestrator/core/measure/notice.py:_of_goal",
    "orchestrator/core/measure/notice.py:number",
    "orchestrator/core/measure/tokens.py:_pattern",
    "orchestrator/core/named.py:called",
    "orchestrator/core/text/labels.py:_balanced",
}
"""Functions that put an expression together: of escaped literals and fixed pieces, each looked at by hand."""

ALL = [
    replace(each, methods=frozenset({PASSED_ON[each.place]})) if each.place in PASSED_ON else each
    for each in found()
    if not each.place.startswith(OPERATORS)
]
ROUNDS = (*range(12, 44), 52, 64, 100)
"""Small steps, in which an exponential one shows itself before it takes for ever, or even a second."""

LENGTHS = (600, 4096)
"""Characters, far enough for a cube and a square."""

SLOW = 0.004
"""CPU seconds for the longest text: an honest expression takes a tenth of it, a square ten times as much."""

HOPELESS = 0.1
"""CPU seconds at which nothing longer is tried."""

MOST = 10.0
"""How many times as long four times the text may take: 4 is linear, 16 a square."""


def spent(one: Found, text: str, tries: int = 1) -> float:
    """CPU seconds, the least of some tries."""
    best = float("inf")
    for _ in range(tries):
        began = time.process_time()
        one.run(text)
        best = min(best, time.process_time() - began)
    return best


def grows(one: Found, pump: Pump) -> str | None:
    """None if the time grows about linearly, else in words how it grows."""
    last = 0.0
    texts = [*map(pump.times, ROUNDS), *map(pump.of, LENGTHS)]
    for text in texts:
        last = spent(one, text)
        if last > HOPELESS and (last := spent(one, text)) > HOPELESS:
            return f"{last:.2f} s for {len(text)} characters"
    if last < SLOW:
        return None
    short, long = spent(one, pump.of(2048), 3), spent(one, pump.of(8192), 2)
    return None if long < MOST * short else f"{long / short:.0f} times as long for four times the text"


def test_the_expressions_are_found() -> None:
    places = " ".join(each.place for each in ALL)
    assert len(ALL) > 150
    for name in (
        "clean.mask._NAMED",
        "clean.defuse._TOKEN",
        "text.marks._LABEL",
        "native._STRONG_ID",
        "redos_calculator.ALLOWED",
    ):
        assert name in places


@pytest.mark.parametrize("one", ALL, ids=lambda each: each.place)
def test_its_time_grows_with_the_text_and_no_faster(one: Found) -> None:
    for pump in pumps(one.pattern):
        slow = grows(one, pump)
        assert slow is None, f"{one.place} {one.pattern.pattern!r} on {pump}: {slow}; make its repetitions possessive"


@pytest.mark.parametrize(
    "text",
    [
        r"(a+)+$",
        r"(?:a|aa)+$",
        r"\s+$",
        r"\s*=\s*\s*;",
        r'"(?:[^"\\]|\\.|\\)*;',
        r"(\d+)*-",
        r"a.*b.*c",
    ],
)
def test_a_slow_expression_is_found_to_be_slow(text: str) -> None:
    bad = Found("here", re.compile(text), frozenset({"search"}))
    assert any(grows(bad, pump) for pump in pumps(bad.pattern))


@pytest.mark.parametrize("text", [r"\d+", r"(?<![ab])[ab]++c", r"<[^<>]{0,20}>", r"(?:ab|cd)*+e?"])
def test_a_quick_one_is_not(text: str) -> None:
    good = Found("here", re.compile(text), frozenset({"search"}))
    assert not [grown for pump in pumps(good.pattern) if (grown := grows(good, pump))]


def test_expressions_that_are_put_together_are_known() -> None:
    assert {each for each in built() if not each.startswith(OPERATORS)} == BUILT
