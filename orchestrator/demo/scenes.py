"""What the demonstration shows: the questions, the ways to misbehave, and what each run must come to. Data only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.core.events import Anomaly, Attempt, Outcome
from orchestrator.core.run import Run
from orchestrator.core.spec import Language, Protocol

TWO_HOPS = "《三体》的作者出生在哪个省？该省的人口是多少？"
ZETA = "zeta-9 型号是谁研发的？"
LOST = "《球状闪电》的作者的出生年份是哪一年？"


@dataclass(frozen=True, slots=True)
class Scene:
    """One run. `says` must stand in the answer, `never` must not; `anomaly` in a turn, `code` in an Observation or a try.

    `steps` is the most that it may take, `turns` exactly how many when given.
    """

    behaviour: str
    does: str
    guard: str
    outcome: Outcome = Outcome.ANSWERED
    goal: str = TWO_HOPS
    protocol: Protocol = "text"
    language: Language = "zh"
    says: str = ""
    never: str = ""
    anomaly: Anomaly | None = None
    code: str = ""
    steps: int = 12
    turns: int | None = None


STORIES = (
    Scene("", "text ReAct", "the two-hop question, over the Anthropic protocol", says="3491", turns=5),
    Scene("", "native tool use", "the same, over the OpenAI protocol", protocol="native", says="3491", turns=3),
)

MISBEHAVIOURS = (
    Scene(
        "thinking",
        "thinks until max_tokens is used up, and says nothing",
        "TRUNCATED is no format error: asked again, once, with a larger budget",
        goal=ZETA,
        says="蓝鲸实验室",
        anomaly=Anomaly.TRUNCATED,
    ),
    Scene(
        "forged",
        "writes its own Observation (Zeta Labs) and believes it",
        "the reply is cut at its own label; the real tool is asked, and the model is told",
        goal=ZETA,
        says="蓝鲸实验室",
        never="Zeta",
        anomaly=Anomaly.FORGED_OBSERVATION,
    ),
    Scene(
        "four-actions",
        "writes four Actions at once, and answers from memory (Beijing)",
        "only the first Action runs; a Final beside an Action is not believed",
        says="3491",
        never="北京",
        anomaly=Anomaly.EXTRA_ACTIONS,
    ),
    Scene(
        "reworded",
        "searches for the same in ever new words",
        "Observations that bring no news: an intervention, then an honest end",
        outcome=Outcome.NO_PROGRESS,
        goal=LOST,
        steps=6,
    ),
    Scene(
        "reworded-obedient",
        "the same, but heeds the intervention",
        "the way out is taught: it says what is missing",
        outcome=Outcome.GAVE_UP,
        goal=LOST,
        steps=7,
    ),
    Scene(
        "malformed",
        "writes arguments that are no JSON",
        "never guessed at: the model is told, and writes them properly",
        protocol="native",
        says="3491",
        anomaly=Anomaly.MALFORMED,
    ),
    Scene(
        "unknown-tool",
        "calls a tool that nobody offered",
        "an Observation names the tools there are",
        protocol="native",
        says="3491",
        code="TOOL_NOT_FOUND",
    ),
    Scene("prose", "chats instead of acting", "three unusable turns in a row end the run", outcome=Outcome.FORMAT),
    Scene(
        "empty",
        "says nothing, and calls that the end",
        "an empty end is no answer",
        outcome=Outcome.EMPTY,
        protocol="native",
    ),
    Scene("429", "rate limit, twice", "waits as long as Retry-After says", says="3491", code="RATE_LIMITED"),
    Scene(
        "529",
        "overloaded, twice",
        "tries again, with growing delays",
        protocol="native",
        says="3491",
        code="OVERLOADED",
    ),
    Scene(
        "hang",
        "the stream stops in the middle and hangs",
        "a timeout between two tokens; then the run ends by that name",
        outcome=Outcome.MODEL_FAILED,
        code="TIMEOUT",
    ),
    Scene(
        "html",
        "a sign-in page with status 200 instead of a reply",
        "no reply is made of it; the run ends by that name",
        outcome=Outcome.MODEL_FAILED,
        protocol="native",
    ),
)


def problems(scene: Scene, run: Run) -> Iterator[str]:
    """In what the run is not as the scene expects it."""
    name, ended = f"{scene.behaviour or 'no misbehaviour'} ({scene.protocol})", run.ended
    answer = (ended.answer if ended else None) or ""
    if ended is None or ended.outcome is not scene.outcome:
        detail = f", {ended.code}: {ended.detail}" if ended else ""
        yield f"{name}: ended {ended.outcome if ended else 'not at all'} instead of {scene.outcome}{detail}"
    if scene.says not in answer:
        yield f"{name}: the answer {answer!r} does not say {scene.says}"
    if scene.never and scene.never in answer:
        yield f"{name}: the answer {answer!r} says {scene.never}"
    if scene.anomaly and scene.anomaly not in anomalies(run):
        yield f"{name}: no anomaly {scene.anomaly}"
    if scene.code and scene.code not in codes(run):
        yield f"{name}: no {scene.code}, only {sorted(codes(run))}"
    if scene.outcome is Outcome.GAVE_UP and not (ended and ended.missing):
        yield f"{name}: gave up without saying what is missing"
    if len(run.steps) > scene.steps or (scene.turns is not None and turns(run) != scene.turns):
        yield f"{name}: {turns(run)} turns"


def turns(run: Run) -> int:
    """ModelTurns of the run."""
    return len(run.steps) + (run.turn is not None)


def anomalies(run: Run) -> set[Anomaly]:
    """All anomalies of all turns."""
    made = [step.turn for step in run.steps] + ([run.turn] if run.turn else [])
    return {anomaly for turn in made for anomaly in turn.anomalies}


def codes(run: Run) -> set[str]:
    """Codes of Observations, of tries that failed, and of the end."""
    made = [step.turn for step in run.steps] + ([run.turn] if run.turn else [])
    tries: list[Attempt] = [attempt for turn in made for attempt in turn.attempts]
    seen = {seen.code for step in run.steps for seen in step.observations if seen.code}
    return seen | {attempt.code for attempt in tries} | ({run.ended.code} if run.ended and run.ended.code else set())
