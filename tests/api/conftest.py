"""An API to ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator import log
from tests.api.place import Place, place


@pytest.fixture(autouse=True)
def terse_log() -> None:
    log.configure("json", "error")


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as found:
        yield found
