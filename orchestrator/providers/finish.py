"""What a finish reason means, in any vendor's spelling, and whether the cap was hit without being named."""

from __future__ import annotations

from orchestrator.core.events import Anomaly, StopReason
from orchestrator.providers.failure import fault

_KNOWN = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "eos": StopReason.END_TURN,
    "completed": StopReason.END_TURN,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_calls": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}
# An unknown word that says one of these is believed: the safe reading of a new vendor's spelling.
_CUT = ("length", "max", "limit", "truncat", "exceed", "window")
_FILTERED = ("filter", "safety", "sensitive", "blocklist", "prohibited", "recitation", "spii", "moderation")
_BROKEN = ("error", "abort", "cancel", "interrupt", "timeout", "insufficient", "fail", "malformed")


def finish(reason: object, *, output_tokens: int, max_tokens: int) -> tuple[StopReason, tuple[Anomaly, ...]]:
    """The neutral stop reason. Raises CallError CONTENT_FILTERED or SERVER_ERROR where the reason is a failure.

    Routers rewrite `length` to `stop` or `tool_calls`: as many tokens as were allowed is a cut whatever the label says.
    """
    word = reason.strip().lower() if isinstance(reason, str) else ""
    stop = _KNOWN.get(word) or _guess(word)
    if (
        max_tokens
        and output_tokens == max_tokens
        and stop in (StopReason.END_TURN, StopReason.TOOL_USE, StopReason.UNKNOWN)
    ):
        return StopReason.MAX_TOKENS, ()
    return stop, (Anomaly.UNKNOWN_FINISH_REASON,) if stop is StopReason.UNKNOWN else ()


def _guess(word: str) -> StopReason:
    if any(mark in word for mark in _FILTERED):
        raise fault("CONTENT_FILTERED", f"the endpoint filtered this reply (finish reason {word[:40]!r})")
    if any(mark in word for mark in _BROKEN):
        raise fault("SERVER_ERROR", f"the endpoint gave up inside the reply (finish reason {word[:40]!r})")
    return StopReason.MAX_TOKENS if any(mark in word for mark in _CUT) else StopReason.UNKNOWN
