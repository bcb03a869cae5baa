"""Entries become spans: `invoke_agent` over `chat` and `execute_tool`.

A span is made when its entry is durable, with the times that the entry holds, and its id follows from the run: so a run that goes on
elsewhere after a crash is one trace, and a tool can be told its span before that span is written. Names: semantic-conventions-genai as of
schema 1.44.0, still "Development"; our own are `orchestrator.*`. What was said stands in `input.value` and `output.value` as well
(OpenInference), where viewers such as Phoenix look for what to show of a span.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import orjson
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from orchestrator.core.clean import hidden
from orchestrator.core.events import (
    Actions,
    Entry,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    StopReason,
)
from orchestrator.core.events import Final as FinalAnswer
from orchestrator.core.run import Run
from orchestrator.log import masked
from orchestrator.settings import Settings
from orchestrator.traceparent import LABEL, parse, span_id, trace_id

ROOT: Final = "run"
"""The name of a run's own span, as `traceparent` knows it; an action's is `tool ID`."""
LONGEST: Final = 16_000
"""Characters of one text that are exported, where content is."""
_FINE: Final = frozenset({Outcome.ANSWERED, Outcome.GAVE_UP, Outcome.CANCELLED})
_FINISH: Final = {
    StopReason.END_TURN: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.TOOL_USE: "tool_call",
    StopReason.MAX_TOKENS: "length",
    StopReason.REFUSAL: "content_filter",
    StopReason.CONTENT_FILTER: "content_filter",
}


class RunIds(IdGenerator):
    """Gives the ids that the Observer has set for the span that is about to begin."""

    def __init__(self) -> None:
        self.trace = self.span = 0

    def generate_span_id(self) -> int:
        """The next span's id."""
        return self.span

    def generate_trace_id(self) -> int:
        """The next trace's id."""
        return self.trace


class Spans:
    """An Observer. `content`: texts, inputs and results too, without the `secrets`."""

    def __init__(
        self, processor: SpanProcessor, settings: Settings, *, content: bool = False, secrets: tuple[str, ...] = ()
    ) -> None:
        self._ids = RunIds()
        self._provider = TracerProvider(
            id_generator=self._ids, resource=Resource.create({"service.name": "orchestrator"}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("orchestrator", schema_url="https://opentelemetry.io/schemas/1.44.0")
        self._settings = settings
        self._content = content
        self._secrets = secrets

    def close(self) -> None:
        """Export what is still held."""
        self._provider.shutdown()

    def observe(self, run: Run, entry: Entry) -> None:
        """Write the span that this entry ends."""
        match entry.event:
            case ModelTurn() as turn:
                self._chat(run, turn, entry.at)
            case Observation() as observation:
                self._tool(run, observation, entry.at)
            case RunEnded() as ended:
                self._run(run, ended, entry.at)

    def _chat(self, run: Run, turn: ModelTurn, at: float) -> None:
        asked = self._asked(turn.model)
        used = turn.usage
        attributes = {
            **_whose(run),
            **asked,
            "gen_ai.operation.name": "chat",
            "gen_ai.response.finish_reasons": (_FINISH.get(turn.stop, turn.stop.value),),
            "gen_ai.usage.input_tokens": used.input_tokens,
            "gen_ai.usage.output_tokens": used.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": used.cached_tokens,
            "gen_ai.usage.reasoning.output_tokens": used.reasoning_tokens,
            "orchestrator.cost": used.cost,
            "orchestrator.step": run.step,
            "orchestrator.intent": turn.intent.kind,
            "orchestrator.anomalies": tuple(each.value for each in turn.anomalies),
            "orchestrator.tries": len(turn.attempts) + 1,
        }
        if turn.first_token is not None:
            attributes["orchestrator.first_token_seconds"] = turn.first_token
        if self._content:
            attributes["gen_ai.output.messages"] = self._text(_said(turn))
            attributes["output.value"] = self._text(_visible(turn))
        name = f"chat {asked['gen_ai.request.model']}"
        self._write(run, name, f"chat {run.step}", (at - turn.seconds, at), attributes, kind=SpanKind.CLIENT)

    def _tool(self, run: Run, seen: Observation, at: float) -> None:
        spec = run.tool(seen.tool)
        tool = "__unknown__" if spec is None else spec.name
        attributes = {
            **_whose(run),
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": seen.id,
            "orchestrator.step": run.step,
            "orchestrator.tries": len(seen.attempts) + (seen.status == "success"),
            "orchestrator.observation.bytes": seen.size,
            "orchestrator.sanitised": seen.sanitised,
        }
        if self._content:
            called = next((each.input for each in run.pending if each.id == seen.id), {})
            arguments, result = self._text(called), self._text(seen.content)
            attributes |= {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result}
            attributes |= {"input.value": arguments, "input.mime_type": "application/json", "output.value": result}
        code = (seen.code or "TOOL_ERROR") if seen.status == "error" else None
        self._write(run, f"execute_tool {tool}", f"tool {seen.id}", (at - seen.seconds, at), attributes, error=code)

    def _run(self, run: Run, ended: RunEnded, at: float) -> None:
        start = run.start
        attributes: dict[str, Any] = {
            **_whose(run),
            **self._asked(next(iter(start.agent.models), "")),
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.version": start.agent.version,
            "gen_ai.usage.input_tokens": run.usage.input_tokens,
            "gen_ai.usage.output_tokens": run.usage.output_tokens,
            "orchestrator.cost": run.usage.cost,
            "orchestrator.protocol": start.agent.protocol,
            "orchestrator.outcome": ended.outcome.value,
            "orchestrator.steps": len(run.steps) + (run.turn is not None),
        }
        if self._content:
            said = ended.answer or ended.missing or ""
            attributes["gen_ai.input.messages"] = self._text([_message("user", start.goal)])
            attributes["gen_ai.output.messages"] = self._text(
                [{**_message("assistant", said), "finish_reason": "stop"}]
            )
            attributes |= {"input.value": self._text(start.goal), "output.value": self._text(said)}
        code = None if ended.outcome in _FINE else ended.code or ended.outcome.value.upper()
        name = f"invoke_agent {start.agent.name}"
        self._write(run, name, ROOT, (run.started_at, at), attributes, error=code)

    def _write(  # noqa: PLR0913  a span has so many sides
        self,
        run: Run,
        name: str,
        own: str,
        times: tuple[float, float],
        attributes: Mapping[str, Any],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        error: str | None = None,
    ) -> None:
        labels = run.start.labels
        self._ids.trace, self._ids.span = (
            int(trace_id(run.run_id, labels), 16),
            int(span_id(run.run_id, own), 16),
        )
        span = self._tracer.start_span(
            name,
            _parent(run, own),
            kind,
            hidden({key: value for key, value in attributes.items() if value not in ("", (), None)}, self._secrets),
            start_time=_nanoseconds(times[0]),
        )
        if error is not None:
            span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.OK if error is None else StatusCode.ERROR, error))
        span.end(_nanoseconds(times[1]))

    def _asked(self, model: str) -> dict[str, Any]:
        """What was asked, by the settings; a model that is no longer configured keeps its name."""
        found = self._settings.models.get(model)
        if found is None:
            return {"gen_ai.request.model": model or "unknown"}
        return {
            "gen_ai.request.model": found.model,
            "gen_ai.provider.name": found.provider,
            "orchestrator.model": model,
        }

    def _text(self, value: Any) -> str:
        clean = _cut(masked(value, self._secrets))
        if isinstance(clean, str):
            return clean
        try:
            return orjson.dumps(clean, default=str).decode()
        except TypeError:  # integers beyond 64 bits
            return json.dumps(clean, default=str, ensure_ascii=False)


