"""Spans from the entry stream: the tree, the names of the conventions, no content unless asked for, W3C context in and out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from orchestrator.api.runs import continued
from orchestrator.assembly import RunRequest, finish, open_ports, submit
from orchestrator.core.events import Outcome, RunEnded
from orchestrator.core.run import Run, evolve
from orchestrator.core.spec import Json
from orchestrator.otel import ENDPOINTS, tracing
from orchestrator.otel.spans import LONGEST, Spans
from orchestrator.settings import ModelSettings, Settings
from orchestrator.stores.memory import MemoryStore
from orchestrator.tool import Tool, context, tool
from orchestrator.toolbox import Toolbox
from orchestrator.traceparent import parse, span_id, trace_id, traceparent
from tests.build import acts, final, observed, started, trace
from tests.served import demo_server
from tools import http

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
GOAL = "《三体》的作者出生在哪个省？该省的人口是多少？"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with demo_server() as found:
        yield found


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def configured(url: str) -> Settings:
    model = ModelSettings(provider="openai", base_url=f"{url}/v1", model="demo", stream=False)
    return Settings.model_construct(models={"m": model}, store="memory")


def told(exporter: InMemorySpanExporter, *events: Any, **more: Any) -> list[ReadableSpan]:
    """The spans of a story."""
    spans = Spans(SimpleSpanProcessor(exporter), configured("http://127.0.0.1:9"), **more)
    run = Run()
    for entry in trace(*events):
        spans.observe(run, entry)
        run = evolve(run, entry)
    spans.close()
    return list(exporter.get_finished_spans())


async def test_a_real_run_is_one_tree_of_agent_chats_and_tools(url: str, exporter: InMemorySpanExporter) -> None:
    settings = configured(url)
    spans = Spans(SimpleSpanProcessor(exporter), settings)
    async with open_ports(settings, observers=(spans.observe,)) as ports:
        run_id = await submit(ports, settings, RunRequest(GOAL, tools=("search", "lookup"), language="zh"))
        run = await finish(run_id, ports)
    spans.close()
    found = exporter.get_finished_spans()
    root = next(span for span in found if span.name == "invoke_agent default")
    chats = [span for span in found if span.name == "chat demo"]
    tools = [span for span in found if span.name.startswith("execute_tool ")]
    assert len(chats) == len(run.steps) + 1 and tools
    assert {span.parent.span_id if span.parent else None for span in (*chats, *tools)} == {root.context.span_id}
    assert {span.context.trace_id for span in found} == {int(trace_id(run_id, {}), 16)}
    assert root.parent is None and root.status.status_code is StatusCode.OK
    assert all(span.kind is SpanKind.CLIENT for span in chats)
    assert all(root.start_time <= span.start_time <= span.end_time <= root.end_time for span in (*chats, *tools))  # type: ignore[operator]
    said = dict(chats[0].attributes or {})
    assert said["gen_ai.operation.name"] == "chat" and said["gen_ai.provider.name"] == "openai"
    assert said["gen_ai.conversation.id"] == run_id and said["gen_ai.response.finish_reasons"] == ("tool_call",)
    assert int(str(said["gen_ai.usage.input_tokens"])) > 0
    assert (root.attributes or {})["orchestrator.outcome"] == "answered"


def test_nothing_that_was_said_is_exported_by_default(exporter: InMemorySpanExporter) -> None:
    story = (started(goal="secret goal"), acts(1, ("search", {"q": "secret input"}), thought="secret thought"))
    story = (
        *story,
        observed("1.0", "secret content"),
        final("secret answer"),
        RunEnded(Outcome.ANSWERED, answer="secret answer"),
    )  # type: ignore[assignment]
    assert "secret" not in "".join(span.to_json() for span in told(exporter, *story))


def test_content_is_exported_when_asked_for_without_the_secrets(exporter: InMemorySpanExporter) -> None:
    story = (
        started(),
        acts(1, ("search", {"q": "key-123456"}), thought="I call search."),
        observed("1.0", "found key-123456"),
    )
    chat, call = told(exporter, *story, content=True, secrets=("key-123456",))
    messages = json.loads(str((chat.attributes or {})["gen_ai.output.messages"]))
    assert [part["type"] for part in messages[0]["parts"]] == ["text", "tool_call"]
    assert (call.attributes or {})["gen_ai.tool.call.result"] == "found [REDACTED]"
    assert "key-123456" not in chat.to_json() + call.to_json()


def test_a_viewer_finds_what_a_span_took_and_gave(exporter: InMemorySpanExporter) -> None:
    story = (started(), acts(1, ("search", {"q": "x"})), observed("1.0", "seen"), final("it"))
    first, call, last, root = told(exporter, *story, RunEnded(Outcome.ANSWERED, answer="it"), content=True)
    given = {span.name: dict(span.attributes or {}) for span in (call, last, root)}
    assert (given[call.name]["input.value"], given[call.name]["output.value"]) == ('{"q":"x"}', "seen")
    assert given[last.name]["output.value"] == "it"
    assert (given[root.name]["input.value"], given[root.name]["output.value"]) == ("Who wrote it?", "it")
    reasons = [
        json.loads(str((each.attributes or {})["gen_ai.output.messages"]))[0]["finish_reason"] for each in (first, last)
    ]
    assert reasons == ["tool_call", "stop"]


def test_content_that_is_long_or_odd_is_still_json(exporter: InMemorySpanExporter) -> None:
    odd: dict[str, Json] = {"long": "x" * 3 * LONGEST, "half": "\ud800", "number": 2**70, "\ud801": [None, 1.5]}
    chat, call = told(exporter, started(), acts(1, ("search", odd)), observed("1.0", "y\ud800"), content=True)
    arguments = json.loads(str((call.attributes or {})["input.value"]))
    assert arguments == {"long": "x" * LONGEST, "half": "?", "number": 2**70, "?": [None, 1.5]}
    assert json.loads(str((chat.attributes or {})["gen_ai.output.messages"]))[0]["parts"][0]["arguments"] == arguments


def test_an_error_has_its_code_as_type(exporter: InMemorySpanExporter) -> None:
    failed = RunEnded(Outcome.MODEL_FAILED, code="OVERLOADED")
    story = (started(), acts(1, ("search", {})), observed("1.0", "no", code="NOT_FOUND"), failed)
    _, call, root = told(exporter, *story)
    assert call.status.status_code is StatusCode.ERROR and (call.attributes or {})["error.type"] == "NOT_FOUND"
    assert root.status.status_code is StatusCode.ERROR and (root.attributes or {})["error.type"] == "OVERLOADED"


def test_a_tool_that_the_model_made_up_is_no_name_of_a_span(exporter: InMemorySpanExporter) -> None:
    story = (
        started(),
        acts(1, ("free text of a model", {})),
        observed("1.0", "no", tool="free text of a model", code="TOOL_NOT_FOUND"),
    )
    assert told(exporter, *story)[1].name == "execute_tool __unknown__"


def test_the_submitters_trace_goes_on(exporter: InMemorySpanExporter) -> None:
    story = (replace(started(), labels={"traceparent": GIVEN}), final(), RunEnded(Outcome.ANSWERED, answer="done"))
    chat, root = told(exporter, *story)
    assert f"{root.context.trace_id:032x}" == f"{chat.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert root.parent is not None and f"{root.parent.span_id:016x}" == "b7ad6b7169203331"


def test_a_submitter_that_does_not_sample_gets_no_spans(exporter: InMemorySpanExporter) -> None:
    unsampled = GIVEN.removesuffix("01") + "00"
    story = (replace(started(), labels={"traceparent": unsampled}), final(), RunEnded(Outcome.ANSWERED, answer="done"))
    assert told(exporter, *story) == []


@pytest.mark.parametrize(
    "text", ["", "x", GIVEN.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32), "ff" + GIVEN[2:], GIVEN + "\n" * 300]
)
def test_what_is_no_traceparent_begins_a_trace_of_its_own(text: str, exporter: InMemorySpanExporter) -> None:
    assert parse(text) is None
    story = (replace(started(), labels={"traceparent": text}), final(), RunEnded(Outcome.ANSWERED, answer="done"))
    assert told(exporter, *story)[-1].parent is None


async def test_a_tool_is_told_the_span_that_it_will_be_part_of(url: str, exporter: InMemorySpanExporter) -> None:
    seen: list[str] = []

    @tool(repeatable=True)
    async def search(entity: str) -> str:
        """Searches."""
        seen.append(context().traceparent)
        await asyncio.sleep(0)
        return f"{entity}: 山西省"

    run_id, found = await run_with(search, url, exporter)
    call = next(span for span in found if span.name == "execute_tool search")
    assert seen[0] == f"00-{call.context.trace_id:032x}-{call.context.span_id:016x}-01"
    assert seen[0] == traceparent(run_id, {}, "tool 1.0") and span_id(run_id, "tool 1.0") in seen[0]


async def run_with(given: Tool, url: str, exporter: InMemorySpanExporter) -> tuple[str, tuple[ReadableSpan, ...]]:
    settings = configured(url)
    spans = Spans(SimpleSpanProcessor(exporter), settings)
    store = MemoryStore()
    async with store, open_ports(settings, store=store, toolbox=Toolbox([given]), observers=(spans.observe,)) as ports:
        run_id = await submit(ports, settings, RunRequest(GOAL, language="zh", max_steps=3))
        await finish(run_id, ports)
    spans.close()
    return run_id, exporter.get_finished_spans()


async def test_http_get_hands_the_trace_on(
    url: str, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def page(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("traceparent"))
        return httpx.Response(200, text="hello", headers={"content-type": "text/plain"})

    monkeypatch.setattr(http, "transport", httpx.MockTransport(page))
    settings = configured(url)
    async with open_ports(settings, toolbox=Toolbox([http.http_get])) as ports:
        request = RunRequest("What is at http://93.184.215.14/text ?", labels={"traceparent": GIVEN})
        run_id = await submit(ports, settings, request)
        await finish(run_id, ports)
    assert asked[0] == traceparent(run_id, {"traceparent": GIVEN}, "tool 1.0")
    assert asked[0] is not None and "0af7651916cd43dd8448eb211c80319c" in asked[0]


def test_nothing_is_exported_where_no_endpoint_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    with tracing(configured("http://127.0.0.1:9")) as observers:
        assert observers == ()


def test_the_exporter_sends_to_the_endpoint_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with tracing(configured("http://127.0.0.1:9")) as observers:
        assert len(observers) == 1


@pytest.mark.parametrize(
    ("labels", "header", "kept"),
    [
        ({}, GIVEN, GIVEN),
        ({"a": "b"}, "01" + GIVEN[2:] + "-what-a-later-version-adds", "01" + GIVEN[2:]),
        ({"traceparent": "mine"}, GIVEN, "mine"),
        ({}, "nonsense", None),
        ({}, "", None),
    ],
)
def test_the_header_of_a_submission_becomes_the_runs_label(
    labels: dict[str, str], header: str, kept: str | None
) -> None:
    first = continued(replace(started(), labels=labels), header)
    assert first.labels.get("traceparent") == kept
    assert {**labels, **first.labels} == dict(first.labels)
