"""The typed client against a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import orchestrator.client as module
from orchestrator.client import Client, NotAnswered
from orchestrator.core.events import Outcome, RunEnded, Waiting
from orchestrator.core.run import replay
from orchestrator.errors import Rejected, Unauthorised, Unavailable
from orchestrator.inbox import signed
from tests.api.place import KEY, NOW, Place
from tests.build import acts, final, observed

STEPS = (acts(1, ("search", {"q": "x"})), observed("1.0"), final("Liu"))
END = RunEnded(Outcome.ANSWERED, "Liu")


async def test_an_application_submits_follows_and_gets_the_answer(api: Place) -> None:
    async with api.served() as url, Client(url, token=api.admin) as client:
        run = await client.submit("Who wrote it?", max_steps=5)

        async def drive() -> None:
            for event in (*STEPS, END):
                await asyncio.sleep(0)
                await api.more(run.id, event)

        driving = asyncio.create_task(drive())
        entries = [entry async for entry in run.events()]
        await driving
        assert tuple(entries) == await api.store.read(run.id)
        assert replay(entries).ended == END
        assert await run.answer() == "Liu"


async def test_the_answer_is_waited_for(api: Place) -> None:
    await api.run("r", *STEPS)
    async with api.served() as url, Client(url, token=api.admin) as client:
        asking = asyncio.create_task(client.run("r").answer())
        while not api.service.followers.count:  # noqa: ASYNC110  the server has no event for it
            await asyncio.sleep(0.005)
        await api.more("r", END)
        assert await asking == "Liu"


async def test_a_run_without_an_answer_says_how_it_ended(api: Place) -> None:
    await api.run("r", RunEnded(Outcome.GAVE_UP, missing="the year"))
    async with Client("http://t", token=api.admin, transport=api.client()._transport) as client:
        with pytest.raises(NotAnswered, match="gave_up: the year") as caught:
            await client.run("r").answer()
    assert caught.value.state.outcome is Outcome.GAVE_UP


async def test_a_broken_stream_goes_on_where_it_broke(api: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.01)
    await api.run("r", *STEPS)
    async with api.served() as url, Client(url, token=api.admin) as client:
        seen = []
        async for entry in client.run("r").events():
            seen.append(entry.seq)
            if entry.seq == 4:
                api.service.closing.set()
                await asyncio.sleep(0.05)
                api.service.closing.clear()
                await api.more("r", END)
    assert seen == [1, 2, 3, 4, 5]


async def test_people_and_tools_have_their_word(api: Place) -> None:
    waits = [Waiting("1.0", NOW + 1e6, "approval"), Waiting("1.1", NOW + 1e6, "approval"), Waiting("1.2", NOW + 1e6)]
    await api.run("r", acts(1, ("pay", {}), ("pay", {}), ("search", {})), *waits)
    async with Client("http://t", token=api.admin, transport=api.client()._transport) as client:
        run = client.run("r")
        assert [wait.id for wait in (await run.state()).waiting] == ["1.0", "1.1", "1.2"]
        await run.edit("1.0", {"amount": 1}, "less")
        await run.refuse("1.1", "no")
        await client.callback(signed(KEY, "r", "1.2", NOW + 1e5), {"found": 1})
        with pytest.raises(Rejected, match="NOT_WAITING") as caught:
            await run.approve("1.0")
        assert caught.value.status == 409
        assert (await run.cancel("enough")).state == "open"
        assert [line.run_id async for line in client.runs(limit=1)] == ["r"]
        assert [tool.name for tool in (await client.tools()).tools] == ["search", "pay"]
        assert (await client.models()).agents[0].name == "default"
        assert (await client.health(until=NOW + 1e3)).runs == 1


async def test_failures_have_the_names_of_the_error_tree(api: Place, tmp_path: Path) -> None:
    async with api.served() as url:
        async with Client(url, token="orc_wrong") as client:
            with pytest.raises(Unauthorised, match="token create"):
                await client.submit("x")
        async with Client(url, token=api.admin) as client:
            with pytest.raises(Rejected, match="no agent 'x'"):
                await client.submit("x", agent="x")
            with pytest.raises(Rejected, match="UNKNOWN_RUN"):
                await anext(client.run("x?y#z%2F").events())
    async with Client(url, token=api.admin) as client:
        with pytest.raises(Unavailable, match="is `orchestrator serve` up"):
            await client.page()
