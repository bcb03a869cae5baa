"""The rules as Prometheus recording and alerting rules, one YAML document; deploy/prometheus/rules.yml is made by this.

For each group of labels a value is recorded only where there are enough samples. The alert is three expressions in one:
the value is beyond the threshold; or the alert fires and the value has not come back to `resolve`; or the alert fires and
there is no value now, in which case the last one stands for up to `hold`. Needs Prometheus 2.42 or newer for nothing more
than its own ALERTS series, which survives a restart in its database.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from orchestrator.alerts.notice import Links
from orchestrator.alerts.rule import Kind, Rule, Selector, Unit

INTERVAL: Final = "15s"
LINKS: Final = Links()
HEAD: Final = """\
# Made by `orchestrator alerts rules` from orchestrator/alerts/rules.toml: change that, not this.
"""
_TEMPLATES: dict[Unit, str] = {
    "percent": "{{ $value | humanizePercentage }}",
    "ratio": '{{ $value | printf "%.2f" }}',
    "seconds": "{{ $value | humanizeDuration }}",
    "count": '{{ $value | printf "%.0f" }}',
    "money": '{{ $value | printf "%.2f" }}',
}


def prometheus(rules: Iterable[Rule], links: Links = LINKS, interval: str = INTERVAL) -> str:
    """The rule file, a group for each rule. Label values come from Prometheus; nothing a user wrote stands in it."""
    lines = [HEAD + "groups:"]
    for rule in rules:
        lines += [f"  - name: {rule.name}", f"    interval: {interval}", "    rules:"]
        lines += _recordings(rule)
        lines += _alert(rule, links)
    return "\n".join(lines) + "\n"


def recorded(rule: Rule, what: str) -> str:
    """The name of a recorded series: level, metric, operation, as Prometheus' conventions have it."""
    level = "_".join(rule.by) or "all"
    operation = f"{what}{_duration(rule.window)}" if _counts(rule) else what
    return f"{level}:orchestrator_{rule.name}:{operation}"


def value(rule: Rule) -> str:
    """The expression of the value, without regard to the number of samples."""
    window = _duration(rule.window)
    match rule.kind:
        case Kind.RATIO:
            over, under = _increase(rule, rule.over), _increase(rule, rule.under or rule.over)
            return f"({over} or {under} * 0)\n/ ({under} > 0)"
        case Kind.MEAN:
            total, count = (Selector(rule.over.metric + end, rule.over.where) for end in ("_sum", "_count"))
            return f"{_increase(rule, total)}\n/ ({_increase(rule, count)} > 0)"
        case Kind.INCREASE:
            return _sum(rule, f"increase({_select(rule.over)}[{window}])")
        case Kind.GAUGE:
            return f"max{_by(rule)} ({_select(rule.over)})"
        case Kind.ABSENCE:
            return f"absent({_select(rule.over)} > 0)"


def samples(rule: Rule) -> str:
    """The expression of the number of samples that a ratio or a mean comes from."""
    if rule.kind is Kind.MEAN:
        return _increase(rule, Selector(rule.over.metric + "_count", rule.over.where))
    return _increase(rule, rule.under or rule.over)


def expression(rule: Rule) -> str:
    """When the alert fires and goes on firing."""
    if rule.kind is Kind.ABSENCE:
        return value(rule)
    name = recorded(rule, _operation(rule))
    beyond = ">" if rule.comparison == "above" else "<"
    on = f"on ({', '.join(rule.by)})"
    firing = f'ALERTS{{alertname="{rule.alert}", alertstate="firing"}}'
    return (
        f"{name} {beyond} {rule.threshold:g}\n"
        f"or ({name} {beyond} {rule.resolve:g} and {on} {firing})\n"
        f"or (last_over_time({name}[{_duration(rule.hold)}]) and {on} {firing} unless {on} {name})"
    )


def _recordings(rule: Rule) -> Iterator[str]:
    if rule.kind is Kind.ABSENCE:
        return
    name, expr = recorded(rule, _operation(rule)), value(rule)
    if rule.minimum:
        counted = recorded(rule, "samples")
        yield from _record(counted, samples(rule))
        expr = f"{expr}\nand {counted} >= {rule.minimum}"
    yield from _record(name, expr)


def _record(name: str, expr: str) -> Iterator[str]:
    yield f"      - record: {name}"
    yield from _expr(expr)


def _expr(text: str) -> Iterator[str]:
    yield "        expr: |-"
    yield from (f"          {line}" for line in text.splitlines())


def _alert(rule: Rule, links: Links) -> Iterator[str]:
    yield f"      - alert: {rule.alert}"
    yield from _expr(expression(rule))
    yield f"        for: {_duration(rule.pending)}"
    yield "        labels:"
    yield f"          severity: {rule.severity}"
    yield f"          rule: {rule.name}"
    yield "        annotations:"
    for name, text in _annotations(rule, links).items():
        yield f"          {name}: {_quoted(text)}"


def _annotations(rule: Rule, links: Links) -> dict[str, str]:
    runs = "orchestrator runs" + (" --agent {{ $labels.agent }}" if "agent" in rule.by else "")
    return {
        "summary": f"{rule.title['en']}: {_templated(rule, rule.says['en'])}",
        "summary_zh": f"{rule.title['zh']}：{_templated(rule, rule.says['zh'])}",
        "value": _TEMPLATES[rule.unit],
        "threshold": f"{rule.comparison} {_limit(rule)}",
        "runs": runs,
        "runbook_url": links.to_runbook(rule.name),
    }


def _templated(rule: Rule, text: str) -> str:
    text = text.replace("{value}", _TEMPLATES[rule.unit]).replace("{threshold}", _limit(rule))
    for label in rule.by:
        text = text.replace("{" + label + "}", "{{ $labels." + label + " }}")
    return text


def _limit(rule: Rule) -> str:
    """The threshold as a number: it is known now, so it is no template."""
    from_unit = {"percent": f"{rule.threshold * 100:g}%", "seconds": _duration(rule.threshold)}
    return from_unit.get(rule.unit, f"{rule.threshold:g}")


def _operation(rule: Rule) -> str:
    return "max" if rule.kind is Kind.GAUGE else rule.kind.value


def _counts(rule: Rule) -> bool:
    return rule.kind in {Kind.RATIO, Kind.MEAN, Kind.INCREASE}


def _increase(rule: Rule, selector: Selector) -> str:
    return _sum(rule, f"increase({_select(selector)}[{_duration(rule.window)}])")


def _sum(rule: Rule, inner: str) -> str:
    return f"sum{_by(rule)} ({inner})"


def _by(rule: Rule) -> str:
    return f" by ({', '.join(rule.by)})" if rule.by else ""


def _select(selector: Selector) -> str:
    pairs = (
        f'{label}="{values[0]}"' if len(values) == 1 else f'{label}=~"{"|".join(values)}"'
        for label, values in selector.where
    )
    inside = ", ".join(pairs)
    return f"{selector.metric}{{{inside}}}" if inside else selector.metric


def _duration(seconds: float) -> str:
    """A duration as Prometheus reads it, in the largest unit that fits."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds * 1000:.0f}ms" if seconds else "0s"


def _quoted(text: str) -> str:
    """A YAML double-quoted scalar; JSON's is one."""
    return json.dumps(text, ensure_ascii=False)
