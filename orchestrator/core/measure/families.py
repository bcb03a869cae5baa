"""The closed table of how models speak of errors. Data only; a blank in a phrase stands for one blank, `_`, `-` or nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Family(StrEnum):
    """Errors that are spoken of in the same words."""

    TIMEOUT = "timeout"
    NOT_FOUND = "not_found"
    AUTH = "auth"
    RATE_LIMIT = "rate_limit"
    INVALID_INPUT = "invalid_input"
    UNAVAILABLE = "unavailable"
    CONFLICT = "conflict"
    CIRCUIT_OPEN = "circuit_open"
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_OUTCOME = "unknown_outcome"


WORDS: Final[dict[Family, tuple[str, ...]]] = {
    Family.TIMEOUT: ("timeout", "timed out", "took too long", "no answer in time", "超时", "未响应"),
    Family.NOT_FOUND: (
        "not found", "does not exist", "no such", "no record", "no match",
        "不存在", "没有找到", "没找到", "未找到", "找不到", "查无", "没有这",
    ),
    Family.AUTH: (
        "unauthorised", "unauthorized", "forbidden", "denied", "refused", "permission", "no permission", "without permission",
        "not allowed", "权限", "没有权限", "无权", "拒绝", "未授权", "没有授权",
    ),
    Family.RATE_LIMIT: ("rate limit", "too many requests", "throttled", "限流", "太频繁"),
    Family.INVALID_INPUT: (
        "invalid", "malformed", "missing", "required", "out of range", "参数错误", "无效", "不合法", "缺少", "缺失",
    ),
    Family.UNAVAILABLE: (
        "unavailable", "is down", "went down", "offline", "overloaded", "server error", "5xx", "不可用", "宕机", "过载", "维护",
    ),
    Family.CONFLICT: ("conflict", "already exists", "冲突", "已存在", "占用"),
    Family.CIRCUIT_OPEN: ("circuit", "breaker", "withdrawn", "熔断"),
    Family.UNKNOWN_TOOL: ("no such tool", "unknown tool", "没有这个工具"),
    Family.UNKNOWN_OUTCOME: ("unknown", "uncertain whether", "不确定是否"),
}  # fmt: skip

STATUS: Final[dict[int, Family]] = {
    400: Family.INVALID_INPUT,
    422: Family.INVALID_INPUT,
    401: Family.AUTH,
    403: Family.AUTH,
    404: Family.NOT_FOUND,
    410: Family.NOT_FOUND,
    408: Family.TIMEOUT,
    504: Family.TIMEOUT,
    409: Family.CONFLICT,
    412: Family.CONFLICT,
    429: Family.RATE_LIMIT,
}
"""HTTP status codes; any other 5xx is UNAVAILABLE."""

PARTS: Final[dict[str, Family]] = {
    "down": Family.UNAVAILABLE,
    "busy": Family.UNAVAILABLE,
    "limit": Family.RATE_LIMIT,
    "quota": Family.RATE_LIMIT,
    "throttled": Family.RATE_LIMIT,
}
"""Parts of a code that say its family, besides the words above."""

CODES: Final[dict[str, tuple[Family, ...]]] = {"tool not found": (Family.UNKNOWN_TOOL, Family.NOT_FOUND)}
"""Codes of more than one family."""

FAILURE: Final = (
    "failed", "failure", "error", "exception", "broken", "could not", "unable",
    "失败", "错误", "出错", "报错", "异常", "无法", "没法", "不出来", "没成功",
)  # fmt: skip

MARKERS: Final = ("http", "code", "status", "error", "response", "again", "返回", "状态", "错误", "报", "还是", "又")
"""Words beside which a bare number is an error code."""

COMPOUNDS: Final = (
    "rounding error", "standard error", "human error", "typing error", "error rate", "error bar", "error budget", "error margin",
    "error handling", "trial and error", "误差", "错误率", "错误预算",
)  # fmt: skip
"""Words that hold a failure word and speak of none."""
