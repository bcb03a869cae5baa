"""The virtual clock is itself under test: others lean on it."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from tests import clock


@pytest.mark.virtual
async def test_an_hour_passes_in_a_moment() -> None:
    real = time.monotonic()
    await asyncio.sleep(3600)
    assert asyncio.get_running_loop().time() == 3600
    assert time.monotonic() - real < 1


@pytest.mark.virtual
async def test_deadlines_fire_in_order() -> None:
    seen: list[int] = []

    async def after(seconds: int) -> None:
        await asyncio.sleep(seconds)
        seen.append(seconds)

    await asyncio.gather(*(after(n) for n in (30, 10, 20)))
    assert seen == [10, 20, 30]


@pytest.mark.virtual
async def test_a_timeout_ends_what_would_never_end() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(86_400):
            await asyncio.Event().wait()


@pytest.mark.virtual
async def test_a_loopback_server_answers_before_the_timeout_jumps() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, asyncio.timeout(0.5):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()
        await writer.wait_closed()


@pytest.mark.virtual
async def test_a_thread_gets_real_time() -> None:
    async with asyncio.timeout(10):
        await asyncio.to_thread(time.sleep, 0.01)
    assert asyncio.get_running_loop().time() == 0


async def test_without_the_marker_time_is_real() -> None:
    assert not isinstance(asyncio.get_running_loop(), clock.VirtualLoop)


def test_a_synchronous_law_can_run_on_virtual_time() -> None:
    async def wait() -> float:
        await asyncio.sleep(1e9)
        return asyncio.get_running_loop().time()

    assert clock.run(wait()) == 1e9


def test_nobody_connects_beyond_this_machine() -> None:
    with socket.socket() as s, pytest.raises(PermissionError, match="loopback"):
        s.connect(("192.0.2.1", 80))
