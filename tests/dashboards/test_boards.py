"""The boards are what their code says, fit for provisioning, and legible: units, descriptions, thresholds, places."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from dashboards.build import boards
from orchestrator.alerts import load_rules
from orchestrator.metrics import Metrics
from orchestrator.worker.gauges import WorkerCollector
from orchestrator.worker.watch import Watchdog
from tests.dashboards.board import BOARDS, FOLDER, METRIC, panels, targets
from tests.worker.station import station, working

UNITS = {"percentunit", "s", "short", "none", "bytes"}


@pytest.mark.parametrize("name", boards())
def test_building_again_changes_nothing(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == boards()[name], "run: python -m dashboards.build"


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_can_be_provisioned(name: str) -> None:
    board = BOARDS[name]
    assert "__inputs" not in board and board.get("id") is None
    assert board["uid"] == f"orch-{name}" and len(board["uid"]) <= 40
    assert board["schemaVersion"] == 41
    first = board["templating"]["list"][0]
    assert (first["type"], first["name"], first["query"]) == ("datasource", "datasource", "prometheus")
    for panel in panels(name):
        for place in (panel, *panel["targets"]):
            assert place["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("name", BOARDS)
def test_panels_have_ids_of_their_own_and_do_not_overlap(name: str) -> None:
    every = BOARDS[name]["panels"]
    ids = [panel["id"] for panel in every]
    assert len(set(ids)) == len(ids) and None not in ids
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in every)
    for one, other in combinations(every, 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])
    refs = [[target["refId"] for target in panel["targets"]] for panel in panels(name)]
    assert all(len(set(each)) == len(each) for each in refs)


def overlap(a: dict[str, int], b: dict[str, int]) -> bool:
    return (
        a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]
    )


@pytest.mark.parametrize("name", BOARDS)
def test_every_panel_has_a_unit_and_says_what_it_shows_and_what_to_do(name: str) -> None:
    for panel in panels(name):
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["description"].count(" ") >= 10, panel["title"]
        if colours(panel) > 1 and panel["type"] == "stat":
            assert "Red (" in panel["description"], f"{panel['title']}: say what to do when it is red"
        assert panel["targets"] and all(target["expr"] for target in panel["targets"])


def colours(panel: dict[str, Any]) -> int:
    return len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"])


def test_the_three_rates_are_drawn_with_the_thresholds_of_their_alerts() -> None:
    limits = {rule.name: rule for rule in load_rules()}
    titles = {
        "Thought-Action gap": "thought_action_gap",
        "Error propagation": "error_propagation",
        "Step bloat": "step_bloat",
    }
    found = {
        panel["title"]: panel["fieldConfig"]["defaults"]["thresholds"]["steps"] for panel in panels("agent-health")
    }
    for title, name in titles.items():
        steps, rule = found[title], limits[name]
        assert steps[1]["value"] == rule.threshold
        assert [step["color"] for step in steps] == (
            ["red", "green"] if rule.comparison == "below" else ["green", "red"]
        )


def test_every_alert_has_its_metric_on_a_board() -> None:
    shown = {name for target in targets() for name in METRIC.findall(target.expr)}
    told = {name.metric for rule in load_rules() for name in (rule.over, rule.under) if name}
    assert {name for name in told if not any(each.startswith(name) for each in shown)} == set()


async def exported() -> set[str]:
    """The names of all series of a worker, as prometheus-client has them."""
    async with station(()) as place, working(place) as worker, Watchdog() as dog:
        metrics = Metrics()
        metrics.registry.register(WorkerCollector(worker, dog))
        await place.until(lambda: worker.depth is not None)
        return {family.name for family in metrics.registry.collect()}


async def test_every_metric_of_a_board_is_in_the_registry_of_a_worker() -> None:
    suffixes = ("", "_total", "_bucket", "_sum", "_count")
    known = {f"{name}{suffix}" for name in await exported() for suffix in suffixes}
    assert {name for target in targets() for name in METRIC.findall(target.expr)} - known == set()


async def test_every_series_of_a_worker_is_in_the_documentation() -> None:
    text = (FOLDER.parent / "docs" / "metrics.md").read_text("utf-8").partition("## Series")[2]
    told = {name.removesuffix("_total") for name in METRIC.findall(text)}
    assert {name for name in await exported() if name.startswith("orchestrator_")} - told == set()


def test_the_series_of_the_documentation_are_those_that_a_worker_exports() -> None:
    text = (FOLDER.parent / "docs" / "metrics.md").read_text("utf-8")
    registry = Metrics().registry
    known = {name for family in registry.collect() for name in (family.name, f"{family.name}_total")}
    told = set(METRIC.findall(text.partition("## Series")[2].partition("## Boards")[0]))
    ours = {family.name for family in registry.collect() if family.name.startswith("orchestrator_")}
    worker = (FOLDER.parent / "orchestrator" / "worker" / "gauges.py").read_text("utf-8")
    assert {name for name in told - known if name.removesuffix("_total") not in worker} == set()
    assert {name for name in ours if not {name, f"{name}_total"} & told} == set()
