"""What each receiver is sent, and what its answer means."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.alerts import Links, Notification, Wording
from orchestrator.alerts.settings import HookSettings
from orchestrator.errors import CallError, ConfigError, RateLimited, Rejected, Timeout, Unauthorised, Unavailable
from orchestrator.hooks import Hook
from orchestrator.hooks.card import card
from orchestrator.hooks.posted import divided
from orchestrator.hooks.webhook import signature, signing_key
from orchestrator.policy import Ask, LimitRules, Rules
from tests.alerts.hooked import KEY, hook, sent
from tests.alerts.make import note, receiving


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (302, Rejected),
        (400, Rejected),
        (401, Unauthorised),
        (403, Unauthorised),
        (404, Rejected),
        (408, Unavailable),
        (429, RateLimited),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
@pytest.mark.parametrize("kind", ["wecom", "slack", "webhook", "pagerduty"])
async def test_a_status_means_the_same_for_every_receiver(kind: str, status: int, error: type[CallError]) -> None:
    async with receiving() as receiver:
        receiver.answers = [(status, {"errcode": 0})]
        made = hook(kind=kind, url=receiver.url + "/secret-path", key="k")
        with pytest.raises(error) as caught:
            await made.attempt(note())
        await made.close()
    assert type(caught.value) is error
    assert "secret-path" not in str(caught.value)


async def test_slack_gets_text_and_one_attachment_in_its_own_markup() -> None:
    receiver = await sent("/services/T/B/x", kind="slack")
    (body,) = receiver.bodies
    (attachment,) = body["attachments"]
    assert body["text"] == "*FIRING* Thought-Action gap"
    assert "<https://console.example/runs/r1|r1>" in attachment["text"]
    assert {"title": "threshold", "value": "above 5 %", "short": True} in attachment["fields"]
    assert (
        attachment["color"]
        != (await sent(kind="slack", work=lambda it: it.attempt(note(status="resolved")))).bodies[0]["attachments"][0][
            "color"
        ]
    )


async def test_slack_markup_in_a_label_is_escaped() -> None:
    receiver = await sent(
        kind="slack", work=lambda it: it.attempt(note(labels={"agent": "<!channel> & co", "model": "m"}))
    )
    assert "<!channel>" not in receiver.raw[0].decode()
    assert "&lt;!channel&gt; &amp; co" in receiver.raw[0].decode()


async def test_a_slack_look_alike_that_says_not_ok_in_a_200_has_failed() -> None:
    async with receiving() as receiver:
        receiver.answers = [(200, {"ok": False, "error": "no_text"})]
        made = hook(kind="slack", url=receiver.url)
        with pytest.raises(Rejected, match="no_text"):
            await made.attempt(note())
        await made.close()


def test_a_signature_is_what_the_specification_shows() -> None:
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signing_key("a word") == b"a word"
    with pytest.raises(ConfigError, match=r"hooks\.it\.secret.*base64"):
        hook(kind="webhook", url="https://hooks.example/x", secret="whsec_no!base64")


async def test_the_webhook_is_alertmanagers_document_and_its_signature_holds() -> None:
    receiver = await sent("/in", kind="webhook", secret="s3cret")
    (body,), (headers,), (raw,) = receiver.bodies, receiver.headers, receiver.raw
    assert body.keys() == {
        "version",
        "groupKey",
        "truncatedAlerts",
        "status",
        "receiver",
        "groupLabels",
        "commonLabels",
        "commonAnnotations",
        "externalURL",
        "alerts",
    }
    (alert,) = body["alerts"]
    assert alert.keys() == {"status", "labels", "annotations", "startsAt", "endsAt", "generatorURL", "fingerprint"}
    assert alert["labels"] == {
        "alertname": "thought_action_gap",
        "severity": "critical",
        "agent": "shop",
        "model": "main",
    }
    assert (alert["status"], alert["startsAt"], alert["endsAt"]) == (
        "firing",
        "2023-11-14T22:13:20.000Z",
        "0001-01-01T00:00:00Z",
    )
    assert alert["annotations"]["value"] == "12.5 %"
    assert alert["annotations"]["runs"] == "r1 r2"
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + raw
    expected = base64.b64encode(hmac.new(b"s3cret", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert headers["webhook-timestamp"] == "1700000300"


async def test_without_a_secret_the_webhook_is_not_signed() -> None:
    assert "webhook-signature" not in (await sent(kind="webhook")).headers[0]


async def test_a_resolved_webhook_says_when_it_ended() -> None:
    (body,) = (await sent(kind="webhook", work=lambda it: it.attempt(note(status="resolved", runs=())))).bodies
    assert (body["status"], body["alerts"][0]["endsAt"]) == ("resolved", "2023-11-14T22:15:20.000Z")


async def test_pagerduty_opens_and_closes_one_incident() -> None:
    async def both(it: Hook) -> None:
        await it.attempt(note())
        await it.attempt(note(status="resolved", runs=()))

    first, second = (await sent(kind="pagerduty", key="R0UT1NG", work=both)).bodies
    assert (first["event_action"], second["event_action"]) == ("trigger", "resolve")
    assert first["dedup_key"] == second["dedup_key"]
    assert first["routing_key"] == "R0UT1NG"
    assert first["payload"]["severity"] == "critical"
    assert first["payload"]["source"] == "shop"
    assert {"href": "https://console.example/runs/r1", "text": "run r1"} in first["links"]
    assert first["payload"]["custom_details"]["value"] == "12.5 %"


async def test_a_command_gets_the_document_on_stdin_and_no_key_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    code = "import json,os,sys; json.dump([json.load(sys.stdin), dict(os.environ)], open(sys.argv[1], 'w'))"
    await hook(kind="command", argv=[sys.executable, "-c", code, str(tmp_path / "out")]).attempt(note())
    document, environment = json.loads((tmp_path / "out").read_text())
    assert document["alerts"][0]["labels"]["agent"] == "shop"
    assert "OPENAI_API_KEY" not in environment


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["false"], Unavailable),
        (["/no/such/command"], Rejected),
        (["sh", "-c", "sleep 60 & wait"], Timeout),
        (["true"], None),
    ],
)
async def test_a_commands_end_is_its_answer(argv: list[str], error: type[CallError] | None) -> None:
    made = hook(kind="command", argv=argv, timeout=0.3)
    if error is None:
        await made.attempt(note())
        return
    with pytest.raises(error):
        await made.attempt(note())


@pytest.mark.virtual
async def test_a_busy_robot_is_asked_again_until_it_takes_it() -> None:
    async with receiving() as receiver:
        receiver.answers = [(200, {"errcode": 45009}), (200, {"errcode": -1}), (502, ""), (200, {"errcode": 0})]
        made = hook(kind="wecom", url=receiver.url)
        await made.send(note())
        await made.close()
    assert len(receiver.bodies) == 4


@pytest.mark.virtual
async def test_a_refused_message_is_not_sent_again() -> None:
    async with receiving() as receiver:
        receiver.answers = [(200, {"errcode": 93000})]
        made = hook(kind="wecom", url=receiver.url)
        with pytest.raises(Unauthorised):
            await made.send(note())
        await made.close()
    assert len(receiver.bodies) == 1


@pytest.mark.virtual
async def test_no_more_than_twenty_messages_go_out_in_a_minute() -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []

    class Once:
        async def __call__(self, ask: Ask[Notification]) -> None:
            times.append(loop.time())

        async def close(self) -> None: ...

    limited = Hook("it", Once(), Rules(limit=LimitRules(at_once=1, calls=20, window=60.0), breaker=None))
    await asyncio.gather(*(limited.send(note(since=float(each))) for each in range(50)))
    assert len(times) == 50
    assert all(later - earlier >= 60.0 for earlier, later in zip(times, times[20:], strict=False))


def test_a_hook_hears_only_what_is_severe_enough() -> None:
    made = hook(kind="webhook", url="http://127.0.0.1:9", severity="critical")
    assert made.wants(note(severity="critical"))
    assert not made.wants(note(severity="warning"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "wecom"}, "hooks.it.url"),
        ({"kind": "slack", "url": "hooks.slack.com/x?key=k3y"}, "hooks.it.url"),
        ({"kind": "webhook", "url": "ftp://x/k3y"}, "hooks.it.url"),
        ({"kind": "webhook", "url": "http://user:k3y@x/"}, "hooks.it.url"),
        ({"kind": "pagerduty"}, "hooks.it.key"),
        ({"kind": "command"}, "hooks.it.argv"),
    ],
)
def test_a_missing_setting_is_named_and_a_key_is_not(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        hook(**given)
    assert "k3y" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://q.example/a/b?key=1", ("https://q.example", "/a/b?key=1")),
        ("https://q.example", ("https://q.example", "/")),
        ("http://q.example:8080/?k=1#frag", ("http://q.example:8080", "/?k=1")),
        ("https://q.example?k=1", ("https://q.example", "/?k=1")),
    ],
)
def test_a_url_is_base_and_path(url: str, parts: tuple[str, str]) -> None:
    assert divided(url, "x") == parts


def test_secrets_are_masked_in_settings_and_known_to_the_log() -> None:
    given = HookSettings(kind="wecom", url=f"https://q.example/send?key={KEY}", secret="s3cret", key="r0uting")  # type: ignore[arg-type]
    assert KEY not in repr(given)
    assert KEY not in given.model_dump_json()
    assert set(given.secrets) == {f"https://q.example/send?key={KEY}", KEY, "s3cret", "r0uting"}


def test_without_a_console_the_message_says_how_to_look() -> None:
    assert card(note(), Wording()).runs == ("orchestrator show r1", "orchestrator show r2")
    assert card(note(), Wording("en", Links("R", "c/{run}"))).runs == ("c/r1", "c/r2")
