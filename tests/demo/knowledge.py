"""The knowledge base's two actions, as a host would write their Observations."""

import json
from pathlib import Path

DATA = Path(__file__).parents[2] / "tools" / "data"
ENTITIES: dict[str, dict[str, str]] = {
    entity: fields
    for path in sorted(DATA.glob("*.json"))
    for entity, fields in json.loads(path.read_text("utf-8"))["entities"].items()
}


def observe(tool: str, argument: str) -> str:
    """A framed Observation."""
    if tool == "search" and argument in ENTITIES:
        return framed(json.dumps({"entity": argument, "fields": ENTITIES[argument]}, ensure_ascii=False))
    pairs = [(entity, name, value) for entity, fields in ENTITIES.items() for name, value in fields.items()]
    hits = [f"{entity} / {name}: {value}" for entity, name, value in pairs if argument in value]
    if tool == "lookup" and hits:
        return framed(json.dumps({"hits": hits}, ensure_ascii=False))
    code = "NOT_FOUND" if tool in ("search", "lookup") else "TOOL_NOT_FOUND"
    return f"status: error, code: {code}\n没有找到「{argument}」\n--- END OF OBSERVATION ---"


def framed(text: str) -> str:
    """A success."""
    return f"status: success\n{text}\n--- END OF OBSERVATION ---"
