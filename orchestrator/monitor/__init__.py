"""The built-in monitor: the alert rules over the store, so it sees every worker at once; for those without a Prometheus.

Read `monitor.py` first. `feed.py` is what it sees, `book.py` and `page.py` what it remembers, `courier.py` whom it tells.
"""

from orchestrator.monitor.book import Book, MemoryBook, SqliteBook
from orchestrator.monitor.feed import Feed, Measure
from orchestrator.monitor.gauges import GaugeSource, of_depth, unknown
from orchestrator.monitor.make import depth_of, make_book, make_monitor, queue_of
from orchestrator.monitor.monitor import Monitor

__all__ = [
    "Book",
    "Feed",
    "GaugeSource",
    "Measure",
    "MemoryBook",
    "Monitor",
    "SqliteBook",
    "depth_of",
    "make_book",
    "make_monitor",
    "of_depth",
    "queue_of",
    "unknown",
]
