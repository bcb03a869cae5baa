"""One demo server and one client for each test, on real loopback."""

from collections.abc import AsyncIterator

import httpx
import pytest

from orchestrator.demo.server import serve


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with serve() as server, httpx.AsyncClient(base_url=server.url, timeout=10.0, trust_env=False) as client:
        yield client
