"""The words of a Trace. Read this file first.

A run is an append-only Trace of Entries; each Entry holds one Event. A Thought, its Actions and a Final are parts of one
ModelTurn: one append, so there is never half a turn. The model *proposes* an Intent; nothing here is a permission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from orchestrator.core.quick import quick
from orchestrator.core.spec import AgentSpec, Json, JsonObject, Limits, Rule, ToolSpec


class StopReason(StrEnum):
    """Why the *model* stopped writing."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    STOP_SEQUENCE = "stop_sequence"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    PAUSE = "pause"
    CUT = "cut"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """Why the *run* ended."""

    ANSWERED = "answered"
    GAVE_UP = "gave_up"
    OUT_OF_STEPS = "out_of_steps"
    OUT_OF_BUDGET = "out_of_budget"
    DEADLINE = "deadline"
    NO_PROGRESS = "no_progress"
    TOOL_ERRORS = "tool_errors"
    FORMAT = "format"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    REFUSED = "refused"
    MODEL_FAILED = "model_failed"
    CANCELLED = "cancelled"


class Anomaly(StrEnum):
    """What was odd about a turn: data for metrics and alerts, never an exception."""

    FORGED_OBSERVATION = "forged_observation"
    EXTRA_ACTIONS = "extra_actions"
    FINAL_AND_ACTION = "final_and_action"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    UNKNOWN_TOOL = "unknown_tool"
    EMPTY = "empty"
    EMPTY_FINAL = "empty_final"
    NO_ACTION = "no_action"
    ACTION_IN_THINKING = "action_in_thinking"
    FACT_IN_THOUGHT = "fact_in_thought"
    REFUSAL = "refusal"
    CONTENT_FILTERED = "content_filtered"
    PAUSED = "paused"
    MISSING_CALL_ID = "missing_call_id"
    DUPLICATE_CALL_ID = "duplicate_call_id"
    UNKNOWN_FINISH_REASON = "unknown_finish_reason"
    REPAIRED_ARGUMENTS = "repaired_arguments"
    TOOL_NAME_NORMALISED = "tool_name_normalised"
    TRAILING_TEXT = "trailing_text"
    RUN_ON = "run_on"
    UNPARSED_MARKUP = "unparsed_markup"
    DUPLICATE_ACTION = "duplicate_action"


@quick
@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more model calls, and their price (None: the model has no price in the settings)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None

    @property
    def tokens(self) -> int:
        """Input and output together, as budgets count them."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        cost = None if self.cost is None and other.cost is None else (self.cost or 0.0) + (other.cost or 0.0)
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            cost,
        )


@quick
@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a model or tool call that did not succeed: error code and seconds spent, `target` = model or tool."""

    target: str
    code: str
    seconds: float


@quick
@dataclass(frozen=True, slots=True)
class Action:
    """A call that the model proposes. `id` is ours, "{step}.{index}", steps from 1 and indexes from 0."""

    id: str
    tool: str
    input: JsonObject


@quick
@dataclass(frozen=True, slots=True)
class Actions:
    """The model wants these calls made (one in the text protocol, one or more natively)."""

    actions: tuple[Action, ...]
    kind: Literal["actions"] = "actions"


@quick
@dataclass(frozen=True, slots=True)
class Final:
    """The model ends the run. `missing` is set when it says honestly that it cannot answer: what it lacks."""

    answer: str
    missing: str | None = None
    kind: Literal["final"] = "final"


@quick
@dataclass(frozen=True, slots=True)
class Malformed:
    """Nothing in this turn may be executed or believed; `detail` is what the model is told, in one sentence."""

    problem: Anomaly
    detail: str
    kind: Literal["malformed"] = "malformed"


Intent: TypeAlias = Actions | Final | Malformed


