"""Alertmanager's webhook in, the robot's message out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from orchestrator.alerts.settings import HookSettings
from orchestrator.errors import ConfigError
from orchestrator.hooks.adapter import MOST_MESSAGES, messages, read, serving
from orchestrator.hooks.wecom import MOST_BYTES
from tests.alerts.make import Receiver, receiving

SENT: dict[str, Any] = {
    "receiver": "wecom",
    "status": "firing",
    "alerts": [
        {
            "status": "firing",
            "labels": {
                "agent": "shop",
                "alertname": "ThoughtActionGap",
                "model": "main",
                "rule": "thought_action_gap",
                "severity": "critical",
            },
            "annotations": {
                "summary": "Thought-Action gap: 12.5 % of its Actions; the limit is 5%.",
                "summary_zh": "Thought-Action 不一致：12.5 %，上限 5%。",
                "value": "12.5%",
                "threshold": "above 5%",
                "runs": "orchestrator runs --agent shop",
                "runbook_url": "https://runbook.example/#thought_action_gap",
            },
            "startsAt": "2026-11-30T07:06:31.065Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://vm:19090/graph",
            "fingerprint": "3f8d2774c55ebe63",
        }
    ],
    "groupLabels": {},
    "commonLabels": {},
    "commonAnnotations": {},
    "externalURL": "http://vm:19093",
    "version": "4",
    "groupKey": "{}",
    "truncatedAlerts": 0,
}


@asynccontextmanager
async def adapter(key: str = "k", **given: Any) -> AsyncIterator[tuple[Receiver, str]]:
    async with receiving() as robot:
        settings = HookSettings(kind="wecom", url=SecretStr(f"{robot.url}/send?key={key}"), **given)
        async with serving("robot", settings, "127.0.0.1", 0, loopback=True) as url:
            yield robot, url


async def post(url: str, body: Any, **headers: str) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with aiohttp.ClientSession() as session, session.post(url, data=data, headers=headers) as reply:
        return reply.status, await reply.text()


async def test_an_alert_reaches_the_robot_with_its_words() -> None:
    async with adapter() as (robot, url):
        assert await post(url, SENT) == (200, "ok\n")
    (text,) = robot.texts()
    for part in (
        "ThoughtActionGap",
        "12.5 % of its Actions",
        "12.5%",
        "above 5%",
        "shop",
        "main",
        "`orchestrator runs --agent shop`",
        "2026-11-30T07:06:31",
    ):
        assert part in text
    assert "https://runbook.example/#thought_action_gap" in text


async def test_it_speaks_chinese_and_says_resolved() -> None:
    over = {**SENT["alerts"][0], "status": "resolved", "endsAt": "2026-11-30T07:21:31.065Z"}
    resolved = {**SENT, "alerts": [over]}
    async with adapter(language="zh") as (robot, url):
        await post(url, resolved)
    assert "**已恢复**" in robot.texts()[0]
    assert "已恢复：持续 15 分钟（自 2026-11-30 07:06:31 UTC）。 告警期间最后值: 12.5%" in robot.texts()[0]
    assert "上限" not in robot.texts()[0]
    assert "above 5%" in robot.texts()[0]


@pytest.mark.parametrize(
    ("answer", "status"),
    [({"errcode": 45009}, 503), ({"errcode": 93000}, 422), ({"errcode": 40058}, 422), ({"errcode": 0}, 200)],
)
@pytest.mark.virtual
async def test_alertmanager_is_told_whether_to_try_again(answer: Any, status: int) -> None:
    async with adapter() as (robot, url):
        robot.answers = [(200, answer)]
        assert (await post(url, SENT))[0] == status


@pytest.mark.virtual
async def test_a_post_that_failed_half_way_goes_on_where_it_was_when_alertmanager_tries_again() -> None:
    (one,) = SENT["alerts"]
    many = {**SENT, "alerts": [{**one, "labels": {**one["labels"], "agent": f"shop{n}"}} for n in range(60)]}
    async with adapter() as (robot, url):
        robot.answers = [(200, {"errcode": 0}), (200, {"errcode": 45009})]
        assert (await post(url, many))[0] == 503
        told = len(robot.texts())
        robot.answers = [(200, {"errcode": 0})]
        assert (await post(url, many))[0] == 200
        texts = robot.texts()
        assert len(set(texts)) == MOST_MESSAGES
        assert texts.count(texts[0]) == 1
        assert len(texts) - told == MOST_MESSAGES - 1
        assert (await post(url, many))[0] == 200
        assert robot.texts().count(texts[0]) == 2


@pytest.mark.virtual
async def test_alertmanager_is_not_told_the_key_that_the_robot_repeats() -> None:
    async with adapter(key="0123456789abcdef") as (robot, url):
        robot.answers = [(200, {"errcode": 93000, "errmsg": "0123456789abcdef is no key"})]
        assert await post(url, SENT) == (
            422,
            "HOOK_KEY: the robot's key is refused: errcode 93000: [REDACTED] is no key; check the hook's url\n",
        )


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b'{"alerts": 5}', b'"\xff"', b"[" * 50_000])
async def test_what_is_no_alertmanager_post_is_refused(body: bytes) -> None:
    async with adapter() as (robot, url):
        assert (await post(url, body))[0] == 400
    assert robot.bodies == []


async def test_with_a_secret_a_post_must_bear_it() -> None:
    async with adapter(secret="t0ken") as (robot, url):
        assert (await post(url, SENT))[0] == 401
        assert (await post(url, SENT, authorization="Bearer wrong"))[0] == 401
        assert robot.bodies == []
        assert (await post(url, SENT, authorization="Bearer t0ken"))[0] == 200


async def test_it_says_that_it_lives() -> None:
    async with (
        adapter() as (_, url),
        aiohttp.ClientSession() as session,
        session.get(url.replace("/alertmanager", "/healthz")) as reply,
    ):
        assert (reply.status, await reply.text()) == (200, "ok\n")


async def test_many_alerts_are_few_messages_and_what_is_left_out_is_counted() -> None:
    many = {**SENT, "alerts": SENT["alerts"] * 60, "truncatedAlerts": 5}
    async with adapter() as (robot, url):
        assert (await post(url, many))[0] == 200
    texts = robot.texts()
    assert len(texts) == MOST_MESSAGES
    assert all(len(text.encode()) <= MOST_BYTES for text in texts)
    shown = sum(text.count("ThoughtActionGap**") for text in texts)
    assert texts[-1].endswith(f"… +{65 - shown}")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "alerts": st.lists(
                st.fixed_dictionaries(
                    {}, optional={"labels": anything, "annotations": anything, "status": anything, "startsAt": anything}
                )
                | anything,
                max_size=5,
            ),
            "truncatedAlerts": anything,
        },
    )
)
def test_no_document_makes_it_raise_anything_but_a_config_error(document: dict[str, Any]) -> None:
    try:
        cards, more = read(document, "en")
    except ConfigError:
        assert not isinstance(document.get("alerts"), list)
        return
    for text in messages(cards, "zh", more):
        text.encode()


@pytest.mark.parametrize("host", ["127.0.0.1", "256.0.0.1"])
async def test_an_address_that_cannot_be_had_is_a_config_error(host: str) -> None:
    async with adapter() as (_, url):
        port = int(url.rsplit(":", 1)[1].partition("/")[0])
        settings = HookSettings(kind="wecom", url=SecretStr("http://127.0.0.1:9/"))
        with pytest.raises(ConfigError, match="--port"):
            async with serving("robot", settings, host, port):
                pass


async def test_only_a_robot_can_be_served() -> None:
    with pytest.raises(ConfigError, match="wecom"):
        async with serving("it", HookSettings(kind="slack", url=SecretStr("http://127.0.0.1:9/")), "127.0.0.1", 0):
            pass
