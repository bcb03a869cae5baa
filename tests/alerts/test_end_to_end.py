"""From what the model does to what the robot is told: with Prometheus and Alertmanager, and without either."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from orchestrator.alerts.prometheus import recorded
from orchestrator.assembly import make_toolbox, submit
from orchestrator.hooks import make_hooks
from orchestrator.model import EndpointModels
from orchestrator.monitor import make_book, make_monitor
from orchestrator.runner import Ports, drive
from orchestrator.settings import Settings
from orchestrator.stores.memory import MemoryStore
from orchestrator.worker.queue import open_queue
from tests.alerts.make import receiving
from tests.alerts.moods import EXPECTED, asked, figures, moody, told
from tests.alerts.stage import RULES, Place, place, process, serves
from tests.dashboards.prometheus import Prometheus

START = 1_700_000_000.0


@pytest.mark.needs("prometheus", "prometheus-alertmanager")
@pytest.mark.needs("prometheus", "prometheus-alertmanager")
@pytest.mark.timeout(240)
async def test_each_alert_reaches_the_robot_once_with_its_figure_and_is_over_once(tmp_path: Path) -> None:
    async with place(tmp_path) as it:
        await it.until("orchestrator_workers > 0")
        await it.submit(200)
        await it.ended()
        await it.later(4)
        for rule, agent in EXPECTED:
            value = recorded(RULES[rule], "mean" if rule == "step_bloat" else "ratio")
            assert await it.says(f'{value}{{agent="{agent}"}}'), f"{value} has no data, so its silence says nothing"
        assert await it.says('ALERTS{alertstate="firing"}') == []
        assert it.robot.texts() == []

        await it.until(f"absent({recorded(RULES['thought_action_gap'], 'samples')} > 0)")
        it.moods.bad = True
        bad = await it.submit(36)
        await it.until_told("firing")
        await it.ended()
        right = await figures(it.store, bad)
        for each in it.told("firing"):
            assert each.value == pytest.approx(right[each.rule, each.agent], abs=0.02 * max(1.0, each.value))
            assert RULES[each.rule].breached(each.value)

        it.moods.bad = False
        await it.until_told("resolved", submit=36)
        await it.ended()
        await it.later(4)
        told = sorted((each.rule, each.agent, each.status) for each in it.told("firing") + it.told("resolved"))
        assert told == sorted((*each, status) for each in EXPECTED for status in ("firing", "resolved"))
        assert len(it.robot.texts()) == len(told)


@pytest.mark.virtual
@pytest.mark.timeout(240)
async def test_the_built_in_monitor_tells_the_same_with_no_prometheus() -> None:
    """The rules as they are shipped: a quarter of an hour, an hour and minutes pass."""
    loop = asyncio.get_running_loop()

    def clock() -> float:
        return START + loop.time()

    async with AsyncExitStack() as stack:
        moods, robot = await stack.enter_async_context(moody()), await stack.enter_async_context(receiving())
        hooks = {"robot": {"kind": "wecom", "url": f"{robot.url}/send?key=k"}}
        given = {"models": moods.models(), "agents": moods.agents(), "hooks": hooks, "store": "memory"}
        given |= {"egress": {"loopback": True}}
        settings = Settings.model_validate(given)
        store = await stack.enter_async_context(MemoryStore())
        models = await stack.enter_async_context(EndpointModels(settings))
        ports = Ports(store, models, make_toolbox(settings), clock=clock)

        async def play(count: int) -> list[str]:
            runs = []
            for request in asked(count):
                runs.append((await drive(await submit(ports, settings, request), ports)).run_id)
                await asyncio.sleep(2)
            return runs

        hook = make_hooks(settings, clock)
        stack.push_async_callback(hook[0].close)
        watch = asyncio.create_task(make_monitor(settings, store, hook, clock=clock).run())
        await play(200)
        await asyncio.sleep(200)
        assert robot.texts() == []

        await asyncio.sleep(3600)
        moods.bad = True
        bad = await play(120)
        await asyncio.sleep(200)
        right = await figures(store, bad)
        firing = [told(text) for text in robot.texts()]
        assert sorted((each.rule, each.agent) for each in firing) == sorted(EXPECTED)
        assert {each.status for each in firing} == {"firing"}
        for each in firing:
            assert each.value == pytest.approx(right[each.rule, each.agent], abs=0.02 * max(1.0, each.value))

        moods.bad = False
        await asyncio.sleep(3600)
        assert len(robot.texts()) == len(firing), "no data is neither firing nor resolved"
        await play(120)
        await asyncio.sleep(200)
        over = [told(text) for text in robot.texts()[len(firing) :]]
        assert sorted((each.rule, each.agent) for each in over) == sorted(EXPECTED)
        assert {each.status for each in over} == {"resolved"}
        watch.cancel()


async def test_a_worker_with_the_monitor_in_it_tells_the_robot_and_hands_over_the_lead(tmp_path: Path) -> None:
    async with moody() as moods, receiving() as robot:
        moods.bad = True
        given = {
            "store": "sqlite:///orchestrator.db",
            "models": moods.models(),
            "agents": moods.agents(),
            "hooks": {"robot": {"kind": "wecom", "url": f"{robot.url}/send?key=k"}},
            "egress": {"loopback": True},
            "worker": {"beat": 0.5, "lease": 5.0, "monitor": True},
            "alerts": {"every": 0.3, "rules": {rule: {"minimum": 5, "for": 0} for rule, _ in EXPECTED}},
        }
        settings = Settings.model_validate(given | {"store": f"sqlite:///{tmp_path}/orchestrator.db"})
        command = (sys.executable, "-m", "orchestrator", "worker")
        async with open_queue(settings) as (store, queue):
            it = Place(moods, settings, store, queue, Prometheus(""), robot)
            with process(tmp_path / "worker.log", *command, settings=given) as worker:
                await asyncio.to_thread(serves, tmp_path / "worker.log")
                await it.submit(60)
                await robot.until(lambda: {(each.rule, each.agent) for each in map(told, robot.texts())} == EXPECTED)
                assert len(robot.texts()) == len(EXPECTED)
                worker.terminate()
                assert await asyncio.to_thread(worker.wait, 30) == 0
            assert await make_book(store).lead("another", now=time.time(), until=time.time() + 1) is not None
