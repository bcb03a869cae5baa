"""An MCP server in thirty lines of standard library, quick to start: the protocol as it is on the wire."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL = {"name": "echo", "description": "Echoes.", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return ABOUT
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": f"echo: {params['arguments']['text']}"}]}
    return None


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = answer(asked["method"], asked.get("params", {}))
            said = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
