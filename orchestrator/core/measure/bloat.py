"""Step bloat: how many steps did a run take, against the fewest that could have done it?

Where nobody declared or learned the minimum it is read off the trace, as a backward slice: from the Final back to the Observations
whose values it uses, from their Actions' inputs back to the Observations those use, and so on. The minimum is a lower bound by
construction: a step that only decided where to look, and left no value, is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.core.events import Action
from orchestrator.core.measure.gap import TurnText
from orchestrator.core.measure.ledger import Ledger, Source
from orchestrator.core.measure.names import ToolName
from orchestrator.core.measure.values import fields
from orchestrator.core.spec import Protocol


class Basis(StrEnum):
    """Where the minimum comes from."""

    DECLARED = "declared"
    LEARNED = "learned"
    TRACE = "trace"


@dataclass(frozen=True, slots=True)
class BloatSample:
    """One answered run: the steps it took, the fewest possible, and how the latter is known."""

    actual: int
    minimum: int
    basis: Basis

    @property
    def index(self) -> float:
        """Actual over minimum, never below 1."""
        return max(1.0, self.actual / self.minimum)


def step_bloat(  # noqa: PLR0913, PLR0917  the facts of one run, as the definition lists them
    turns: Sequence[TurnText],
    goal: str,
    tools: tuple[ToolName, ...],
    protocol: Protocol,
    min_steps: int | None,
    learned: int | None,
) -> BloatSample | None:
    """The sample of a run, or None: it has no Final, or Actions ran and none is seen to be used.

    `learned` is the 10th percentile of the steps of at least 20 answered runs of the same kind. A count below 1 is no count.
    """
    if not turns or turns[-1].final is None:
        return None
    for count, basis in ((min_steps, Basis.DECLARED), (learned, Basis.LEARNED)):
        if count is not None and count >= 1:
            return BloatSample(len(turns), count, basis)
    steps = _steps(turns, goal, {tool.name for tool in tools if tool.side_effect}, protocol)
    return None if steps is None else BloatSample(len(turns), 1 + steps, Basis.TRACE)


def evidence(turns: Sequence[TurnText], goal: str) -> frozenset[str]:
    """The ids of the Observations that the Final rests on: its values, what those were looked up with, and so on back."""
    sources = [source for source, _ in _sources(turns)]
    if not sources or turns[-1].final is None:
        return frozenset()
    needs = _slice(Ledger(turns, sources, goal), set())
    return frozenset(sources[index].observation.id for index in needs)


def _sources(turns: Sequence[TurnText]) -> list[tuple[Source, Action]]:
    """Each Observation with the Action that it answers, in order."""
    found: list[tuple[Source, Action]] = []
    for number, turn in enumerate(turns, 1):
        made = {action.id: action for action in turn.actions}
        for observation in turn.observations:
            if observation.id in made:
                action = made[observation.id]
                found.append((Source(number, observation, tuple(fields(action.input))), action))
    return found


def _steps(turns: Sequence[TurnText], goal: str, effects: set[str], protocol: Protocol) -> int | None:
    """How many Actions had to be made one after another; None when Actions ran and none is used."""
    found = _sources(turns)
    sources = [source for source, _ in found]
    if not sources:
        return 0
    changed = {
        index for index, (source, action) in enumerate(found) if action.tool in effects and source.status == "success"
    }
    needs = _slice(Ledger(turns, sources, goal), changed)
    if not needs:
        return None
    return len(needs) if protocol == "text" else _longest(needs, [source.turn for source in sources], changed)


def _slice(ledger: Ledger, changed: set[int]) -> dict[int, frozenset[int]]:
    """The used Actions, each with those whose Observations its input uses."""
    needs: dict[int, frozenset[int]] = {}
    todo = [*changed, *ledger.used_by_final()]
    while todo:
        index = todo.pop()
        if index not in needs:
            needs[index] = ledger.used_by_input(index)
            todo += needs[index]
    return needs


def _longest(needs: dict[int, frozenset[int]], turn_of: list[int], changed: set[int]) -> int:
    """The longest chain of used Actions that depend on one another; side effects, and reads after one, keep their order."""
    depth: dict[int, int] = {}
    settled = latest = turn = 0  # the deepest side effect of the turns before this one, and of this one too
    for index in sorted(needs):
        if turn_of[index] != turn:
            turn, settled = turn_of[index], latest
        depth[index] = 1 + max([settled, *(depth[need] for need in needs[index])])
        if index in changed:
            latest = max(latest, depth[index])
    return max(depth.values())
