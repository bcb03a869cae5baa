"""What a server lists, read once: which of its tools may be offered, under which names, and why others may not.

A tool is *pinned* by the digest of all that the server said about it. A later listing that says something else about it is not
believed: see `connection`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import orjson
from mcp.types import Tool as Listed

from orchestrator.core.spec import ToolSpec
from orchestrator.mcp.schema import BadSchema, arguments_of, readable
from orchestrator.mcp_settings import McpSettings, McpToolSettings
from orchestrator.permission_settings import ToolOverride
from orchestrator.tool import Arguments

MOST = 128
"""Tools of one server that are offered."""
DESCRIBED = 1500
"""Characters of a tool's description."""
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64  # of a tool's name, with OpenAI and Anthropic


@dataclass(frozen=True, slots=True)
class Pinned:
    """One tool as it is offered: `name` is the server's own, `digest` that of everything the server said about it."""

    name: str
    spec: ToolSpec
    arguments: Arguments
    digest: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools by the server's own names; `refused` says of the others that were asked for why they are not offered."""

    tools: Mapping[str, Pinned]
    refused: Mapping[str, str]


def read(server: str, settings: McpSettings, listed: Iterable[Listed]) -> Listing:
    """The tools that the operator allows, each under bounds. Takes some time for each: call it in a thread."""
    found: dict[str, Pinned] = {}
    refused: dict[str, str] = {}
    taken: dict[str, str] = {}
    for each in listed:
        if settings.tools != "*" and each.name not in settings.tools:
            continue
        label = readable(each.name, 80)
        try:
            pinned = _pinned(server, settings, each)
        except BadSchema as error:
            refused[label] = str(error)
            continue
        if taken.setdefault(pinned.spec.name, each.name) != each.name or each.name in found:
            refused[label] = f"an earlier tool of this server is called {pinned.spec.name} as well"
        elif len(found) >= MOST:
            refused[label] = f"more than {MOST} tools of one server; name those you need in `tools`"
        else:
            found[each.name] = pinned
    for name in () if settings.tools == "*" else settings.tools:
        if name not in found and name not in refused:
            refused[name] = "the server lists no such tool"
    return Listing(found, refused)


def offered_name(server: str, name: str) -> str:
    """`mcp__SERVER__TOOL`: the form that providers take and that the metrics know."""
    return f"mcp__{server}__{_ODD.sub('_', name)}"


def digest_of(listed: Listed) -> str:
    """Of everything the server says of a tool."""
    said = listed.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _pinned(server: str, settings: McpSettings, listed: Listed) -> Pinned:
    name = offered_name(server, listed.name)
    if not listed.name or len(name) > _LONGEST:
        raise BadSchema(f"its name is too long: {len(name)} characters with the prefix, {_LONGEST} are allowed")
    if listed.execution is not None and listed.execution.task_support == "required":
        raise BadSchema("it can only be called as a task, which is not supported")
    arguments = arguments_of(listed.input_schema)
    try:
        digest = digest_of(listed)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadSchema("what the server says about it is no JSON") from error
    said = listed.description or listed.title or ""
    own = settings.tool.get(listed.name, McpToolSettings())
    side_effect, repeatable = _effects(listed, own, believed=settings.annotations)
    spec = ToolSpec(
        name,
        readable(said, DESCRIBED) or f"The tool {readable(listed.name, 80)} of the server {server}.",
        arguments.schema,
        repeatable=repeatable,
        side_effect=side_effect,
        timeout=own.timeout or settings.timeout,
        facts=own.facts,
        trusted=False,
        version=digest[:16],
        foreign=True,
    )
    said_by_operator = own.model_dump(include=set(ToolOverride.model_fields), exclude_none=True)
    return Pinned(listed.name, replace(spec, **said_by_operator), arguments, digest)


def _effects(listed: Listed, own: McpToolSettings, *, believed: bool) -> tuple[bool, bool]:
    """(side_effect, repeatable): the operator's word, else the server's hints where believed, else the safe side.

    Hints are claims. Where two contradict each other the safer one counts.
    """
    hints = listed.annotations if believed else None
    harmless = hints is not None and hints.read_only_hint is True and not hints.destructive_hint
    again = harmless or (hints is not None and hints.idempotent_hint is True)
    side_effect = not harmless if own.side_effect is None else own.side_effect
    return side_effect, again if own.repeatable is None else own.repeatable
