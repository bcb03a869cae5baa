"""A real worker on SQLite, with agents that misbehave in each way the boards show, and the demo model in place of theirs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.dashboards.prometheus import Prometheus, prometheus
from tests.served import demo_server

GOALS = (
    "《三体》的作者出生在哪个省？该省的人口是多少？",
    "Which is longer, the River Aske or the River Tolm?",
    "What is 17 * 23 + 4?",
)
BEHAVIOURS = {
    "guide": "demo-l20", "drifter": "demo:gap", "sleeper": "demo:ignore", "wanderer": "demo:wander", "forger": "demo:forged",
    "thinker": "demo:thinking", "chatter": "demo:prose", "busy": "demo:529", "stand-in": "demo",
}  # fmt: skip
"""What the model of each agent's name does."""

MODEL = """
[models.{key}]
provider = "openai"
base_url = "{url}/v1"
model = "{model}"
protocol = "{protocol}"
price = {{ input = 3.0, output = 15.0 }}
timeouts = {{ connect = 2.0, first_token = 2.0, between_tokens = 0.4, whole = 4.0 }}
retry = {{ attempts = 3, total = 10.0, base = 0.05, cap = 0.3 }}
{more}
[agents.{name}]
models = [{chain}]
language = "zh"
tools = ["search", "lookup", "calculator", "approve"]
"""
OWN_TOOL = """
from orchestrator.tool import tool

@tool(requires_approval=True)
def approve(entity: str) -> str:
    "Needs a person."
    return entity
"""


class Scene:
    """A folder, its worker's URL, and the Prometheus that scrapes it."""

    def __init__(self, folder: Path, env: Mapping[str, str], prometheus: Prometheus) -> None:
        self.folder, self.env, self.prometheus = folder, env, prometheus
        self.submitted = 0

    def submit(self, counts: Mapping[str, int]) -> None:
        """So many runs of each agent, their questions in turn."""
        asked = [
            {"question": GOALS[number % len(GOALS)], "agent": agent}
            for agent, count in counts.items()
            for number in range(count)
        ]
        (self.folder / "q.jsonl").write_text("".join(json.dumps(each) + "\n" for each in asked), "utf-8")
        command = [sys.executable, "-m", "orchestrator", "submit", "--file", "q.jsonl"]
        done = subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        self.submitted += len(asked)

    def ended(self, within: float) -> None:
        """Wait until all that was submitted has ended, as Prometheus sees it."""
        self.prometheus.until(f"sum(orchestrator_runs_total) >= {self.submitted}", within)


def settings(url: str) -> str:
    """The settings file; TOOLS stands for the shipped tools."""
    found = ['tools = ["TOOLS", "own.py"]\n[worker]\nconcurrency = 20\nbeat = 0.5\nlease = 3.0\n']
    for name, model in {**BEHAVIOURS, "nobody": "down"}.items():
        key = model.replace(":", "-")
        found.append(
            MODEL.format(
                name=name,
                key=key,
                url="http://127.0.0.1:9" if model == "down" else url,
                model=model,
                protocol="text" if name in {"forger", "thinker"} else "native",
                more="limit = { at_once = 2 }" if name == "guide" else "",
                chain='"down", "demo"' if name == "stand-in" else f'"{key}"',
            )
        )
    return "".join(found)


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """All of it running, and scraped once before anything happens."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ORCHESTRATOR_", "OPENAI_", "ANTHROPIC_"))
    }
    env = {**clean, "NO_COLOR": "1"}
    (folder / "own.py").write_text(OWN_TOOL, "utf-8")
    shipped = Path(__file__).parents[2] / "tools"
    command = [sys.executable, "-m", "orchestrator", "--log-level", "error", "worker", "--port", "0"]
    with demo_server() as url:
        (folder / "orchestrator.toml").write_text(settings(url).replace("TOOLS", str(shipped)), "utf-8")
        with subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True) as worker:
            try:
                assert worker.stderr
                said = worker.stderr.readline()
                place = re.search(r"http://([0-9.:]+)/readyz", said)
                assert place, said + worker.stderr.read()
                with prometheus(folder, [place[1]]) as server:
                    server.until("orchestrator_workers > 0", 60)
                    yield Scene(folder, env, server)
            finally:
                worker.kill()
