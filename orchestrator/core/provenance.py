"""Where a value comes from: the user's request, the operator, a tool, or nobody but the model.

Judged when an Action has to be, and not before: a step that needs no judgement pays nothing. Of the Trace only closed steps are
read, so all calls of one turn are judged on what was known when it was proposed. A Thought is no source: what the model writes
down does not become the user's word. Nor is a person's approval: only what a person typed in an edit is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from orchestrator.core.events import Action, Actions, ModelTurn
from orchestrator.core.identifier import account, host_of, identifiers, loose, undone, written
from orchestrator.core.leaves import leaves, name_of
from orchestrator.core.named import counts, resolved, shown
from orchestrator.core.run import Run, Step
from orchestrator.core.spec import Json, JsonObject, Sensitive, Source, ToolSpec
from orchestrator.core.wording import essence, words

_MOST = 64
"""Parts of one argument that are looked for in what the tools said. More would only name more tools: none makes it the user's."""

_LINE = 24
_PIECE = re.compile(r"[^\s<>()\[\]{}\"'`,;|，。；：、！？（）]+")
_WIDEST = 2048  # bits: Python writes no longer integers in decimal
_PERHAPS = frozenset({"OUTCOME_UNKNOWN", "TOOL_TIMEOUT"})


@dataclass(frozen=True, slots=True)
class Argument:
    """One value of an Action's input: where in it (a JSON Pointer), where it comes from, what it points at.

    `tool` is the tool whose Observation showed it first, if one did.
    """

    pointer: str
    value: str
    source: Source
    kinds: frozenset[Sensitive] = frozenset()
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A text that stood in the prompt, and who said it."""

    source: Source
    tool: str
    text: str


class Sources:
    """What stood in the prompt of a run, by who said it: the user's words first, then everything in order of appearance."""

    def __init__(self, user: Iterable[str], operator: str, said: Iterable[Said]) -> None:
        self._user = words("\n".join(map(written, user)))
        self._operator = words(written(operator))
        self._said = said
        self._run = Run()

    @classmethod
    def of(cls, run: Run) -> Sources:
        """The sources of a run, from its closed steps."""
        user = (run.start.goal, *_typed(run))
        made = cls(user, run.start.agent.instructions, ())
        made._said, made._run = _said(run, made), run
        return made

    @cached_property
    def heard(self) -> tuple[Said, ...]:
        """What tools said, in order; read only when something is not the user's."""
        return tuple(self._said)

    @cached_property
    def _resolved(self) -> Mapping[tuple[str, str], str]:
        return resolved(self._run, self._user.hold)

    def arguments(self, given: JsonObject, spec: ToolSpec) -> tuple[Argument, ...]:
        """Every value of an input, and every key that the tool's schema does not name, with its source."""
        return tuple(self._judged(*each) for each in _leaves(given, spec))

    def given(self, value: str) -> Source | None:
        """Whose words the value stands in, the user's or the operator's; None: in neither."""
        if self._user.hold(value):
            return "user"
        return "operator" if self._operator.hold(value) else None

    def asked(self, given: JsonObject, spec: ToolSpec) -> bool:
        """Is all of an input the user's or the operator's?"""
        return all(declared or self.given(_shown(value)) is not None for _, value, declared in _leaves(given, spec))

    def essence(self, given: JsonObject, spec: ToolSpec) -> frozenset[str]:
        """What a call says, however it is spelled or arranged; constants that the operator declared say nothing."""
        return frozenset(
            said
            for _, value, declared in _leaves(given, spec)
            if not (declared and self.given(_shown(value)) != "user")
            for said in essence(_shown(value))
        )

    def _judged(self, pointer: str, value: str | float | bool, declared: bool) -> Argument:
        text = _shown(value)
        kinds = frozenset(kind for reading in (text, *undone(text)) for kind, _ in identifiers(reading))
        name = name_of(pointer)
        own = self.given(text)
        if own is not None and (not counts(value, name) or own == "operator" or self._user.calls(value, name)):
            return Argument(pointer, text, own, kinds)
        if declared:
            return Argument(pointer, text, "operator", kinds)
        if self._user.form(text):
            return Argument(pointer, text, "user", kinds)
        if kinds <= {"path"} and (resolver := self._resolved.get((name, shown(value)))) is not None:
            return Argument(pointer, text, "named", kinds, resolver)
        source, tool = self._heard_from(text)
        return Argument(pointer, text, source, kinds, tool)

    def _heard_from(self, text: str) -> tuple[Source, str]:
        """The tool that said it first; an untrusted one if any part of it comes from there."""
        readings = (reading for part in islice(_parts(text), _MOST) for reading in loose(part).split("\n"))
        needles = [each for each in dict.fromkeys(readings) if each]
        trusted = ""
        for said in self.heard:
            if said.source == "trusted" and trusted:
                continue
            hay = loose(said.text)
            if any(needle in hay for needle in needles):
                if said.source != "trusted":
                    return said.source, said.tool
                trusted = said.tool
        return ("trusted", trusted) if trusted else ("model", "")


