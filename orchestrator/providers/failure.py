"""Every way a model endpoint says no, as one CallError with a code of a closed list. The same ladder for both dialects.

The status decides, unless the body's *structured* code knows better (an empty balance behind a 429, an error inside a 200);
words alone decide only where every server has its own code for the same thing (context window, broken history).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from orchestrator.errors import (
    CallError,
    ContextOverflow,
    RateLimited,
    Rejected,
    Timeout,
    Unauthorised,
    Unavailable,
)
from orchestrator.providers.wire import Reply, dict_of, dicts_of, heal, loads, text_of

_KINDS: dict[str, type[CallError]] = {
    "RATE_LIMITED": RateLimited,
    "OVERLOADED": Unavailable,
    "SERVER_ERROR": Unavailable,
    "CONFLICT": Unavailable,
    "MALFORMED_RESPONSE": Unavailable,
    "EMPTY_RESPONSE": Unavailable,
    "STREAM_INTERRUPTED": Unavailable,
    "TIMEOUT": Timeout,
    "QUOTA_EXHAUSTED": Unauthorised,
    "AUTH_ERROR": Unauthorised,
    "PERMISSION_DENIED": Unauthorised,
    "CONTEXT_LENGTH_EXCEEDED": ContextOverflow,
    "NOT_FOUND": Rejected,
    "INVALID_REQUEST": Rejected,
    "REQUEST_TOO_LARGE": Rejected,
    "CONTENT_FILTERED": Rejected,
    "HISTORY_INVALID": Rejected,
}
_STATUS = {
    400: "INVALID_REQUEST", 401: "AUTH_ERROR", 402: "QUOTA_EXHAUSTED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    408: "TIMEOUT", 409: "CONFLICT", 413: "REQUEST_TOO_LARGE", 425: "SERVER_ERROR", 429: "RATE_LIMITED",
    503: "OVERLOADED", 504: "TIMEOUT", 522: "TIMEOUT", 524: "TIMEOUT", 529: "OVERLOADED",
}  # fmt: skip
# Codes that mean the same under any status: they say more than 400 or 429 does.
_DECISIVE = {
    "content_filter": "CONTENT_FILTERED", "content_filtered": "CONTENT_FILTERED", "content_policy_violation": "CONTENT_FILTERED",
    "responsibleaipolicyviolation": "CONTENT_FILTERED", "data_inspection_failed": "CONTENT_FILTERED",
    "datainspectionfailed": "CONTENT_FILTERED",
    "context_length_exceeded": "CONTEXT_LENGTH_EXCEEDED", "exceed_context_size_error": "CONTEXT_LENGTH_EXCEEDED",
    "context_window_exceeded": "CONTEXT_LENGTH_EXCEEDED", "model_context_window_exceeded": "CONTEXT_LENGTH_EXCEEDED",
    "insufficient_quota": "QUOTA_EXHAUSTED", "billing_hard_limit_reached": "QUOTA_EXHAUSTED", "billing_error": "QUOTA_EXHAUSTED",
    "billing_not_active": "QUOTA_EXHAUSTED", "insufficient_balance": "QUOTA_EXHAUSTED", "arrearage": "QUOTA_EXHAUSTED",
    "budget_exceeded": "QUOTA_EXHAUSTED", "accountoverdueerror": "QUOTA_EXHAUSTED", "1113": "QUOTA_EXHAUSTED",
    "1261": "CONTEXT_LENGTH_EXCEEDED", "1301": "CONTENT_FILTERED", "tool_use_failed": "MALFORMED_RESPONSE",
    "throttlingexception": "RATE_LIMITED", "modelerrorexception": "SERVER_ERROR",
    "insufficient_user_quota": "QUOTA_EXHAUSTED", "exceeded_current_quota_error": "QUOTA_EXHAUSTED",
    "invalid_api_key": "AUTH_ERROR", "authentication_error": "AUTH_ERROR", "invalid_authentication_error": "AUTH_ERROR",
    "model_not_found": "NOT_FOUND", "request_too_large": "REQUEST_TOO_LARGE", "overloaded_error": "OVERLOADED",
}  # fmt: skip
# Codes that speak where the status does not: inside a 200, in a stream.
_SPOKEN = {
    "rate_limit_error": "RATE_LIMITED", "rate_limit_exceeded": "RATE_LIMITED", "rate_limited": "RATE_LIMITED",
    "too_many_requests": "RATE_LIMITED", "resource_exhausted": "RATE_LIMITED", "requests": "RATE_LIMITED", "tokens": "RATE_LIMITED",
    "throttling": "RATE_LIMITED", "rate_limit_reached_error": "RATE_LIMITED",
    "overloaded": "OVERLOADED", "engine_overloaded": "OVERLOADED", "engine_overloaded_error": "OVERLOADED",
    "service_unavailable": "OVERLOADED", "unavailable": "OVERLOADED", "unavailable_error": "OVERLOADED",
    "timeout": "TIMEOUT", "timeout_error": "TIMEOUT", "deadline_exceeded": "TIMEOUT",
    "permission_error": "PERMISSION_DENIED", "permission_denied": "PERMISSION_DENIED",
    "not_found_error": "NOT_FOUND", "not_found": "NOT_FOUND",
    "invalid_request_error": "INVALID_REQUEST", "invalid_argument": "INVALID_REQUEST", "bad_request": "INVALID_REQUEST",
    "badrequesterror": "INVALID_REQUEST", "conflict": "CONFLICT",
}  # fmt: skip
_CONTEXT = (
    "context length", "context window", "context size", "context_length", "prompt is too long", "input is too long",
    "exceed context", "exceeds the context", "maximum context", "exceeds the model's maximum input",
    "input length exceeds", "prompt too long", "maximum number of tokens allowed", "maximum prompt length", "maximum model length",
    "maximum input length", "model token limit", "range of input length", "`inputs` tokens", "`inputs` must have less",
    "too many tokens:", "上下文长度", "prompt 超长",
)  # fmt: skip
_HISTORY = (
    "tool_call_id", "tool_calls", "tool_use", "tool_result", "role 'tool'", 'role "tool"', "`signature`", "thinking block",
    "`thinking`", "non-empty content", "must be non-empty", "must alternate", "reasoning_content", "thought_signature",
)  # fmt: skip
_FILTER = ("content filtering policy", "content management policy", "violating our usage policy", "requires moderation")
_BALANCE = ("credit balance is too low", "insufficient balance", "insufficient credits")
_SECRET = re.compile(r"(?i)\b(?:sk|pk|rk|gsk|xai|key|bearer|aiza)[-_ ][\w*.…+/=-]{6,}|\b[\w-]{32,}\b")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_SPAN = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s))?")


def fault(code: str, message: str, *, status: int | None = None, retry_after: float | None = None) -> CallError:
    """The CallError of this code, in the class that says whether it may be tried again."""
    return _KINDS[code](code, message, status=status, retry_after=retry_after)


def failure(reply: Reply, now: float | None = None) -> CallError:
    """The error that this reply is. `now` (unix seconds) makes HTTP dates into delays; without it they are ignored."""
    headers = {name.lower(): value for name, value in reply.headers.items()}
    try:
        body = loads(reply.body)
    except ValueError:
        body = None
    error = error_of(body)
    status = reply.status if not 200 <= reply.status < 300 else _number(error) or _number(dict_of(body)) or reply.status
    names = _names(dict_of(body) if error is None else error, headers.get("x-amzn-errortype", ""))
    code = _code(status, error, _words(body, error), names)
    message = f"the endpoint answered {reply.status}{_told(code, body, error)}{_advice(code)}"
    kind = _KINDS[code]
    if status >= 500 and headers.get("x-should-retry", "").strip().lower() == "false":
        kind = Rejected
    after = retry_after(headers, now)
    return kind(code, message, status=reply.status, retry_after=_delay(error) if after is None else after)


def error_of(body: Any) -> dict[str, Any] | None:
    """The error object of a body or of a stream event, {} for an error without details, None when it is no error."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if error:
        return error if isinstance(error, dict) else {"message": text_of(error)}
    if body.get("type") == "error" or body.get("object") == "error":
        return body
    return None


