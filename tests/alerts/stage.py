"""Worker, Prometheus, Alertmanager and the adapter as real processes; the moody model and the robot here. On loopback."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.request import urlopen

import yaml

from orchestrator.alerts import Kind, Rule, load_rules, prometheus
from orchestrator.assembly import make_toolbox, new_run_id, started
from orchestrator.dispatch import Dispatcher, Job, needs_of
from orchestrator.settings import Settings
from orchestrator.stores import Store
from orchestrator.worker.queue import open_queue
from tests.alerts.make import Receiver, receiving
from tests.alerts.moods import EXPECTED, Moods, Told, asked, moody, told
from tests.dashboards.prometheus import Prometheus

DEPLOYED = Path(__file__).parents[2] / "deploy" / "prometheus"
ADDRESS = re.compile(r"http://([0-9.:]+)/")
WINDOW = 12.0
MINIMUM = {"step_bloat": 5}
"""Samples; ten of the other rules."""


def quick(rule: Rule) -> Rule:
    """The rule in seconds instead of minutes; one that counts no samples stays as it is."""
    if rule.kind not in {Kind.RATIO, Kind.MEAN}:
        return rule
    return replace(rule, window=WINDOW, pending=3.0, minimum=MINIMUM.get(rule.name, 10))


RULES = {rule.name: quick(rule) for rule in load_rules()}


@dataclass
class Place:
    """All of it, running."""

    moods: Moods
    settings: Settings
    store: Store
    queue: Dispatcher
    server: Prometheus
    robot: Receiver
    submitted: int = 0

    async def submit(self, count: int) -> list[str]:
        tools, run_ids = make_toolbox(self.settings).specs, []
        for request in asked(count):
            first, now = started(self.settings, tools, request), time.time()
            job = Job(new_run_id(now), needs=needs_of(first))
            run_ids.append((await self.queue.submit(job, first, now=now)).run_id)
        self.submitted += count
        return run_ids

    async def ended(self) -> None:
        """Wait until all that was submitted has ended, as Prometheus sees it."""
        await self.until(f"sum(orchestrator_runs_total) >= {self.submitted}")

    async def later(self, seconds: float) -> None:
        """Wait until Prometheus has scraped for so long from now."""
        await self.until(f"max(timestamp(orchestrator_workers)) >= {time.time() + seconds}")

    async def until(self, fact: str) -> None:
        await asyncio.to_thread(self.server.until, fact, 60.0)

    async def says(self, expr: str) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self.server.instant, expr)

    async def until_told(self, status: str, submit: int = 0) -> None:
        """Wait until the robot had such a message of every alert that must come, with so much traffic meanwhile."""
        async with asyncio.timeout(60):
            while {(each.rule, each.agent) for each in self.told(status)} < EXPECTED:
                await self.submit(submit)
                self.robot.came.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.robot.came.wait(), 3)

    def told(self, status: str) -> list[Told]:
        return [each for each in map(told, self.robot.texts()) if each.status == status]


@contextmanager
def process(
    log: Path, *command: str, settings: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[subprocess.Popen[bytes]]:
    """It runs in the log's folder while the block lasts. The settings come to it by its environment."""
    ours = ("ORCHESTRATOR_", "OPENAI_", "ANTHROPIC_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    for name, value in settings.items():
        env[f"ORCHESTRATOR_{name.upper()}"] = value if isinstance(value, str) else json.dumps(value)
    with log.open("w") as said, subprocess.Popen(command, cwd=log.parent, env=env, stdout=said, stderr=said) as running:
        try:
            yield running
        finally:
            running.kill()


def serves(log: Path, within: float = 30.0) -> str:
    """The host and port of the first URL that a process says."""
    end = time.monotonic() + within
    while not (found := ADDRESS.search(log.read_text("utf-8"))):
        assert time.monotonic() < end, log.read_text("utf-8")
        time.sleep(0.1)
    return found[1]


def ready(address: str, within: float = 30.0) -> None:
    end = time.monotonic() + within
    while True:
        with suppress(OSError):
            urlopen(f"http://{address}/-/ready", timeout=1).close()
            return
        assert time.monotonic() < end, f"{address} is not ready"
        time.sleep(0.1)


def free() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def configure(folder: Path, worker: str, alertmanager: str, adapter: str) -> None:
    """The files of deploy/, with seconds instead of minutes and the addresses of this test."""
    config = yaml.safe_load((DEPLOYED / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [alertmanager]
    (job,) = config["scrape_configs"]
    del job["dns_sd_configs"]
    job["static_configs"] = [{"targets": [worker]}]
    (folder / "prometheus.yml").write_text(json.dumps(config), "utf-8")
    (folder / "rules.yml").write_text(prometheus(RULES.values(), interval="1s"), "utf-8")
    config = yaml.safe_load((DEPLOYED / "alertmanager.yml").read_text("utf-8"))
    config["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    config["receivers"][0]["webhook_configs"][0]["url"] = f"http://{adapter}/alertmanager"
    (folder / "alertmanager.yml").write_text(json.dumps(config), "utf-8")


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        moods, robot = await stack.enter_async_context(moody()), await stack.enter_async_context(receiving())
        given = {
            "store": "sqlite:///orchestrator.db",
            "models": moods.models(),
            "agents": moods.agents(),
            "hooks": {"robot": {"kind": "wecom", "url": f"{robot.url}/send?key=k", "calls": 600}},
            "egress": {"loopback": True},
            "worker": {"beat": 0.5, "lease": 5.0},
        }
        settings = Settings.model_validate(given | {"store": f"sqlite:///{folder}/orchestrator.db"})
        store, queue = await stack.enter_async_context(open_queue(settings))

        async def start(name: str, *words: str) -> str:
            command = (sys.executable, "-m", "orchestrator", *words)
            log = folder / f"{name}.log"
            stack.enter_context(process(log, *command, settings=given))
            return await asyncio.to_thread(serves, log)

        worker = await start("worker", "worker")
        adapter = await start("adapter", "alerts", "serve", "robot", "--port", "0")
        alertmanager, server = free(), free()
        configure(folder, worker, alertmanager, adapter)
        for name, address, *more in (
            ("prometheus-alertmanager", alertmanager, "--cluster.listen-address=", "--storage.path=am"),
            ("prometheus", server, "--storage.tsdb.path=data"),
        ):
            words = (f"--config.file={name.rpartition('-')[2]}.yml", f"--web.listen-address={address}", *more)
            stack.enter_context(process(folder / f"{name}.log", name, *words))
            await asyncio.to_thread(ready, address)
        yield Place(moods, settings, store, queue, Prometheus(f"http://{server}"), robot)
