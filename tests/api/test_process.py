"""`serve` and `watch` as processes: an application submits, a worker in the server drives, and the end is in good order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.api.tokens import TokenFile
from orchestrator.cli.context import Context
from orchestrator.cli.worker import run_worker
from orchestrator.client import Client
from orchestrator.settings import Settings
from orchestrator.stores.memory import MemoryStore
from orchestrator.worker import Ending
from orchestrator.worker.queue import make_dispatcher
from tests.served import demo_server

QUESTION = "《三体》的作者出生在哪个省？该省的人口是多少？"


class Folder:
    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ORCHESTRATOR_", "OPENAI_", "ANTHROPIC_"))
        }
        self.env = {**clean, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "demo", "NO_COLOR": "1"}

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "orchestrator", *words]
        return subprocess.run(
            command, check=False, cwd=self.path, env=self.env, capture_output=True, text=True, timeout=60
        )

    @contextmanager
    def serving(self, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
        command = [sys.executable, "-m", "orchestrator", "serve", "--port", "0", *words]
        process = subprocess.Popen(command, cwd=self.path, env=self.env, stderr=subprocess.PIPE, text=True)
        assert process.stderr
        try:
            line = process.stderr.readline()
            yield line.split()[-1], process
        finally:
            process.kill()
            process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with demo_server() as url:
        yield Folder(tmp_path, url)


async def test_a_run_is_submitted_driven_followed_and_answered_through_one_process(folder: Folder) -> None:
    token = TokenFile(folder.path / "var" / "tokens.json").create("app", ["submit", "read"], "", 0.0)
    with folder.serving("--worker") as (url, process):
        async with Client(url, token=token) as client:
            run = await client.submit(QUESTION)
            kinds = [entry.event.kind async for entry in run.events()]
            assert (kinds[0], kinds[-1]) == ("run_started", "run_ended")
            assert "山西" in await run.answer()
        watched = folder.call("watch", run.id, "--url", url, "--token", token)
        assert watched.returncode == 0
        assert "山西" in watched.stdout
        assert "Observation" in watched.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0


def test_one_may_wait_for_what_was_submitted_through_either_door(folder: Folder) -> None:
    token = TokenFile(folder.path / "var" / "tokens.json").create("app", ["submit", "read"], "", 0.0)
    with folder.serving("--worker") as (url, _):
        for door in ((), ("--url", url, "--token", token)):
            said = folder.call("submit", QUESTION, "--wait", *door)
            assert said.returncode == 0
            assert "山西" in said.stdout
            assert "Observation" in said.stderr
            short = folder.call("submit", QUESTION, "--wait", "--quiet", "--json", "--max-steps", "1", *door)
            assert (short.returncode, short.stderr) == (3, "")
            assert json.loads(short.stdout)["outcome"] == "gave_up"
        lines = "".join(json.dumps({"question": QUESTION}) + "\n" for _ in range(3))
        (folder.path / "q.jsonl").write_text(lines, "utf-8")
        said = folder.call("submit", "--file", "q.jsonl", "--wait")
        assert said.returncode == 0
        assert [json.loads(line)["outcome"] for line in said.stdout.splitlines()] == ["answered"] * 3


async def test_a_worker_in_a_server_takes_runs_from_the_servers_own_store() -> None:
    """A store in memory is in no other hands; a worker that opened its own would refuse it."""
    settings = Settings(store="memory")
    async with MemoryStore() as store:
        dispatcher = make_dispatcher(store, settings)
        await dispatcher.open()
        working = asyncio.create_task(run_worker(Context(), settings, (store, dispatcher)))
        while not (await dispatcher.depth(now=time.time())).workers and not working.done():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert not working.done()
        os.kill(os.getpid(), signal.SIGTERM)
        assert await working is Ending.DRAINED
        assert await store.runs() == (), "and leaves it open"
        await dispatcher.close()


def test_a_server_alone_ends_at_a_signal(folder: Folder) -> None:
    with folder.serving() as (url, process):
        assert url.startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
