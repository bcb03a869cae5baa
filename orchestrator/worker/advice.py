"""What a worker says once of the tools it has seen: which of them hold runs up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from orchestrator.core.spec import ToolSpec
from orchestrator.metrics.slow import ADVICE, Measured, slow

LOOK = 60.0
"""Seconds between two looks."""

_log = structlog.stdlib.get_logger("orchestrator.worker")


async def advising(offered: Sequence[ToolSpec], measured: Measured) -> None:
    """Log each slow tool once, until cancelled."""
    told: set[str] = set()
    while True:
        for each in slow(offered, measured):
            if each.tool not in told:
                told.add(each.tool)
                _log.warning("slow_tool", tool=each.tool, why=each.why, advice=ADVICE)
        await asyncio.sleep(LOOK)
