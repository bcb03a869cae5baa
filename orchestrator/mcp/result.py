"""What a server answers, in our words: a ToolResult, or a CallError with one of our codes.

Servers have three shapes of failure: a result that says so, an error of the protocol (an unknown tool is either, by server), and
silence. Text is passed on for the sanitiser, structured content as JSON; what is no text is described, not pasted.
"""

from __future__ import annotations

import re

from mcp import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from orchestrator.core.spec import Json, ToolResult
from orchestrator.errors import CallError, Permanent, Rejected, Timeout, Transient, Unavailable
from orchestrator.mcp.schema import readable

UNAVAILABLE = "UNAVAILABLE"
_SAID = 500
_LOOKED_AT = 2000  # characters of an error text in which its kind is looked for
_PROTOCOL = re.compile(r"\s{0,8}MCP error (-\d{1,6}):")
_UNKNOWN = re.compile(r"unknown tool\b|no such tool\b|tool \S{1,200} (?:was )?not found", re.IGNORECASE)


def result_of(answer: CallToolResult) -> ToolResult:
    """A server's answer. One that says it failed is an error with a code of ours."""
    data = _data(answer)
    if not answer.is_error:
        return ToolResult("success", data=data)
    said = "\n".join(each.text for each in answer.content if isinstance(each, TextContent))[:_LOOKED_AT]
    if found := _PROTOCOL.match(said):
        code = _code(int(found[1]), said[found.end() :])
    else:
        code = "TOOL_NOT_FOUND" if _UNKNOWN.match(said) else "TOOL_EXECUTION_ERROR"
    return ToolResult("error", code, data, "the tool says that it failed")


def error_of(error: MCPError, server: str, *, repeatable: bool) -> CallError:
    """An error of the protocol, or of the connection."""
    said = f"the MCP server {server} says: {readable(error.message, _SAID)}"
    if error.code == CONNECTION_CLOSED:
        return lost(server, repeatable=repeatable)
    if error.code == REQUEST_TIMEOUT:
        return Timeout("TOOL_TIMEOUT", said)
    if error.code == INVALID_REQUEST and "session" in error.message.lower():
        return Unavailable(UNAVAILABLE, f"{said}; nothing was done, and the connection is made anew")
    code = _code(error.code, error.message[:_LOOKED_AT])
    return Rejected(code, said) if code != "TOOL_EXECUTION_ERROR" else Permanent(code, said)


def lost(server: str, *, repeatable: bool) -> CallError:
    """The connection ended while a call was under way. No breaker counts it: one crash takes many calls with it, and says nothing of
    the next connection; if there is none, that is Unavailable."""
    if repeatable:
        return Transient(UNAVAILABLE, f"the MCP server {server} was lost during the call")
    return Permanent(
        "OUTCOME_UNKNOWN",
        f"the MCP server {server} was lost during the call. It may or may not have taken effect, and it was not made again. "
        "Check before you repeat it",
    )


def _code(number: int, said: str) -> str:
    if number == METHOD_NOT_FOUND or (number == INVALID_PARAMS and _UNKNOWN.search(said)):
        return "TOOL_NOT_FOUND"
    if number == REQUEST_TIMEOUT:
        return "TOOL_TIMEOUT"
    return "INVALID_ARGUMENTS" if number == INVALID_PARAMS else "TOOL_EXECUTION_ERROR"


def _data(answer: CallToolResult) -> Json:
    """Structured content; with what stands beside it, unless that is the one text that servers send for older clients."""
    shown = [_shown(each) for each in answer.content]
    structured: Json = answer.structured_content
    if structured is None:
        return "\n".join(shown)
    copies = len(answer.content) == 1 and isinstance(answer.content[0], TextContent)
    return structured if copies or not shown else {"result": structured, "content": shown}


def _shown(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            kind = "image" if isinstance(block, ImageContent) else "audio"
            return f"[{kind}, {block.mime_type[:80]}, {_size(block.data)}: not shown]"
        case ResourceLink():
            about = ", ".join(filter(None, (block.mime_type, block.title, block.description)))
            return f"[resource {block.name[:200]}: {str(block.uri)[:1000]}{f' ({about[:500]})' if about else ''}]"
        case EmbeddedResource():
            held = block.resource
            head = f"resource {str(held.uri)[:1000]}{f', {held.mime_type[:80]}' if held.mime_type else ''}"
            if isinstance(held, BlobResourceContents):
                return f"[{head}, {_size(held.blob)}: not shown]"
            return f"[{head}]\n{held.text}"


def _size(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4:,} bytes"
