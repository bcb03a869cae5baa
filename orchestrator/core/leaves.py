"""An input, value by value, and what the tool's schema says of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.core.named import counts
from orchestrator.core.spec import Json, JsonObject

_Many = tuple[Any, ...]


def leaves(
    given: JsonObject, schema: JsonObject, *, own: bool = True
) -> Iterator[tuple[str, str | float | bool, bool]]:
    """(pointer, value, does the schema declare this very value) of everything in an input that says something. A schema that is not
    the operator's `own` declares nothing."""
    levels: dict[tuple[int, ...], _Level] = {}
    rest: list[tuple[str, Json, _Many]] = [("", given, (schema,))]
    while rest:
        pointer, value, schemas = rest.pop()
        key = tuple(map(id, schemas))
        if (level := levels.get(key)) is None:
            level = levels[key] = _Level(schemas, schema)
        if isinstance(value, Mapping):
            for name, inner in value.items():
                below = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
                named = level.properties.get(name)
                if named is None:
                    yield below, name, False
                rest.append((below, inner, level.others if named is None else named))
        elif isinstance(value, Sequence) and not isinstance(value, str):
            rest += [(f"{pointer}/{index}", inner, level.items) for index, inner in enumerate(value)]
        elif value is not None and value != "":
            bounded = not counts(value, name_of(pointer))
            yield pointer, value, own and any(_declares(option, value, bounded=bounded) for option in level.options)


class _Level:
    """What some schemas, side by side, say of the value that stands there. Worked out once: an input has many values at one place, and
    a foreign schema many alternatives."""

    def __init__(self, schemas: _Many, root: JsonObject) -> None:
        self.options = _options(schemas, root)
        named: dict[str, list[Any]] = {}
        for option in self.options:
            for name, each in _table(option.get("properties")).items():
                if each is not None:
                    named.setdefault(name, []).append(each)
        self.properties: Mapping[str, _Many] = {name: tuple(each) for name, each in named.items()}
        self.others: _Many = tuple(option.get("additionalProperties") for option in self.options)
        self.items: _Many = tuple(option.get("items") for option in self.options)


def name_of(pointer: str) -> str:
    """The name of the argument that a value is given as: the last word of its pointer that is no index."""
    return next((part for part in reversed(pointer.split("/")) if not part.isdigit()), "")


def _options(schemas: Iterable[Any], root: JsonObject) -> list[Mapping[str, Any]]:
    """The plain schemas that these offer: references followed, alternatives side by side, each once."""
    rest, found = list(schemas), dict[int, Mapping[str, Any]]()
    while rest:
        schema = rest.pop()
        if not isinstance(schema, Mapping) or id(schema) in found:
            continue
        found[id(schema)] = schema
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            place: Any = root
            for part in reference[2:].split("/"):
                place = _table(place).get(part)
            rest.append(place)
        for word in ("anyOf", "oneOf", "allOf"):
            among = schema.get(word)
            rest += among if isinstance(among, list | tuple) else ()
    return list(found.values())


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _declares(schema: Mapping[str, Any], value: str | float | bool, *, bounded: bool) -> bool:
    """Is this value one that the operator wrote, or, where it may be `bounded`, within bounds that he set on both sides? Bounds of
    ids say how many things there are, not which one is meant."""
    enum = schema.get("enum")
    if isinstance(enum, Sequence) and value in enum:
        return True
    if any(word in schema and schema[word] == value for word in ("const", "default")):
        return True
    if isinstance(value, bool):
        return schema.get("type") == "boolean"
    low, high = schema.get("minimum"), schema.get("maximum")
    if not bounded or isinstance(value, str) or not isinstance(low, int | float) or not isinstance(high, int | float):
        return False
    return low <= value <= high
