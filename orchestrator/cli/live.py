"""The live view: Thought, Action and Observation on stderr while they happen.

On a terminal the reply is seen growing, dim, while it is streamed; that is for showing only. What stays is the line of each
Entry once it is durable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from orchestrator.core.events import Decision, Entry, ModelTurn, Observation, RunEnded, RunStarted, Waiting
from orchestrator.core.prompt import Delta
from orchestrator.core.run import Run, evolve
from orchestrator.show import decision_line, ending, head, observation_line, plain, turn_lines, when

TAIL = 600
"""Characters of a growing reply that are shown."""


class View:
    """One run on a console. `entry` is an observer, `delta` a listener."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._growing = ""
        self._live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Growing replies are drawn inside, on a terminal."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, transient=True, refresh_per_second=12) as live:
            self._live = live
            try:
                yield
            finally:
                live.update(Text(""))
                self._live = None

    def delta(self, _run_id: str, piece: Delta) -> None:
        """A piece of a reply that is being streamed."""
        if self._live is not None:
            kept = "" if piece.discard else self._growing
            self._growing = (kept + piece.reasoning + piece.text)[-TAIL:]
            self._live.update(Text(plain(self._growing), "dim"))

    def entry(self, run: Run, entry: Entry) -> None:
        """One more Entry is durable."""
        self._growing = ""
        if self._live is not None:
            self._live.update(Text(""))
        for line in self._lines(run, entry):
            self._console.print(line)

    def _lines(self, run: Run, entry: Entry) -> Iterator[Text]:
        match entry.event:
            case RunStarted() as started:
                yield head(entry.run_id, started, entry.at)
            case ModelTurn() as turn:
                yield Text(f"step {run.step}", "bold")
                yield from turn_lines(turn)
            case Observation() as seen:
                yield observation_line(seen)
            case Waiting(id=action_id, reason=reason, until=until):
                way = f": orchestrator approve {entry.run_id} {action_id} (or refuse)" if reason == "approval" else ""
                yield Text(f"waiting for {reason} of action {action_id}, until {when(until)}{way}", "yellow")
            case Decision() as decision:
                yield decision_line(decision)
            case RunEnded():
                yield ending(evolve(run, entry), answer=False)
