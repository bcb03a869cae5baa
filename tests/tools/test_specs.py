"""What a model, an operator and the host see of the shipped tools."""

from collections import Counter

import pytest

from orchestrator.errors import Rejected
from orchestrator.tool import Tool
from tools import calculator, clock, http, knowledge, sql, weather, wikipedia

MODULES = (calculator, clock, http, knowledge, sql, weather, wikipedia)
TOOLS = [each for module in MODULES for each in vars(module).values() if isinstance(each, Tool)]


def test_the_shipped_tools_are_these() -> None:
    assert sorted(tool.name for tool in TOOLS) == [
        "calculator",
        "get_weather",
        "http_get",
        "lookup",
        "now",
        "search",
        "sql_query",
        "sql_schema",
        "wikipedia_lookup",
        "wikipedia_search",
    ]


def test_no_two_tools_share_a_name_or_an_alias() -> None:
    words = Counter(word.casefold() for tool in TOOLS for word in (tool.name, *tool.spec.aliases))
    assert max(words.values()) == 1


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_each_only_reads_and_says_what_it_takes(tool: Tool) -> None:
    assert tool.spec.repeatable
    assert not tool.spec.side_effect
    assert tool.spec.timeout <= 20
    assert len(tool.spec.description) > 40
    with pytest.raises(Rejected, match="INVALID_ARGUMENTS"):
        tool.arguments.read({"nonsense": 1})


def test_what_comes_from_outside_is_marked() -> None:
    outside = {tool.name for tool in TOOLS if not tool.spec.trusted}
    assert outside == {"http_get", "get_weather", "wikipedia_search", "wikipedia_lookup", "sql_query"}


def test_arguments_are_checked_by_type() -> None:
    assert wikipedia.wikipedia_lookup.arguments.read({"title": "A", "keyword": "b"}) == {"title": "A", "keyword": "b"}
    with pytest.raises(Rejected, match="nth"):
        wikipedia.wikipedia_lookup.arguments.read({"title": "A", "keyword": "b", "nth": "2"})
    assert clock.now.arguments.read({}) == {}
