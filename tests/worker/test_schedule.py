"""Schedules: when a cron line is due, and that each time is run once by however many workers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import islice

import pytest

from orchestrator.core.spec import ToolSpec
from orchestrator.cron import Cron
from orchestrator.errors import ConfigError
from orchestrator.settings import AgentSettings, ModelSettings, ScheduleSettings, Settings
from orchestrator.worker.schedule import read, scheduling
from tests.build import final, spec
from tests.worker.station import clock, station


def unix(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("line", "after", "times"),
    [
        ("*/15 * * * *", "2026-01-01T10:07", ["2026-01-01T10:15", "2026-01-01T10:30"]),
        ("0 7 * * 1-5", "2026-01-02T07:00", ["2026-01-05T07:00", "2026-01-06T07:00"]),
        ("30 23 31 12 *", "2026-06-01T00:00", ["2026-12-31T23:30", "2027-12-31T23:30"]),
        ("0 0 29 2 *", "2026-01-01T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 12 13 * 5", "2026-02-01T00:00", ["2026-02-06T12:00", "2026-02-13T12:00", "2026-02-20T12:00"]),
        ("0 0 13 3 5", "2026-03-01T00:00", ["2026-03-06T00:00", "2026-03-13T00:00"]),
        ("5,10 0-2/2 * * 7", "2026-01-01T00:00", ["2026-01-04T00:05", "2026-01-04T00:10", "2026-01-04T02:05"]),
        ("10/25 4 * * *", "2026-01-01T00:00", ["2026-01-01T04:10", "2026-01-01T04:35"]),
    ],
)
def test_the_times_of_a_line(line: str, after: str, times: list[str]) -> None:
    assert list(islice(Cron.parse(line).after(unix(after)), len(times))) == [unix(time) for time in times]


@pytest.mark.parametrize(
    "line",
    ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "x * * * *", "5-1 * * * *",
     "*/0 * * * *", "* * 31 2 *", "-1 * * * *", "1,,2 * * * *", "* * * * * *", "1e1 * * * *"],
)  # fmt: skip
def test_a_line_that_is_none_is_told_with_its_place(line: str) -> None:
    with pytest.raises(ConfigError, match=r"schedules\.news\.cron"):
        Cron.parse(line, "schedules.news.cron")


def test_the_last_time_counts_only_within_its_window() -> None:
    cron, now = Cron.parse("0 * * * *"), unix("2026-01-01T10:07:30")
    assert cron.last(now, 600) == unix("2026-01-01T10:00")
    assert cron.last(now, 300) is None
    assert cron.last(unix("2026-01-01T10:00"), 60) == unix("2026-01-01T10:00")


def settings(cron: str = "*/10 * * * *") -> Settings:
    model = ModelSettings(provider="openai", base_url="http://localhost:1/v1", model="m")
    each = ScheduleSettings(cron=cron, question="What is new on {date}?", tenant="acme")
    return Settings.model_construct(
        models={"main": model}, agents={"default": AgentSettings()}, schedules={"news": each}
    )


def test_a_wrong_schedule_is_told_by_name() -> None:
    with pytest.raises(ConfigError, match=r"schedules\.news\.cron"):
        read(settings("nonsense"))


@pytest.mark.virtual
async def test_each_time_is_submitted_once_by_however_many_workers() -> None:
    async with station([final()]) as place:
        keepers = [
            asyncio.create_task(scheduling(place.dispatcher(), settings(), place.toolbox.specs, clock))
            for _ in range(3)
        ]
        await asyncio.sleep(3 * 600 + 60)
        for each in keepers:
            each.cancel()
        rows = await place.store.runs(tenant="acme")
        assert [round(row.started_at / 600) for row in rows] == [3, 2, 1, 0]
        assert {row.goal for row in rows} == {"What is new on 1970-01-01?"}


@pytest.mark.virtual
async def test_a_tool_that_is_not_there_yet_holds_up_its_schedule_and_not_the_worker() -> None:
    agent = AgentSettings(tools=("late",))
    waiting = settings().model_copy(update={"agents": {"default": agent}})
    offered: list[ToolSpec] = []
    async with station([final()]) as place:
        keeping = asyncio.create_task(scheduling(place.dispatcher(), waiting, offered, clock))
        await asyncio.sleep(60)
        assert not await place.store.runs(tenant="acme")
        offered.append(spec("late"))
        await asyncio.sleep(60)
        keeping.cancel()
        assert len(await place.store.runs(tenant="acme")) == 1
