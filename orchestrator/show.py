"""A Trace as people read it: a rich tree with times, tokens, errors and anomalies. Knows core and rich, and nothing else.

Everything a model or a tool wrote is shown as plain text: no markup, no control or direction characters, so a trace
cannot repaint the terminal it is read on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from orchestrator.core.clean.strip import strip
from orchestrator.core.events import (
    Action,
    Actions,
    ActionStarted,
    Attempt,
    Decision,
    Entry,
    Final,
    Malformed,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    RunStarted,
    Trace,
    Usage,
    Waiting,
)
from orchestrator.core.measure import Notice, Said, judged
from orchestrator.core.run import Run, evolve
from orchestrator.core.spec import JsonObject
from orchestrator.errors import IllegalEvent

EXCERPT = 600
"""Characters of a text that are shown unless all of it is asked for."""

_COLOURS = {"Thought": "cyan", "Action": "yellow", "Observation": "green", "Final": "bold", "Malformed": "red"}
_GOOD = frozenset({Outcome.ANSWERED})


def plain(text: str) -> str:
    """The text without control, direction, invisible and half characters; newlines and tabs stay."""
    return strip(text)


def tree(trace: Trace, *, whole: bool = False, raw: Mapping[str, bytes] | None = None) -> Tree:
    """The tree of a Trace. `whole` shows texts at full length; `raw` (digest -> body) shows what tools really sent."""
    run, root = Run(), Tree(Text("no entries"))
    branch = root
    for entry in trace:
        before, event = run, entry.event
        try:
            run = evolve(run, entry)
        except IllegalEvent as error:
            root.add(
                Text(
                    plain(f"damaged: {error}; {len(trace) - before.seq} entries from here on are not shown"), "bold red"
                )
            )
            break
        if isinstance(event, RunStarted):
            root = branch = Tree(head(entry.run_id, event, entry.at))
        elif isinstance(event, ModelTurn):
            branch = root.add(_step(before.step, event, entry.at - run.started_at))
            for line in (*turn_lines(event, whole=whole), *held_against(before, event)):
                branch.add(line)
        elif isinstance(event, Observation):
            branch.add(_observation(event, whole, (raw or {}).get(event.digest)))
        elif isinstance(event, RunEnded):
            root.add(ending(run))
        else:
            branch.add(_aside(entry, before))
    return root


def head(run_id: str, started: RunStarted, at: float) -> Text:
    """Run, question and agent, in two lines."""
    agent = started.agent
    text = Text.assemble((f"run {run_id}", "bold"), "  ", (when(at), "dim"), "\n", plain(started.goal))
    facts = f"\nagent {agent.name} v{agent.version}, {agent.protocol}, {' > '.join(agent.models)}, {len(started.tools)} tools"
    return text.append(facts, "dim")


def turn_lines(turn: ModelTurn, *, whole: bool = False) -> Iterator[Text]:
    """A turn as Thought, Action, Final or Malformed lines."""
    if turn.reasoning:
        yield _labelled("Thought", f"(reasoning) {_cut(turn.reasoning, whole)}", "dim")
    if turn.thought:
        yield _labelled("Thought", _cut(turn.thought, whole))
    match turn.intent:
        case Actions(actions=actions):
            for action in actions:
                yield action_line(action)
        case Final(answer=answer, missing=missing):
            yield _labelled(
                "Final", _cut(answer, whole) if missing is None else f"insufficient: {_cut(missing, whole)}"
            )
        case Malformed(problem=problem, detail=detail):
            yield _labelled("Malformed", f"{problem}: {_cut(detail, whole)}", "red")
    if turn.anomalies:
        yield Text(f"anomalies: {', '.join(turn.anomalies)}", "red")
    yield from map(_tried, turn.attempts)


def held_against(run: Run, turn: ModelTurn) -> Iterator[Text]:
    """What the health metrics hold against a turn: words that name another tool than the one it calls, a call that is announced
    and not made, an error of the step before that it passes over. `run` is the run before it."""
    said, errors = judged(run, turn)
    for found in said:
        if found.result is Said.GAP:
            yield Text(plain(f"gap: what it says names another tool than {found.tool}"), "red")
        elif found.result is Said.NARRATED:
            yield Text(plain(f"narrated: it announces a call of {found.tool} and makes none"), "red")
    for missed in errors:
        if missed.result is Notice.IGNORED:
            yield Text(plain(f"ignored: it passes over the error of {missed.id}"), "red")


def decision_line(decision: Decision) -> Text:
    """Who decided what, and the input that takes the place of the model's."""
    who = f"{decision.by} (token {decision.via})" if decision.via else decision.by
    edited = "" if decision.input is None else _json(decision.input)
    return Text(
        plain(" ".join(filter(None, (f"{who}:", decision.verdict, decision.id, edited, decision.reason)))), "yellow"
    )


