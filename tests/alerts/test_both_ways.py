"""The same rule by Prometheus and by the monitor: of the same traffic both say the same."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from orchestrator.alerts import QUIET, Reading, Window, evaluate, prometheus
from tests.alerts.make import GAP
from tests.alerts.test_prometheus import checked

STEP = 15.0
LONG = 120
"""Steps of one phase: half an hour, so that the window has passed and `for` is over."""

GROUP = ("shop", "main")
LABELS = {"agent": "shop", "protocol": "native", "model": "main"}
PHASES = {"fine": (0, 40), "between": (2, 42), "bad": (8, 32), "silent": (0, 0), "few": (0, 0)}
"""Gaps and matches in a step; `between` is 4.5 %, beyond `resolve` and within the threshold. `few` has ten bad ones in all."""


def steps(phases: list[str]) -> list[tuple[int, int]]:
    found = [(0, 0)]
    for phase in phases:
        found += [PHASES[phase] if phase != "few" else (1 if step % 12 == 0 else 0, 0) for step in range(LONG)]
    return found


def monitored(traffic: list[tuple[int, int]]) -> list[bool]:
    """Whether the monitor says firing, at each step."""
    window, state, firing = Window([GAP]), QUIET, []
    for step, (gaps, matches) in enumerate(traffic):
        now = step * STEP
        for result, count in (("gap", gaps), ("match", matches)):
            if count:
                window.add(GAP.over.metric, {**LABELS, "result": result}, float(count), at=now, run_id="r")
        window.forget(now)
        reading = window.read(GAP, now).get(GROUP, Reading())
        state, _ = evaluate(GAP, GROUP, reading, state, now)
        firing.append(state.phase == "firing")
    return firing


def promtool_test(traffic: list[tuple[int, int]], firing: list[bool]) -> str:
    """The same traffic as counters, and what the monitor said at the end of each phase as what is expected."""
    series = []
    for index, result in enumerate(("gap", "match")):
        total, values = 0, []
        for each in traffic:
            total += each[index]
            values.append(str(total))
        labels = ", ".join(f'{name}="{value}"' for name, value in {**LABELS, "result": result}.items())
        series.append({"series": f"{GAP.over.metric}{{{labels}}}", "values": " ".join(values)})
    checks = [
        {
            "expr": 'count(ALERTS{alertstate="firing"})',
            "eval_time": f"{step * STEP:.0f}s",
            "exp_samples": [{"labels": "{}", "value": 1}] if firing[step] else [],
        }
        for step in range(LONG - 4, len(traffic), LONG)
    ]
    test = {"interval": "15s", "input_series": series, "promql_expr_test": checks}
    return json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": [test]})


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("seed", range(4))
def test_prometheus_and_the_monitor_agree_at_the_end_of_every_phase(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    phases = ["bad", *(draw.choice(list(PHASES)) for _ in range(7))]
    traffic = steps(phases)
    firing = monitored(traffic)
    assert any(firing)
    (tmp_path / "rules.yml").write_text(prometheus([GAP]), "utf-8")
    (tmp_path / "test.yml").write_text(promtool_test(traffic, firing), "utf-8")
    found = checked("promtool", "test", "rules", "test.yml", cwd=tmp_path)
    assert found.returncode == 0, f"{phases}\n{found.stdout}{found.stderr}"


def test_the_phases_mean_what_they_are_called() -> None:
    firing = monitored(steps(["fine", "between", "bad", "between", "silent", "few", "fine", "few", "silent"]))
    ends = firing[LONG - 4 :: LONG]
    assert ends == [False, False, True, True, True, True, False, False, False]
