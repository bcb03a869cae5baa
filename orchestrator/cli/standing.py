"""How a run stands, as the command line tells it: from its trace, or from what an API says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from orchestrator.api.words import RunState, WaitingAction
from orchestrator.core.run import Run
from orchestrator.show import reason, when


@dataclass(frozen=True, slots=True)
class Standing:
    """One run. `state` is open, waiting, damaged, or how it ended; `detail` says why it ended so or is not driven; `answer` is there
    once it has one."""

    run_id: str
    state: str
    steps: int
    goal: str
    detail: str | None = None
    answer: str | None = None
    waiting: tuple[WaitingAction, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As JSON has it, and as `status` prints it line by line."""
        found: dict[str, Any] = {"run": self.run_id, "state": self.state, "steps": self.steps, "goal": self.goal}
        told = {"detail": self.detail, "answer": self.answer}
        found |= {name: value for name, value in told.items() if value}
        return found | {f"action {wait.id}": _awaited(wait) for wait in self.waiting}


def of_run(run: Run, held_up: str = "") -> Standing:
    """From a trace; `held_up` is why nobody drives it."""
    waiting = tuple(
        WaitingAction(
            id=wait.id,
            tool=run.action(wait.id).tool,
            input=dict(run.action(wait.id).input),
            reason=wait.reason,
            until=wait.until,
            why=wait.why,
        )
        for wait in run.waiting.values()
    )
    ended = run.ended
    state = ended.outcome.value if ended else "waiting" if waiting else "open"
    detail, answer = (reason(ended.detail), ended.answer) if ended else (held_up or None, None)
    steps = len(run.steps) + (run.turn is not None)
    return Standing(run.run_id, state, steps, run.start.goal, detail, answer, waiting)


def of_state(state: RunState) -> Standing:
    """From an API's words."""
    word = state.outcome.value if state.outcome else state.state
    detail = reason(state.detail) if state.state != "waiting" else None
    return Standing(state.run_id, word, state.steps, state.goal, detail, state.answer, tuple(state.waiting))


def _awaited(wait: WaitingAction) -> dict[str, Any]:
    return {
        "waits for": "approval" if wait.reason == "approval" else "its result",
        "until": when(wait.until),
        **({"why": wait.why} if wait.why else {}),
        "tool": wait.tool,
        "input": json.dumps(wait.input, ensure_ascii=False, default=str),
    }
