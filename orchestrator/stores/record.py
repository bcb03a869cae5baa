"""Event ⇄ JSON bytes: the one place that knows how a Trace is written down.

Writing is orjson on the dataclasses as they are; what orjson refuses or alters (lone surrogates, integers beyond 64 bits,
NaN and the infinities) is written by the standard library, so that a replayed run equals the live one. Reading is a
`pydantic_core` validator built from the annotations of `core.events`: pydantic's own `TypeAdapter` cannot follow the recursive
alias `Json` on Python 3.11.

How a Trace outlives its code: a new field has a default; an unknown field is ignored; an unknown kind, a missing field or
a wrong type is a StoreError. A kind that is renamed, or whose fields are, gets an upcaster here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any, Literal, get_args, get_origin, get_type_hints

import orjson
from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

from orchestrator.core.events import Anomaly, Entry, Event, ModelTurn, Observation, Outcome, StopReason
from orchestrator.core.spec import Json
from orchestrator.errors import StoreError

UPCASTERS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Old `kind` -> the same event in today's words. Tried only on what does not read as it is, so it costs nothing."""


def dump(event: Event) -> bytes:
    """The event as one JSON object. Raises StoreError for values that JSON has no word for."""
    try:
        body = orjson.dumps(event, _plain)
        if body.count(b"null") == _absent(event) or _finite(event):
            return body
    except TypeError:
        pass
    try:
        return json.dumps(event, default=_plain, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"{event.kind} cannot be written as JSON: {error}; check what the model or tool put in"
        ) from error


def load(body: bytes | str, run_id: str = "?", seq: int = 0) -> Event:
    """The event that `dump` wrote, today or years ago. `run_id` and `seq` only name the place in the StoreError."""
    try:
        event: Event = _EVENT.validate_json(body)
    except ValidationError as error:
        return _load_with_care(body, f"run {run_id}, entry {seq}", error)
    return event


def dump_entry(entry: Entry) -> bytes:
    """The entry as one line of a `.jsonl` file, without the line end."""
    head = json.dumps({"run_id": entry.run_id, "seq": entry.seq, "at": entry.at}, separators=(",", ":"))
    return head[:-1].encode() + b',"event":' + dump(entry.event) + b"}"


def load_entry(line: bytes) -> Entry:
    """The entry of one line of a `.jsonl` file."""
    try:
        raw = json.loads(line)
        run_id, seq, at, event = str(raw["run_id"]), int(raw["seq"]), float(raw["at"]), json.dumps(raw["event"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StoreError(f"not a line of a Trace: {error!r}") from error
    return Entry(run_id, seq, at, load(event.encode(), run_id, seq))


def _load_with_care(body: bytes | str, place: str, first: ValidationError) -> Event:
    """What the strict JSON reader refuses: lone surrogates, deep nesting, and kinds of an older release."""
    try:
        raw = json.loads(body)
        upcast = UPCASTERS.get(str(raw.get("kind")))
        event: Event = _EVENT.validate_python(upcast(raw) if upcast else raw)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'event'}: {e['msg']}" for e in error.errors()[:3])
        raise StoreError(f"{place} is no event of this release: {problems}; upgrade, or add an upcaster") from error
    except (ValueError, AttributeError, RecursionError) as error:
        raise StoreError(f"{place} is damaged: {first.errors()[0]['msg']}; restore it from a backup") from error
    return event


def _plain(value: object) -> object:
    """What orjson and json do not know by themselves."""
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _absent(event: Event) -> int:
    """How many nulls of the event's JSON stand for a None of its own: where there are no more of them, none stands for a NaN."""
    fields = _OPTIONAL.get(type(event))
    return 0 if fields is None else fields(event).count(None)


def _finite(value: Any) -> bool:
    """False if a NaN or an infinity is anywhere inside: orjson would write null for it. The hot path: by exact type."""
    shape: Any = type(value)
    if shape in _ALWAYS_FINITE:
        return True
    if shape is float:
        return isfinite(value)
    if shape is dict:
        return all(map(_finite, value.values()))
    if shape is list or shape is tuple:
        return all(map(_finite, value))
    for name in _suspects(shape):  # noqa: SIM110  a generator costs a third more
        if not _finite(getattr(value, name)):
            return False
    return True


@cache
def _suspects(shape: type) -> tuple[str, ...]:
    """The fields of a dataclass that may hold a float somewhere inside; of anything else none."""
    fields = dataclasses.fields(shape) if dataclasses.is_dataclass(shape) else ()
    return tuple(
        field.name for field in fields if str(field.type) not in _NO_FLOAT and "Literal" not in str(field.type)
    )


def _schema(hint: Any) -> CoreSchema:
    """The validator of one annotation. Only the shapes that `core.events` and `core.spec` use are known."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return core_schema.literal_schema(list(args))
    if origin is tuple:
        return core_schema.tuple_variable_schema(_schema(args[0]))
    if origin is Mapping:
        return core_schema.dict_schema(_schema(args[0]), _schema(args[1]))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return core_schema.enum_schema(hint, list(hint), sub_type="str")
    if dataclasses.is_dataclass(hint):
        return _dataclass(hint)
    if Json in (hint, *args) or bool in args:  # Json itself, and Json as `get_type_hints` unrolls it
        return core_schema.any_schema()
    some = [arg for arg in args if arg is not type(None)]
    if len(some) < len(args):
        return core_schema.nullable_schema(_schema(some[0]))
    kinds = {get_type_hints(arg)["kind"].__args__[0]: _schema(arg) for arg in some}
    return core_schema.tagged_union_schema(kinds, discriminator="kind")


def _dataclass(cls: Any) -> CoreSchema:
    hints, fields = get_type_hints(cls), dataclasses.fields(cls)

    def argument(field: dataclasses.Field[Any]) -> core_schema.DataclassField:
        schema = _schema(hints[field.name])
        if field.default is not dataclasses.MISSING:
            schema = core_schema.with_default_schema(schema, default=field.default)
        elif field.default_factory is not dataclasses.MISSING:
            schema = core_schema.with_default_schema(schema, default_factory=field.default_factory)
        return core_schema.dataclass_field(field.name, schema, kw_only=False)

    arguments = core_schema.dataclass_args_schema(cls.__name__, list(map(argument, fields)), extra_behavior="ignore")
    return core_schema.dataclass_schema(cls, arguments, [field.name for field in fields], slots=True, frozen=True)


_OPTIONAL: Mapping[type, attrgetter[tuple[object, ...]]] = {
    ModelTurn: attrgetter("first_token", "usage.cost"),
    Observation: attrgetter("code", "kind"),
}
"""Of the events that come with every step: the fields that may be None (two at least, or it would give no tuple)."""
_NO_FLOAT = frozenset({"str", "int", "bool", "str | None", "int | None", "tuple[str, ...]", "Mapping[str, str]"})
_ALWAYS_FINITE = frozenset({str, int, bool, type(None), StopReason, Anomaly, Outcome})
_PLAIN: Mapping[Any, CoreSchema] = {
    str: core_schema.str_schema(),
    int: core_schema.int_schema(),
    bool: core_schema.bool_schema(),
    float: core_schema.float_schema(),
}
_EVENT = SchemaValidator(_schema(Event))
