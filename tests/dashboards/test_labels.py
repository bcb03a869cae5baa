"""The boards and the alert rules ask for labels, and values of labels, that there are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from orchestrator.alerts import Rule, load_rules
from tests.dashboards.board import Target, targets
from tests.dashboards.labels import CLOSED, SCRAPED, Exported, exported, wrong


async def test_every_label_of_a_board_is_one_that_the_series_has() -> None:
    known = await exported()
    found = {}
    for target in targets():
        if problems := [*wrong(target.expr, legend_of(target), known)]:
            found[str(target)] = problems
    assert found == {}


def legend_of(target: Target) -> str:
    """The legend of this query among its panel's."""
    given = [each for each in targets() if each.panel is target.panel]
    legend = target.panel["targets"][given.index(target)].get("legendFormat", "")
    return "" if legend == "__auto" else str(legend)


@pytest.mark.parametrize(
    ("expr", "legend"),
    [
        ('sum by (outcme) (orchestrator_runs_total{agent=~".*"})', ""),
        ('sum by (outcome) (orchestrator_runs_total{outcome="answerd"})', ""),
        ('sum(orchestrator_thought_actions_total{result!="unstatd"})', ""),
        ("max by (stat) (orchestrator_queue_runs)", ""),
        ('max(orchestrator_queue_runs{state="queued"})', ""),
        ('max(orchestrator_queue_runs{stat="queued"})', ""),
        ('max by (target) (orchestrator_breaker_open{kind="model"})', "{{targt}}"),
    ],
)
async def test_a_typo_in_a_label_is_found(expr: str, legend: str) -> None:
    assert [*wrong(expr, legend, await exported())]


async def test_every_label_of_an_alert_rule_is_one_that_its_series_has() -> None:
    known = await exported()
    for rule in load_rules():
        for selector in filter(None, (rule.over, rule.under)):
            labels = labels_of(rule, known, selector.metric)
            assert {*rule.by, *(label for label, _ in selector.where)} <= {*labels, *SCRAPED}, rule.name
            for label, values in selector.where:
                assert label not in CLOSED or set(values) <= labels[label], rule.name


def labels_of(rule: Rule, known: Exported, metric: str) -> Mapping[str, set[str]]:
    """The labels of a rule's series; of a histogram those of its sum."""
    return known.get(metric) or known.get(f"{metric}_sum", {})
