"""Metrics: what entries and policies say, added to prometheus-client collectors. Nothing is computed here that a trace could not say.

`live.py` is the observer, `expected.py` the series that are there from the start, `incidents.py` what no trace holds (breakers, waits).
"""

from orchestrator.metrics.incidents import Incidents
from orchestrator.metrics.live import Metrics
from orchestrator.metrics.recompute import Total, recompute, samples, totals

__all__ = ["Incidents", "Metrics", "Total", "recompute", "samples", "totals"]
