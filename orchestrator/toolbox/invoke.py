"""One try of one tool: the border where anything can come from outside.

The tool runs in a task of its own, so that one which swallows its cancellation is left behind, not waited for. Whatever it
raises leaves here as a CallError with a code; whatever it returns leaves as a ToolResult.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import structlog
from pydantic import BaseModel

from orchestrator.core.clean import Rules
from orchestrator.core.quick import quick
from orchestrator.core.spec import Json, ToolResult
from orchestrator.errors import CallError, Permanent, Timeout
from orchestrator.policy import Ask
from orchestrator.tool import Context, Threads, Tool, on_behalf_of
from orchestrator.toolbox.called import Settled, settle

GRACE = 0.05  # seconds that a cancelled tool has to put its things away
LARGE = 262_144  # characters or bytes of a text that is cleaned in a thread
_ENVELOPE = frozenset(("status", "code", "data", "message"))
MOST_TOLD = 1000
"""Places whose tracebacks are logged by one process."""
_log = structlog.stdlib.get_logger("orchestrator.toolbox")
_TOLD: set[tuple[str, str, str, int]] = set()
_STATES = ("success", "error", "pending")
_LEFT_BEHIND: set[asyncio.Task[Any]] = set()


@quick
@dataclass(frozen=True, slots=True)
class Invocation:
    """A tool with its checked arguments, and on whose behalf; `rules` are those its result is cleaned by.

    `asking`: about an action begun earlier, through `reconcile`.
    """

    tool: Tool
    arguments: Mapping[str, Any]
    context: Context
    rules: Rules
    asking: bool = False


async def attempt(ask: Ask[Invocation], threads: Threads) -> Settled:
    """Run the tool once. Raises CallError or CancelledError, nothing else."""
    what = ask.input
    about = what.context if not ask.attempts else replace(what.context, attempt=len(ask.attempts) + 1)
    loop = asyncio.get_running_loop()
    task, ended = loop.create_task(_run(what, about, threads)), loop.create_future()
    task.add_done_callback(partial(_tell, ended))
    try:
        await ended
    except asyncio.CancelledError:
        task.cancel()
        await _put_away(task)
        raise
    try:
        return task.result()
    finally:
        del (
            task
        )  # it holds its error, whose traceback holds this frame: forty objects that only the collector would find


def _tell(ended: asyncio.Future[None], _: asyncio.Task[Settled]) -> None:
    """What `asyncio.shield` does, with one callback for three."""
    if not ended.done():
        ended.set_result(None)


def asks(tool: Tool, given: Mapping[str, Any]) -> bool:
    """The tool's own rule on its checked arguments. A rule that fails asks: a person sees more than nobody."""
    try:
        return bool(tool.approval is not None and tool.approval(**given))
    except Exception:  # noqa: BLE001  a rule is as foreign as its tool
        return True


async def _put_away(task: asyncio.Task[Any]) -> None:
    if not task.done():
        await asyncio.wait((task,), timeout=GRACE)
    if not task.done():
        _LEFT_BEHIND.add(task)
        task.add_done_callback(_gone)
    elif not task.cancelled():
        task.exception()


def _gone(task: asyncio.Task[Any]) -> None:
    _LEFT_BEHIND.discard(task)
    if not task.cancelled():
        task.exception()


def left_behind() -> int:
    """How many tools of this process still run although they were cancelled."""
    return len(_LEFT_BEHIND)


async def _run(what: Invocation, about: Context, threads: Threads) -> Settled:
    on_behalf_of(about)
    tool, given = what.tool, what.arguments
    try:
        if what.asking and tool.reconcile is not None:
            value = await tool.reconcile(**given)
        elif tool.threaded:
            value = await threads.run(partial(tool.function, **given))
        else:
            value = await tool.function(**given)
        result, bare = returned(value)
        if _is_large(result.data):  # a second of cleaning must not hold up a thousand other runs
            return await asyncio.to_thread(settle, result, tool.spec, what.rules, bare=bare)
        return settle(result, tool.spec, what.rules, bare=bare)
    except CallError:
        raise
    except TimeoutError as error:
        raise Timeout("TOOL_TIMEOUT", described(error)) from error
    except asyncio.CancelledError:
        if _is_cancelled():
            raise
        raise Permanent("TOOL_EXECUTION_ERROR", "the tool cancelled itself (CancelledError)") from None
    except SystemExit as error:
        raise Permanent(
            "TOOL_EXECUTION_ERROR", f"the tool tried to end the process (SystemExit: {error.code!r})"
        ) from None
    except Exception as error:  # a tool may raise anything: to the model it is one error with a name
        _tell_where(tool, error)
        raise Permanent("TOOL_EXECUTION_ERROR", described(error)) from error


def _tell_where(tool: Tool, error: Exception) -> None:
    """What a tool did not mean to raise is mended in its code: log where, once for each place. What it says is in the Trace."""
    frames = traceback.extract_tb(error.__traceback__)
    place = (tool.name, type(error).__name__, frames[-1].filename, frames[-1].lineno or 0)
    if place in _TOLD or len(_TOLD) >= MOST_TOLD:
        return
    _TOLD.add(place)
    told = "".join(["Traceback (most recent call last):\n", *traceback.format_list(frames[1:] or frames), place[1]])
    _log.warning("tool_raised", tool=tool.name, at=f"{place[2]}:{place[3]}", exception=told)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_large(data: Json) -> bool:
    """Is this, or a text in it, long enough that cleaning it takes tens of milliseconds?"""
    if type(data) is str:
        return len(data) > LARGE
    texts = data.values() if isinstance(data, Mapping) else (data,)
    return any(isinstance(each, str | bytes) and len(each) > LARGE for each in texts)


def returned(value: object) -> tuple[ToolResult, bool]:
    """A tool's value as a ToolResult, and whether it was bare. A dict that is such an envelope, and nothing else, is none."""
    if type(value) is str:
        return ToolResult("success", data=value), True
    if isinstance(value, ToolResult):
        if value.status in _STATES:
            return value, False
        message = f"the tool returned a ToolResult of status {value.status!r}; write success, error or pending"
        return ToolResult("error", "TOOL_EXECUTION_ERROR", value.data, message), False
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if isinstance(value, dict) and value.keys() <= _ENVELOPE and value.get("status") in _STATES:
        code, message = value.get("code"), str(value.get("message") or "")
        return ToolResult(value["status"], None if code is None else str(code), value.get("data"), message), False
    # `clean` turns whatever has no JSON form into words
    return ToolResult("success", data=cast("Json", value)), True


def described(error: BaseException) -> str:
    """Type and message, without a traceback; safe for exceptions whose own `__str__` fails."""
    if isinstance(error, KeyError) and error.args:
        return f"KeyError: {error.args[0]!r} is not there"
    return "".join(traceback.format_exception_only(error)).strip()[:4000]
