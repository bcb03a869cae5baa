"""The constraints admit one call of a tool or one end, and the reader reads what they admit."""

from __future__ import annotations

import json
import re

from orchestrator.core.events import Actions, Final
from orchestrator.core.prompt import Completion
from orchestrator.core.spec import ToolSpec
from orchestrator.core.text import gbnf, json_schema, read
from tests.core.text.said import TOOLS

RICH = ToolSpec(
    "rich", "", {
        "type": "object", "required": ["kind", "n"],
        "properties": {
            "kind": {"type": "string", "enum": ["a", 'b"c']}, "n": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]}, "any": {}, "either": {"anyOf": [{"type": "boolean"}, {"type": "string"}]},
        },
    },
)  # fmt: skip


def rules(grammar: str) -> dict[str, str]:
    found = dict(line.split(" ::= ", 1) for line in grammar.splitlines())
    assert len(found) == len(grammar.splitlines()), "no rule twice"
    return found


def test_every_rule_that_is_used_is_defined_and_named_as_llama_cpp_allows() -> None:
    for tools in ((), TOOLS, (RICH,), (*TOOLS, RICH)):
        found = rules(gbnf(tools))
        assert all(re.fullmatch(r"[a-z][a-z0-9-]*", name) for name in found)
        for body in found.values():
            bare = re.sub(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{\d*,?\d*\}', " ", body)
            assert set(re.findall(r"[a-z][a-z0-9-]*", bare)) <= set(found)


def test_each_tool_stands_in_the_action_rule_once_and_so_does_the_end() -> None:
    action = rules(gbnf(TOOLS))["action"]
    assert all(action.count(f'"{tool.name} "') == 1 for tool in TOOLS)
    assert action.count("finish[") == 1


def test_required_keys_come_in_order_and_optional_ones_may_be_left_out() -> None:
    found = rules(gbnf((RICH,)))
    assert found["tool0"].startswith('"{" ws tool0-0-pair ws "," ws tool0-1-pair (')
    assert found["tool0"].count(")?") == 4
    assert found["tool0-0"] == [r'"\"a\""', r'" | "', r'"x"'][0] + r' | "\"b\\\"c\""'


def test_the_reader_reads_what_the_schema_admits() -> None:
    schema = json.dumps(json_schema(TOOLS))
    assert all(f'{{"const": "{tool.name}"}}' in schema for tool in TOOLS)
    call = read(Completion('{"thought": "t", "action": {"tool": "search", "input": {"query": "x"}}}'), TOOLS, 1)
    assert isinstance(call.intent, Actions)
    assert (call.thought, call.anomalies) == ("t", ())
    end = read(Completion('{"thought": "t", "final": "insufficient: missing X"}'), TOOLS, 1)
    assert (end.thought, end.intent) == ("t", Final("insufficient: missing X", "X"))
    assert "action" not in json.dumps(json_schema(()))
