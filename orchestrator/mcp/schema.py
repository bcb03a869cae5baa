"""A foreign JSON Schema: rebuilt from the keywords we know, within bounds, and a check of arguments that always ends.

The server checks its arguments itself; our check comes before, so that nothing is sent which its own schema refuses. What cannot
be kept safely (unknown keywords, `patternProperties`, remote references) is left out, which refuses less, never more. A check
costs a counted number of steps, and patterns run on a linear engine (pydantic's, in Rust).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft7Validator, Draft202012Validator, extend, validator_for
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema
from referencing import Registry
from referencing.exceptions import Unresolvable

from orchestrator.core.clean import defuse, strip
from orchestrator.core.clean.defuse import defuse_tokens
from orchestrator.core.clean.strip import flat
from orchestrator.core.spec import JsonObject
from orchestrator.errors import Rejected
from orchestrator.tool import Arguments

LARGEST = 32_768
"""Bytes of a schema, as compact JSON."""
DEEPEST = 24
MOST = 2000
"""Schemas within one schema."""
STEPS = 20_000
"""Keywords that one check of arguments may look at, and half as many more as the arguments have bytes."""
_A_STEP = 32
"""Choices that are looked at in one step."""
DESCRIBED = 600
"""Characters of the description of one argument."""

_ONE = frozenset(
    ("items", "additionalProperties", "additionalItems", "not", "contains", "propertyNames", "if", "then", "else")
)
_SEVERAL = frozenset(("anyOf", "oneOf", "allOf", "prefixItems", "items"))
_BY_NAME = frozenset(("properties", "$defs", "definitions"))
_PLAIN = frozenset(
    (
        *("type", "enum", "const", "required", "pattern", "format", "uniqueItems", "multipleOf", "default"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties"),
    )
)
_NOT_AT_THE_TOP = frozenset(("anyOf", "oneOf", "allOf", "not", "if", "then", "else"))
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class BadSchema(ValueError):
    """Why a tool with this schema cannot be offered."""


def readable(text: str, limit: int) -> str:
    """Foreign words for a prompt: nothing invisible, no look-alikes of our own, on one line, at most `limit` characters."""
    plain = defuse(flat(text, limit))
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def arguments_of(schema: object) -> Arguments:
    """The schema that a model is shown, and the check of its arguments. BadSchema says why there is none."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise BadSchema("its schema is not that of an object")
    try:
        size = len(orjson.dumps(schema))
    except (TypeError, RecursionError) as error:
        raise BadSchema("its schema is no JSON, or too deep") from error
    if size > LARGEST:
        raise BadSchema(f"its schema has {size} bytes; at most {LARGEST} are taken")
    kept = {**_Rebuilding().rebuilt(schema), "type": "object"}
    for name in kept.setdefault("properties", {}):
        if not _ARGUMENT.fullmatch(name):
            raise BadSchema(f"its argument {readable(repr(name), 80)} has a name that models' providers refuse")
    validator = _validator(kept, str(schema.get("$schema", "")))
    shown = {key: value for key, value in kept.items() if key not in _NOT_AT_THE_TOP}
    return Checked(shown, _Check(validator))


class Checked(Arguments):
    """Arguments that a foreign schema describes."""

    __slots__ = ()

    def read(self, given: JsonObject) -> dict[str, Any]:
        """The arguments by name. Rejected (INVALID_ARGUMENTS) naming what is wrong and what is allowed."""
        try:
            return self.check(orjson.dumps(given))
        except (TypeError, ValueError) as error:
            said = str(error)
        except RecursionError:
            said = "the tool's own schema goes in a circle, or the input is too deep"
        raise Rejected("INVALID_ARGUMENTS", f"{said}. Allowed: {readable(self.allowed(), 2000)}")


