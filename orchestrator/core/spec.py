"""What is declared and never changes during a run: tools, limits, the agent. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, Union

from orchestrator.core.quick import quick

Json: TypeAlias = Union[None, bool, int, float, str, Sequence["Json"], Mapping[str, "Json"]]
JsonObject: TypeAlias = Mapping[str, Json]
Protocol: TypeAlias = Literal["native", "text"]
Language: TypeAlias = Literal["en", "zh"]
Effect: TypeAlias = Literal["read", "write", "send"]
Source: TypeAlias = Literal["user", "operator", "named", "trusted", "untrusted", "model"]
Role: TypeAlias = Literal["detail", "content", "reach"]
Sensitive: TypeAlias = Literal["email", "url", "account", "path"]


@quick
@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool as the model, the guard and the metrics see it.

    `schema` is the JSON Schema of the input object. `facts` maps a label shown to the model to a JSON Pointer (RFC 6901)
    into the result's `data`. `timeout` is in seconds. A `repeatable` tool may run twice with the same input without harm;
    only such a tool is ever retried or run again after a crash. `effect` is what it does to the world: read, write, or send
    something out of it; where None, `does` tells. Results of a tool that is not `trusted` come from outside; of a `foreign` one
    (an MCP server's) its description and schema do too, so a run that is offered it has read text from outside.

    `roles` are of arguments that need not be the user's words: a `detail` (a date, a time, a small number, yes or no) and, where
    the call only writes, `content`. `reach`: what it reaches others with; a call that leaves all of these empty only writes.
    `names` is about the tool's results: {argument of any tool: (field, name)} says that in each record the tool builds, what
    stands in the field `name` names what the value in `field` points at, and that it may be given as that argument.
    """

    name: str
    description: str
    schema: JsonObject
    repeatable: bool = False
    side_effect: bool = False
    timeout: float = 30.0
    facts: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    common: bool = False
    trusted: bool = True
    version: str = "1"
    requires_approval: bool = False
    reconcilable: bool = False
    effect: Effect | None = None
    foreign: bool = False
    roles: Mapping[str, Role] = field(default_factory=dict)
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def does(self) -> Effect:
        """The effect, as declared. Undeclared: a tool that may not run twice without harm, or has a side effect, writes."""
        return self.effect or ("write" if self.side_effect or not self.repeatable else "read")

    def effect_of(self, given: JsonObject) -> Effect:
        """The effect of a call with this input."""
        if not self.roles or self.does != "send":
            return self.does
        reach = [name for name, role in self.roles.items() if role == "reach"]
        if not reach or any(given.get(name) not in (None, "", [], {}) for name in reach):
            return "send"
        return "write"


@quick
@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the permissions. It fits an Action when each condition that is given holds; an empty one always holds.

    `tools` and `tenants` are globs. `tainted`: the run has read text from outside. `given`: every argument comes from the user's
    request (or is a constant that the operator declared, or need not by its role), and at least one from the request. `origins` and `kinds`: some argument
    comes from one of these sources, is or holds one of these. `marked`: the tool has `requires_approval`. `spent`: the
    run has used this share (0..1) of its tokens or money, or more. `reason` is one sentence for people and for the model.
    """

    name: str
    verdict: Literal["allow", "ask", "refuse"]
    reason: str = ""
    tools: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    tainted: bool | None = None
    given: bool | None = None
    origins: tuple[Source, ...] = ()
    kinds: tuple[Sensitive, ...] = ()
    tenants: tuple[str, ...] = ()
    marked: bool | None = None
    spent: float | None = None


@quick
@dataclass(frozen=True, slots=True)
class Limits:
    """Where a run must stop. Seconds, tokens and money (in the price table's currency); None is no limit.

    `stall` consecutive Observations that add nothing bring an intervention, `stall_end` of them the end (NO_PROGRESS).
    `repeats` is how often an action that keeps giving the same Observation is run. `max_output` is the model's
    `max_tokens`; a reply that hits it with no visible text is asked for again once with `max_output_cap`.
    """

    max_steps: int = 20
    deadline: float | None = 600.0
    max_tokens: int | None = None
    max_cost: float | None = None
    max_output: int = 4096
    max_output_cap: int = 16384
    tool_errors: int = 5
    malformed: int = 3
    repeats: int = 2
    stall: int = 2
    stall_end: int = 3
    observation_chars: int = 8000
    summary_chars: int = 2000


@quick
@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Who runs: the agent's name and version, its protocol and model (names from the settings), its instructions.

    `models` is the chain in order of preference: the first is used unless it fails for good.
    """

    name: str = "default"
    version: str = "1"
    models: tuple[str, ...] = ("default",)
    protocol: Protocol = "native"
    language: Language = "en"
    instructions: str = ""


@quick
@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returns, always in one envelope. `code` is an UPPER_SNAKE word on error, else None.

    `pending` (long tools): `data` may hold {"token": str, "poll": seconds, "deadline": seconds}.
    """

    status: Literal["success", "error", "pending"]
    code: str | None = None
    data: Json = None
    message: str = ""
