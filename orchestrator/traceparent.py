"""W3C trace context as text: what a submitter hands over in a run's label `traceparent`, and what the run hands on.

A run without one has a trace id of its own all the same, made from its run id, so that logs, exemplars and spans agree.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache

LABEL = "traceparent"
"""The label of RunStarted that holds it."""

_SHAPE = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.{0,256})?", re.DOTALL
)


def parse(text: str) -> tuple[str, str, str] | None:
    """Trace id, parent span id and flags, in hex; None for what is no traceparent."""
    found = _SHAPE.fullmatch(text)
    return None if found is None else (found[1], found[2], found[3])


def trace_id(run_id: str, labels: Mapping[str, str]) -> str:
    """The run's trace id in hex: the submitter's, or one made from the run id."""
    given = parse(labels[LABEL]) if LABEL in labels else None
    return given[0] if given else _digest(f"trace {run_id}", 16)


def span_id(run_id: str, name: str) -> str:
    """The id in hex of one of the run's spans: the same whoever computes it, also after a crash."""
    return _digest(f"span {run_id} {name}", 8)


def traceparent(run_id: str, labels: Mapping[str, str], name: str) -> str:
    """What a callee of the span `name` is told. Sampled, unless the submitter said otherwise."""
    given = parse(labels[LABEL]) if LABEL in labels else None
    return f"00-{trace_id(run_id, labels)}-{span_id(run_id, name)}-{given[2] if given else '01'}"


@lru_cache(maxsize=4096)
def _digest(text: str, size: int) -> str:
    """`size` bytes in hex, never all zero."""
    found = hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
    return found if found.strip("0") else "1".zfill(2 * size)
