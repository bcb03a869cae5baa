"""The rules file read and checked: `rules.toml` beside this module, and what the operator's settings change in it."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from orchestrator.alerts.rule import DAY, MINIMUM, Comparison, Kind, Rule, Selector, Severity, Unit
from orchestrator.errors import ConfigError

RULES: Final = Path(__file__).with_name("rules.toml")

_DURATION = re.compile(r"([0-9]{1,6})(s|m|h|d)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_COMPARISONS = ("above", "below")
_SEVERITIES = ("critical", "warning", "info")
_UNITS = ("percent", "ratio", "seconds", "count", "money")
_FIELDS = frozenset(
    [
        "kind",
        "over",
        "under",
        "by",
        "comparison",
        "threshold",
        "resolve",
        "window",
        "minimum",
        "for",
        "hold",
        "severity",
        "unit",
        "title",
        "title_zh",
        "says",
        "says_zh",
        "off",
    ]
)
SAMPLED: Final = frozenset({Kind.RATIO, Kind.MEAN})
"""Kinds whose value comes from samples that can be too few."""
SHORTEST: Final = 0.001
"""Seconds of the shortest window: what Prometheus' durations can say."""
CHANGEABLE: Final = frozenset({"threshold", "resolve", "window", "minimum", "for", "hold", "severity", "off"})
"""What settings may change of a rule."""


def load_rules(changes: Mapping[str, Mapping[str, Any]] = {}, path: Path = RULES) -> tuple[Rule, ...]:
    """All rules that are not off, in the file's order. `changes` are the `[alerts.rules.NAME]` tables of the settings.

    A changed threshold without a `resolve` moves `resolve` in proportion. ConfigError names rule and field.
    """
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"alert rules {path} cannot be read: {error}") from error
    for name, change in changes.items():
        if name not in tables:
            raise ConfigError(f"alerts.rules.{name}: there is no such rule; there are {', '.join(tables)}")
        unknown = change.keys() - CHANGEABLE
        if unknown:
            raise ConfigError(f"alerts.rules.{name}: {', '.join(sorted(unknown))} cannot be changed here")
        tables[name] = _changed(name, tables[name], change)
    return tuple(_rule(name, table) for name, table in tables.items() if not _off(name, table))


def seconds(value: object, place: str) -> float:
    """`15m` (s, m, h, d) or a number of seconds. ConfigError for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ConfigError(f'{place} = {value!r} is no duration: write for example "90s", "15m", "1h" or "1d"')
    return int(found[1]) * _SECONDS[found[2]]


def _off(name: str, table: object) -> bool:
    place = f"alert rule {name}"
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place} is no table: write [{name}]")
    off = table.get("off", False)
    if not isinstance(off, bool):
        raise ConfigError(f"{place}: off = {off!r}: write true or false")
    return off


def _changed(name: str, table: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**table, **change}
    old, new = table.get("threshold"), change.get("threshold")
    if new is not None and change.get("resolve") is None and old:
        merged["resolve"] = round(table.get("resolve", old) / old * _number(new, f"alert rule {name}: threshold"), 12)
    return merged


def _rule(name: str, table: Mapping[str, Any]) -> Rule:
    place = f"alert rule {name}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{place}: a rule's name is lower_snake_case")
    unknown = table.keys() - _FIELDS
    if unknown:
        raise ConfigError(
            f"{place}: unknown field {', '.join(sorted(unknown))}; known are {', '.join(sorted(_FIELDS))}"
        )
    kind = Kind(_one_of(table.get("kind"), tuple(Kind), f"{place}: kind"))
    threshold = _number(table.get("threshold", 0.0), f"{place}: threshold")
    rule = Rule(
        name,
        kind,
        _selector(table.get("over"), f"{place}: over"),
        threshold,
        _number(table.get("resolve", threshold), f"{place}: resolve"),
        {"en": _text(table, "title", place), "zh": _text(table, "title_zh", place)},
        {"en": _text(table, "says", place), "zh": _text(table, "says_zh", place)},
        under=_selector(table["under"], f"{place}: under") if "under" in table else None,
        by=_by(table.get("by", []), f"{place}: by"),
        comparison=cast("Comparison", _one_of(table.get("comparison", "above"), _COMPARISONS, f"{place}: comparison")),
        window=seconds(table.get("window", "15m"), f"{place}: window"),
        minimum=_count(table.get("minimum", MINIMUM if kind in SAMPLED else 0), f"{place}: minimum"),
        pending=seconds(table.get("for", 0), f"{place}: for"),
        hold=seconds(table.get("hold", DAY), f"{place}: hold"),
        severity=cast("Severity", _one_of(table.get("severity", "warning"), _SEVERITIES, f"{place}: severity")),
        unit=cast("Unit", _one_of(table.get("unit", "count"), _UNITS, f"{place}: unit")),
    )
    _check(rule, place)
    return rule


def _check(rule: Rule, place: str) -> None:
    if (rule.kind is Kind.RATIO) != (rule.under is not None):
        raise ConfigError(f"{place}: a ratio, and only a ratio, has `under`")
    if rule.breached(rule.resolve):
        raise ConfigError(f"{place}: resolve = {rule.resolve:g} is beyond threshold = {rule.threshold:g}")
    if rule.kind in {*SAMPLED, Kind.INCREASE} and rule.window < SHORTEST:
        raise ConfigError(f"{place}: window must be above 0 s")
    if rule.hold < SHORTEST:
        raise ConfigError(f"{place}: hold must be above 0 s")
    if rule.minimum and rule.kind not in SAMPLED:
        raise ConfigError(f"{place}: minimum is of a ratio or a mean; a {rule.kind} has no samples to be counted")
    if rule.unit == "percent" and not (0 <= rule.threshold <= 1 and 0 <= rule.resolve <= 1):
        raise ConfigError(
            f"{place}: threshold = {rule.threshold:g}, resolve = {rule.resolve:g}: a share is from 0 to 1; 5 % is 0.05"
        )
    for says in rule.says.values():
        unknown = set(re.findall(r"\{(\w*)\}", says)) - {"value", "threshold", *rule.by}
        if unknown:
            raise ConfigError(f"{place}: says names {', '.join(sorted(unknown))}, which is no label of `by`")


def _selector(value: object, place: str) -> Selector:
    if isinstance(value, str):
        return Selector(value)
    if isinstance(value, dict) and isinstance(value.get("metric"), str):
        where = ((str(label), _values(each)) for label, each in value.items() if label != "metric")
        return Selector(value["metric"], tuple(sorted(where)))
    raise ConfigError(f'{place}: write a metric\'s name, or {{ metric = "...", label = ["value"] }}')


def _values(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _by(value: object, place: str) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(each, str) and _NAME.fullmatch(each) for each in value):
        return tuple(value)
    raise ConfigError(f'{place} = {value!r}: write a list of labels, such as ["agent", "model"]')


def _count(value: object, place: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ConfigError(f"{place} = {value!r}: write a whole number, 0 or more")


def _number(value: object, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise ConfigError(f"{place} = {value!r} is no number")


def _one_of(value: object, choices: tuple[str, ...], place: str) -> str:
    if isinstance(value, str) and value in choices:
        return value
    raise ConfigError(f"{place} = {value!r}: write one of {', '.join(choices)}")


def _text(table: Mapping[str, Any], field: str, place: str) -> str:
    value = table.get(field)
    if isinstance(value, str) and value:
        return value
    raise ConfigError(f"{place}: {field} is missing")
