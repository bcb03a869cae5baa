"""The toolbox's bounds: a question about a lost action ends, a large result holds nobody up, an odd input is an Observation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orchestrator.core.events import Action
from orchestrator.tool import tool
from orchestrator.toolbox import Toolbox
from tests.test_toolbox import ABOUT, find_flight, giving, seen


@pytest.mark.virtual
async def test_asking_about_a_lost_action_ends_with_the_tools_timeout() -> None:
    async def hang(to: str) -> None:
        await asyncio.sleep(1e6)

    @tool(name="pay", timeout=3.0, reconcile=hang)
    async def pay(to: str) -> str:
        """Pays."""
        return to

    lost = (await Toolbox([pay]).reconcile(Action("1.0", "pay", {"to": "x"}), ABOUT)).observation
    assert lost is not None
    assert lost.code == "OUTCOME_UNKNOWN"
    assert asyncio.get_running_loop().time() == pytest.approx(3.0, abs=0.1)


async def test_a_large_result_is_cleaned_beside_the_loop() -> None:
    box = Toolbox([giving("line of words, 12345\n" * 500_000)])
    turns, cleaning = 0, asyncio.create_task(seen(box, "given"))
    while not cleaning.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert "cut" in (await cleaning).sanitised
    assert turns > 4, "the loop went on meanwhile"


async def test_an_input_that_is_no_json_is_refused_not_raised() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"city": deep}
    assert (await seen(Toolbox([find_flight]), "find_flight", deep)).code == "INVALID_ARGUMENTS"
