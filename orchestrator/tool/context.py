"""On whose behalf a tool runs: a context variable, so that tools need no extra parameter, in threads as well."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field

from orchestrator.core.quick import quick
from orchestrator.errors import OrchestratorError
from orchestrator.traceparent import traceparent


@quick
@dataclass(frozen=True, slots=True)
class Context:
    """One action of one run. `key` is the idempotency key ("run_id:action_id"): the same on every try, also after a crash.

    `attempt` counts tries from 1. `deadline` is in unix seconds, None without one. `token` is what `pending` was given, when a
    waiting action is asked about again. `callback` is a signed word, good once, with which a result may be reported later; ""
    where nobody listens. `labels` are the run's, None outside a run.
    """

    run_id: str
    action_id: str
    key: str
    attempt: int = 1
    deadline: float | None = None
    tenant: str = ""
    token: str = ""
    callback: str = ""
    labels: Mapping[str, str] | None = field(default=None, compare=False, repr=False)

    @property
    def traceparent(self) -> str:
        """The W3C trace context of this action, for the header of that name; "" outside a run."""
        return "" if self.labels is None else traceparent(self.run_id, self.labels, f"tool {self.action_id}")


_CONTEXT: ContextVar[Context] = ContextVar("orchestrator_tool_context")


def context() -> Context:
    """The Context of the action that is being run. OrchestratorError outside of one."""
    try:
        return _CONTEXT.get()
    except LookupError:
        raise OrchestratorError(
            "context() was called outside a tool: call it inside the function under @tool"
        ) from None


def trace_headers() -> dict[str, str]:
    """The headers that let an HTTP service go on with the run's trace (W3C); none outside of an action."""
    about = _CONTEXT.get(None)
    given = "" if about is None else about.traceparent
    return {"traceparent": given} if given else {}


def on_behalf_of(about: Context) -> Token[Context]:
    """Let `context()` answer `about` from here on, in this task."""
    return _CONTEXT.set(about)
