"""What goes over the wire: the API's own shapes, from which /openapi.json is made. Times are unix seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from orchestrator.core.events import Outcome
from orchestrator.core.spec import Language, Protocol

Seconds = Annotated[float, Field(ge=0, le=32_503_680_000)]
Name = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Reason = Annotated[str, Field(max_length=2000)]


class Asked(BaseModel):
    """What somebody sends: nothing unknown in it, no NaN."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class Told(BaseModel):
    """What the server says."""

    model_config = ConfigDict(frozen=True)


class Submission(Asked):
    """What to run. What is not given, the agent's settings say.

    The same `key` again gives back the first run. `at`: not before. Larger `priority` goes first. `deadline` is in seconds;
    `max_tokens` and `max_cost` are for the whole run. `min_steps` and `kind` help the step bloat metric.
    """

    goal: Annotated[str, Field(min_length=1, max_length=100_000)]
    agent: Name = "default"
    model: Name | None = None
    protocol: Protocol | None = None
    language: Language | None = None
    instructions: Annotated[str, Field(max_length=100_000)] | None = None
    tools: Annotated[tuple[Name, ...], Field(max_length=1000)] | None = None
    max_steps: Count | None = None
    deadline: Annotated[float, Field(gt=0, le=1e9)] | None = None
    max_tokens: Count | None = None
    max_cost: Annotated[float, Field(ge=0, le=1e12)] | None = None
    tenant: Name | None = None
    kind: Name | None = None
    min_steps: Count | None = None
    labels: Annotated[dict[Name, Name], Field(max_length=50)] = {}
    key: Annotated[Name, Field(min_length=1)] | None = None
    at: Seconds | None = None
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] = 0


class Cancel(Asked):
    """Why, as the Trace will say."""

    reason: Reason = ""


class Approve(Asked):
    """Why, as the Trace will say."""

    reason: Reason = ""


class Refuse(Asked):
    """Why: the model is told."""

    reason: Reason = ""


class Edit(Asked):
    """The input to run the action with instead, and why."""

    input: dict[str, Any]
    reason: Reason = ""


class Result(RootModel[Any]):
    """A long tool's result: any JSON value (a success), or the envelope {"status", "code", "data", "message"}."""


class Nothing(Asked):
    """No parameters."""


class Listing(Asked):
    """Filters of the list. `outcome` is how the run ended, or "open"; since <= started_at < until; `cursor` is the page before's `next`."""

    outcome: Outcome | Literal["open"] | None = None
    agent: Name | None = None
    tenant: Name | None = None
    since: Seconds | None = None
    until: Seconds | None = None
    cursor: Annotated[str, Field(max_length=600)] | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class From(Asked):
    """Events with a larger `seq` than `after`; the header Last-Event-ID goes before it."""

    after: Annotated[int, Field(ge=0, le=2**53)] = 0


class Window(Asked):
    """Runs that began in since <= t < until; the last hour if not given."""

    since: Seconds | None = None
    until: Seconds | None = None
    agent: Name | None = None


State = Literal["open", "waiting", "ended", "damaged"]


class RunLine(Told):
    """A run in the list. `goal` is cut to 200 characters; `waiting`: somebody else has the word; `outcome` once it has ended."""

    run_id: str
    state: State
    outcome: Outcome | None
    goal: str
    agent: str
    tenant: str
    model: str
    protocol: str
    kind: str | None
    steps: int
    started_at: float
    ended_at: float | None
    last_seq: int
    last_at: float


class RunPage(Told):
    """Newest first. `next` is the cursor of the next page, null on the last one."""

    runs: list[RunLine]
    next: str | None


class Spent(Told):
    """Tokens, and their price where the models have one."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None


class WaitingAction(Told):
    """An action that waits: for a person ("approval") or for its result ("tool"), until then. `why` a person is asked."""

    id: str
    tool: str
    input: dict[str, Any]
    reason: Literal["tool", "approval"]
    until: float
    why: str = ""


class RunState(RunLine):
    """A run as it stands, whole. `answer` once it has one; `missing` is what it says it lacks; `code` and `detail` why it ended so.

    While it is open, `detail` says why no worker takes it, if none does.
    """

    answer: str | None = None
    missing: str | None = None
    code: str | None = None
    detail: str = ""
    usage: Spent = Spent()
    waiting: list[WaitingAction] = []
    labels: dict[str, str] = {}


class ToolLine(Told):
    """A tool that agents may be offered. `schema` is the JSON Schema of its input; `effect` what it does, `trusted` whether its
    results are."""

    model_config = ConfigDict(frozen=True, serialize_by_alias=True)

    name: str
    description: str
    input_schema: dict[str, Any] = Field(alias="schema")
    version: str
    repeatable: bool
    side_effect: bool
    effect: Literal["read", "write", "send"]
    trusted: bool
    requires_approval: bool
    timeout: float


class Tools(Told):
    """All tools."""

    tools: list[ToolLine]


class ModelLine(Told):
    """A configured model: the name that runs use, and what stands behind it."""

    name: str
    provider: str
    model: str
    protocol: str


class AgentLine(Told):
    """A configured agent, with its chain of models."""

    name: str
    version: str
    language: str
    models: list[str]


class Models(Told):
    """All models and agents."""

    models: list[ModelLine]
    agents: list[AgentLine]


class Rate(Told):
    """A rate over `of` samples; `value` is null without any."""

    value: float | None
    of: int


class Health(Told):
    """The three health metrics of a window, and how its runs ended. `complete` is false when it had more runs than are looked at."""

    since: float
    until: float
    runs: int
    complete: bool
    damaged: int
    thought_action_gap: Rate
    error_propagation: Rate
    step_bloat: Rate
    outcomes: dict[str, int]


class ProblemWords(Told):
    """RFC 9457: what happened (`code`), and what to do (`detail`)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
