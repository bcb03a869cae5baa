"""Judging costs time in proportion to the texts, whatever they hold; what needs no judging costs nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import pytest

from orchestrator.core.decide import Record, decide
from orchestrator.core.events import Action, Entry, Observation, Waiting
from orchestrator.core.identifier import loose
from orchestrator.core.permission import permit
from orchestrator.core.provenance import Sources
from orchestrator.core.run import Step, replay
from tests.build import acts, run_of
from tests.permission.scene import CONTACTS, EVIL, SEND, after, begun, ruling

PATTERNS: dict[str, Callable[[int], str]] = {
    "words": lambda n: "word " * (n // 5),
    "letters": lambda n: "a" * n,
    "ats": lambda n: "a@" * (n // 2),
    "dots": lambda n: "a." * (n // 2),
    "hosts": lambda n: "a-" * (n // 2) + ".test",
    "digits": lambda n: "1" * n,
    "groups": lambda n: "12 " * (n // 3),
    "ibans": lambda n: "DE89 " * (n // 5),
    "slashes": lambda n: "a/" * (n // 2),
    "only slashes": lambda n: "/" * n,
    "percents": lambda n: "%25" * (n // 3),
    "entities": lambda n: "&#64;" * (n // 5),
    "ampersands": lambda n: "&" * n,
    "base64": lambda n: "QUFB" * (n // 4),
    "quotes": lambda n: "'" * n,
    "braces": lambda n: "'{a}" * (n // 4),
    "brackets": lambda n: "<" * n,
    "chinese": lambda n: "张三a@b.c" * (n // 7),
    "spaces": lambda n: " " * n + "x",
    "json": lambda n: "[" * n,
}


def seconds(call: Callable[[], object]) -> float:
    """The quickest of three, the caches of texts emptied."""
    best = 1e9
    for _ in range(3):
        loose.cache_clear()
        begun_at = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begun_at)
    return best


@pytest.mark.parametrize("name", PATTERNS)
def test_judging_is_linear_in_the_request_the_observation_and_the_argument(name: str) -> None:
    make, small, large = PATTERNS[name], 2_000, 32_000

    def judged(size: int) -> float:
        text = make(size)
        places = ((text, "x", EVIL), ("x", text, EVIL), ("x", f"see {EVIL}", text), (text, text, text))
        runs = [(after(mail, goal=f"g {goal}"), value) for goal, mail, value in places]
        return seconds(lambda: [Sources.of(run).arguments({"to": value}, SEND) for run, value in runs])

    assert judged(large) < 64 * judged(small) + 0.25, "16 times the text, at most 4 times that much time for each"


class Unread(tuple[Step, ...]):
    """Steps that nobody may look at."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise AssertionError("the texts were read")


def test_what_needs_no_judging_reads_no_text() -> None:
    tainted, clean = (replace(run, steps=Unread(run.steps)) for run in (after("x" * 100), run_of(begun())))
    assert ruling(tainted, {"q": "x"}, CONTACTS).rule == "reads"
    assert ruling(clean, {"to": EVIL}).rule == "untainted"
    assert ruling(tainted, {"to": EVIL}, replace(SEND, requires_approval=False, effect="read")).verdict == "allow"


def test_a_user_given_call_reads_no_observation() -> None:
    run = after(*["a long page " * 50] * 200)
    loose.cache_clear()
    assert ruling(run, {"to": "ann@home.org"}).verdict == "allow"
    assert loose.cache_info().currsize == 0


def test_a_ruling_on_an_untainted_run_costs_the_same_at_any_length() -> None:

    run = run_of(begun())
    action = Action("1.0", "send_mail", {"to": EVIL})
    took = seconds(lambda: [permit(run, action, SEND) for _ in range(1000)])
    assert took < 0.1, "a microsecond or a few each"


def test_all_approvals_of_a_reply_are_asked_for_together() -> None:
    """Each call is judged once, not once more for each that waits: a reply of many calls must not hold up the loop."""
    calls = [("send_mail", {"to": "ann@home.org" if number % 2 else f"{number}{EVIL}"}) for number in range(40)]
    read = after("hello")
    command = decide(replay([Entry(read.run_id, read.seq + 1, 1010.0, acts(2, *calls))], read), 1010.0)
    assert isinstance(command, Record)
    told = Counter(type(each) for each in (command.event, *command.more))
    assert told == {Waiting: 20, Observation: 19}, "twenty to ask for, and the same call again nineteen times"