@quick
@dataclass(frozen=True, slots=True)
class RunStarted:
    """The first event: all that prompts, guards and permissions are a function of, besides what happens later.

    `boundary` is the word, unguessable and of this run alone, that marks in the prompt what tools returned; "" marks nothing.
    `min_steps` is the fewest steps as the submitter declared them, `learned` as earlier runs of this `run_kind` took them.
    """

    goal: str
    agent: AgentSpec = AgentSpec()
    limits: Limits = Limits()
    tools: tuple[ToolSpec, ...] = ()
    tenant: str = ""
    run_kind: str | None = None
    min_steps: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    boundary: str = ""
    permissions: tuple[Rule, ...] = ()
    learned: int | None = None
    kind: Literal["run_started"] = "run_started"


@quick
@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One reply of the model, read. `thought` is the visible text before the Actions; `reasoning` the provider's own channel.

    `opaque` is provider matter (signatures, ids, the raw reply) for the same provider's eyes only. `model` is the one that
    answered; `attempts` are the tries before it. `seconds` is the whole call, `first_token` to the first streamed byte of
    content (None when not streamed).
    """

    thought: str
    intent: Intent
    stop: StopReason = StopReason.END_TURN
    usage: Usage = Usage()
    anomalies: tuple[Anomaly, ...] = ()
    reasoning: str = ""
    model: str = ""
    attempts: tuple[Attempt, ...] = ()
    seconds: float = 0.0
    first_token: float | None = None
    opaque: Mapping[str, Json] = field(default_factory=dict)
    kind: Literal["model_turn"] = "model_turn"


@quick
@dataclass(frozen=True, slots=True)
class ActionStarted:
    """Durable before the tool runs. `key` is the idempotency key, the same on every try of this action.

    `rule` names the rule of the permissions that allowed it; "" where a person did, or where the run has none.
    """

    id: str
    key: str = ""
    rule: str = ""
    kind: Literal["action_started"] = "action_started"


@quick
@dataclass(frozen=True, slots=True)
class Observation:
    """What the host writes back. `content` is what the model reads (already cleaned); the raw body lives in the blob store
    under `digest` (sha256 hex), `size` is its length in bytes. `code` names the error, None on success.
    `sanitised` names the cleaning steps that changed something."""

    id: str
    tool: str
    status: Literal["success", "error"]
    content: str
    code: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    digest: str = ""
    sanitised: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    seconds: float = 0.0
    kind: Literal["observation"] = "observation"


@quick
@dataclass(frozen=True, slots=True)
class Waiting:
    """A long tool or a person has the word: the run is let go until `until` (unix seconds) or a callback or Decision.

    `reason` is "tool" or "approval". `poll` is the next time (unix seconds) to ask the tool, if it can be asked. `why` an
    approval is asked for: the rule's name and its reason, then the arguments that it is about.
    """

    id: str
    until: float
    reason: Literal["tool", "approval"] = "tool"
    token: str = ""
    poll: float | None = None
    why: str = ""
    kind: Literal["waiting"] = "waiting"


@quick
@dataclass(frozen=True, slots=True)
class Decision:
    """Someone decided about an action: a person, or the host's permissions (`by` is "policy", `reason` begins with the rule).

    `input` replaces the action's input when edited.

    "cancel" is about the run itself; its `id` is "". `via` is the id of the API token it came with; "" where there was none.
    """

    id: str
    by: str
    verdict: Literal["approve", "edit", "refuse", "cancel"]
    input: JsonObject | None = None
    reason: str = ""
    via: str = ""
    kind: Literal["decision"] = "decision"


@quick
@dataclass(frozen=True, slots=True)
class RunEnded:
    """The last event. `answer` only if the outcome is answered (or what honest text there is), `missing` what was lacking."""

    outcome: Outcome
    answer: str | None = None
    missing: str | None = None
    code: str | None = None
    detail: str = ""
    attempts: tuple[Attempt, ...] = ()
    kind: Literal["run_ended"] = "run_ended"


Event: TypeAlias = RunStarted | ModelTurn | ActionStarted | Observation | Waiting | Decision | RunEnded


@quick
@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a Trace. `seq` counts from 1 without gaps; `at` is unix seconds."""

    run_id: str
    seq: int
    at: float
    event: Event


Trace: TypeAlias = tuple[Entry, ...]
