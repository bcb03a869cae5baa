"""The rules file: what it holds, what it refuses, what the settings may change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.alerts import Kind, load_rules
from orchestrator.alerts.load import RULES as FILE
from orchestrator.alerts.load import seconds
from orchestrator.alerts.rule import shown
from orchestrator.core.events import Outcome
from orchestrator.core.measure.series import SERIES
from orchestrator.errors import ConfigError
from orchestrator.settings import Settings
from tests.alerts.make import RULES

ROOT = Path(__file__).parents[2]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text("utf-8")


def test_the_three_of_the_definitions_are_as_defined() -> None:
    found = {name: (RULES[name].comparison, RULES[name].threshold, RULES[name].minimum) for name in list(RULES)[:3]}
    assert found == {
        "thought_action_gap": ("above", 0.05, 20),
        "error_propagation": ("below", 0.80, 20),
        "step_bloat": ("above", 2.0, 20),
    }


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_a_section_in_the_runbook_with_three_commands(name: str) -> None:
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert section, f"docs/runbook.md has no section `## {name}`"
    (commands,) = re.findall(r"^```sh\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)
    assert commands.count("\n") == 3
    assert "**Means.**" in section[1]
    assert "**Usually fixed by.**" in section[1]


def test_the_runbook_has_no_section_of_a_rule_that_is_gone() -> None:
    assert re.findall(r"^## (\S+)$", RUNBOOK, re.MULTILINE) == list(RULES)


@pytest.mark.parametrize(
    "name", [name for name, rule in RULES.items() if rule.kind in {Kind.RATIO, Kind.MEAN, Kind.INCREASE}]
)
def test_every_counting_rule_reads_series_that_are_measured_with_labels_they_have(name: str) -> None:
    rule = RULES[name]
    for selector in filter(None, (rule.over, rule.under)):
        series = SERIES[selector.metric]
        assert (series.kind == "histogram") == (rule.kind is Kind.MEAN)
        assert {label for label, _ in selector.where} | set(rule.by) <= set(series.labels)


@pytest.mark.parametrize("name", RULES)
def test_hysteresis_is_on_the_safe_side_of_the_threshold(name: str) -> None:
    rule = RULES[name]
    assert not rule.breached(rule.resolve)
    assert rule.eased(rule.resolve)


def test_every_bad_end_of_a_run_counts_for_an_alert() -> None:
    of_runs = [rule for rule in RULES.values() if rule.over.metric == "orchestrator_runs_total"]
    told = {value for rule in of_runs for label, values in rule.over.where if label == "outcome" for value in values}
    fine = {Outcome.ANSWERED, Outcome.GAVE_UP, Outcome.CANCELLED}
    assert told == {outcome.value for outcome in Outcome} - fine


def test_a_changed_threshold_moves_its_resolve_in_proportion() -> None:
    rule = next(
        rule for rule in load_rules({"thought_action_gap": {"threshold": 0.5}}) if rule.name == "thought_action_gap"
    )
    assert (rule.threshold, rule.resolve) == (0.5, 0.4)


def test_settings_change_and_switch_off_rules() -> None:
    settings = Settings(alerts={"rules": {"cost_burn": {"off": True}, "step_bloat": {"window": "10m", "for": 0}}})  # type: ignore[arg-type]
    rules = {rule.name: rule for rule in load_rules(settings.alerts.rules)}
    assert "cost_burn" not in rules
    assert (rules["step_bloat"].window, rules["step_bloat"].pending) == (600.0, 0.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nope": {}}, "no such rule"),
        ({"step_bloat": {"over": "x"}}, "cannot be changed"),
        ({"step_bloat": {"threshold": "high"}}, "alert rule step_bloat: threshold = 'high' is no number"),
        ({"step_bloat": {"threshold": True}}, "threshold = True is no number"),
        ({"step_bloat": {"threshold": "high", "resolve": 1}}, "threshold = 'high' is no number"),
        ({"step_bloat": {"resolve": "low"}}, "resolve = 'low' is no number"),
        ({"step_bloat": {"threshold": float("nan")}}, "no number"),
        ({"step_bloat": {"resolve": 3.0}}, "beyond threshold"),
        ({"step_bloat": {"window": "soon"}}, "no duration"),
        ({"step_bloat": {"window": 0}}, "above 0 s"),
        ({"step_bloat": {"severity": "mild"}}, "write one of"),
        ({"step_bloat": {"window": 0.0001}}, "above 0 s"),
        ({"step_bloat": {"hold": 0}}, "above 0 s"),
        ({"step_bloat": {"minimum": -3}}, "whole number"),
        ({"step_bloat": {"minimum": 2.7}}, "whole number"),
        ({"step_bloat": {"minimum": True}}, "whole number"),
        ({"queue_age": {"minimum": 5}}, "no samples"),
        ({"cost_burn": {"minimum": 5}}, "no samples"),
        ({"worker_absent": {"off": "no"}}, "true or false"),
        ({"worker_absent": {"off": 1}}, "true or false"),
        ({"thought_action_gap": {"threshold": 5}}, "5 % is 0.05"),
        ({"error_propagation": {"threshold": 80, "resolve": 85}}, "5 % is 0.05"),
        ({"run_errors": {"threshold": 0.5, "resolve": -0.1}}, "5 % is 0.05"),
    ],
)
def test_a_wrong_change_is_refused_by_name(change: dict[str, dict[str, Any]], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        load_rules(change)
    assert next(iter(change)) in str(refused.value), "which rule"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('kind = "ratio"', 'kind = "rate"'),
        ('kind = "ratio"', 'kind = "mean"'),
        ("threshold = 0.05", "treshold = 0.05"),
        ("threshold = 0.05", "threshold = true"),
        ('title = "Thought-Action gap"', "title = 1"),
        ("{agent}", "{tenant}"),
        ("resolve = 0.04", "resolve = 0.06"),
        ('over = { metric = "orchestrator_thought_actions_total",', "over = {"),
        ('by = ["agent", "model"]', 'by = "agent"'),
        ('by = ["agent", "model"]', "by = [1]"),
        ("[thought_action_gap]", "agents = 1\n[thought_action_gap]"),
        ("[thought_action_gap]", "[Gap]"),
        ("[thought_action_gap]", "[thought_action_gap"),
    ],
)
def test_a_wrong_rules_file_is_refused(tmp_path: Path, old: str, new: str) -> None:
    text = FILE.read_text("utf-8")
    assert old in text
    (tmp_path / "rules.toml").write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(ConfigError):
        load_rules(path=tmp_path / "rules.toml")


def test_a_missing_rules_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_rules(path=tmp_path / "none.toml")


@pytest.mark.parametrize(("text", "value"), [("90s", 90.0), ("15m", 900.0), ("2h", 7200.0), ("1d", 86400.0), (5, 5.0)])
def test_durations_are_read(text: object, value: float) -> None:
    assert seconds(text, "x") == value


@pytest.mark.parametrize("text", ["", "15", "1.5m", "m", "15 m", -1, True, None, float("inf"), "9" * 30 + "d"])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ConfigError):
        seconds(text, "x")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0725, "percent", "7.25 %"),
        (2.3456, "ratio", "2.346"),
        (0.25, "seconds", "250 ms"),
        (42.0, "seconds", "42 s"),
        (400.0, "seconds", "6 min 40 s"),
        (7260.0, "seconds", "2 h 1 min"),
        (12.0, "count", "12"),
        (123456.0, "money", "123456"),
    ],
)
def test_figures_read_as_people_write_them(value: float, unit: Any, text: str) -> None:
    assert shown(value, unit) == text
