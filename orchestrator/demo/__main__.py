"""`make demo`: two questions answered, then every misbehaviour met with the guard that answers it. Exits 1 if one is not.

Everything is real but the model: HTTP on loopback, the codecs, the policies, the tools, the Trace.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator import log
from orchestrator.assembly import RunRequest, finish, open_ports, submit
from orchestrator.cli.live import View
from orchestrator.core.run import Run
from orchestrator.demo.conversation import DISCLAIMER
from orchestrator.demo.scenes import MISBEHAVIOURS, STORIES, Scene, anomalies, codes, problems
from orchestrator.demo.server import serve
from orchestrator.runner import Observer
from orchestrator.settings import ModelSettings, Retry, Settings, Timeouts
from orchestrator.show import figures, plain

QUICK = Timeouts(connect=2.0, first_token=2.0, between_tokens=0.4, whole=4.0)
PATIENCE = Retry(attempts=3, total=10.0, base=0.05, cap=1.5)
TOOLS = ("search", "lookup")


async def demonstrate(console: Console) -> list[str]:
    """Show everything; what was not as expected."""
    wrong: list[str] = []
    async with serve() as server:
        console.print(
            f"The model of this demonstration is made of {DISCLAIMER}. It is served on {server.url}.", style="bold"
        )
        for scene in STORIES:
            console.print(f"\n{scene.does}: {scene.guard}", style="bold magenta")
            wrong += problems(scene, await played(scene, server.url, (View(console).entry,)))
        console.print("\nThe same model misbehaves, in each way that real ones do:\n", style="bold magenta")
        runs = await asyncio.gather(*(played(scene, server.url) for scene in MISBEHAVIOURS))
    console.print(table(list(zip(MISBEHAVIOURS, runs, strict=True))))
    for scene, run in zip(MISBEHAVIOURS, runs, strict=True):
        wrong += problems(scene, run)
    return wrong


async def played(scene: Scene, url: str, observers: tuple[Observer, ...] = ()) -> Run:
    """One scene from the question to its end."""
    text = scene.protocol == "text"
    model = ModelSettings(
        provider="anthropic" if text else "openai",
        base_url=url if text else f"{url}/v1",
        model=f"demo:{scene.behaviour}" if scene.behaviour else "demo",
        protocol=scene.protocol,
        timeouts=QUICK,
        retry=PATIENCE,
    )
    settings = Settings.model_construct(models={"demo": model}, store="memory")
    request = RunRequest(scene.goal, language=scene.language, tools=TOOLS)
    async with open_ports(settings, observers=observers) as ports:
        return await finish(await submit(ports, settings, request), ports)


def table(played_scenes: Sequence[tuple[Scene, Run]]) -> Table:
    """What the model did, what the host did about it, and what came of it."""
    drawn = Table(show_lines=True)
    for column in ("the model", "the host", "the run"):
        drawn.add_column(column, overflow="fold")
    for scene, run in played_scenes:
        drawn.add_row(
            Text(f"{scene.does}\n").append(f"{scene.behaviour}, {scene.protocol}", "dim"),
            scene.guard,
            result(scene, run),
        )
    return drawn


def result(scene: Scene, run: Run) -> Text:
    """How one run ended, and what was noticed on the way."""
    good = not any(problems(scene, run))
    outcome = run.ended.outcome if run.ended else "open"
    text = Text(f"{'✓' if good else '✗'} {outcome}", "green" if good else "bold red")
    if run.ended and (said := run.ended.answer or run.ended.missing):
        text.append(f": {plain(said)}", "")
    noticed = ", ".join(sorted({*anomalies(run), *codes(run)}))
    return text.append(f"\n{noticed}\n{figures(run)}", "dim")


def main() -> None:
    """The demonstration on stdout."""
    log.configure(level="error")
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120)
    wrong = asyncio.run(demonstrate(console))
    for problem in wrong:
        console.print(f"not as expected: {problem}", style="bold red")
    if wrong:
        sys.exit(1)
    console.print(f"All {len(STORIES) + len(MISBEHAVIOURS)} runs ended as they should.", style="bold green")
    console.print("Now point it at a model of yours: see README.md. `orchestrator --help` lists the rest.")


if __name__ == "__main__":
    main()
