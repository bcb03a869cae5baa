"""/healthz, /readyz, /metrics: served by a thread of their own, so that a stuck loop can be seen."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from http.client import HTTPConnection
from io import StringIO

import pytest
from prometheus_client import generate_latest
from prometheus_client.registry import CollectorRegistry

from orchestrator import log
from orchestrator.cli.worker import problem
from orchestrator.errors import ConfigError
from orchestrator.health import serve
from orchestrator.worker import Watchdog
from orchestrator.worker.gauges import WorkerCollector
from tests.build import final
from tests.worker.station import station, working


def get(url: str, path: str, method: str = "GET") -> tuple[int, str]:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=5)
    connection.request(method, path)
    reply = connection.getresponse()
    found = reply.status, reply.read().decode()
    connection.close()
    return found


def test_the_three_paths_and_no_other() -> None:
    said: list[str | None] = [None]
    with serve("127.0.0.1", 0, lambda: said[0], lambda _accept: (b"a_metric 1\n", "text/plain")) as url:
        assert get(url, "/healthz") == (200, "ok\n")
        assert get(url, "/readyz?verbose") == (200, "ready\n")
        said[0] = "draining"
        assert get(url, "/readyz") == (503, "draining\n")
        assert get(url, "/healthz")[0] == 200
        assert get(url, "/metrics") == (200, "a_metric 1\n")
        assert get(url, "/etc/passwd")[0] == 404
        assert get(url, "/healthz", "POST")[0] == 501


def test_an_address_that_is_taken_is_told_with_the_settings_name() -> None:
    with (
        serve("127.0.0.1", 0, lambda: None) as url,
        pytest.raises(ConfigError, match=r"worker\.port"),
        serve("127.0.0.1", int(url.rpartition(":")[2]), lambda: None),
    ):
        pass


def test_a_client_that_says_nothing_holds_up_nobody() -> None:
    with serve("127.0.0.1", 0, lambda: None) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))), socket.create_connection((host, int(port))) as rude:
            rude.sendall(b"\xff\x00 nonsense\r\n" * 10)
            assert get(url, "/healthz")[0] == 200


async def test_a_stalled_loop_is_told_with_its_stack_and_turns_readiness_off_until_it_is_quick_again() -> None:
    out = StringIO()
    log.configure("json", "error", stream=out)
    async with station([final()]) as place, working(place) as worker, Watchdog(limit=0.3, calm=0.5) as dog:
        with serve("127.0.0.1", 0, lambda: problem(worker, dog)) as url:
            await asyncio.sleep(0.2)
            assert (await asyncio.to_thread(get, url, "/readyz"))[0] == 200
            seen = asyncio.get_running_loop().run_in_executor(None, late, url)
            await asyncio.sleep(0.05)
            a_tool_that_blocks()
            assert (await seen)[0] == 503, "answered while the loop stood still"
            assert (await asyncio.to_thread(get, url, "/readyz"))[0] == 503
            async with asyncio.timeout(10):
                while (await asyncio.to_thread(get, url, "/readyz"))[0] != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
    (told,) = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (told["event"], dog.stalls) == ("event_loop_stalled", 1)
    assert "a_tool_that_blocks" in told["stack"]


def a_tool_that_blocks() -> None:
    time.sleep(0.8)


def late(url: str) -> tuple[int, str]:
    time.sleep(0.5)
    return get(url, "/readyz")


async def test_the_metrics_of_a_worker_are_well_formed() -> None:
    registry = CollectorRegistry()
    async with station([final()]) as place:
        await place.submit("r1")
        async with working(place) as worker, Watchdog() as dog:
            registry.register(WorkerCollector(worker, dog))
            await place.ended("r1", within=10)
            await place.until(lambda: not worker.held)
            text = generate_latest(registry).decode()
    assert 'orchestrator_worker_slices_total{event="ended"} 1.0' in text
    assert "orchestrator_worker_ready 1.0" in text
    assert "orchestrator_queue_depth" in text


@pytest.mark.virtual
async def test_a_worker_is_not_ready_before_it_begins_nor_while_it_drains() -> None:
    async with station([final()]) as place:
        async with working(place) as worker:
            assert worker.problem == "not started"
            await asyncio.sleep(1)
            assert worker.problem is None
            worker.stop()
            await asyncio.sleep(0)
        assert worker.problem == "stopped"
