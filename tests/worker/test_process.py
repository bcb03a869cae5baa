"""The worker as a process on SQLite, against the demo model server: killed, drained, forced."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from orchestrator.cli import main
from tests.served import demo_server

QUESTION = "《三体》的作者出生在哪个省？该省的人口是多少？"
TURNS = 3
WORKER = "[worker]\nbeat = 0.3\nlease = 1.2\ngrace = 10.0\n"


def answer(url: str) -> tuple[int, bytes]:
    try:
        with urlopen(url) as reply:  # noqa: S310  loopback
            return reply.status, reply.read()
    except HTTPError as error:
        return error.code, error.read()


class Place:
    """A folder with a store, and a model that takes its time. Commands run in this process, workers in their own."""

    def __init__(
        self, folder: Path, url: str, latency: int, patch: pytest.MonkeyPatch, said: pytest.CaptureFixture[str]
    ) -> None:
        self.folder, self.url, self._patch, self._said = folder, url, patch, said
        for name in list(os.environ):
            if name.startswith(("ORCHESTRATOR_", "OPENAI_", "ANTHROPIC_")):
                patch.delenv(name)
        patch.chdir(folder)
        for name, value in {"BASE_URL": f"{url}/v1", "MODEL": f"demo-l{latency}"}.items():
            patch.setenv(f"OPENAI_{name}", value)
        (folder / "orchestrator.toml").write_text(WORKER, "utf-8")

    def call(self, *words: str, code: int = 0) -> str:
        self._patch.setattr(sys, "argv", ["orchestrator", *words])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = self._said.readouterr()
        assert (end.value.code or 0) == code, err
        return out or err

    def submit(self, count: int) -> list[str]:
        lines = "".join(json.dumps({"question": QUESTION}) + "\n" for _ in range(count))
        (self.folder / "q.jsonl").write_text(lines, "utf-8")
        return self.call("submit", "--file", "q.jsonl").split()

    @contextmanager
    def worker(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "orchestrator", "worker", *words]
        process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        assert process.stderr
        process.place = process.stderr.readline()  # type: ignore[attr-defined]
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def requests(self) -> int:
        """Calls that the model has got."""
        with urlopen(f"{self.url}/health") as reply:  # noqa: S310  loopback
            return int(json.load(reply)["requests"])

    def after(self, requests: int) -> None:
        """Wait until the model has got so many calls."""
        deadline = time.monotonic() + 20
        while self.requests() < requests:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def outcomes(self) -> Counter[str]:
        with closing(sqlite3.connect(self.folder / "var" / "orchestrator.db", timeout=10)) as file:
            return Counter(str(outcome) for (outcome,) in file.execute("SELECT outcome FROM runs"))

    def all_answered(self, count: int, within: float = 20.0) -> None:
        deadline = time.monotonic() + within
        while self.outcomes() != {"answered": count}:
            assert time.monotonic() < deadline, self.outcomes()
            time.sleep(0.05)

    def kinds(self, run_id: str) -> list[str]:
        return [json.loads(line)["event"]["kind"] for line in self.call("show", run_id, "--json").splitlines()]


@pytest.fixture
def place(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Place]:
    latency: Any = getattr(request, "param", 300)
    with demo_server() as url:
        yield Place(tmp_path, url, latency, monkeypatch, capsys)


def ended(process: subprocess.Popen[str], within: float) -> int:
    return process.wait(timeout=within)


def test_a_killed_worker_loses_no_run(place: Place) -> None:
    """bug_reports D8: kill -9 in any phase, start it again, everything is answered."""
    names = place.submit(60)
    assert len(set(names)) == 60
    with place.worker() as first:
        place.after(90)
        first.kill()
        assert ended(first, 5) == -signal.SIGKILL
    with place.worker() as second:
        place.all_answered(60)
        second.terminate()
        assert ended(second, 5) == 0
    assert place.kinds(names[0]).count("run_ended") == 1


def test_a_drained_worker_hands_over_at_once_and_no_finished_turn_is_paid_twice(place: Place) -> None:
    names = place.submit(60)
    with place.worker() as first:
        place.after(60)
        with place.worker() as second:
            first.terminate()
            assert ended(first, 9) == 0
            place.all_answered(60)
            second.terminate()
            assert ended(second, 5) == 0
    assert place.requests() == 60 * TURNS
    assert place.kinds(names[-1]).count("model_turn") == TURNS


@pytest.mark.parametrize("place", [60_000], indirect=True)
def test_a_second_signal_forces(place: Place) -> None:
    place.submit(5)
    with place.worker() as process:
        place.after(5)
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            ended(process, 1.5)
        process.terminate()
        assert ended(process, 5) == 1
    assert '"queued": 5' in place.call("status", "--json")


def test_a_worker_says_where_its_health_is_and_refuses_a_store_that_others_cannot_reach(place: Place) -> None:
    with place.worker() as process:
        url = process.place.split()[-1]  # type: ignore[attr-defined]
        deadline = time.monotonic() + 10
        while (said := answer(url)) != (200, b"ready\n"):
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
        assert b"orchestrator_worker_ready" in answer(url.replace("readyz", "metrics"))[1]
    assert place.call("--store", "memory", "worker", code=2).count("\n") == 1
