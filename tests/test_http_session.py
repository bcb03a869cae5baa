"""What an endpoint's session does for a POST: what it refuses to send, what it does not take for the answer."""

from __future__ import annotations

import asyncio

import pytest

from orchestrator.http import Endpoint
from tests.test_http import ASK, answering, plain, serving


async def test_a_key_with_a_line_break_is_not_sent() -> None:
    async with serving(answering(plain(b"{}"))) as url, Endpoint(url, {"authorization": "a\r\nx: y"}) as endpoint:
        with pytest.raises(ValueError, match=r"(?i)header"):
            await endpoint.post(ASK)


async def test_a_word_on_the_way_is_not_the_answer() -> None:
    handler = answering(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + plain(b"{}"))
    async with serving(handler) as url, Endpoint(url) as endpoint:
        found = await asyncio.gather(endpoint.post(ASK), endpoint.post(ASK))
        assert [(each.status, each.body) for each in [*found, await endpoint.post(ASK)]] == [(200, b"{}")] * 3


async def test_an_endpoint_that_was_closed_sends_nothing() -> None:
    async with serving(answering(plain(b"{}"))) as url:
        endpoint = Endpoint(url)
        await endpoint.post(ASK)
        await endpoint.close()
        with pytest.raises(RuntimeError, match="closed"):
            await endpoint.post(ASK)


async def test_a_host_goes_through_the_environments_proxy_unless_it_is_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    proxied: list[bytes] = []
    async with serving(answering(plain(b"{}"), proxied)) as proxy, serving(answering(plain(b"{}"))) as url:
        monkeypatch.setenv("http_proxy", proxy.removesuffix("/v1"))
        for base in ("http://models.invalid/v1", "http://127.models.invalid/v1", "http://localhost.invalid/v1", url):
            async with Endpoint(base) as endpoint:
                await endpoint.post(ASK)
    hosts = [request.partition(b"/chat")[0] for request in proxied]
    assert hosts == [
        b"POST http://models.invalid/v1",
        b"POST http://127.models.invalid/v1",
        b"POST http://localhost.invalid/v1",
    ]
