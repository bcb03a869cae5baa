"""Every way to say no: the code, whether it may be tried again, and when. Scored by the corpus' own rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.errors import CallError, Permanent
from orchestrator.providers import PROVIDERS, Reply
from tests.corpus.wire import score
from tests.providers.build import EVENTS, case, chat, chunks, events, fails, message, retries, said, use

NOW = "2026-01-15T12:00:00Z"
LIMITED = {"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}
HTML = {"content-type": "text/html"}


def error(message: str, code: Any = None, type: str | None = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def waits(name: str, after: float | None, **headers: str) -> dict[str, Any]:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return case(f"oa-wait-{name}", LIMITED, retries("RATE_LIMITED", after), status=429, headers=named, now=NOW)


TOO_LONG = [
    "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "the request exceeds the available context size, try increasing it",
    "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000",
    "Input is too long for requested model.",
]
BROKEN_HISTORY = [
    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
    "messages.4: `tool_use` ids must be unique",
    'messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row',
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
    "messages: text content blocks must be non-empty",
    "unexpected `tool_use_id` found in `tool_result` blocks: toolu_1",
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
]

NO_REASON: tuple[Any, ...] = (None, "", " ", 7, {}, [])

REFUSED = [
    *[case("oa-too-long", error(said), fails("CONTEXT_LENGTH_EXCEEDED"), status=400) for said in TOO_LONG],
    *[case("an-too-long", error(said), fails("CONTEXT_LENGTH_EXCEEDED"), status=400) for said in TOO_LONG],
    *[case("an-history", error(said), fails("HISTORY_INVALID"), status=400) for said in BROKEN_HISTORY],
    case("oa-vllm-error-object", {"object": "error", "message": TOO_LONG[0], "code": 400}, fails("CONTEXT_LENGTH_EXCEEDED"), status=400),
    case("oa-vllm-error-object-in-200", {"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}, fails("INVALID_REQUEST")),
    case("oa-llama-context", {"error": {"code": 400, "message": "too large", "type": "exceed_context_size_error"}}, fails("CONTEXT_LENGTH_EXCEEDED"), status=400),
    case("oa-quota-429", error("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), fails("QUOTA_EXHAUSTED"), status=429),
    case("oa-quota-403", error("no money", "insufficient_quota"), fails("QUOTA_EXHAUSTED"), status=403),
    case("an-balance", error("Your credit balance is too low to access the Anthropic API."), fails("QUOTA_EXHAUSTED"), status=400),
    case("oa-tokens-per-minute", error("Limit on context length per minute: try later", "rate_limit_exceeded", "tokens"), retries("RATE_LIMITED"), status=429),
    case("oa-model-missing", error("The model `m` does not exist", "model_not_found"), fails("NOT_FOUND"), status=404),
    case("oa-tool-schema", error("Invalid schema for function 'search'"), fails("INVALID_REQUEST"), status=400),
    case("oa-nothing-said", "", fails("INVALID_REQUEST"), status=400),
    case("oa-teapot", "short and stout", fails("INVALID_REQUEST"), status=418),
    case("oa-redirect", "", fails("INVALID_REQUEST"), status=307),
    case("oa-filtered-azure-inner", {"error": {"message": "x", "code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, fails("CONTENT_FILTERED"), status=400),
    *[case(f"oa-finish-{word}", chat({"content": "x"}, word), fails("CONTENT_FILTERED")) for word in ("SAFETY", "content-filter", "sensitive", "PROHIBITED_CONTENT")],
    *[case(f"oa-finish-{word}", chat({"content": "x"}, word), retries("SERVER_ERROR")) for word in ("error", "abort", "insufficient_system_resource", "MALFORMED_FUNCTION_CALL")],
    *[case(f"oa-status-{status}", "", retries("SERVER_ERROR"), status=status) for status in (500, 502, 520, 530, 599)],
    *[case(f"oa-status-{status}", "", retries("TIMEOUT"), status=status) for status in (408, 504, 522, 524)],
    *[case(f"oa-status-{status}", "<html>", retries("OVERLOADED"), status=status, headers=HTML) for status in (503, 529)],
    case("oa-error-is-text", {"error": "model is loading"}, retries("SERVER_ERROR")),
    case("oa-error-code-in-text", {"error": {"message": "x", "code": "429"}}, retries("RATE_LIMITED")),
    case("oa-error-says-rate", {"error": {"message": "x", "code": "rate_limit_exceeded"}}, retries("RATE_LIMITED")),
    case("oa-error-502-inside", {"error": {"message": "x", "code": 502}}, retries("SERVER_ERROR")),
    case("oa-error-401-inside", {"error": {"message": "x", "code": 401}}, fails("AUTH_ERROR")),
    *[case("oa-no-finish", chat({"content": "x"}, finish), retries("MALFORMED_RESPONSE")) for finish in NO_REASON],
    *[case("an-no-stop", message(said("x"), stop=stop), retries("MALFORMED_RESPONSE")) for stop in NO_REASON],
    case("oa-gemini-shape", [{"error": {"code": 429}}], retries("MALFORMED_RESPONSE")),
    *[case("oa-no-reply", body, retries("MALFORMED_RESPONSE")) for body in ("[]", "7", '"text"', "<?xml?>", "{}", '{"choices": 7}', '{"choices": [7]}', "[" * 5000, "\x00")],
    *[case("an-no-reply", body, retries("MALFORMED_RESPONSE")) for body in ("[]", "7", "<p>", "{}", '{"content": {}, "stop_reason": "end_turn"}', '{"a":' * 3000)],
    case("oa-cut-json", json.dumps(chat({"content": "High"}))[:60], retries("STREAM_INTERRUPTED"), transport="closed_early"),
    case("an-cut-json", json.dumps(message(said("High")))[:60], retries("STREAM_INTERRUPTED"), transport="closed_early"),
    case("an-overloaded-text-only", {"type": "error", "error": {"type": "overloaded_error"}}, retries("OVERLOADED"), status=500),
    case("an-rate-inside-200", {"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, retries("RATE_LIMITED")),
    case("an-timeout-inside", {"type": "error", "error": {"type": "timeout_error", "message": "x"}}, retries("TIMEOUT")),
    case("oa-should-not-retry", error("bad schema", None, "server_error"), fails("SERVER_ERROR"), status=500, headers={"X-Should-Retry": "false"}),
]  # fmt: skip

STREAMED = [
    case("oa-html-where-a-stream-was-asked", "<html>Sign in</html>", retries("MALFORMED_RESPONSE"), stream=True),
    case("oa-error-json-where-a-stream-was-asked", LIMITED, retries("RATE_LIMITED"), stream=True),
    case("oa-only-comments", ": waiting\n\n: waiting\n\n", retries("STREAM_INTERRUPTED")),
    case("oa-nothing-then-closed", "", retries("STREAM_INTERRUPTED"), stream=True, headers=EVENTS, transport="closed_early"),
    case("oa-cut-inside-a-line", chunks({"content": "High"})[:90], retries("STREAM_INTERRUPTED"), transport="closed_early"),
    case("oa-cut-after-a-call", chunks({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get_time", "arguments": "{}"}}]}, finish=None, done=False), retries("STREAM_INTERRUPTED")),
    case("oa-finish-blank-until-the-end", chunks({"content": "The dose is 1"}, finish="", done=False), retries("STREAM_INTERRUPTED")),
    case("an-stop-blank", events(said("x"), stop=""), retries("MALFORMED_RESPONSE")),
    case("oa-event-error-text", "event: error\ndata: upstream fell over\n\n", retries("SERVER_ERROR")),
    case("oa-error-after-text", chunks({"content": "Hi"}, finish=None, done=False) + 'data: {"error":{"code":503,"message":"x"}}\n\n', retries("OVERLOADED")),
    case("oa-error-in-choice", 'data: {"choices":[{"index":0,"error":{"code":500},"delta":{}}]}\n\n', retries("SERVER_ERROR")),
    case("oa-number-for-an-event", "data: 7\n\n" + chunks({"content": "High"}), retries("MALFORMED_RESPONSE")),
    case("oa-content-number-streamed", chunks({"content": 7}), retries("MALFORMED_RESPONSE")),
    case("an-call-block-never-closed", events(use("get_time", {}), stop="tool_use").replace("content_block_stop", "content_block_noise"), retries("STREAM_INTERRUPTED")),
    case("an-stop-without-reason", 'data: {"type":"message_start","message":{}}\n\ndata: {"type":"message_stop"}\n\n', retries("MALFORMED_RESPONSE")),
    case("an-error-text-event", 'event: error\ndata: {"type":"api_error","message":"x"}\n\n', retries("SERVER_ERROR")),
    case("an-filter-streamed", events(said("x"), stop="content_filtered"), fails("CONTENT_FILTERED")),
]  # fmt: skip

WAITS = [
    waits("zero", 0.0, Retry_After="0"),
    waits("blanks", 5.0, retry_after=" 5 "),
    waits("fraction", 1.5, retry_after="1.5"),
    waits("past-date", 0.0, retry_after="Thu, 15 Jan 2026 11:00:00 GMT"),
    waits("rfc850", 30.0, retry_after="Thursday, 15-Jan-26 12:00:30 GMT"),
    waits("asctime", 30.0, retry_after="Thu Jan 15 12:00:30 2026"),
    waits("milliseconds-first", 0.25, retry_after="1", retry_after_ms="250"),
    waits("broken-milliseconds", 1.0, retry_after="1", retry_after_ms="soon"),
    *[waits(f"garbage {value}", None, retry_after=value) for value in ("", "+5", "0x10", "inf", "nan", "5, 6", "٥", "9" * 40, "Thu, 99 Jan 2026", "now")],
    waits("openai-reset", 360.0, x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="6m0s"),
    waits("openai-reset-ms", 0.12, x_ratelimit_remaining_tokens="0", x_ratelimit_reset_tokens="120ms"),
    waits("reset-of-a-budget-not-spent", None, x_ratelimit_remaining_requests="9", x_ratelimit_reset_requests="6m0s"),
    waits("anthropic-reset", 90.0, anthropic_ratelimit_tokens_remaining="0", anthropic_ratelimit_tokens_reset="2026-01-15T12:01:30Z"),
]  # fmt: skip


@pytest.mark.parametrize("one", REFUSED + STREAMED + WAITS, ids=lambda one: one["id"])
def test_a_failure_has_its_name_and_its_delay(one: dict[str, Any]) -> None:
    assert score(one) is None


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_an_error_never_repeats_a_key_or_a_long_page(name: str) -> None:
    for status in (400, 401, 403, 429, 500):
        body = error("Incorrect API key provided: sk-abc123DEF456ghi. Bearer abcdefgh12345678\x1b[31m\n" + "x " * 5000)
        found = PROVIDERS[name].failure(Reply(status, {}, json.dumps(body).encode()))
        assert "abc123" not in str(found)
        assert "abcdefgh" not in str(found)
        assert len(str(found)) < 600
        assert str(found).isprintable()


@pytest.mark.parametrize("name", sorted(PROVIDERS))
@pytest.mark.parametrize("status", range(300, 600))
def test_every_status_has_a_code_and_says_whether_to_try_again(name: str, status: int) -> None:
    found = PROVIDERS[name].failure(Reply(status, {}, b""))
    assert isinstance(found, CallError)
    assert found.status == status
    assert isinstance(found, Permanent) == (status < 500 and status not in {408, 409, 425, 429})
