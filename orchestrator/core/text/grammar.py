"""Constraints for endpoints that can hold a reply to a form: GBNF for llama.cpp, JSON Schema for the others.

Both admit exactly one Action or one end, and nothing after it; `read` reads what both produce.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.core.spec import Json, JsonObject, ToolSpec

_COMMON: Final = r"""
thought ::= [^\n\r\[\]] [^\n\r]{0,400}
answer ::= [^\n\r\[\]]{1,800}
ws ::= " "?
char ::= [^"\\\x7F\x00-\x1F] | "\\" ["\\/bfnrt]
string ::= "\"" char* "\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?
boolean ::= "true" | "false"
null ::= "null"
array ::= "[" ws (value (ws "," ws value)*)? ws "]"
object ::= "{" ws (string ws ":" ws value (ws "," ws string ws ":" ws value)*)? ws "}"
value ::= string | number | boolean | null | array | object
"""
_DEEPEST: Final = 6


def gbnf(tools: Sequence[ToolSpec]) -> str:
    """A grammar for llama.cpp: a Thought line, then one Action line with the tool's own arguments, or finish[...]."""
    rules: dict[str, str] = {}
    calls = [
        f"{_quoted(tool.name + ' ')} {_rule(tool.schema, f'tool{index}', rules, 0)}" for index, tool in enumerate(tools)
    ]
    calls.append('"finish[" answer "]"')
    head = f'root ::= "Thought: " thought "\\nAction: " action\naction ::= {" | ".join(calls)}\n'
    return head + "".join(f"{name} ::= {body}\n" for name, body in rules.items()) + _COMMON.lstrip()


def json_schema(tools: Sequence[ToolSpec]) -> JsonObject:
    """A schema of one reply: a thought and one action, or a thought and the final answer."""
    thought: JsonObject = {"type": "string"}
    calls: list[Json] = [_object({"tool": {"const": tool.name}, "input": tool.schema}) for tool in tools]
    ends = _object({"thought": thought, "final": {"type": "string"}})
    if not calls:
        return ends
    return {"anyOf": [_object({"thought": thought, "action": {"anyOf": calls}}), ends]}


def _object(properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _quoted(text: str) -> str:
    """A GBNF literal."""
    return json.dumps(text, ensure_ascii=False)


def _rule(schema: Json, name: str, rules: dict[str, str], depth: int) -> str:
    """The name of a rule that admits what `schema` admits, as far as GBNF can say it; unknown keywords admit more, never less."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return "value"
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(choices, (list, tuple)) and choices:
        return _added(" | ".join(_quoted(json.dumps(choice, ensure_ascii=False)) for choice in choices), name, rules)
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else list(kind) if isinstance(kind, (list, tuple)) else []
    if not kinds and isinstance(schema.get("properties"), Mapping):
        kinds = ["object"]
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if not kinds and isinstance(alternatives, (list, tuple)) and alternatives:
        names = [_rule(each, f"{name}-{index}", rules, depth + 1) for index, each in enumerate(alternatives)]
        return _added(" | ".join(names), name, rules)
    named = [_typed(str(each), schema, name, rules, depth) for each in kinds]
    return named[0] if len(named) == 1 else _added(" | ".join(named), f"{name}-any", rules) if named else "value"


def _typed(kind: str, schema: JsonObject, name: str, rules: dict[str, str], depth: int) -> str:
    if kind == "object" and isinstance(schema.get("properties"), Mapping):
        return _properties(schema, name, rules, depth)
    if kind == "array" and "items" in schema:
        item = _rule(schema["items"], f"{name}-item", rules, depth + 1)
        return _added(f'"[" ws ({item} (ws "," ws {item})*)? ws "]"', f"{name}-list", rules)
    return kind if kind in ("string", "integer", "number", "boolean", "null", "array", "object") else "value"


def _properties(schema: JsonObject, name: str, rules: dict[str, str], depth: int) -> str:
    """An object with its required keys in the declared order, then any of the optional ones, each at most once."""
    declared = schema["properties"]
    fields = declared if isinstance(declared, Mapping) else {}
    listed = schema.get("required")
    needed = [key for key in fields if isinstance(listed, (list, tuple)) and key in listed]
    pairs: dict[str, str] = {}
    for index, key in enumerate(fields):
        body = f'{_quoted(json.dumps(key, ensure_ascii=False))} ws ":" ws {_rule(fields[key], f"{name}-{index}", rules, depth + 1)}'
        pairs[key] = _added(body, f"{name}-{index}-pair", rules)
    if not pairs:
        return _added('"{" ws "}"', name, rules)
    optional = [pairs[key] for key in fields if key not in needed]
    start = ' ws "," ws '.join(pairs[key] for key in needed)
    if start:
        body = start + "".join(f' (ws "," ws {pair})?' for pair in optional)
    else:
        tails = [
            pair + "".join(f' (ws "," ws {other})?' for other in optional[index + 1 :])
            for index, pair in enumerate(optional)
        ]
        body = f"({' | '.join(tails)})?"
    return _added(f'"{{" ws {body} ws "}}"', name, rules)


def _added(body: str, name: str, rules: dict[str, str]) -> str:
    rules[name] = body
    return name
