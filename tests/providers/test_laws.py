"""Laws of the codecs: streamed equals whole, splits do not matter, nothing but a CallError comes out, time is linear."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core import native
from orchestrator.core.events import StopReason, Usage
from orchestrator.core.prompt import Completion, RawCall
from orchestrator.errors import CallError, Unavailable
from orchestrator.providers import PROVIDERS, Asked, Reply
from orchestrator.providers.sse import Events
from orchestrator.providers.wire import estimated
from orchestrator.stores.record import dump, load
from tests.corpus.wire import tool
from tests.providers.build import EVENTS, JSON, TOOLS, call, chat, chunks, events, message, part, said, thought, use

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
WORDS = TEXT.filter(str.strip)
INPUT = st.dictionaries(TEXT, TEXT | st.integers() | st.booleans() | st.none(), max_size=3)
CALLS = st.lists(st.tuples(WORDS, st.text("abc0123", max_size=3), INPUT), max_size=3)
SPECS = [tool(each) for each in TOOLS]
KEYS = json.loads(
    '["choices","message","delta","content","tool_calls","function","arguments","name","id","index","error","type","text","usage",'
    '"input","finish_reason","stop_reason","thinking","code","content_block","prompt_tokens","function_call","refusal","status"]'
)
HOSTILE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.sampled_from(["tool_use", "text", "stop", "thinking"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


def streamed(provider: str, body: bytes, cuts: list[int]) -> Completion:
    stream = PROVIDERS[provider].stream(Asked("m"))
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    for start, stop in pairwise(edges):
        stream.feed(body[start:stop])
    return stream.end()


def whole(provider: str, body: Any) -> Completion:
    return PROVIDERS[provider].decode(Reply(200, JSON, json.dumps(body).encode()), Asked("m"))


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@given(text=TEXT, reasoning=TEXT, calls=CALLS, size=st.integers(1, 9), cuts=st.lists(st.integers(0, 5000), max_size=6))
def test_chat_completions_streamed_and_whole_are_equal(
    text: str, reasoning: str, calls: list[Any], size: int, cuts: list[int]
) -> None:
    finish = "tool_calls" if calls else "stop"
    made = [call(name, json.dumps(input), id, extra_content={"x": 1}) for name, id, input in calls]
    deltas: list[dict[str, Any]] = [{"reasoning_content": piece} for piece in pieces(reasoning, size)]
    deltas += [{"content": piece} for piece in pieces(text, size)]
    for index, (name, id, input) in enumerate(calls):
        deltas.append(part(index, id=id, type="function", name=name, arguments="", extra_content={"x": 1}))
        deltas += [part(index, arguments=piece) for piece in pieces(json.dumps(input), size)]
    body = {"content": text, "reasoning_content": reasoning, "tool_calls": made}
    usage = 'data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":8}}\n\n'
    stream = chunks({}, *deltas, finish=finish).replace("data: [DONE]", usage + "data: [DONE]")
    assert streamed("openai", stream.encode(), cuts) == whole("openai", chat(body, finish))


@given(text=TEXT, reasoning=TEXT, calls=CALLS, size=st.integers(1, 9), cuts=st.lists(st.integers(0, 5000), max_size=6))
def test_messages_streamed_and_whole_are_equal(
    text: str, reasoning: str, calls: list[Any], size: int, cuts: list[int]
) -> None:
    blocks = [thought(reasoning), said(text), *(use(name, input, id) for name, id, input in calls)]
    stop = "tool_use" if calls else "end_turn"
    stream = events(*blocks, stop=stop, size=size)
    assert streamed("anthropic", stream.encode(), cuts) == whole("anthropic", message(*blocks, stop=stop))


@given(st.lists(st.text("ab:\r\n \ufeff€", max_size=12) | st.just("data: x\n\n"), max_size=12), st.integers(1, 7))
def test_events_are_the_same_however_the_bytes_are_split(lines: list[str], size: int) -> None:
    body = "".join(lines).encode()
    once, split = Events(), Events()
    expected = once.feed(body) + once.rest()
    found = [event for at in range(0, len(body), size) for event in split.feed(body[at : at + size])] + split.rest()
    assert found == expected


@settings(max_examples=300)
@given(
    body=HOSTILE, status=st.sampled_from([200, 200, 200, 400, 429, 500]), shape=st.sampled_from(["json", "sse", "raw"])
)
@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_whatever_a_server_sends_only_a_call_error_comes_out(name: str, body: Any, status: int, shape: str) -> None:
    text = json.dumps(body).encode()
    wrapped = {
        "json": json.dumps(
            {"choices": [{"index": 0, "message": body, "finish_reason": "stop"}], "content": body, "stop_reason": "x"}
        ),
        "sse": "".join(f"data: {json.dumps(each)}\n\n" for each in (body if isinstance(body, list) else [body]))
        + "data: [DONE]\n\n",
        "raw": text.decode(),
    }[shape].encode()
    try:
        completion = PROVIDERS[name].decode(
            Reply(status, EVENTS if shape == "sse" else JSON, wrapped), Asked("m", 5, 0.0)
        )
    except CallError as error:
        assert str(error).isprintable()
    else:
        turn = native.read(completion, SPECS, 1)
        assert turn.intent is not None


@given(st.binary(max_size=200), st.sampled_from([JSON, EVENTS]))
@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_noise_is_a_call_error(name: str, body: bytes, headers: dict[str, str]) -> None:
    with pytest.raises(CallError):
        PROVIDERS[name].decode(Reply(200, headers, body))


@pytest.mark.parametrize(
    ("name", "body"),
    [("openai", chunks({"content": "Hi"}, {"content": " you"})), ("anthropic", events(said("Hi you")))],
)
def test_deltas_come_as_they_arrive_and_a_cut_keeps_what_came(name: str, body: str) -> None:
    stream = PROVIDERS[name].stream()
    deltas = [delta for line in body.encode().splitlines(keepends=True)[:-6] for delta in stream.feed(line)]
    cut = stream.cut()
    assert "".join(delta.text for delta in deltas) == cut.text != ""
    assert (cut.stop, cut.calls) == (StopReason.CUT, ())


@pytest.mark.parametrize(("name", "counted"), [("openai", 250), ("anthropic", 20)])
def test_a_cut_stream_is_not_free(name: str, counted: int) -> None:
    pieces = ["x" * 40] * 10
    body = (
        chunks(*({"content": each} for each in pieces)) if name == "openai" else events(said("".join(pieces)), size=40)
    )
    stream = PROVIDERS[name].stream(Asked("m", sent=1000))
    stream.feed(body.encode())
    usage = stream.cut().usage
    assert (usage.input_tokens, usage.output_tokens) == (counted, 100)


def test_a_stream_without_end_is_not_kept_in_memory() -> None:
    reader = Events(limit=1000)
    with pytest.raises(Unavailable, match="larger than 1000 bytes"):
        for _ in range(200):
            reader.feed(b"data: xxxx")


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_a_long_stream_in_small_pieces_takes_linear_time(name: str) -> None:
    def seconds(count: int) -> float:
        body = chunks({"content": "x" * count}) if name == "openai" else events(said("x" * count), size=count)
        data = body.encode()
        started = time.process_time()
        streamed(name, data, list(range(0, len(data), 50)))
        return time.process_time() - started

    seconds(1000)
    assert seconds(400_000) < 40 * max(seconds(40_000), 0.002)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("openai", '{"choices":[{"index":0,"delta":{"reasoning_details":[{}]}}]}'),
        ("openai", '{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"a","arguments":""}}]}}]}'),
        ("anthropic", '{"type":"content_block_start","content_block":{"type":"text"}}'),
        ("anthropic", '{"type":"content_block_stop"}'),
    ],
    ids=["lists", "empty arguments", "blocks", "stops"],
)
def test_many_small_events_take_linear_time(name: str, line: str) -> None:
    def seconds(count: int) -> float:
        stream, data = PROVIDERS[name].stream(), f"data: {line}\n\n".encode() * count
        started = time.process_time()
        stream.feed(data)
        return time.process_time() - started

    seconds(100)
    many = min(
        seconds(40_000) for _ in range(3)
    )  # the collector of garbage looks through all that other tests have left
    assert many < 40 * max(seconds(4_000), 0.002)


@pytest.mark.parametrize("depth", [300, 390, 500, 900, 980, 1000, 1020, 5000])
@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_a_reply_nested_however_deep_is_read_and_can_be_stored_or_is_a_call_error(name: str, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    body = {
        "openai": '{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"reasoning_details":[%s],"tool_calls":'
        '[{"id":"a","function":{"name":"search","arguments":"{}"}}]}}]}',
        "anthropic": '{"type":"message","stop_reason":"tool_use","content":[{"type":"tool_use","id":"a","name":"search",'
        '"input":{},"odd":%s}]}',
    }[name] % deep
    try:
        completion = PROVIDERS[name].decode(Reply(200, JSON, body.encode()))
    except CallError as error:
        assert (error.code, depth > 300) == ("MALFORMED_RESPONSE", True)
    else:
        turn = native.read(completion, SPECS, 1)
        assert load(dump(turn)) == turn
        (said, *_) = native.messages(turn, ())
        assert PROVIDERS[name].parts(said, "")


def test_usage_that_an_endpoint_does_not_tell_is_estimated() -> None:
    told = estimated(Usage(), Completion("x" * 400, "y" * 40, (RawCall("a", "s", "z" * 40),)), 1000)
    assert (told.input_tokens, told.output_tokens) == (250, 120)
    assert estimated(Usage(7, 8, cost=0.5), Completion("x" * 400), 1000) == Usage(7, 8, cost=0.5)