def action_line(action: Action) -> Text:
    """`Action: tool {"input": ...}`."""
    return _labelled("Action", f"{action.tool} {_json(action.input)}")


def observation_line(seen: Observation, *, whole: bool = False) -> Text:
    """`Observation: content`, red when it is an error."""
    return _labelled("Observation", _cut(seen.content, whole), "red" if seen.status == "error" else "")


def ending(run: Run, *, answer: bool = True) -> Text:
    """How the run ended (or that it is open), what it says, and what it took."""
    if run.ended is None:
        return Text("open", "yellow")
    ended = run.ended
    text = Text(f"{ended.outcome}", "bold green" if ended.outcome in _GOOD else "bold red")
    missing = f"missing: {ended.missing}" if ended.missing else ""
    for part in filter(None, (reason(ended.detail), missing, ended.answer if answer else None)):
        text.append(f"\n{plain(part)}", "")
    return text.append(f"\n{figures(run)}", "dim")


def reason(detail: str | None) -> str:
    """Why a run ended so; without the colon behind which somebody who cancelled it wrote nothing."""
    return (detail or "").removesuffix(": ")


def figures(run: Run) -> str:
    """The summary line: steps, tokens, cost, seconds."""
    steps = len(run.steps) + (run.turn is not None)
    parts = [counted(steps, "step"), tokens(run.usage), f"{run.at - run.started_at:.2f} s"]
    if run.usage.cost is not None:
        parts.insert(2, f"cost {run.usage.cost:.6g}")
    return ", ".join(parts)


def counted(number: int, what: str) -> str:
    """`1 agent`, `2 agents`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def tokens(usage: Usage) -> str:
    """`812 in (500 cached), 54 out tokens`."""
    cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
    return f"{usage.input_tokens} in{cached} + {usage.output_tokens} out tokens"


def when(at: float) -> str:
    """Unix seconds as UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def earlier(seen: Observation) -> tuple[Attempt, ...]:
    """The tries before the one that this Observation is about: of a failure, the last one is its own."""
    return seen.attempts[:-1] if seen.status == "error" else seen.attempts


def _tried(attempt: Attempt) -> Text:
    return Text(f"tried before: {attempt.target} {attempt.code} after {attempt.seconds:.2f} s", "red")


def _step(number: int, turn: ModelTurn, since: float) -> Text:
    first = "" if turn.first_token is None else f", first token {turn.first_token:.2f} s"
    facts = f"  +{since:.2f} s  {turn.model or '?'} {turn.seconds:.2f} s{first}, {tokens(turn.usage)}, {turn.stop}"
    return Text.assemble((f"step {number}", "bold"), (plain(facts), "dim"))


def _observation(seen: Observation, whole: bool, raw: bytes | None) -> RenderableType:
    facts = f"{seen.id} {seen.tool}  {seen.seconds:.2f} s, {seen.size} bytes"
    if seen.sanitised:
        facts += f", cleaned: {', '.join(seen.sanitised)}"
    lines = [Text(plain(facts), "dim"), observation_line(seen, whole=whole)]
    lines += [_tried(attempt) for attempt in earlier(seen)]
    if raw is not None:
        lines.append(_labelled("Raw", plain(raw.decode("utf-8", "backslashreplace")), "magenta"))
    return Group(*lines)


def allowed(run: Run, begun: ActionStarted) -> str:
    """Who let an action begin, and why: a person, or a rule of the permissions. `run` is the one that it began in."""
    decision = run.decided.get(begun.id)
    if decision is not None:
        told = "approved" if decision.verdict == "approve" else "edited"
        return f"{told} by {decision.by}" + (f": {decision.reason}" if decision.reason else "")
    if not begun.rule:
        return "allowed: this run has no rules"
    rule = next((each for each in run.start.permissions if each.name == begun.rule), None)
    return f"allowed by {begun.rule}" + (f": {rule.reason}" if rule is not None and rule.reason else "")


def _aside(entry: Entry, run: Run) -> Text:
    match entry.event:
        case ActionStarted(id=action_id) as begun:
            return Text(plain(f"begun {action_id}, {allowed(run, begun)}"), "dim")
        case Waiting(id=action_id, reason=reason, until=until, why=why):
            told = f"waiting for {reason} of {action_id} until {when(until)}"
            return Text(plain(f"{told}; {why}" if why else told), "yellow")
        case Decision() as decision:
            return decision_line(decision)
        case event:
            return Text(plain(f"{event.kind} {getattr(event, 'id', '')}"), "dim")


def _json(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _labelled(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"{label}: ", _COLOURS.get(label, "")), (plain(text), style))


def _cut(text: str, whole: bool) -> str:
    """Head of a long text, with what is gone."""
    if whole or len(text) <= EXCERPT:
        return text
    return f"{text[:EXCERPT]} ... ({len(text) - EXCERPT} more characters)"
