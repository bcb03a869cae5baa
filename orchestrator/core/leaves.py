"""An input, value by value, and what the tool's schema says of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.core.named import counts
from orchestrator.core.spec import Json, JsonObject


def leaves(given: JsonObject, schema: JsonObject) -> Iterator[tuple[str, str | float | bool, bool]]:
    """(pointer, value, does the schema declare this very value) of everything in an input that says something."""
    rest: list[tuple[str, Json, list[Any]]] = [("", given, [schema])]
    while rest:
        pointer, value, schemas = rest.pop()
        options = _options(schemas, schema)
        if isinstance(value, Mapping):
            for key, inner in value.items():
                below = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
                named = [each for option in options if (each := _table(option.get("properties")).get(key)) is not None]
                if not named:
                    yield below, key, False
                rest.append((below, inner, named or [option.get("additionalProperties") for option in options]))
        elif isinstance(value, Sequence) and not isinstance(value, str):
            items = [option.get("items") for option in options]
            rest += [(f"{pointer}/{index}", inner, items) for index, inner in enumerate(value)]
        elif value is not None and value != "":
            stands_for = counts(value, name_of(pointer))
            yield pointer, value, any(_declares(option, value, bounded=not stands_for) for option in options)


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
