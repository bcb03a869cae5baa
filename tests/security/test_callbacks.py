"""A callback's token: forged, altered, expired, replayed, for another action, with a body that is none. And who decided what."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.api.tokens import TokenFile
from orchestrator.core.events import Decision, Observation, Waiting
from orchestrator.errors import ConfigError
from orchestrator.inbox import LONGEST, NotTaken, opened, signed
from tests.api.conftest import api, terse_log
from tests.api.place import KEY, NOW, Place
from tests.build import acts

__all__ = ["api", "terse_log"]

UNTIL = NOW + 1000
GOOD = signed(KEY, "r", "1.0", UNTIL)


async def waiting(api: Place) -> None:
    await api.run("r", acts(1, ("search", {}), ("pay", {})), Waiting("1.0", NOW + 1e6))


async def brought(api: Place, token: str) -> int:
    async with api.client("") as http:
        return (await http.post(f"/v1/callbacks/{token}", json={"data": 1})).status_code


async def test_a_token_is_good_once(api: Place) -> None:
    await waiting(api)
    assert [await brought(api, GOOD) for _ in range(3)] == [204, 409, 409]
    seen = [entry for entry in await api.store.read("r") if isinstance(entry.event, Observation)]
    assert len(seen) == 1


async def test_a_token_expires(api: Place) -> None:
    await waiting(api)
    api.now = UNTIL + 2
    assert await brought(api, GOOD) == 410
    assert LONGEST < 400 * 86_400


def forged() -> list[str]:
    claim, _, mac = GOOD.partition(".")
    other = base64.urlsafe_b64encode(json.dumps(["r", "1.1", int(UNTIL)]).encode()).rstrip(b"=").decode()
    later = base64.urlsafe_b64encode(json.dumps(["r", "1.0", int(UNTIL) + 10**9]).encode()).rstrip(b"=").decode()
    return [
        f"{other}.{mac}",
        f"{later}.{mac}",
        f"{claim}.",
        f".{mac}",
        claim,
        mac,
        "none",
        f"{claim}.{mac[:-4]}",
        f"{claim}.{mac}AAAA",
        f"{claim}.{mac}.{mac}",
        f"{claim}.{'A' * len(mac)}",
        signed(b"another key", "r", "1.0", UNTIL),
        signed(b"\x00", "r", "1.0", UNTIL),
        "é.é",
        "%00.%00",
        "A" * 10_000 + "." + mac,
    ]


@pytest.mark.parametrize("token", forged())
async def test_a_token_that_is_none_of_ours_is_refused_without_reading_what_it_brings(api: Place, token: str) -> None:
    await waiting(api)
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 65536
            yield bytes(65536)

    async with api.client("") as http:
        headers = {"content-type": "application/json"}
        response = await http.post(f"/v1/callbacks/{token}", content=body(), headers=headers)
    assert response.status_code == 403
    assert read <= 65536
    assert len(await api.store.read("r")) == 3


@given(st.integers(0, len(GOOD) - 1), st.sampled_from("ABCDEFGHabcdefgh0123456789-_."))
def test_no_single_change_of_a_token_is_taken_for_another_claim(at: int, char: str) -> None:
    changed = GOOD[:at] + char + GOOD[at + 1 :]
    try:
        assert opened(KEY, changed, NOW) == ("r", "1.0")
    except NotTaken as error:
        assert error.code == "BAD_TOKEN"


@given(st.text(max_size=200) | st.binary(max_size=100).map(lambda raw: base64.urlsafe_b64encode(raw).decode() + ".x"))
def test_any_text_is_refused_as_a_token(text: str) -> None:
    with pytest.raises(NotTaken, match="BAD_TOKEN"):
        opened(KEY, text, NOW)


async def test_without_a_key_no_token_is_good() -> None:
    with pytest.raises(NotTaken, match="BAD_TOKEN"):
        opened(b"", signed(b"", "r", "1.0", UNTIL), NOW)


@pytest.mark.parametrize("verdict", ["approve", "refuse", "cancel"])
async def test_the_trace_says_who_decided_when_and_with_which_token(api: Place, verdict: str) -> None:
    await api.run("r", acts(1, ("pay", {})), Waiting("1.0", NOW + 1e6, "approval"))
    text = api.token("ann", ["approve", "submit", "read"])
    path = "cancel" if verdict == "cancel" else f"actions/1.0/{verdict}"
    async with api.client(text) as http:
        assert (await http.post(f"/v1/runs/r/{path}", json={"reason": "because"})).status_code == 200
    entry = (await api.store.read("r"))[-1]
    assert isinstance(entry.event, Decision)
    token = next(each for each in api.tokens.all() if each.name == "ann")
    assert (entry.event.by, entry.event.via, entry.event.verdict) == ("ann", token.id, verdict)
    assert entry.at == api.now
    assert text not in repr(await api.store.read("r"))


@pytest.mark.parametrize("name", ["policy", "Policy", "local"])
def test_nobodys_token_bears_a_name_that_means_something_else(api: Place, name: str) -> None:
    with pytest.raises(ConfigError, match="another name"):
        TokenFile(api.tokens.path).create(name, ["approve"], "", NOW)


async def test_a_person_cannot_decide_in_the_name_of_the_hosts_policy(api: Place) -> None:
    await api.run("r", acts(1, ("pay", {})), Waiting("1.0", NOW + 1e6, "approval"))
    for by in ("policy", " Policy "):
        with pytest.raises(NotTaken, match="another name"):
            await api.service.inbox.decide("r", "1.0", "approve", by=by)
        with pytest.raises(NotTaken, match="another name"):
            await api.service.inbox.cancel("r", by=by)
    assert len(await api.store.read("r")) == 3
