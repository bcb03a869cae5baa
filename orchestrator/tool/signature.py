"""From a signature to a JSON Schema and a check. pydantic knows how; here is what we ask of it.

The check is strict, by the rules of JSON: "1" is no number, 1.5 is no integer, 1 may stand for 1.0, a string may stand for a
date or an enum, unknown fields are refused. What is refused is told by field, with what is allowed.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticUndefined
from typing_extensions import TypedDict

from orchestrator.core.spec import Json, JsonObject
from orchestrator.errors import ConfigError, Rejected

_SECTION = re.compile(
    r"\n[ \t]*+(?:Args|Arguments|Parameters|Params|Returns?|Raises|Yields|Examples?|参数|返回)[ \t]*+[:：]?[ \t]*+\n|\n[ \t]*+:(?:param|arg|returns?|raises)\b"
)
_GOOGLE = re.compile(r"^[ \t]*+\*{0,2}+(\w++)[ \t]*+(?:\([^)\n]{0,80}+\))?+[ \t]*+[:：][ \t]*+(\S.*)$", re.MULTILINE)
_SPHINX = re.compile(r":(?:param|arg)[ \t]([^:\n]{1,200}+):[ \t]*+(.+)")

_TypedDict: Any = TypedDict  # made from a signature at run time, so beyond the type checker


@dataclass(frozen=True, slots=True)
class Arguments:
    """The schema of an input object, and the check of one."""

    schema: JsonObject
    check: Callable[[bytes | str], dict[str, Any]]

    def read(self, given: JsonObject) -> dict[str, Any]:
        """The arguments by name. Rejected (INVALID_ARGUMENTS) naming each wrong field and what is allowed."""
        try:
            return self.check(_written(given))
        except ValidationError as error:
            raise Rejected("INVALID_ARGUMENTS", self._refusal(error)) from None
        except (ValueError, RecursionError) as error:
            raise Rejected("INVALID_ARGUMENTS", f"the input is no JSON object: {error}") from None

    def _refusal(self, error: ValidationError) -> str:
        wrong = [_wrong(each) for each in error.errors(include_url=False, include_context=False)[:8]]
        return f"{'; '.join(wrong)}. Allowed: {self.allowed()}"

    def allowed(self) -> str:
        """The fields in one line: `city (string, required), nth (integer)`."""
        required = self.schema.get("required") or ()
        fields = self.schema.get("properties")
        if not isinstance(fields, Mapping) or not fields:
            return "no arguments at all; write {}"
        return ", ".join(
            f"{name} ({_kind(field)}{', required' if _within(name, required) else ''})"
            for name, field in fields.items()
        )


def _written(given: JsonObject) -> bytes | str:
    try:
        return orjson.dumps(given)
    except TypeError:
        return json.dumps(given, allow_nan=False, default=repr)


def _within(name: str, names: object) -> bool:
    return isinstance(names, list | tuple) and name in names


def _kind(field: Json) -> str:
    if not isinstance(field, Mapping):
        return "any"
    if isinstance(choices := field.get("enum"), list | tuple):
        return "one of " + ", ".join(json.dumps(each, ensure_ascii=False) for each in choices[:20])
    if isinstance(options := field.get("anyOf"), list | tuple):
        return " or ".join(_kind(each) for each in options)
    kind = str(field.get("type", "any" if "$ref" not in field else "object"))
    bounds = [
        f"{word} {field[key]}"
        for key, word in (("minimum", ">="), ("maximum", "<="), ("exclusiveMinimum", ">"), ("exclusiveMaximum", "<"))
        if key in field
    ]
    return " ".join((kind, *bounds))


def _wrong(error: Mapping[str, Any]) -> str:
    place = ".".join(map(str, error["loc"])) or "the input"
    if error["type"] == "missing":
        return f"{place} is missing"
    if error["type"] == "extra_forbidden":
        return f"{place} is no argument of this tool"
    given = repr(error.get("input"))
    return f"{place}: {error['msg']}" + (f", not {given}" if len(given) <= 80 else "")


def signature_of(function: Callable[..., Any], where: str) -> Arguments:
    """Schema and check of a function's parameters. ConfigError names the parameter and the remedy."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise ConfigError(f"{where}: a type cannot be resolved ({error}); import it at the top of the file") from error
    docs = _parameter_docs(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(f"{where}: *{parameter.name} cannot be described to a model; name each parameter")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigError(
                f"{where}: {parameter.name} is positional-only, and a model names its arguments; drop the /"
            )
        if parameter.name not in hints:
            raise ConfigError(f"{where}: {parameter.name} has no type; write {parameter.name}: str (or what it is)")
        optional = parameter.default is not parameter.empty
        fields[parameter.name] = NotRequired[hints[parameter.name]] if optional else hints[parameter.name]
        if optional:
            defaults[parameter.name] = parameter.default
    typed = _TypedDict("Input", fields)
    typed.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(typed)
        schema = adapter.json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        raise ConfigError(
            f"{where}: the type of {_odd(hints, fields)} has no JSON Schema; use str, int, float, bool, list, dict, Literal, a model"
        ) from error
    return Arguments(_tidied(schema, docs, defaults), adapter.validator.validate_json)


def _tidied(schema: dict[str, Any], docs: Mapping[str, str], defaults: Mapping[str, Any]) -> JsonObject:
    tidy: dict[str, Any] = _untitled(schema)
    fields = tidy.setdefault("properties", {})
    for name, field in fields.items():
        if name in docs:
            field.setdefault("description", docs[name])
        if (
            name in defaults
            and defaults[name] is not PydanticUndefined
            and isinstance(defaults[name], str | int | float | bool | None)
        ):
            field.setdefault("default", defaults[name])
    tidy.setdefault("type", "object")
    return tidy


def _untitled(schema: Any) -> Any:
    """A schema without pydantic's `title`s, which only cost tokens; a property that is called title stays."""
    if isinstance(schema, list):
        return [_untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _untitled(each) for name, each in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else _untitled(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def described(function: Callable[..., Any]) -> str:
    """The docstring up to its sections on arguments and results."""
    text = "\n" + (inspect.getdoc(function) or "")
    found = _SECTION.search(text)
    return (text[: found.start()] if found else text).strip()


def _parameter_docs(text: str) -> dict[str, str]:
    found = _SECTION.search("\n" + text)
    if found is None:
        return {}
    section = text[max(found.start() - 1, 0) :]
    sphinx = ((words.split()[-1], said) for words, said in _SPHINX.findall(section) if words.split())
    return {name: said.strip() for name, said in (*_GOOGLE.findall(section), *sphinx)}


def _odd(hints: Mapping[str, Any], parameters: Iterable[str]) -> str:
    """The parameter whose type cannot be described, with that type."""
    for name in parameters:
        try:
            TypeAdapter(hints[name]).json_schema()
        except (PydanticUserError, TypeError, NameError):
            return f"{name}, {getattr(hints[name], '__name__', None) or hints[name]},"
    return "a parameter"
