"""The transport against loopback servers: clocks, broken connections, cancellation, TLS, many at once."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
import trustme
from yarl import URL

from orchestrator.errors import ConfigError, Timeout, Unavailable
from orchestrator.http import Answer, Endpoint, Timeouts
from orchestrator.providers import Request
from tests.stand_in import Answering, answer

ASK = Request("/chat/completions", {"content-type": "application/json"}, b'{"model":"m"}')
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def plain(body: bytes, *, status: str = "200 OK", extra: str = "", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n{extra}\r\n".encode() + body
    )


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def asked(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(size)


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context, backlog=2048)
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(reply: bytes, seen: list[bytes] | None = None) -> Handler:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await asked(reader)
            if seen is not None:
                seen.append(request)
            writer.write(reply)

    return handler


def saying(first: bytes, then: bytes = b"", *, hang: bool = False) -> Handler:
    """Write, perhaps write more, then hang for ever or close."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(first)
        await writer.drain()
        writer.write(then)
        if hang:
            await asyncio.Event().wait()

    return handler


async def test_a_post_sends_path_headers_and_body_and_brings_back_the_answer() -> None:
    seen: list[bytes] = []
    reply = plain(b'{"ok":1}', status="429 Too Many Requests", extra="Retry-After: 7\r\n")
    async with serving(answering(reply, seen)) as url, Endpoint(url + "/", {"authorization": "Bearer k"}) as endpoint:
        found = await endpoint.post(ASK)
        await endpoint.post(ASK)
    assert (found.status, found.body, found.closed_early) == (429, b'{"ok":1}', False)
    assert found.headers["retry-after"] == "7"
    assert seen[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"authorization: bearer k\r\n" in seen[0].lower()
    assert seen[0].endswith(b'{"model":"m"}')


async def test_one_connection_is_used_again_and_again() -> None:
    ports: set[int] = set()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.add(writer.get_extra_info("peername")[1])
        await answering(plain(b"{}"))(reader, writer)

    async with serving(handler) as url, Endpoint(url) as endpoint:
        for _ in range(5):
            await endpoint.post(ASK)
    assert len(ports) == 1


async def test_a_stream_gives_the_bytes_as_they_come() -> None:
    handler = saying(CHUNKED + chunk(b"data: 1\n\n"), chunk(b"data: 2\n\n") + b"0\r\n\r\n")
    async with serving(handler) as url, Endpoint(url) as endpoint, endpoint.stream(ASK) as streamed:
        pieces = [piece async for piece in streamed]
    assert b"".join(pieces) == b"data: 1\n\ndata: 2\n\n"
    assert (streamed.status, streamed.closed_early) == (200, False)


async def test_a_connection_that_breaks_inside_the_body_ends_the_stream_early() -> None:
    broken = saying(CHUNKED + chunk(b"data: 1\n\n"))
    async with serving(broken) as url, Endpoint(url) as endpoint, endpoint.stream(ASK) as streamed:
        pieces = [piece async for piece in streamed]
    assert pieces == [b"data: 1\n\n"]
    assert streamed.closed_early


async def test_a_body_shorter_than_its_length_is_closed_early() -> None:
    async with serving(saying(plain(b'{"a":', length=99))) as url, Endpoint(url) as endpoint:
        found = await endpoint.post(ASK)
    assert (found.body, found.closed_early) == (b'{"a":', True)


async def test_a_server_that_hangs_up_without_a_word_is_unavailable_and_no_timeout() -> None:
    async with serving(saying(b"")) as url, Endpoint(url) as endpoint:
        with pytest.raises(Unavailable, match="CONNECTION_FAILED"):
            await endpoint.post(ASK)


async def test_nobody_listening_is_unavailable() -> None:
    async with serving(saying(b"")) as url:
        pass
    async with Endpoint(url) as endpoint:
        with pytest.raises(Unavailable, match=r"CONNECTION_FAILED.*base_url"):
            await endpoint.post(ASK)


async def test_something_that_is_no_http_is_unavailable() -> None:
    async with serving(saying(b"SSH-2.0-OpenSSH_9.9\r\n")) as url, Endpoint(url) as endpoint:
        with pytest.raises(Unavailable, match="CONNECTION_FAILED"):
            await endpoint.post(ASK)


@pytest.mark.virtual
async def test_each_clock_is_named_when_it_runs_out() -> None:
    limits = Timeouts(connect=5, first_token=20, between_tokens=30, whole=100)
    async with (
        serving(saying(CHUNKED, hang=True)) as url,
        Endpoint(url) as endpoint,
        endpoint.stream(ASK, limits) as streamed,
    ):
        with pytest.raises(Timeout, match=r"timeouts.first_token = 20 s after 20\.0 s"):
            await anext(streamed)
    silent = saying(CHUNKED + chunk(b"x"), hang=True)
    async with serving(silent) as url, Endpoint(url) as endpoint, endpoint.stream(ASK, limits) as streamed:
        assert await anext(streamed) == b"x"
        with pytest.raises(Timeout, match=r"timeouts.between_tokens = 30 s after 30\.0 s"):
            await anext(streamed)
    async with serving(saying(b"", hang=True)) as url, Endpoint(url) as endpoint:
        with pytest.raises(Timeout, match=r"TIMEOUT: .*timeouts.whole = 100 s after 100\.0 s"):
            await endpoint.post(ASK, limits)


@pytest.mark.virtual
async def test_keep_alive_comments_do_not_outlive_the_whole() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(CHUNKED)
        while True:
            writer.write(chunk(b": waiting\n\n"))
            await asyncio.sleep(10)

    async with serving(handler) as url, Endpoint(url) as endpoint, endpoint.stream(ASK, Timeouts(whole=95)) as streamed:
        with pytest.raises(Timeout, match=r"timeouts.whole = 95 s"):
            async for _ in streamed:
                pass


async def test_an_answer_beyond_the_limit_is_not_read_further() -> None:
    async with serving(answering(plain(b"x" * 5000))) as url, Endpoint(url, limit=4000) as endpoint:
        with pytest.raises(Unavailable, match="larger than 4000 bytes"):
            await endpoint.post(ASK)


async def test_fifty_streams_cancelled_twice_leave_no_connection_behind() -> None:
    gone = asyncio.Semaphore(0)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await asked(reader)
            writer.write(plain(b"{}") if b"last" in request else CHUNKED + chunk(b"x"))
            await reader.read()
        finally:
            gone.release()

    async with serving(handler) as url, Endpoint(url) as endpoint:
        started = asyncio.Semaphore(0)

        async def streaming() -> None:
            async with endpoint.stream(ASK) as streamed:
                async for _ in streamed:
                    started.release()

        tasks = [asyncio.create_task(streaming()) for _ in range(50)]
        for _ in tasks:
            await started.acquire()
        for _ in range(2):
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        found = await endpoint.post(Request("/last", {}, b"last"))
        assert found.status == 200
        for _ in tasks:
            await gone.acquire()


async def test_cancel_churn_while_connecting_leaves_the_endpoint_usable() -> None:
    async with serving(answering(plain(b"{}"))) as url, Endpoint(url) as endpoint:
        for turns in range(40):
            tasks = [asyncio.create_task(endpoint.post(ASK)) for _ in range(20)]
            for _ in range(turns % 7):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert (await endpoint.post(ASK, Timeouts(whole=10))).status == 200


async def test_breaking_out_of_a_stream_leaves_no_task_behind() -> None:
    async with serving(saying(CHUNKED + chunk(b"x"), hang=True)) as url, Endpoint(url) as endpoint:
        before = asyncio.all_tasks()
        async with endpoint.stream(ASK) as streamed:
            async for _ in streamed:
                break
        await asyncio.sleep(0)
        assert not [task for task in asyncio.all_tasks() - before if "serving" not in repr(task)]


async def test_an_answer_packed_unasked_is_unpacked_and_a_bomb_is_not() -> None:
    def packed(body: bytes) -> bytes:
        return plain(gzip.compress(body), extra="content-encoding: gzip\r\n")

    async with serving(answering(packed(b'{"a":1}'))) as url, Endpoint(url) as endpoint:
        assert (await endpoint.post(ASK)).body == b'{"a":1}'
    async with serving(answering(packed(b"0" * 50_000_000))) as url, Endpoint(url, limit=10_000) as endpoint:
        with pytest.raises(Unavailable, match="larger than 10000 bytes"):
            await endpoint.post(ASK)
    for encoding in ("gzip", "br"):
        garbled = plain(b"no such thing", extra=f"content-encoding: {encoding}\r\n")
        async with serving(answering(garbled)) as url, Endpoint(url) as endpoint:
            with pytest.raises(Unavailable, match="MALFORMED_RESPONSE"):
                await endpoint.post(ASK)


async def test_tls_uses_the_given_context_and_refuses_strangers() -> None:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    async with serving(answering(plain(b"{}")), server) as url:
        async with Endpoint(url, context=client) as endpoint:
            replies = await asyncio.gather(*(endpoint.post(ASK) for _ in range(20)))
        async with Endpoint(url) as stranger:
            with pytest.raises(Unavailable, match=r"CONNECTION_FAILED.*certificate"):
                await stranger.post(ASK)
    assert {reply.status for reply in replies} == {200}


async def test_there_is_no_ceiling_of_a_hundred_connections() -> None:
    waiting, everyone = 0, asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting
        await asked(reader)
        waiting += 1
        if waiting == 300:
            everyone.set()
        await everyone.wait()
        writer.write(plain(b"{}"))

    async with serving(handler) as url, Endpoint(url) as endpoint:
        replies = await asyncio.gather(*(endpoint.post(ASK, Timeouts(whole=30)) for _ in range(300)))
    assert {reply.status for reply in replies} == {200}


async def test_redirects_are_not_followed_so_the_key_stays_here() -> None:
    reply = plain(b"", status="307 Temporary Redirect", extra="location: http://127.0.0.1:9/\r\n")
    async with serving(answering(reply)) as url, Endpoint(url) as endpoint:
        assert (await endpoint.post(ASK)).status == 307


async def test_something_else_can_stand_in_for_the_connections() -> None:
    echo = Answering(lambda url, body: answer(body, 201, {"X-Case": url.path}))
    async with Endpoint("http://localhost/v1", connections=echo) as endpoint:
        found = await endpoint.post(ASK)
    assert (found.status, found.headers["x-case"], found.body) == (201, "/v1/chat/completions", ASK.body)


async def test_a_connect_timeout_is_named() -> None:
    def slow(_url: URL, _body: bytes) -> Answer:
        raise aiohttp.ConnectionTimeoutError("slow")

    async with Endpoint("http://localhost", connections=Answering(slow)) as endpoint:
        with pytest.raises(Timeout, match=r"timeouts.connect"):
            await endpoint.post(ASK)


@pytest.mark.parametrize(
    "url", ["", "api.example.com", "ftp://x/", "http://", "https://user:pw@host/v1", "http://h/?key=1", "http://h:x"]
)
def test_a_base_url_that_is_none_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        Endpoint(url)
    assert "pw" not in str(error.value)


async def test_a_prompt_of_two_megabytes_is_sent_without_a_warning() -> None:
    seen: list[bytes] = []
    async with serving(answering(plain(b"{}"), seen)) as url, Endpoint(url) as endpoint:
        assert (await endpoint.post(Request("/x", {}, b"x" * 2_000_000))).status == 200
    assert seen[0].endswith(b"\r\n\r\n" + b"x" * 2_000_000)
