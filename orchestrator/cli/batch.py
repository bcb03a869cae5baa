"""`batch`: many questions side by side, resumable, results as JSON lines.

The results file is the memory: an id that stands in it is not run again. Beside it, FILE.runs notes which run was begun for
which id and what was asked, so a run that was under way goes on where it was let go, and the results of another question, agent or
model are never taken for these.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from orchestrator.agent import Result
from orchestrator.assembly import RunRequest, finish, open_ports, parse_request, secrets_of, started, submit
from orchestrator.cli.context import Context, context, spin
from orchestrator.cli.exits import Exit
from orchestrator.cli.interrupt import Interrupt
from orchestrator.cli.run import (
    AgentName,
    Deadline,
    LanguageName,
    MaxSteps,
    ModelName,
    ProtocolName,
    ToolNames,
    errors_only,
    names,
    plain_result,
)
from orchestrator.core.events import Outcome
from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.log import log_entry
from orchestrator.otel import tracing
from orchestrator.runner import Ports
from orchestrator.settings import Settings

ALLOWED = frozenset(each.name for each in fields(RunRequest)) - {"goal"}
OTHER = {"question": "goal", "kind": "run_kind"}
"""What a line may call fields of a request, as documents and the API do."""
KNOWN = ALLOWED | {*OTHER, "goal", "id"}
OURS = b'{"id": '


@dataclass(frozen=True, slots=True)
class Task:
    """One line of the file: its id (the line number if it has none) and what it asks."""

    id: str
    request: RunRequest

    @property
    def asked(self) -> str:
        """A short hash of all that was asked for: question, agent, model, options."""
        return sha256(json.dumps(asdict(self.request), sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(slots=True)
class Journal:
    """The results file and the note of runs begun, both append-only."""

    path: Path
    done: dict[str, str | None] = field(default_factory=dict)
    begun: dict[str, str] = field(default_factory=dict)

    def load(self, tasks: Iterable[Task]) -> None:
        """Read what an earlier batch left. A torn last line is cut off: it was never finished. ConfigError when it asked otherwise."""
        self.done = {str(each["id"]): each.get("outcome") for each in _lines(self.path)}
        notes = {str(each["id"]): each for each in _lines(self._runs)}
        self.begun = {task_id: str(each.get("run_id")) for task_id, each in notes.items()}
        for task in tasks:
            if notes.get(task.id, {}).get("asked", task.asked) != task.asked:
                raise ConfigError(
                    f"{self.path} holds the answer to something else for the id {task.id!r}: another question, agent, model or"
                    " option; choose another --out"
                )

    def begin(self, task: Task, run_id: str) -> None:
        """A run was begun for this task."""
        self.begun[task.id] = run_id
        _append(self._runs, {"id": task.id, "run_id": run_id, "asked": task.asked})

    def end(self, task_id: str, result: Result) -> None:
        """It came to this."""
        self.done[task_id] = result.outcome
        _append(self.path, {"id": task_id, **plain_result(result)})

    @property
    def _runs(self) -> Path:
        return self.path.with_name(self.path.name + ".runs")


def batch(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(help='One JSON object a line: {"question": ..., "id": ..., "agent": ..., "max_steps": ...}.'),
    ],
    *,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Results; FILE.results.jsonl if not given.")] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Runs side by side.")] = 8,
    agent: AgentName = "default",
    model: ModelName = None,
    protocol: ProtocolName = None,
    language: LanguageName = None,
    tools: ToolNames = None,
    max_steps: MaxSteps = None,
    deadline: Deadline = None,
) -> None:
    """Run every question of a file. Start it again after an interruption: what is done is not done again.

    Exit code 0 when all were answered, 1 when some were not: the results say how each ended.
    """
    usual = RunRequest(
        "",
        agent,
        model=model,
        protocol=protocol,
        language=language,
        tools=names(tools),
        max_steps=max_steps,
        deadline=deadline,
    )
    tasks = list(read(file, usual))
    journal = Journal(out or file.with_suffix(".results.jsonl"))
    raise typer.Exit(spin(_batch(context(typed), tasks, journal, concurrency)))


def read(file: Path, usual: RunRequest) -> Iterator[Task]:
    """The tasks of a file. ConfigError names the line that is none, and the key that nobody knows."""
    seen: set[str] = set()
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        task = _task(f"{file}, line {number}", line, number, usual)
        if task.id in seen:
            raise ConfigError(f"{file}, line {number}: the id {task.id!r} stands twice; ids must be different")
        seen.add(task.id)
        yield task


def _task(place: str, line: str, number: int, usual: RunRequest) -> Task:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{place} is no JSON: {error}") from error
    raw = {"question": raw} if isinstance(raw, str) else raw
    if not isinstance(raw, dict):
        raise ConfigError(f'{place}: write an object with a "question"')
    if unknown := [key for key in raw if key not in KNOWN]:
        raise ConfigError(f"{place}: there is no key {', '.join(map(repr, unknown))}; write {', '.join(sorted(KNOWN))}")
    chosen = {OTHER.get(key, key): value for key, value in raw.items() if key != "id"}
    given = {**asdict(usual), "goal": None, **chosen}
    return Task(str(raw.get("id", number)), parse_request(given, place))


async def _batch(ctx: Context, tasks: list[Task], journal: Journal, concurrency: int) -> Exit:
    journal.load(tasks)
    errors_only(ctx)
    left = iter([task for task in tasks if task.id not in journal.done])
    interrupt = Interrupt(lambda text: ctx.err.print(text, style="yellow"))
    with tracing(ctx.settings, secrets_of(ctx.settings)) as spans:
        async with open_ports(ctx.settings, observers=(interrupt.observe, log_entry, *spans)) as opened:
            ports = replace(opened, stopping=interrupt.stopping)
            for task in tasks:
                started(ctx.settings, ports.toolbox.specs, task.request)
            with interrupt.armed(), _bar(ctx) as bar:
                shown = bar.add_task("runs", total=len(tasks), completed=sum(task.id in journal.done for task in tasks))
                work = _Work(ctx.settings, left, journal, ports, interrupt, lambda: bar.advance(shown))
                try:
                    async with asyncio.TaskGroup() as group:
                        for _ in range(concurrency):
                            group.create_task(work.go())
                except* OrchestratorError as several:
                    raise several.exceptions[0] from None
    return _summed(ctx, tasks, journal)


@dataclass(frozen=True, slots=True)
class _Work:
    """What the workers of one batch share."""

    settings: Settings
    left: Iterator[Task]
    journal: Journal
    ports: Ports
    interrupt: Interrupt
    advance: Callable[[], None]

    async def go(self) -> None:
        """Take one task after another until there are none, or somebody asked to stop."""
        for task in self.left:
            if self.interrupt.stopping():
                return
            run_id = await self._begun(task)
            run = await self.interrupt.run(run_id, finish(run_id, self.ports))
            if run is None or run.ended is None:
                return
            self.journal.end(task.id, Result.of(run))
            self.advance()

    async def _begun(self, task: Task) -> str:
        """The run that an earlier batch began for this task, or a new one."""
        known = self.journal.begun.get(task.id)
        if known is not None and await self.ports.store.row(known) is not None:
            return known
        run_id = await submit(self.ports, self.settings, task.request)
        self.journal.begin(task, run_id)
        return run_id


def _summed(ctx: Context, tasks: list[Task], journal: Journal) -> Exit:
    outcomes = [journal.done[task.id] for task in tasks if task.id in journal.done]
    counts = {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)}
    words = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "none"
    ctx.err.print(f"{len(outcomes)} of {len(tasks)} runs ended: {words}; results in {journal.path}")
    if len(outcomes) < len(tasks):
        ctx.err.print("interrupted: the same command goes on from here", style="yellow")
        return Exit.INTERRUPTED
    return Exit.ANSWERED if set(outcomes) <= {Outcome.ANSWERED} else Exit.FAILED


def _bar(ctx: Context) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=ctx.err, disable=not ctx.err.is_terminal)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file of ours. A torn last one was never finished and is cut off; what is not ours is not touched."""
    if not path.exists():
        return
    body = path.read_bytes()
    whole, torn = body[: body.rfind(b"\n") + 1], body[body.rfind(b"\n") + 1 :]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            each = json.loads(line)
            yield {**each, "id": each["id"]}
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"{path}, line {number} is no result of a batch: {error!r}; choose another --out"
            ) from error
    if not torn.startswith(OURS[: len(torn)]):
        raise ConfigError(f"{path} ends in what is no result of a batch; choose another --out")
    if torn:
        path.write_bytes(whole)


def _append(path: Path, value: dict[str, Any]) -> None:
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}; choose another --out") from error