def _whose(run: Run) -> dict[str, Any]:
    return {"gen_ai.agent.name": run.start.agent.name, "gen_ai.conversation.id": run.run_id}


def _parent(run: Run, own: str) -> Context:
    """The run's span; for that span the submitter's, or none."""
    given = parse(run.start.labels.get(LABEL, ""))
    if own == ROOT and given is None:
        return Context()
    above = given[1] if own == ROOT and given else span_id(run.run_id, ROOT)
    flags = TraceFlags(int(given[2], 16) if given else TraceFlags.SAMPLED)
    at = SpanContext(
        int(trace_id(run.run_id, run.start.labels), 16), int(above, 16), is_remote=own == ROOT, trace_flags=flags
    )
    return trace.set_span_in_context(NonRecordingSpan(at), Context())


def _said(turn: ModelTurn) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "text", "content": turn.thought}] if turn.thought else []
    if turn.reasoning:
        parts.insert(0, {"type": "reasoning", "content": turn.reasoning})
    if isinstance(turn.intent, Actions):
        parts += [
            {"type": "tool_call", "id": each.id, "name": each.tool, "arguments": each.input}
            for each in turn.intent.actions
        ]
    if isinstance(turn.intent, FinalAnswer):
        parts.append({"type": "text", "content": turn.intent.answer})
    return [{"role": "assistant", "parts": parts, "finish_reason": _FINISH.get(turn.stop, turn.stop.value)}]


def _visible(turn: ModelTurn) -> str:
    answer = turn.intent.answer if isinstance(turn.intent, FinalAnswer) else ""
    return "\n".join(filter(None, (turn.thought, answer)))


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _cut(value: Any) -> Any:
    """The value with each of its texts at most LONGEST long and fit for UTF-8: JSON that is cut as a whole is none."""
    if isinstance(value, str):
        return value[:LONGEST].encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_cut(key): _cut(each) for key, each in value.items()}
    return [_cut(each) for each in value] if isinstance(value, list) else value


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
