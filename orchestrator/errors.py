"""The errors, as a tree. A caller asks one of three questions: try again? give up? let go of the run?

::

    OrchestratorError
    ├── ConfigError            the operator's: says which setting and what to write there
    ├── CallError              a model or a tool did not do what it was asked; `code` names it
    │   ├── Transient          the same call may be made again
    │   │   ├── Timeout        connect, first token, between tokens, or whole
    │   │   ├── RateLimited    429 and its relatives; `retry_after` in seconds when the server said so
    │   │   ├── Unavailable    5xx, 529, cut connections, bodies that are no reply
    │   │   └── CircuitOpen    our own breaker refused; nothing was sent
    │   └── Permanent          the same call can never succeed as it is
    │       ├── Rejected       400, 404, 413, 422, refusals
    │       ├── Unauthorised   401, 403, exhausted balance
    │       └── ContextOverflow  the prompt is larger than the model's window
    ├── StoreError             the trace could not be read or written: let go of the run
    │   └── Conflict           another worker wrote first: let go of the run at once
    └── IllegalEvent           a history that cannot have happened: the trace is damaged
"""

from __future__ import annotations

from typing import Any


class OrchestratorError(Exception):
    """Root of all errors that this package raises on purpose."""


class ConfigError(OrchestratorError):
    """A setting is missing or wrong; the message names it and says what to write."""


class CallError(OrchestratorError):
    """A call to a model or a tool failed.

    `code` is from a closed list; `retry_after` is in seconds; `status` is the HTTP status, if there was one. `attempts` holds
    the `core.events.Attempt` of every try, where the caller keeps them.
    """

    def __init__(self, code: str, message: str, *, retry_after: float | None = None, status: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.status = status
        self.attempts: tuple[Any, ...] = ()


class Transient(CallError):
    """The same call may be made again."""


class Timeout(Transient):
    """Connect, first token, between tokens or the whole call took too long."""


class RateLimited(Transient):
    """The callee asked for fewer calls."""


class Unavailable(Transient):
    """The callee is down, overloaded, or sent something that is no reply."""


class CircuitOpen(Transient):
    """Our breaker is open; nothing was sent."""


class Permanent(CallError):
    """The same call can never succeed as it is."""


class Rejected(Permanent):
    """The callee refused this request for what it says."""


class Unauthorised(Permanent):
    """The callee refused the caller: key, permission or balance."""


class ContextOverflow(Permanent):
    """The prompt does not fit the model's window."""


class StoreError(OrchestratorError):
    """The trace could not be read or written: let go of the run, it will be claimed again."""


class Conflict(StoreError):
    """Another worker has appended to this run: let go of it before performing anything more."""


class IllegalEvent(OrchestratorError):
    """This event cannot follow that history: the trace is damaged, or a writer is wrong."""