def retry_after(headers: Mapping[str, str], now: float | None) -> float | None:
    """Seconds to wait, from `retry-after-ms`, `retry-after` (seconds or HTTP date) or the reset of an emptied budget."""
    if _SECONDS.fullmatch(headers.get("retry-after-ms", "").strip()):
        return float(headers["retry-after-ms"]) / 1000
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    if value and now is not None and (date := _date(value)) is not None:
        return float(max(0, math.ceil(date - now)))
    resets = [
        span
        for name, left in headers.items()
        if left.strip() == "0" and "ratelimit" in name and "remaining" in name
        if (span := _reset(headers.get(name.replace("remaining", "reset")) or _swapped(headers, name), now)) is not None
    ]
    return max(resets, default=None)


def _swapped(headers: Mapping[str, str], name: str) -> str:
    # Anthropic: anthropic-ratelimit-tokens-remaining / -reset. OpenAI: x-ratelimit-remaining-tokens / -reset-tokens.
    return headers.get(name.replace("-remaining", "") + "-reset", "")


def _reset(value: str, now: float | None) -> float | None:
    value = value.strip()
    if value and (span := _SPAN.fullmatch(value)):
        hours, minutes, amount, unit = span.groups()
        return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(amount or 0) / (1000 if unit == "ms" else 1)
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return None if now is None or at.tzinfo is None else float(max(0, math.ceil(at.timestamp() - now)))


