"""Alerts, written once: `rules.toml`, its two readers (Prometheus' rule files and the pure `evaluate`), and what is told.

Read `rule.py` first, then `evaluate.py`. Nothing here reads a clock, a store or a socket.
"""

from orchestrator.alerts.evaluate import QUIET, AlertState, Reading, evaluate
from orchestrator.alerts.load import load_rules
from orchestrator.alerts.notice import Links, Notification, Wording, trial
from orchestrator.alerts.prometheus import prometheus
from orchestrator.alerts.rule import Group, Kind, Rule, Selector
from orchestrator.alerts.window import Gauge, Window, read_gauges

__all__ = [
    "QUIET",
    "AlertState",
    "Gauge",
    "Group",
    "Kind",
    "Links",
    "Notification",
    "Reading",
    "Rule",
    "Selector",
    "Window",
    "Wording",
    "evaluate",
    "load_rules",
    "prometheus",
    "read_gauges",
    "trial",
]
