"""The worker process: takes runs, drives many of them on one event loop, and can be killed at any instant.

`work.py` is the worker itself; `keep.py` what it does by the clock (heartbeats, nudges, sweeps); `watch.py` sees from a thread
of its own whether the event loop still turns; `tenants.py` holds the tenants' days to their budgets. It knows no HTTP and no
command line.
"""

from orchestrator.worker.rules import Ending, Figures, WorkerRules
from orchestrator.worker.watch import Watchdog
from orchestrator.worker.work import Worker

__all__ = ["Ending", "Figures", "Watchdog", "Worker", "WorkerRules"]
