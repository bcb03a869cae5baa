"""A console to look at, with and without a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.api.conftest import api, terse_log
from tests.api.place import Place, place
from tests.console.chromium import launched

__all__ = ["api", "terse_log"]
PATIENCE = 30_000
"""Milliseconds for what is expected to appear, on a machine with other things to do."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    async with async_playwright() as player:
        browser = await launched(player)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def console(tmp_path: Path) -> AsyncIterator[Place]:
    """On the browser's event loop."""
    async with place(tmp_path) as found:
        yield found
