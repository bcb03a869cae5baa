"""Step bloat: how many steps did a run take, against the fewest that could have done it?

Where nobody declared or learned the minimum it is read off the trace, as a backward slice: from the Final back to the Observations
whose values it uses, from their Actions' inputs back to the Observations those use, and so on. The minimum is a lower bound by
construction: a step that only decided where to look, and left no value, is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.core.measure.gap import TurnText
from orchestrator.core.measure.ledger import Ledger, Source, Story
from orchestrator.core.measure.names import ToolName
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

    `learned` is the 10th percentile of the steps of at least 20 answered runs of the same kind.
    """
    if not turns or turns[-1].final is None:
        return None
    told = known(len(turns), min_steps, learned)
    return told or traced(_story(turns, goal), {tool.name for tool in tools if tool.side_effect}, protocol)


def known(actual: int, min_steps: int | None, learned: int | None) -> BloatSample | None:
    """The sample of a run whose minimum somebody declared, or that was learned. A count below 1 is no count."""
    for count, basis in ((min_steps, Basis.DECLARED), (learned, Basis.LEARNED)):
        if count is not None and count >= 1:
            return BloatSample(actual, count, basis)
    return None


def traced(story: Story, effects: AbstractSet[str], protocol: Protocol) -> BloatSample | None:
    """The sample of a run by its backward slice; None when Actions ran and none is used. `effects`: tools that have a side effect."""
    steps = _steps(story, effects, protocol)
    return None if steps is None else BloatSample(story.turns, 1 + steps, Basis.TRACE)


def evidence(story: Story) -> frozenset[str]:
    """The ids of the Observations that the Final rests on: its values, what those were looked up with, and so on back."""
    return frozenset([story.sources[index].id for index in _slice(Ledger(story), set())])


def _story(turns: Sequence[TurnText], goal: str) -> Story:
    sources: list[Source] = []
    for number, turn in enumerate(turns, 1):
        made = {action.id: action for action in turn.actions}
        sources += [
            Source(number, made[each.id], each.id, each.status, each.content)
            for each in turn.observations
            if each.id in made
        ]
    return Story(goal, turns[-1].final or "", sources, len(turns), lambda: [turn.written for turn in turns])


def _steps(story: Story, effects: AbstractSet[str], protocol: Protocol) -> int | None:
    """How many Actions had to be made one after another; None when Actions ran and none is used."""
    sources = story.sources
    if not sources:
        return 0
    changed = (
        {index for index, source in enumerate(sources) if source.action.tool in effects and source.status == "success"}
        if effects
        else set[int]()
    )
    needs = _slice(Ledger(story), changed)
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