def _date(value: str) -> float | None:
    try:
        at = parsedate_to_datetime(value)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _delay(error: dict[str, Any] | None) -> float | None:
    # Gemini's RetryInfo: {"@type": ".../google.rpc.RetryInfo", "retryDelay": "34s"}
    for detail in dicts_of(dict_of(error).get("details")):
        value = text_of(detail.get("retryDelay"))
        if value.endswith("s") and _SECONDS.fullmatch(value[:-1]):
            return float(value[:-1])
    return None


def _code(status: int, error: dict[str, Any] | None, words: str, names: list[str]) -> str:
    if found := next((_DECISIVE[name] for name in names if name in _DECISIVE), None):
        return found
    asked = status in (400, 413, 422, 500) or 200 <= status < 300
    if asked and any(mark in words for mark in _CONTEXT):
        return "CONTEXT_LENGTH_EXCEEDED"
    if status in (400, 403) and any(mark in words for mark in _BALANCE):
        return "QUOTA_EXHAUSTED"
    if status in (400, 403) and any(mark in words for mark in _FILTER):
        return "CONTENT_FILTERED"
    if status in (400, 422) and any(mark in words for mark in _HISTORY):
        return "HISTORY_INVALID"
    if status in _STATUS and status != 400:
        return _STATUS[status]
    if status >= 500:
        return "OVERLOADED" if any("overload" in name for name in names) else "SERVER_ERROR"
    if status >= 300:
        return "INVALID_REQUEST"
    spoken = next((_SPOKEN[name] for name in names if name in _SPOKEN), None)
    return spoken or ("SERVER_ERROR" if error is not None else "MALFORMED_RESPONSE")


def _names(error: dict[str, Any], header: str) -> list[str]:
    """The structured words for what is wrong, in lower case; Amazon writes `namespace#Name` and `Name:address`."""
    inner = dict_of(error.get("innererror"))
    said = (error.get("code"), inner.get("code"), error.get("type"), error.get("status"), error.get("__type"))
    words = [header, *(str(value) if isinstance(value, int) else text_of(value) for value in said)]
    return [word.partition(":")[0].rpartition("#")[2].lower() for word in words]


def _number(error: dict[str, Any] | None) -> int | None:
    for name in ("code", "status", "status_code", "http_code"):
        value = dict_of(error).get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
            return value
    return None


def _words(body: Any, error: dict[str, Any] | None) -> str:
    found = [dict_of(error).get("message"), dict_of(body).get("message"), dict_of(body).get("detail")]
    return " ".join(value[:4000].lower() for value in found if isinstance(value, str))


def _told(code: str, body: Any, error: dict[str, Any] | None) -> str:
    # What was said about a key may hold the key.
    if code in ("AUTH_ERROR", "PERMISSION_DENIED"):
        return ""
    said = text_of(dict_of(error).get("message")) or text_of(dict_of(body).get("message"))
    said = " ".join(heal(said[:2000]).split())
    said = "".join(char for char in said if char.isprintable())
    return f": {_SECRET.sub('***', said)[:300]}" if said else ""


def _advice(code: str) -> str:
    return {
        "AUTH_ERROR": "; check the API key of this model in the settings",
        "PERMISSION_DENIED": "; the key may not use this model or the request never reached the API",
        "QUOTA_EXHAUSTED": "; top up the account or set another model",
        "NOT_FOUND": "; check base_url and the model's name in the settings",
        "REQUEST_TOO_LARGE": "; the prompt must shrink before it is sent again",
        "CONTEXT_LENGTH_EXCEEDED": "; the prompt must shrink before it is sent again",
    }.get(code, "")
