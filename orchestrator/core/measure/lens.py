"""What the entries of one run have in common, made once: the compiled names of its tools, and the labels of its samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Generic, TypeVar

from orchestrator.core.events import RunStarted
from orchestrator.core.measure.errors import Notice
from orchestrator.core.measure.gap import Said
from orchestrator.core.measure.names import Names, ToolName, names
from orchestrator.core.measure.series import OTHER, UNKNOWN, Sample
from orchestrator.core.spec import ToolSpec

K = TypeVar("K")
V = TypeVar("V")

_RUNS: Final = 4096
_TOOLSETS: Final = 256


class Remembered(Generic[K, V]):
    """A function of immutable values, remembered by identity: what it is asked for has no hash, or a dear one. Keeps `most` of late."""

    def __init__(self, make: Callable[[K], V], most: int) -> None:
        self._make = make
        self._most = most
        self._kept: dict[int, tuple[K, V]] = {}

    def __call__(self, key: K) -> V:
        """The value of this very object."""
        found = self._kept.get(id(key))
        if found is None or found[0] is not key:
            found = self._kept[id(key)] = (key, self._make(key))
            if len(self._kept) > self._most:
                for oldest in tuple(self._kept)[: self._most // 4]:  # in one go, for other threads come here too
                    self._kept.pop(oldest, None)
        return found[1]

    def forget(self, key: K) -> None:
        """It will not be asked for again."""
        self._kept.pop(id(key), None)


class TurnLabels:
    """The labels of the samples of one model's turns, and those samples that say no more. They are shared: nobody changes them."""

    __slots__ = ("noticed", "one", "pair", "said", "tokens", "turn")

    def __init__(self, agent: str, protocol: str, model: str) -> None:
        self.turn: Mapping[str, str] = {"agent": agent, "protocol": protocol, "model": model}
        self.pair: Mapping[str, str] = {"agent": agent, "model": model}
        self.one = Sample("orchestrator_turns_total", self.turn)
        self.said: Mapping[Said, Sample] = {
            said: Sample("orchestrator_thought_actions_total", {**self.turn, "result": said.value}) for said in Said
        }
        self.noticed: Mapping[Notice, Sample] = {
            notice: Sample("orchestrator_error_observations_total", {**self.turn, "result": notice.value})
            for notice in Notice
        }
        self.tokens: tuple[Mapping[str, str], ...] = tuple(
            {**self.pair, "type": kind} for kind in ("input", "output", "cached", "reasoning")
        )


_of_turn: Final = lru_cache(maxsize=1024)(TurnLabels)


@lru_cache(maxsize=1024)
def _of_tool(tool: str) -> Mapping[str, str]:
    return {"tool": tool}


class Lens:
    """One RunStarted as `measure` looks through it."""

    __slots__ = ("agent", "known", "models", "name", "protocol")

    def __init__(self, start: RunStarted) -> None:
        self.name, self.protocol = start.agent.name, start.agent.protocol
        self.agent: Mapping[str, str] = {"agent": self.name}
        self.models = start.agent.models
        self.known: Names = _named(start.tools)

    def model(self, model: str) -> str:
        """A model as a label: one that is not the agent's is OTHER."""
        return model if model in self.models else OTHER

    def tool(self, name: str) -> str:
        """A tool as a label: one that is not offered is UNKNOWN."""
        return name if name in self.known.registered else UNKNOWN

    def tool_label(self, name: str) -> Mapping[str, str]:
        """The label of a tool."""
        return _of_tool(self.tool(name))

    def turn(self, model: str) -> TurnLabels:
        """The labels of a turn of this model."""
        return _of_turn(self.name, self.protocol, self.model(model))


def tool_names(specs: tuple[ToolSpec, ...]) -> tuple[ToolName, ...]:
    """Tools as a text may name them."""
    return tuple(ToolName(spec.name, spec.aliases, spec.common, spec.side_effect) for spec in specs)


_named: Final = Remembered[tuple[ToolSpec, ...], Names](lambda specs: names(tool_names(specs)), _TOOLSETS)
lens: Final = Remembered[RunStarted, Lens](Lens, _RUNS)
