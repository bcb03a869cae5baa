"""What goes out goes to the address that was judged, and nothing that comes back grows, drips or leads astray. Real sockets."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import httpx
import pytest
import trustme

from orchestrator.alerts.settings import HookSettings
from orchestrator.egress import Refused, Rules, client, session
from orchestrator.egress import wire as egress_wire
from orchestrator.errors import Unavailable
from orchestrator.hooks import make_hook
from orchestrator.settings import Settings
from tests.alerts.make import note
from tests.security.wire import Names, moved, said, saying, site

HERE = [["127.0.0.1"]]
DEVELOPMENT = Rules(loopback=True, seconds=5.0)


async def refused(url: str, names: Any, rules: Rules = DEVELOPMENT) -> str:
    async with client(rules, resolve=names) as http:
        with pytest.raises(Refused) as caught:
            await http.get(url)
    return caught.value.code


async def test_a_page_comes_from_the_address_that_was_judged_and_the_name_stays() -> None:
    names = Names(site_example=HERE)
    async with site(saying({"/": said(b"hello")})) as there, client(DEVELOPMENT, resolve=names) as http:
        response = await http.get(there.url("SITE.example."))
    assert response.text == "hello"
    assert f"host: site.example:{there.port}".encode() in there.heads[0].lower()
    assert names.asked == ["site.example"]


@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:10.0.0.1"],
        ["fd00:ec2::254"],
        ["fe80::1%lo"],
        ["93.184.215.14", "127.0.0.1"],
        ["93.184.215.14", "64:ff9b::a00:1"],
        ["nonsense"],
    ],
)
async def test_a_name_that_leads_inside_is_refused_with_all_its_addresses(answer: list[str]) -> None:
    names = Names(inside_example=[answer])
    async with site(saying({})) as there:
        strict = Rules(ports=frozenset({there.port}))
        assert await refused(there.url("inside.example"), names, strict) == "FORBIDDEN_ADDRESS"
        assert there.heads == []


async def test_a_name_that_changes_its_mind_after_the_check_changes_nothing() -> None:
    """DNS rebinding: public when it is checked, loopback when it is used. There is no second time."""
    names = Names(rebind_example=[["93.184.215.14"], ["127.0.0.1"]])
    dialled: list[str] = []

    def dial(info: Any) -> Any:
        dialled.append(info[4][0])
        raise OSError("unreachable")

    async with site(saying({"/": said(b"inside")})) as there:
        opened = session(Rules(ports=frozenset({there.port})), names)
        assert opened.connector is not None
        opened.connector._socket_factory = dial  # type: ignore[attr-defined]
        with pytest.raises(aiohttp.ClientConnectorError):
            await opened.get(there.url("rebind.example"))
        await opened.close()
        assert there.heads == []
    assert (names.asked, dialled) == (["rebind.example"], ["93.184.215.14"])


async def test_a_name_that_changes_its_mind_between_two_hops_is_judged_anew() -> None:
    names = Names(rebind_example=[["127.0.0.1"], ["10.0.0.1"]])
    page = moved("/next").replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    async with site(saying({"/": page, "/next": said(b"inside")})) as there:
        assert await refused(there.url("rebind.example"), names) == "FORBIDDEN_ADDRESS"
        assert len(there.heads) == 1


async def test_the_socket_itself_is_judged_whatever_was_missed_before() -> None:
    async with site(saying({"/": said()})) as there:
        opened = session(Rules(ports=None))
        with pytest.raises(Refused, match="FORBIDDEN_ADDRESS"):
            await opened.get(there.url("127.0.0.1"))
        await opened.close()
        assert there.heads == []


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://10.0.0.1/", "FORBIDDEN_ADDRESS"),
        ("http://169.254.169.254/latest/meta-data/", "FORBIDDEN_ADDRESS"),
        ("//[::ffff:10.0.0.1]/", "FORBIDDEN_ADDRESS"),
        ("http://2852039166/", "FORBIDDEN_ADDRESS"),
        ("http://inside.example/", "FORBIDDEN_ADDRESS"),
        ("http://metadata.google.internal/computeMetadata/v1/", "FORBIDDEN_ADDRESS"),
        ("http://user:pass@site.example/", "INVALID_URL"),
        ("file:///etc/passwd", "INVALID_URL"),
        ("gopher://site.example/", "INVALID_URL"),
        ("http://public.example:6379/", "FORBIDDEN_PORT"),
    ],
)
async def test_a_redirect_is_judged_like_the_first_address(location: str, code: str, status: str) -> None:
    names = Names(site_example=HERE, inside_example=[["10.1.1.1"]], public_example=[["93.184.215.14"]])
    async with site(saying({"/": moved(location, status)})) as there:
        assert await refused(there.url("site.example"), names) == code


async def test_redirects_come_to_an_end() -> None:
    names = Names(site_example=HERE)
    async with site(saying({"/": moved("/")})) as there, client(DEVELOPMENT, resolve=names) as http:
        with pytest.raises(httpx.TooManyRedirects):
            await http.get(there.url("site.example"))
        assert len(there.heads) == DEVELOPMENT.redirects + 1


async def test_nothing_secret_follows_a_redirect_to_another_origin() -> None:
    names = Names(site_example=HERE, other_example=HERE)
    secret = {"authorization": "Bearer s3cret", "x-api-key": "s3cret", "cookie": "a=s3cret", "traceparent": "00-1-2-01"}
    async with site(saying({"/away": said(b"other")})) as other:
        pages = {"/": moved("/same"), "/same": moved(other.url("other.example", "/away"))}
        async with site(saying(pages)) as there, client(DEVELOPMENT, resolve=names, headers=secret) as http:
            assert (await http.get(there.url("site.example"))).text == "other"
            assert [head.count(b"s3cret") for head in there.heads] == [3, 2]  # httpx lets no cookie follow
            assert b"s3cret" not in other.heads[0]
            assert b"traceparent" in other.heads[0]
            again = await http.post(there.url("site.example", "/same"), content=b"b", follow_redirects=False)
            assert again.status_code == 302


async def test_a_body_is_not_repeated_at_another_origin() -> None:
    names = Names(site_example=HERE, other_example=HERE)
    async with site(saying({})) as other:
        page = moved(other.url("other.example"), "307 Temporary Redirect")
        async with site(saying({"/": page})) as there, client(DEVELOPMENT, resolve=names) as http:
            with pytest.raises(Refused, match="FORBIDDEN_REDIRECT"):
                await http.post(there.url("site.example"), json={"card": 1})
        assert other.heads == []


async def test_cookies_and_proxies_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    names = Names(site_example=HERE)
    pages = saying({"/": said(b"ok", "set-cookie: id=1; path=/")})
    async with site(pages) as there, client(DEVELOPMENT, resolve=names) as http:
        for _ in range(2):
            assert (await http.get(there.url("site.example"))).status_code == 200
        assert not any(b"cookie" in head.lower() for head in there.heads)


async def test_a_name_without_an_address_and_a_silent_resolver_are_named() -> None:
    async def silent(_host: str, _port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    for resolve, rules in ((Names(), DEVELOPMENT), (silent, Rules(connect=0.05))):
        async with client(rules, resolve=resolve) as http:
            with pytest.raises(Unavailable) as caught:
                await http.get("http://none.example/")
        assert caught.value.code == "UNKNOWN_HOST"


async def test_the_systems_resolver_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any, **__: Any) -> Any:
        time.sleep(0.2)
        raise OSError("no such host")

    monkeypatch.setattr("socket.getaddrinfo", slow)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    async with client(Rules()) as http:
        with pytest.raises(Unavailable):
            await http.get("http://slow.example/")
    counting.cancel()
    assert turns > 100


async def test_names_that_take_long_hold_up_no_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()

    def stuck(*_: Any, **__: Any) -> Any:
        answer.wait(20)
        raise OSError("no such host")

    monkeypatch.setattr("socket.getaddrinfo", stuck)
    asking = [asyncio.ensure_future(egress_wire.resolved(f"{n}.example", 80)) for n in range(40)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert await asyncio.to_thread(lambda: "free") == "free"
    answer.set()
    assert all(isinstance(each, OSError) for each in await asyncio.gather(*asking, return_exceptions=True))


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch) -> Iterator[trustme.CA]:
    made = trustme.CA()
    context = ssl.create_default_context()
    made.configure_trust(context)
    monkeypatch.setattr(egress_wire, "_tls", lambda: context)
    yield made


@pytest.mark.parametrize(
    ("certified", "fits"), [("site.example", True), ("other.example", False), ("127.0.0.1", False)]
)
async def test_a_certificate_is_checked_against_the_name_not_the_address(
    authority: trustme.CA, certified: str, *, fits: bool
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(certified).configure_cert(context)
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said(b"safe"))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    url = f"https://site.example:{server.sockets[0].getsockname()[1]}/"
    async with client(DEVELOPMENT, resolve=Names(site_example=HERE)) as http:
        if fits:
            assert (await http.get(url)).text == "safe"
        else:
            with pytest.raises(httpx.ConnectError):
                await http.get(url)
    server.close()
    assert asked == ["site.example"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, "FORBIDDEN_ADDRESS"),
        ({"private": True}, "FORBIDDEN_ADDRESS"),
        ({"hosts": ["*.example"]}, "FORBIDDEN_ADDRESS"),
    ],
)
async def test_a_hook_tells_public_places_unless_its_settings_say_otherwise(more: dict[str, Any], code: str) -> None:
    async with site(saying({"/": said()})) as there:
        given = HookSettings.model_validate({"kind": "webhook", "url": there.url("127.0.0.1"), **more})
        hook = make_hook("it", given, Settings(hooks={"it": given}))
        with pytest.raises(Refused, match=code):
            await hook.attempt(note())
        await hook.close()
        assert there.heads == []


def test_a_hooks_private_switch_opens_networks_not_this_machine() -> None:
    rules = Rules(ports=None, private=True)
    rules.judge("http", "10.0.0.5", 9093)
    rules.judge("http", "alertmanager", 9093)
    for host in ("127.0.0.1", "localhost", "169.254.169.254", "metadata.google.internal"):
        with pytest.raises(Refused):
            rules.judge("http", host, 80)
