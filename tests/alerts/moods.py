"""The demo model with moods: each agent has a path of its own at one server, and all may be told at any time to misbehave.

Beside it, what the tests of both ways to an alert share: what is asked, what the Traces say, what the robot was told.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

from orchestrator.alerts import load_rules
from orchestrator.assembly import RunRequest
from orchestrator.core.measure import measure
from orchestrator.core.run import Run, evolve
from orchestrator.demo.server import Demo
from orchestrator.stores import Store

AGENTS = {"drifter": "gap", "sleeper": "ignore", "wanderer": "wander"}
"""How each misbehaves when it is told to: says another tool, reads past an error, opens every entry it hears of."""

GOALS = (
    "Which university did the CEO of Kestrel Looms attend, and when was it founded?",
    "Who is the wife of the author of The Glass Ferryman?",
)
"""The first can be answered, so its fewest steps are known. The second cannot: a search in it fails."""

EXPECTED = frozenset(
    {
        ("thought_action_gap", "drifter"),
        ("error_propagation", "sleeper"),
        ("error_propagation", "wanderer"),
        ("step_bloat", "wanderer"),
    }
)
"""Rule and agent of every alert that the moods must bring. Who opens entries that are not there reads past errors, too."""

HEADLINE = re.compile(r'<font color="\w+">\*\*(FIRING|RESOLVED)\*\* \w+</font> \*\*(.+)\*\*')
FACT = re.compile(r'> ([\w ]+): <font color="comment">(.*)</font>')


class Moods:
    """The server's URL, and whether the agents misbehave now."""

    url = ""
    bad = False

    def models(self) -> dict[str, Any]:
        """The setting `models`: one for each agent, under the agent's name."""
        retry = {"attempts": 6, "total": 60.0, "base": 0.05, "cap": 0.5}
        return {
            agent: {"provider": "openai", "base_url": f"{self.url}/{agent}/v1", "model": "demo", "retry": retry}
            for agent in AGENTS
        }

    def agents(self) -> dict[str, Any]:
        """The setting `agents`."""
        return {agent: {"models": [agent], "tools": ["search", "lookup"]} for agent in AGENTS}


@asynccontextmanager
async def moody() -> AsyncIterator[Moods]:
    """The demo model, in a good mood."""
    moods, demo = Moods(), Demo()

    async def answer(request: web.Request) -> web.StreamResponse:
        behaviour = AGENTS[request.match_info["agent"]] if moods.bad else ""
        return await demo.openai(request.clone(headers={**request.headers, "x-demo-behaviour": behaviour}))

    app = web.Application()
    app.router.add_post("/{agent}/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    moods.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield moods
    finally:
        await runner.cleanup()


def asked(count: int) -> Iterator[RunRequest]:
    """So many requests, the agents in turn, each agent's questions in turn."""
    names = tuple(AGENTS)
    for number in range(count):
        yield RunRequest(GOALS[number // len(names) % len(GOALS)], names[number % len(names)])


async def figures(store: Store, run_ids: Iterable[str]) -> dict[tuple[str, str], float]:
    """The three rates of these runs by rule and agent, counted from their Traces with nothing but `measure`."""
    counts: dict[tuple[str, str, str], float] = defaultdict(float)
    for run_id in run_ids:
        run = Run()
        for entry in await store.read(run_id):
            for sample in measure(run, entry):
                agent, result = sample.labels.get("agent", ""), sample.labels.get("result", "")
                counts[agent, sample.series, result] += sample.value
                counts[agent, sample.series, "count"] += 1
            run = evolve(run, entry)
    found: dict[tuple[str, str], float] = {}
    for agent in AGENTS:
        for rule, series, over, under in (
            ("thought_action_gap", "orchestrator_thought_actions_total", ("gap", "narrated"), ("match",)),
            ("error_propagation", "orchestrator_error_observations_total", ("propagated",), ("ignored",)),
        ):
            above = sum(counts[agent, series, each] for each in over)
            whole = above + sum(counts[agent, series, each] for each in under)
            found[rule, agent] = above / whole if whole else float("nan")
        bloat = "orchestrator_step_bloat_ratio"
        found["step_bloat", agent] = counts[agent, bloat, ""] / counts[agent, bloat, "count"]
    return found


class Told(NamedTuple):
    """One message of the robot."""

    rule: str
    agent: str
    status: str
    value: float


def told(text: str) -> Told:
    """Read a message, by whichever way it came: both name the rule, and write the figure, each in its own words."""
    headline = HEADLINE.search(text)
    assert headline, text
    rule = next(rule.name for rule in load_rules() if headline[2] in {rule.alert, rule.title["en"]})
    facts = dict(FACT.findall(text))
    shown = facts.get("value") or facts["last value while firing"]
    number = float(re.match(r"[\d.]+", shown)[0])  # type: ignore[index]
    return Told(rule, facts["agent"], headline[1].lower(), number / 100 if "%" in shown else number)
