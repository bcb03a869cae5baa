"""The generated rule file, judged by the real promtool and amtool."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.alerts import load_rules, prometheus
from tests.alerts.make import GAP, RULES

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"
COMMITTED = (FOLDER / "rules.yml").read_text("utf-8")
INSTALL = "apt-get update && apt-get install -y --no-install-recommends prometheus prometheus-alertmanager"


def checked(tool: str, *arguments: str | Path, cwd: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    found = shutil.which(tool)
    assert found, f"{tool} is not installed; run: {INSTALL}"
    return subprocess.run(
        [found, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=100, check=False
    )


def copied(folder: Path, rules: str) -> Path:
    (folder / "rules.yml").write_text(rules, "utf-8")
    shutil.copy(FOLDER / "rules.test.yml", folder)
    return folder


def test_regenerating_the_rules_gives_what_is_committed() -> None:
    assert prometheus(load_rules()) == COMMITTED, "run: orchestrator alerts rules > deploy/prometheus/rules.yml"


@pytest.mark.needs("promtool")
def test_promtool_finds_no_fault_in_the_rules() -> None:
    found = checked("promtool", "check", "rules", "--lint=all", "--lint-fatal", "rules.yml")
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.needs("promtool")
def test_promtool_finds_no_fault_in_the_configuration() -> None:
    found = checked("promtool", "check", "config", "--lint=all", "--lint-fatal", "prometheus.yml")
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.needs("amtool")
def test_amtool_finds_no_fault_in_alertmanagers_configuration() -> None:
    found = checked("amtool", "check-config", "alertmanager.yml")
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.needs("promtool")
def test_the_rules_fire_and_resolve_as_their_tests_say() -> None:
    found = checked("promtool", "test", "rules", "rules.test.yml")
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.needs("promtool")
@pytest.mark.parametrize(
    ("what", "old", "new"),
    [
        ("the minimum of samples", "ratio15m > 0.05", "unguarded > 0.05"),
        ("the hysteresis", "ratio15m > 0.04", "ratio15m > 0.06"),
        (
            "that no data holds",
            "last_over_time(agent_model:orchestrator_thought_action_gap",
            "last_over_time(agent_model:nothing",
        ),
    ],
)
def test_a_rule_that_loses_a_part_is_noticed_by_the_tests(tmp_path: Path, what: str, old: str, new: str) -> None:
    """Only the gap rule and its tests: the whole file takes its time."""
    text = prometheus([GAP])
    assert old in text, what
    mutated = text.replace(old, new)
    if "unguarded" in new:
        mutated = re.sub(r"\n +and agent_model:orchestrator_thought_action_gap:samples15m >= 20", "", text)
        assert mutated != text
    tests = (FOLDER / "rules.test.yml").read_text("utf-8")
    names = ("under the minimum", "hysteresis", "too little data")
    head, *each = re.split(r"(?m)^(?=  - name: )", tests)
    kept = head + "".join(one for one in each if any(name in one for name in names))
    (tmp_path / "rules.yml").write_text(mutated, "utf-8")
    (tmp_path / "rules.test.yml").write_text(kept, "utf-8")
    assert checked("promtool", "test", "rules", "rules.test.yml", cwd=tmp_path).returncode == 1, f"{what} is not tested"


CLOSING = """\
rule_files: [rules.yml]
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series:
      - { series: 'orchestrator_thought_actions_total{agent="a", protocol="text", model="m", result="gap"}', values: "0+9x60 stale" }
      - { series: 'orchestrator_thought_actions_total{agent="a", protocol="text", model="m", result="match"}', values: "0+9x60 stale" }
    promql_expr_test:
      - { expr: "count(ALERTS)", eval_time: 36m, exp_samples: [{ labels: "{}", value: 1 }] }
      - { expr: "ALERTS", eval_time: 60m, exp_samples: [] }
"""


@pytest.mark.needs("promtool")
def test_an_alert_whose_group_is_gone_is_closed_after_hold(tmp_path: Path) -> None:
    rule = replace(GAP, hold=1200.0)
    (tmp_path / "rules.yml").write_text(prometheus([rule]), "utf-8")
    (tmp_path / "rules.test.yml").write_text(CLOSING, "utf-8")
    found = checked("promtool", "test", "rules", "rules.test.yml", cwd=tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_rule_is_an_alert_with_severity_summary_and_runbook() -> None:
    for rule in RULES.values():
        block = COMMITTED.partition(f"- alert: {rule.alert}\n")[2].partition("  - name:")[0]
        assert f"severity: {rule.severity}" in block
        assert f'runbook_url: "docs/runbook.md#{rule.name}"' in block
        assert rule.title["en"] in block
        assert rule.title["zh"] in block


@pytest.mark.needs("amtool")
def test_alertmanager_sends_every_alert_to_the_robot() -> None:
    found = checked(
        "amtool",
        "config",
        "routes",
        "test",
        "--config.file=alertmanager.yml",
        "alertname=StepBloat",
        "severity=warning",
    )
    assert found.stdout.strip() == "wecom", found.stderr
