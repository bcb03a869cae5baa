"""The event stream: live and stored through one path, from anywhere, and what becomes of slow clients and of the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from orchestrator.api import events, server
from orchestrator.core.events import Decision, Outcome, RunEnded
from orchestrator.providers.sse import Events
from tests.api.place import Place
from tests.build import acts, final, observed

STEPS = (acts(1, ("search", {"q": "x"})), observed("1.0", "line\nline\r\u2028\x85 end"), final("Liu"))
END = RunEnded(Outcome.ANSWERED, "Liu")
PATH = "/v1/runs/r/events"


def seqs(body: bytes) -> list[int]:
    return [int(line.removeprefix(b"id: ")) for line in body.split(b"\n") if line.startswith(b"id: ")]


async def told(response: httpx.Response) -> AsyncIterator[tuple[str, dict[str, object]]]:
    reader = Events()
    async for piece in response.aiter_bytes():
        for kind, data in reader.feed(piece):
            yield kind, json.loads(data)


async def test_stored_events_come_whole_and_in_order_and_the_stream_ends_with_the_run(api: Place) -> None:
    await api.run("r", *STEPS, END)
    async with api.client() as http:
        response = await http.get(PATH)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert seqs(response.content) == [1, 2, 3, 4, 5]
    found = Events().feed(response.content)
    assert [kind for kind, _ in found] == ["run_started", "model_turn", "observation", "model_turn", "run_ended"]
    assert json.loads(found[2][1])["event"]["content"] == "line\nline\r\u2028\x85 end"


@pytest.mark.parametrize(
    ("query", "header", "expected"),
    [("?after=3", None, [4, 5]), ("", "4", [5]), ("?after=1", "3", [4, 5]), ("?after=0", "", [1, 2, 3, 4, 5])],
)
async def test_a_stream_goes_on_from_any_seq(api: Place, query: str, header: str | None, expected: list[int]) -> None:
    await api.run("r", *STEPS, END)
    headers = {} if header is None else {"last-event-id": header}
    async with api.client() as http:
        assert seqs((await http.get(PATH + query, headers=headers)).content) == expected


@pytest.mark.parametrize("seen", ["5", "6", "900"])
async def test_who_has_seen_all_of_an_ended_run_is_told_to_stay_away(api: Place, seen: str) -> None:
    await api.run("r", *STEPS, END)
    async with api.client() as http:
        assert (await http.get(PATH, headers={"last-event-id": seen})).status_code == 204


@pytest.mark.parametrize("header", ["x", "-1", "1.5", "٣", "9" * 40])
async def test_an_event_id_of_somebody_else_is_refused(api: Place, header: str) -> None:
    await api.run("r")
    async with api.client() as http:
        response = await http.get(PATH, headers=[(b"last-event-id", header.encode())])
    assert response.status_code == 422


async def test_live_events_arrive_as_they_become_durable(api: Place) -> None:
    await api.run("r")
    async with api.served() as url, httpx.AsyncClient(headers={"Authorization": f"Bearer {api.admin}"}) as http:
        async with http.stream("GET", url + PATH) as response:
            stream = told(response)
            assert (await anext(stream))[0] == "run_started"
            for event in (*STEPS, END):
                await api.more("r", event)
                kind, words = await anext(stream)
                assert kind == event.kind == words["event"]["kind"]  # type: ignore[index]
            assert await anext(stream, None) is None
        assert api.service.followers.count == 0


async def test_a_follower_who_leaves_is_forgotten(api: Place) -> None:
    await api.run("r")
    async with api.served() as url, httpx.AsyncClient(headers={"Authorization": f"Bearer {api.admin}"}) as http:
        async with http.stream("GET", url + PATH) as response:
            await anext(told(response))
            assert api.service.followers.count == 1
        async with asyncio.timeout(5):
            while api.service.followers.count:  # noqa: ASYNC110  the server has no event for it
                await asyncio.sleep(0.01)


async def test_when_the_server_stops_streams_end_and_the_stop_does_not_wait(api: Place) -> None:
    await api.run("r")
    headers = {"Authorization": f"Bearer {api.admin}"}
    async with (
        api.served() as url,
        httpx.AsyncClient(headers=headers) as http,
        http.stream("GET", url + PATH) as response,
    ):
        stream = told(response)
        await anext(stream)
        api.service.closing.set()
        assert await anext(stream, None) is None


async def test_a_quiet_stream_gives_signs_of_life_and_ends_when_the_token_is_revoked(
    api: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BEAT", 0.01)
    await api.run("r")
    token = api.token("watcher", ["read"])
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        api.served() as url,
        httpx.AsyncClient(headers=headers) as http,
        http.stream("GET", url + PATH) as response,
    ):
        lines = response.aiter_lines()
        async for line in lines:
            if line.startswith(": still here"):
                break
        api.tokens.revoke("watcher")
        rest = [line async for line in lines]
    assert "event: problem" in rest
    assert any('"status": 401' in line for line in rest)


async def test_too_many_followers_are_told_so(api: Place) -> None:
    await api.run("r", *STEPS, END)
    api.service.followers.most = 0
    async with api.client() as http:
        response = await http.get(PATH)
    assert (response.status_code, response.json()["code"]) == (503, "TOO_MANY_FOLLOWERS")
    assert response.headers["retry-after"]


async def test_a_follower_that_takes_nothing_is_let_go_and_costs_the_others_nothing(
    api: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "STALL", 0.05)
    await api.run("r", *(Decision("", "x" * 200_000, "cancel") for _ in range(40)))
    async with api.served() as url, httpx.AsyncClient(headers={"Authorization": f"Bearer {api.admin}"}) as http:
        port = int(url.rpartition(":")[2])
        _reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        head = f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {api.admin}\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        async with asyncio.timeout(10):
            while not api.service.followers.count:  # noqa: ASYNC110  the server has no event for it
                await asyncio.sleep(0.005)
            assert (await http.get(f"{url}/v1/runs")).status_code == 200
            async with http.stream("GET", url + PATH) as response:
                stream = told(response)
                assert [(await anext(stream))[0] for _ in range(41)][-1] == "decision"
            while api.service.followers.count:  # noqa: ASYNC110  the server has no event for it
                await asyncio.sleep(0.005)
        writer.transport.abort()


async def test_a_client_that_dribbles_its_headers_is_closed(api: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD", 0.05)
    async with api.served() as url, asyncio.timeout(5):
        port = int(url.rpartition(":")[2])
        for first in (b"", b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            if first:
                writer.write(first)
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
            writer.write(b"GET /v1/runs HTTP/1.1\r\nX-Slow: ")
            assert await reader.read() == b""
            writer.close()