def _leaves(given: JsonObject, spec: ToolSpec) -> Iterator[tuple[str, str | float | bool, bool]]:
    return leaves(given, spec.schema, own=spec.trusted or not spec.foreign)


def _shown(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) or value.bit_length() < _WIDEST else hex(value)


def _parts(text: str) -> Iterator[str]:
    """What is looked for of a text: all of it, what it points at, its longer lines."""
    yield text
    for kind, form in identifiers(text):
        yield form
        if kind == "url":
            yield host_of(form)
    for line in re.split(r"[\n.!?。！？;；]+", text):
        if len(line) >= _LINE:
            yield line


def _typed(run: Run) -> Iterator[str]:
    """What people typed in edits, those of the open step too: the values that the model had not proposed."""
    open_step = () if run.turn is None else ((run.turn, run.pending if run.decided else ()),)
    for turn, edits in (*((step.turn, step.edited) for step in run.steps if step.edited), *open_step):
        before = {action.id: tuple(map(str, _flat(action.input))) for action in _actions(turn)} if edits else {}
        for edited in edits:
            yield from _new(tuple(map(str, _flat(edited.input))), before.get(edited.id, ()))


def _new(after: Iterable[str], before: Iterable[str]) -> Iterator[str]:
    """What stands in these texts and did not in those, in the pieces that lie between words that did."""
    known = frozenset(account(word) for text in before for word in _PIECE.findall(text))
    for text in after:
        piece: list[str] = []
        for word in _PIECE.findall(text):
            if account(word) in known:
                yield " ".join(piece)
                piece.clear()
            else:
                piece.append(word)
        yield " ".join(piece)


def _flat(value: Json) -> Iterator[str | float]:
    """Every key and value, however deep."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, Mapping):
            rest += (*each, *each.values())
        elif isinstance(each, Sequence) and not isinstance(each, str):
            rest += each
        elif each is not None:
            yield each


def performed(step: Step) -> Iterator[Action]:
    """The actions of a closed step that succeeded, or may have, as they ran."""
    good = {seen.id for seen in step.observations if seen.status == "success" or seen.code in _PERHAPS}
    edited = {action.id: action for action in step.edited}
    yield from (edited.get(action.id, action) for action in _actions(step.turn) if action.id in good)


def _actions(turn: ModelTurn) -> tuple[Action, ...]:
    return turn.intent.actions if isinstance(turn.intent, Actions) else ()


def _said(run: Run, own: Sources) -> Iterator[Said]:
    """What tools said, in order of appearance.

    After the first text from outside a trusted tool is believed only where it cannot have been used to launder one: its input
    came from the user (or the operator), and nothing has been written since.
    """
    specs = {spec.name: spec for spec in run.start.tools}
    yield from (
        Said("untrusted", spec.name, f"{spec.description}\n{spec.schema}")
        for spec in specs.values()
        if spec.foreign and not spec.trusted
    )
    outside, wrote = any(spec.foreign and not spec.trusted for spec in specs.values()), False
    for step in run.steps:
        inputs = {action.id: action.input for action in (*_actions(step.turn), *step.edited)}
        tools = [specs.get(seen.tool) for seen in step.observations]
        writes = [spec is not None and spec.does != "read" for spec in tools]
        believed = [
            spec is None
            or (
                spec.trusted
                and not (outside and (wrote or sum(writes) > its or not own.asked(inputs.get(seen.id, {}), spec)))
            )
            for spec, seen, its in zip(tools, step.observations, writes, strict=True)
        ]
        for seen, fine in zip(step.observations, believed, strict=True):
            yield Said("trusted" if fine else "untrusted", seen.tool, "\n".join((seen.content, *seen.facts.values())))
        wrote = wrote or (outside and any(writes))
        outside = outside or not all(believed)
