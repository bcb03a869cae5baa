"""The check of an input by a tool's schema alone, for whoever has the schema and not the tool: a person's edit is taken where no
tools are loaded.

The schema is one that `signature_of` wrote, read back into what pydantic checks, so that the words are those a model is given.
A keyword that is not known here refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from pydantic_core import CoreSchema, SchemaError, SchemaValidator, core_schema

from orchestrator.core.spec import JsonObject
from orchestrator.tool.signature import Arguments

_REFERENCE: Final = "#/$defs/"
_BOUNDS: Final = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
_NUMBER: Final = {**_BOUNDS, "multipleOf": "multiple_of"}
_LENGTH: Final = {"minItems": "min_length", "maxItems": "max_length"}
_FORMATS: Final[Mapping[str, Callable[[], CoreSchema]]] = {
    "date": core_schema.date_schema,
    "date-time": core_schema.datetime_schema,
    "time": core_schema.time_schema,
    "duration": core_schema.timedelta_schema,
    "uuid": core_schema.uuid_schema,
}


def promised(schema: JsonObject) -> Arguments:
    """The check of an input object by its schema. A schema that makes no sense checks nothing but that it is an object."""
    try:
        validator = _validator(_typed({"type": "object", **schema}), schema.get("$defs"))
    except (SchemaError, RecursionError, TypeError, ValueError, OverflowError):
        validator = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
    return Arguments(schema, partial(validator.validate_json, strict=True))


def _validator(whole: CoreSchema, named: object) -> SchemaValidator:
    known = named if isinstance(named, Mapping) else {}
    shared: list[CoreSchema] = []
    for name, each in known.items():
        inner = core_schema.any_schema() if _circles(name, known) else _typed(each)
        if inner["type"] == "definition-ref":
            inner = core_schema.union_schema([inner])
        shared.append({**inner, "ref": _REFERENCE + name})
    return SchemaValidator(core_schema.definitions_schema(whole, shared))


def _circles(name: str, named: Mapping[str, Any]) -> bool:
    """Does it lead to itself with nothing of the input in between? Then a check would not end."""
    seen: set[str] = set()
    ahead = [named[name]]
    while ahead:
        each = ahead.pop()
        if not isinstance(each, Mapping):
            continue
        ahead += [choice for key in ("anyOf", "oneOf") for choice in each.get(key) or ()]
        other = str(each.get("$ref", "")).removeprefix(_REFERENCE)
        if other == name:
            return True
        if other in named and other not in seen:
            seen.add(other)
            ahead.append(named[other])
    return False


def _typed(schema: object) -> CoreSchema:
    """What pydantic checks by, for any schema within a schema."""
    if not isinstance(schema, Mapping):
        return core_schema.any_schema()
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith(_REFERENCE):
        return core_schema.definition_reference_schema(reference)
    if "const" in schema:
        return _choice([schema["const"]])
    if isinstance(choices := schema.get("enum"), list | tuple):
        return _choice(choices)
    if isinstance(options := schema.get("anyOf") or schema.get("oneOf"), list | tuple):
        return _union(options)
    kind = schema.get("type")
    return (
        _union([{**schema, "type": each} for each in kind]) if isinstance(kind, list | tuple) else _plain(kind, schema)
    )


def _plain(kind: object, schema: Mapping[str, Any]) -> CoreSchema:
    match kind:
        case "string":
            return _string(schema)
        case "integer":
            return core_schema.int_schema(**_bounds(schema, _NUMBER))
        case "number":
            return core_schema.float_schema(**_bounds(schema, _NUMBER))
        case "boolean":
            return core_schema.bool_schema()
        case "null":
            return core_schema.none_schema()
        case "array":
            return _array(schema)
        case "object":
            return _object(schema)
        case _:
            return core_schema.any_schema()


def _bounds(schema: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    return {word: schema[key] for key, word in words.items() if key in schema}


def _choice(choices: Sequence[Any]) -> CoreSchema:
    simple = all(each is None or isinstance(each, str | int | float) for each in choices)
    return core_schema.literal_schema(list(choices)) if simple and choices else core_schema.any_schema()


def _union(options: Sequence[Any]) -> CoreSchema:
    """`None` beside others stands apart, as in what pydantic makes of `int | None`."""
    rest = [each for each in options if not (isinstance(each, Mapping) and each.get("type") == "null")]
    if not rest:
        return core_schema.none_schema()
    inner = _typed(rest[0]) if len(rest) == 1 else core_schema.union_schema([_typed(each) for each in rest])
    return inner if len(rest) == len(options) else core_schema.nullable_schema(inner)


def _string(schema: Mapping[str, Any]) -> CoreSchema:
    known = _FORMATS.get(str(schema.get("format")))
    if known is not None:
        return known()
    bounds = _bounds(schema, {"minLength": "min_length", "maxLength": "max_length"})
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            return _compiled(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", **bounds))
        except SchemaError:
            return core_schema.str_schema(**bounds)
    return core_schema.str_schema(**bounds)


def _compiled(schema: CoreSchema) -> CoreSchema:
    """The schema, where its pattern is one of a linear engine. SchemaError otherwise."""
    SchemaValidator(schema)
    return schema


def _array(schema: Mapping[str, Any]) -> CoreSchema:
    places = schema.get("prefixItems")
    if isinstance(places, list | tuple) and schema.get("minItems") == schema.get("maxItems") == len(places):
        return core_schema.tuple_schema([_typed(each) for each in places])
    return core_schema.list_schema(None if places else _typed(schema.get("items")), **_bounds(schema, _LENGTH))


def _object(schema: Mapping[str, Any]) -> CoreSchema:
    fields, more = schema.get("properties"), schema.get("additionalProperties")
    if "patternProperties" in schema:
        more = None
    if not isinstance(fields, Mapping):
        if more is False:
            return core_schema.typed_dict_schema({}, extra_behavior="forbid")
        bounds = _bounds(schema, {"minProperties": "min_length", "maxProperties": "max_length"})
        return core_schema.dict_schema(core_schema.str_schema(), _typed(more), **bounds)
    required = schema.get("required") or ()
    typed = {
        name: core_schema.typed_dict_field(_typed(each), required=name in required) for name, each in fields.items()
    }
    return core_schema.typed_dict_schema(
        typed,
        extra_behavior="forbid" if more is False else "allow",
        extras_schema=None if more is False else _typed(more),
    )
