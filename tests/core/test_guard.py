"""News per Observation: rewording learns nothing, and the guard says so."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.events import Action, Anomaly
from orchestrator.core.guard import Guard, call_key, facts_in_thought
from orchestrator.core.run import Note
from tests.build import acts, observed, run_of, started

PIT_4 = [
    ("lookup", "球状闪电", "刘慈欣 / 代表作: 三体、球状闪电", None),
    ("search", "刘慈欣", "刘慈欣 / 出生地: 山西省阳泉市 | 代表作: 三体、球状闪电 | 职业: 科幻作家", None),
    ("lookup", "刘慈欣 出生", "没有找到包含「刘慈欣 出生」的信息", "NOT_FOUND"),
    ("lookup", "刘慈欣", "三体 / 作者: 刘慈欣", None),
    ("lookup", "出生年份", "没有找到包含「出生年份」的信息", "NOT_FOUND"),
]


def _barren(*results: tuple[str, str, str, str | None]) -> list[int]:
    events = [started(goal="《球状闪电》这本书的作者是谁？他哪一年出生？")]
    counts = []
    for step, (tool, query, content, code) in enumerate(results, 1):
        events += [acts(step, (tool, {"q": query})), observed(f"{step}.0", content, tool=tool, code=code)]  # type: ignore[list-item]
        counts.append(run_of(*events).guard.barren)
    return counts


def test_the_articles_fourth_pit_is_seen_from_its_third_barren_lookup_on() -> None:
    assert _barren(*PIT_4) == [0, 0, 1, 2, 3]


def test_a_miss_that_calls_itself_a_success_is_no_news() -> None:
    as_success = [(tool, query, content, None) for tool, query, content, _ in PIT_4]
    assert _barren(*as_success) == [0, 0, 1, 2, 3]


def test_one_new_number_is_news() -> None:
    guard = Guard().seeded("How many people live there?")
    action = Action("1.0", "lookup", {"q": "population"})
    assert guard.observe(action, observed("1.0", "34910000")).closed().barren == 0


def test_an_empty_result_and_an_echo_are_no_news() -> None:
    guard = Guard()
    action = Action("1.0", "lookup", {"q": "ball lightning"})
    for content in ("[]", "{}", "ball lightning", ""):
        assert guard.observe(action, observed("1.0", content)).closed().barren == 1


def test_a_timeout_says_nothing_about_progress() -> None:
    action = Action("1.0", "lookup", {"q": "x"})
    assert Guard(barren=1).observe(action, observed("1.0", "boom", code="TOOL_TIMEOUT")).closed().barren == 1


def test_after_two_barren_steps_the_model_is_told() -> None:
    events = [started()]
    for step in (1, 2):
        events += [acts(step, ("search", {"q": str(step)})), observed(f"{step}.0", "no results")]  # type: ignore[list-item]
    run = run_of(*events)
    assert [step.notes for step in run.steps] == [(), (Note.STALLED,)]


def test_figures_stated_before_any_observation_come_from_memory() -> None:
    turn = acts(1, ("search", {"q": "tides 1906"}), thought="The bay has 2183.2 million visitors; 1906 is in the call.")
    assert facts_in_thought(turn, "How many?").anomalies == (Anomaly.FACT_IN_THOUGHT,)
    harmless = acts(1, ("search", {"q": "tides 1906"}), thought="I look up 1906 and 42.")
    assert facts_in_thought(harmless, "How many?").anomalies == ()


def test_the_guard_stays_small_whatever_it_has_seen() -> None:
    guard = Guard()
    for index in range(300):
        action = Action("1.0", "lookup", {"q": f"q{index}"})
        guard = guard.observe(action, observed("1.0", " ".join(f"w{index}x{n}" for n in range(50))))
    assert len(guard.seen) == 8192
    assert len(guard.calls) <= 32


def test_a_run_of_two_thousand_steps_that_always_learns_is_never_called_barren() -> None:
    guard = Guard().seeded("What is in the register?")
    for index in range(2000):
        action = Action("1.0", "lookup", {"q": f"entry {index}"})
        guard = guard.observe(
            action, observed("1.0", f"the owner is {'abcdefghij'[index % 10]}{index * 7919} since {index + 3}")
        ).closed()
        assert guard.barren < 2


_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_INPUTS = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        _PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_size=4,
)


@given(_INPUTS, st.randoms(use_true_random=False))
def test_equal_calls_have_one_key_that_says_all_of_them(given: dict[str, Any], random: Random) -> None:
    canonical = json.dumps(given, ensure_ascii=False, sort_keys=True)
    assert call_key(Action("1.0", "look", _shuffled(given, random))) == f"look {canonical}"


def _shuffled(value: Any, random: Random) -> Any:
    if isinstance(value, list):
        return [_shuffled(each, random) for each in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    random.shuffle(names)
    return {name: _shuffled(value[name], random) for name in names}


@given(st.text(st.characters(codec="ascii"), max_size=60), st.sampled_from([1, 40]))
def test_the_case_of_a_word_is_no_news(text: str, times: int) -> None:
    assert Guard().seeded(text * times) == Guard().seeded(text.upper() * times) == Guard().seeded(text.lower() * times)


def test_a_sign_whose_lower_case_is_a_letter_is_that_letter() -> None:
    for times in (1, 300):
        assert Guard().seeded("5 \u212a, 6 \u212a " * times) == Guard().seeded("5 k, 6 k " * times)


def test_a_long_result_is_read_by_its_clauses() -> None:
    clauses = [f"Owner {n} lives in house {n * 7}" for n in range(30)]
    texts = [sign.join(clauses) for sign in (",", "; ", "|", "{", "}", "\n", " , ")]
    assert len({(guard.seen, guard.marks) for guard in map(Guard().seeded, texts)}) == 1
