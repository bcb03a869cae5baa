"""Every panel's query, instant and over time, against a real Prometheus that scraped a real worker: none empty, none an error."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.dashboards.board import targets
from tests.dashboards.scene import BEHAVIOURS, Scene, scene

pytestmark = [pytest.mark.needs("prometheus"), pytest.mark.timeout(300)]
WORST = dict.fromkeys(BEHAVIOURS, 4) | {"guide": 12}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("scene")) as found:
        found.prometheus.until("count_over_time(orchestrator_append_seconds_count[10s]) >= 3", 30)
        found.submit(WORST)
        found.ended(within=120)
        found.submit({"guide": 3, "busy": 2, "drifter": 2, "sleeper": 1})
        found.ended(within=60)
        time.sleep(2.5)
        yield found


def test_no_panel_is_empty_and_none_an_error(played: Scene) -> None:
    end = time.time()
    empty = []
    for target in targets():
        if not played.prometheus.instant(target.expr):
            empty.append(f"instant {target}")
        lines = played.prometheus.range(target.expr, end - 120, end, 5)
        if not any(value != "NaN" for line in lines for _, value in line["values"]):
            empty.append(f"range {target}")
    assert empty == []


def test_the_three_rates_see_what_the_model_was_told_to_do(played: Scene) -> None:
    value = played.prometheus.value
    gap = 'sum(orchestrator_thought_actions_total{agent="drifter",result="gap"}) / sum(orchestrator_thought_actions_total{agent="drifter",result=~"gap|match"})'
    assert value(gap) > 0.5
    assert value('sum(orchestrator_error_observations_total{agent="sleeper",result="ignored"})') >= 4
    mean = 'sum(orchestrator_step_bloat_ratio_sum{agent="wanderer"}) / sum(orchestrator_step_bloat_ratio_count{agent="wanderer"})'
    assert value(mean) > 2


def test_what_was_scraped_is_at_most_1000_series_for_each_worker_of_three_models(played: Scene) -> None:
    series = played.prometheus.value(
        'count({job="orchestrator", target!~".+", model=~"|demo-l20|demo-gap|demo-529|other", agent=~"|guide"})'
    )
    assert 200 < series <= 1000


def test_exemplars_lead_from_a_peak_to_a_run(played: Scene) -> None:
    end = time.time()
    found = played.prometheus.ask(
        "query_exemplars", query="orchestrator_model_seconds_bucket", start=end - 300, end=end
    )
    ids = {each["labels"]["run_id"] for series in found for each in series["exemplars"]}
    assert ids and all(len(run_id) == 26 for run_id in ids)
