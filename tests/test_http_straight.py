"""A POST that goes straight over a connection says and hears what it would through the session."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import aiohttp
import pytest
from yarl import URL

from orchestrator.http import Connections, Endpoint
from orchestrator.http.connections import over
from orchestrator.providers import Request
from tests.test_http import ASK, answering, plain, serving


def head_of(request: bytes) -> tuple[bytes, list[bytes]]:
    first, *lines = request.partition(b"\r\n\r\n")[0].split(b"\r\n")
    return first, sorted(line.partition(b":")[0].lower() + b":" + line.partition(b":")[2] for line in lines)


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/json"}, {"Content-Type": "x", "X-A": "é\tb"}])
async def test_what_is_sent_is_what_the_session_would_send(headers: dict[str, str]) -> None:
    seen: list[bytes] = []
    async with serving(answering(plain(b"{}"), seen)) as url:
        connections, to = Connections(URL(url)), URL(url + "/x?y=1%2F2")
        sent = {"user-agent": "o", **headers}
        direct = await connections.send(to, sent, b"body", None)
        post = connections.session().post(to, headers=sent, data=aiohttp.BytesPayload(b"body"))
        async with post as by_session:
            assert (direct.status, dict(direct.headers)) == (by_session.status, dict(by_session.headers))
        await connections.close()
    assert head_of(seen[0]) == head_of(seen[1])


async def test_a_key_with_a_line_break_is_not_sent() -> None:
    async with serving(answering(plain(b"{}"))) as url, Endpoint(url, {"authorization": "a\r\nx: y"}) as endpoint:
        with pytest.raises(ValueError, match="control character"):
            await endpoint.post(ASK)


async def test_headers_that_never_come_again_do_not_pile_up() -> None:
    async with serving(answering(plain(b"{}"))) as url:
        connections = Connections(URL(url))
        async with Endpoint(url, connections=connections) as endpoint:
            for number in range(600):
                await endpoint.post(Request("/x", {"signature": str(number)}, b""))
        assert len(connections._heads) <= 256


async def test_a_word_on_the_way_is_not_the_answer() -> None:
    handler = answering(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + plain(b"{}"))
    async with serving(handler) as url, Endpoint(url) as endpoint:
        found = await asyncio.gather(endpoint.post(ASK), endpoint.post(ASK))
        assert [(each.status, each.body) for each in [*found, await endpoint.post(ASK)]] == [(200, b"{}")] * 3


@pytest.mark.parametrize(("unsent", "end"), [(0, "release"), (1, "close")])
def test_a_connection_that_was_answered_before_all_was_said_is_not_used_again(unsent: int, end: str) -> None:
    connection = Mock()
    connection.transport.get_write_buffer_size.return_value = unsent
    over(connection)
    assert [call[0] for call in connection.method_calls if "." not in call[0]] == [end]


async def test_an_endpoint_that_was_closed_sends_nothing() -> None:
    async with serving(answering(plain(b"{}"))) as url:
        endpoint = Endpoint(url)
        await endpoint.post(ASK)
        await endpoint.close()
        with pytest.raises(RuntimeError, match="closed"):
            await endpoint.post(ASK)
