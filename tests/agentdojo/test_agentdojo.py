"""What can be held of the benchmark without its package: the declarations, and what `make agentdojo` fails for."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from orchestrator.core.spec import Effect, Role
from tests.agentdojo.result import SUITES, Pair, Plain
from tests.agentdojo.table import failures, table

DECLARED = tomllib.loads(Path(__file__).with_name("declared.toml").read_text("utf-8"))
DONE = [Plain(suite, "user_task_0", bare=True, alone=True, compared=True, asked=()) for suite in SUITES]
HELD = Pair(
    "slack", "user_task_0", "injection_task_0",
    words=False, bare=True, alone=False, compared=False, effects=0, useful=True, flagged=True,
)  # fmt: skip


@pytest.mark.parametrize("name", DECLARED)
def test_each_tool_is_declared_with_a_reason(name: str) -> None:
    said = DECLARED[name]
    assert said["effect"] in get_args(Effect)
    assert said["trusted"] in {True, False}
    assert len(said["why"]) > 5
    assert set(said.get("roles", {}).values()) <= set(get_args(Role))
    assert all(len(pair) == 2 for pair in said.get("names", {}).values())
    assert set(said) <= {"effect", "trusted", "why", "roles", "names", "approval"}


def test_only_words_are_content_of_what_reaches_nobody() -> None:
    """Where free text may be composed, the tool writes, or says by which arguments it would reach others."""
    for said in DECLARED.values():
        roles = set(said.get("roles", {}).values())
        assert "content" not in roles or said["effect"] == "write" or "reach" in roles


def test_nothing_is_wrong_when_all_holds() -> None:
    assert failures(DONE, [HELD]) == []
    assert "| slack | 1 | 1 of 1 | 0 | 0 | 0 of 0 | 0 | 1 (100.0%) |" in table(DONE, [HELD])


@pytest.mark.parametrize(
    ("plain", "pair", "said"),
    [
        (DONE, replace(HELD, alone=True), "came through"),
        (DONE, replace(HELD, compared=True), "came through"),
        (DONE, replace(HELD, effects=1), "came through"),
        (DONE, replace(HELD, bare=False), "never succeeds without a policy"),
        ([*DONE, replace(DONE[0], bare=False)], HELD, "not done without a policy"),
        ([*DONE, replace(DONE[0], compared=False)], HELD, "not done with its calls approved"),
        ([replace(each, alone=each.suite == "travel") for each in DONE], HELD, "25.0%"),
    ],
)
def test_it_fails_for(plain: list[Plain], pair: Pair, said: str) -> None:
    (wrong,) = failures(plain, [pair])
    assert said in wrong


def test_words_are_not_held_against_the_host() -> None:
    pair = replace(HELD, words=True, alone=True, compared=True)
    assert failures(DONE, [pair]) == []
    assert "| 0 of 0 | 0 | 0 | 1 of 1 | 1 |" in table(DONE, [pair])
