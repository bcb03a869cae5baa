"""A real Prometheus that scrapes what it is told to, once a second; and its HTTP API in three functions."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

INSTALL = "apt-get update && apt-get install -y --no-install-recommends prometheus"
Series = dict[str, Any]


class Prometheus:
    """A server, by its URL."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **params: Any) -> Any:
        """The `data` of an API call; AssertionError with Prometheus' own words when it refuses."""
        query = urlencode({key: value for key, value in params.items() if value is not None})
        try:
            with urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=20) as reply:  # noqa: S310  loopback
                found = json.load(reply)
        except HTTPError as error:
            raise AssertionError(f"{params}: {error.read().decode()}") from error
        assert found["status"] == "success", found
        return found["data"]

    def instant(self, expr: str) -> list[Series]:
        """[{metric, value: [t, "1"]}] now."""
        found: list[Series] = self.ask("query", query=expr)["result"]
        return found

    def range(self, expr: str, start: float, end: float, step: float) -> list[Series]:
        """[{metric, values: [[t, "1"], ...]}]."""
        found: list[Series] = self.ask("query_range", query=expr, start=start, end=end, step=step)["result"]
        return found

    def value(self, expr: str) -> float:
        """The one value of an expression; 0 without one."""
        found = self.instant(expr)
        return float(found[0]["value"][1]) if found else 0.0

    def until(self, fact: str, within: float) -> None:
        """Wait until this expression gives something."""
        end = time.monotonic() + within
        while not self.instant(fact):
            assert time.monotonic() < end, f"{fact}: not within {within:g} s"
            time.sleep(0.3)


@contextmanager
def prometheus(folder: Path, targets: Sequence[str]) -> Iterator[Prometheus]:
    """It runs while the block lasts. AssertionError, with the command that installs it, where there is none."""
    binary = shutil.which("prometheus")
    assert binary, f"the boards are tested against a real Prometheus, and there is none: {INSTALL}"
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{"job_name": "orchestrator", "static_configs": [{"targets": list(targets)}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config), "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        binary, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}",
        "--enable-feature=exemplar-storage", "--log.level=error",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("w") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            _wait(address, process)
            yield Prometheus(f"http://{address}")
        finally:
            process.kill()


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(100):
        assert process.poll() is None, "Prometheus ended at once; see prometheus.log"
        try:
            with urlopen(f"http://{address}/-/ready", timeout=1) as reply:
                if reply.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("Prometheus is not ready after 10 s")
