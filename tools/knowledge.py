"""A small knowledge base with the two actions of the ReAct paper's environment: `search` an entity, `lookup` a keyword.

Every JSON file in `tools/data/` is read once: {"entities": {entity: {field: value}}}. The mini base is the teaching
example of the two-hop question; the larger one, Maravel, is plainly fictional, so that an answer can only come from here.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.tool import ToolError, tool

DATA = Path(__file__).parent / "data"
MOST_HITS = 20

Entities = dict[str, dict[str, str]]


@cache
def entities() -> Entities:
    """All entries of all files; a later file (by name) wins over an earlier one of the same name."""
    merged: Entities = {}
    for path in sorted(DATA.glob("*.json")):
        merged.update(json.loads(path.read_text(encoding="utf-8"))["entities"])
    return merged


@cache
def names() -> dict[str, str]:
    """Entity names by their plain form."""
    return {plain(name): name for name in entities()}


def plain(name: str) -> str:
    """A name as it is compared: no quotes or title marks around it, one space between words, no case."""
    return " ".join(name.strip(" \t\r\n\"'“”‘’《》「」").split()).casefold()


def field_names() -> list[str]:
    """Every field of every entity once, in order of first use."""
    return list(dict.fromkeys(field for fields in entities().values() for field in fields))


def pointer(field: str) -> str:
    """The JSON Pointer of a field in what `search` returns."""
    return "/fields/" + field.replace("~", "~0").replace("/", "~1")


@tool(repeatable=True, timeout=5.0, aliases=("搜索",), facts={field: pointer(field) for field in field_names()})
def search(entity: str) -> dict[str, Any]:
    """Get the entry of one entity (a person, a place, a work, a company ...) by its exact name: all its fields.

    搜索某个实体的条目。
    """
    name = names().get(plain(entity))
    if name is None:
        raise ToolError(
            "NOT_FOUND", f"没有找到「{entity}」的条目" if is_chinese(entity) else f'no entry for "{entity}"'
        )
    return {"entity": name, "fields": entities()[name]}


@tool(repeatable=True, timeout=5.0, aliases=("检索",))
def lookup(keyword: str) -> dict[str, Any]:
    """Find a keyword in the field values of the whole knowledge base. Each hit reads `entity / field: value`.

    在整个知识库里检索包含该关键词的信息。
    """
    wanted = keyword.strip().casefold()
    hits = [
        f"{entity} / {field}: {value}"
        for entity, fields in entities().items()
        for field, value in fields.items()
        if wanted and wanted in value.casefold()
    ]
    if not hits:
        raise ToolError(
            "NOT_FOUND",
            f"没有找到包含「{keyword}」的信息" if is_chinese(keyword) else f'nothing contains "{keyword}"',
        )
    found: dict[str, Any] = {"hits": hits[:MOST_HITS]}
    if len(hits) > MOST_HITS:
        found["more"] = f"{len(hits) - MOST_HITS} more hits are not shown; use a longer keyword"
    return found


def is_chinese(text: str) -> bool:
    """Whether an answer to this text is better given in Chinese."""
    return any("\u4e00" <= char <= "\u9fff" for char in text)
