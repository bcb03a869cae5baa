"""python -m dashboards.build: write the boards' JSON. A test holds that building again changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from dashboards import health, worker
from dashboards.panel import SOURCE, Row, build

HERE = Path(__file__).parent
CONSOLE = "http://127.0.0.1:8700/runs/"
"""Where a run is shown; its id follows. Each board's variable `console` changes it."""


def boards() -> dict[str, str]:
    """The JSON of each board, by file name."""
    agent = _query("agent", "agent", "label_values(orchestrator_runs_total, agent)")
    instance = _query("instance", "worker", "label_values(orchestrator_worker_runs, instance)")
    console = dashboard.TextBoxVariable("console").label("console").default_value(CONSOLE)
    return {
        "agent-health.json": _board("Agent health", "orch-agent-health", health.ROWS, (agent, console)),
        "worker.json": _board("Worker", "orch-worker", worker.ROWS, (instance,)),
    }


Variable = dashboard.QueryVariable | dashboard.TextBoxVariable | dashboard.DatasourceVariable


def _board(title: str, uid: str, rows: Sequence[Row], variables: Sequence[Variable]) -> str:
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .tags(["orchestrator"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
    )
    made.tooltip(models.DashboardCursorSync.CROSSHAIR).editable().link(
        dashboard.DashboardLink("Orchestrator")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags(["orchestrator"])
        .keep_time(True)
    )
    made.with_variable(dashboard.DatasourceVariable("datasource").label("data source").type("prometheus"))
    for variable in variables:
        made.with_variable(variable)
    number = 0
    for row in rows:
        number += 1
        made.with_row(dashboard.Row(row.title).id(number))
        for panel in row.panels:
            number += 1
            made.with_panel(build(panel, number))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _query(name: str, label: str, query: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(models.VariableOption(selected=True, text="All", value="$__all"))
    )


def main() -> None:
    """Write the files."""
    for name, text in boards().items():
        (HERE / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
