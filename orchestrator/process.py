"""How a process that drives many runs is set up: uvloop where present, and a garbage collector that looks less often.

A run is thousands of small immutable values that live as long as it does. With CPython's defaults the collector goes through them
for every 700 that are added, a sixth of the CPU of a step at 200 runs, and finds nothing: values that point only backwards
make no cycles, and calls that failed leave none (tests/test_circles.py).
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

GC_THRESHOLDS = (100_000, 10, 50)
"""Allocations before a young collection, young before a middle one, middle before a full one."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of uvloop where it is installed (extra `[uvloop]`), else asyncio's own."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop  # noqa: PLC0415  an optional extra

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` for a process that drives many runs."""
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