class _Check:
    """Called with JSON bytes: the arguments, or a ValueError in words for the model."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator

    def __call__(self, written: bytes | str) -> dict[str, Any]:
        given = orjson.loads(written)
        if not isinstance(given, dict):
            raise ValueError("the input is no JSON object")  # noqa: TRY004  the model is told of a value
        _STEPS.left = STEPS + len(written) // 2
        wrong = []
        try:
            for error in self._validator.iter_errors(given):
                wrong.append(_said(error))
                if len(wrong) == 8:
                    break
        except Unresolvable as error:
            raise ValueError("the tool's own schema refers to something that is not in it") from error
        if wrong:
            raise ValueError("; ".join(dict.fromkeys(wrong)))
        return given


def _said(error: ValidationError) -> str:
    place = ".".join(map(str, error.absolute_path))
    return readable(f"{place}: {error.message}" if place else error.message, 300)


class _Rebuilding:
    """One pass over a foreign schema; counts what it builds."""

    def __init__(self) -> None:
        self._built = 0

    def rebuilt(self, schema: object, depth: int = 0) -> Any:
        """The schema with the keywords that we know and nothing else."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise BadSchema(f"its schema holds {readable(repr(schema), 60)} where a schema must stand")
        self._built += 1
        if depth > DEEPEST or self._built > MOST:
            raise BadSchema(f"its schema is deeper than {DEEPEST} levels or holds more than {MOST} schemas")
        kept: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _SEVERAL and isinstance(value, list):
                kept[key] = [self.rebuilt(each, depth + 1) for each in value]
            elif key in _ONE:
                kept[key] = self.rebuilt(value, depth + 1)
            elif key in _BY_NAME and isinstance(value, dict):
                kept[key] = {_clean(name): self.rebuilt(each, depth + 1) for name, each in value.items()}
            elif key in _PLAIN:
                kept[key] = _clean(value)
            elif key == "description" and isinstance(value, str) and value.strip():
                kept[key] = readable(value, DESCRIBED)
            elif key == "$ref":
                kept[key] = _local(value)
        if "patternProperties" in schema:
            kept.pop("additionalProperties", None)
        return kept


def _clean(value: Any) -> Any:
    """A value that must reach the server as it is: fine if it hides nothing, otherwise a reason to refuse the tool."""
    written = orjson.dumps(value).decode()
    if len(written) > 8192:
        raise BadSchema("its schema holds a list of choices or a default that is too long")
    for text in _strings(value):
        if strip(text) != text or defuse_tokens(text) != text:
            raise BadSchema(f"its schema hides something in {readable(repr(text), 80)}")
    return value


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield key
            yield from _strings(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _strings(each)


def _local(reference: object) -> str:
    if not isinstance(reference, str) or not reference.startswith(("#/$defs/", "#/definitions/")):
        raise BadSchema(f"its schema refers to {readable(repr(reference), 80)}; only #/$defs/... is followed")
    return str(_clean(reference))


class _Left:
    """How many steps the check under way may still make. A check never awaits, so there is one at a time."""

    left = STEPS


_STEPS = _Left()


def _counted(check: Any) -> Any:
    def step(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _STEPS.left -= 1
        if _STEPS.left < 0:
            raise ValueError("the input is too involved to be checked against the tool's schema; write a simpler one")
        yield from check(validator, value, instance, schema) or ()

    return step


def _unique(_validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """In linear time; numbers that are equal but written differently are the server's to compare."""
    if value and isinstance(instance, list):
        written = {orjson.dumps(each, option=orjson.OPT_SORT_KEYS) for each in instance}
        if len(written) < len(instance):
            yield ValidationError(f"{str(instance[:20])[:80]} has an element more than once")


def _enum(_validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """A long list of choices counts for as many steps as it takes to go along it."""
    _STEPS.left -= len(value) // _A_STEP
    if instance not in value:
        yield ValidationError(f"{str(instance)[:80]} is not one of {str(value[:20])[:200]}")


def _pattern(_validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(value, instance):
        yield ValidationError(f"{instance[:80]!r} does not match {value[:80]!r}")


def _matches(pattern: str, text: str) -> bool:
    compiled = _compiled(pattern)
    return compiled is None or compiled.isinstance_python(text)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> SchemaValidator | None:
    """The pattern in an engine that never runs back; None for one that only a backtracking engine knows: the server checks it."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except PatternError:
        return None


def _bounded(draft: Any) -> Any:
    extended: Any = extend  # untyped upstream
    rules = {name: _counted(check) for name, check in draft.VALIDATORS.items()}
    own = {"pattern": _pattern, "enum": _enum, "uniqueItems": _unique}
    return extended(draft, {**rules, **{name: _counted(check) for name, check in own.items()}})


_DRAFTS = {Draft202012Validator: _bounded(Draft202012Validator), Draft7Validator: _bounded(Draft7Validator)}


def _validator(schema: dict[str, Any], draft: str) -> Validator:
    """In the draft that the schema names; without one, in the newest that takes it."""
    named = validator_for({"$schema": draft}, default=Draft202012Validator)
    for kind in (named if named in _DRAFTS else Draft202012Validator, Draft7Validator):
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            refusal = readable(error.message, 200)
        except RecursionError:
            refusal = "too deep"
        else:
            bounded: Validator = _DRAFTS[kind](schema, registry=Registry())
            return bounded
    raise BadSchema(f"its schema is none: {refusal}")
