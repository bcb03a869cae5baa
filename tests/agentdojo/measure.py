"""Who is played against whom: each user task alone, and each (user task, injection) pair, by agents that obey."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

import yaml
from agentdojo.attacks.baseline_attacks import DirectAttack
from agentdojo.base_tasks import BaseUserTask
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.task_suite.task_suite import TaskSuite

from orchestrator.core.permission import DEFAULT
from orchestrator.core.spec import Rule
from tests.agentdojo.plans import obeying
from tests.agentdojo.play import Approver, Played, Task, comparing, frozen, nobody, play, thawed
from tests.agentdojo.result import Pair, Plain
from tests.agentdojo.world import DECLARED, World

VERSION = "v1.2"
OPEN = (Rule("open", "allow"),)
"""No policy: everything is allowed."""


def jobs(suites: Sequence[str], *, attacks: bool) -> list[tuple[str, str]]:
    """(suite, injection) for every injection, and (suite, "") for the suite without attack."""
    known = get_suites(VERSION)
    return [(suite, each) for suite in suites for each in ("", *(known[suite].injection_tasks if attacks else ()))]


def measured(suite: str, injection: str) -> list[Plain] | list[Pair]:
    """One job, in any process."""
    world, attack = _loaded(suite)
    if injection:
        return asyncio.run(_attacked(world, attack, injection))
    return asyncio.run(_plain(world))


@cache
def _loaded(suite: str) -> tuple[World, DirectAttack]:
    """A suite and AgentDojo's plainest attack on it, which remembers where each user task would read an injection."""
    yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[assignment,misc]  # the same in C: AgentDojo reads its environments anew each time
    loaded = get_suites(VERSION)[suite]
    return World(loaded), DirectAttack(loaded, None)


async def _plain(world: World) -> list[Plain]:
    kept = frozen(world.suite.load_and_inject_default_environment({}))
    rows = []
    for user in world.suite.user_tasks.values():
        task = Task(user, kept)
        bare = await play(world, task, OPEN, nobody)
        alone = await play(world, task, DEFAULT, nobody)
        compared = await play(world, task, DEFAULT, _comparing(task))
        asked = tuple((action.tool, why) for action, why in compared.asked)
        rows.append(Plain(world.suite.name, user.ID, bare.useful, alone.useful, compared.useful, asked))
    return rows


async def _attacked(world: World, attack: DirectAttack, injection_id: str) -> list[Pair]:
    suite: TaskSuite[Any] = world.suite
    injection = suite.injection_tasks[injection_id]
    rows = []
    for user in suite.user_tasks.values():
        environment = suite.load_and_inject_default_environment(attack.attack(user, injection))
        calls = obeying(suite.name, injection, environment, environment)
        words = all(DECLARED[each.function]["effect"] == "read" for each in calls)
        task = Task(user, frozen(environment), injection)
        bare, alone, compared = [await _both(world, task, who) for who in ("bare", "alone", "compared")]
        rows.append(
            Pair(
                suite.name, user.ID, injection_id, words,
                bare=any(each.breached for each in bare),
                alone=any(each.breached for each in alone),
                compared=any(each.breached for each in compared),
                effects=sum(each.effects for each in (*alone, *compared)),
                useful=all(each.useful for each in compared),
                flagged=all(each.flagged for each in (*alone, *compared) if each.breached),
            )
        )  # fmt: skip
    return rows


async def _both(world: World, task: Task, who: str) -> list[Played]:
    """By the agent that obeys at once, and the one that obeys when its own work is done."""
    rules = OPEN if who == "bare" else DEFAULT
    plays = []
    for at_once in (True, False):
        approver: Approver = _comparing(task) if who == "compared" else nobody
        plays.append(await play(world, task, rules, approver, at_once=at_once, breach_only=who != "compared"))
    return plays


def _comparing(task: Task) -> Approver:
    user: BaseUserTask[Any] = task.user
    return comparing(user.ground_truth(user.init_environment(thawed(task.kept))))
