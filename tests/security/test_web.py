"""The web's ways in: another site's page, paths that climb, and what every answer carries."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from starlette.routing import Route

from orchestrator.api.auth import COOKIE, Gate
from orchestrator.api.table import OPERATIONS
from orchestrator.api.tokens import TokenFile
from orchestrator.console import pages
from orchestrator.core.events import Waiting
from orchestrator.egress.address import is_loopback
from orchestrator.errors import ConfigError
from tests.api.conftest import api, terse_log
from tests.api.place import NOW, Place, place
from tests.build import acts
from tests.console.page import Page, harmless

__all__ = ["api", "terse_log"]

FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:9999"},
    {"origin": "http://127.0.0.1:8700.evil.example"},
    {"origin": "http://evil.example/127.0.0.1:8700"},
    {"origin": ""},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "http://127.0.0.1:8700", "sec-fetch-site": "cross-site"},
]
ASKED = (acts(1, ("pay", {"n": 1})), Waiting("1.0", NOW + 1e6, "approval"))


def forms(api: Place) -> list[str]:
    """Every page's path that takes a POST."""
    found = [each for each in pages.routes(api.service) if isinstance(each, Route) and "POST" in (each.methods or ())]
    return [each.path.format(run_id="r", action_id="1.0") for each in found]


def changing() -> list[str]:
    return [
        each.path.format(run_id="r", action_id="1.0", token="none")
        for each in OPERATIONS
        if each.method != "GET" and each.scope is not None
    ]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("tokens", [True, False], ids=["signed in", "no tokens"])
async def test_another_sites_page_changes_nothing(tmp_path: Path, headers: dict[str, str], *, tokens: bool) -> None:
    async with place(tmp_path, tokens=tokens) as api, api.client("") as http:
        await api.run("r", *ASKED)
        if tokens:
            http.cookies.set(COOKIE, api.admin)
        form = Page((await http.get("/")).text).fields().get("form", "")
        for path in (*forms(api), *changing()):
            for more in ({"data": {"form": form, "verdict": "approve", "token": api.admin}}, {"json": {"goal": "x"}}):
                response = await http.post(path, headers=headers, **more)  # type: ignore[arg-type]
                assert response.status_code == 403, path
                assert "set-cookie" not in response.headers
        assert len(await api.store.read("r")) == 3
        assert len(await api.store.runs()) == 1


async def test_a_cookie_alone_is_no_form(api: Place) -> None:
    await api.run("r", *ASKED)
    async with api.client("") as http:
        http.cookies.set(COOKIE, api.admin)
        for path in forms(api):
            if path == "/login":
                continue
            for data in ({}, {"form": ""}, {"form": "0" * 64}, {"form": api.admin}):
                response = await http.post(path, data={**data, "verdict": "approve"})
                assert response.status_code == 403, path
    assert len(await api.store.read("r")) == 3


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
async def test_what_a_foreign_form_can_send_is_no_body_of_the_api(api: Place, kind: str) -> None:
    async with api.client("") as http:
        http.cookies.set(COOKIE, api.admin)
        response = await http.post("/v1/runs", content=b'{"goal": "x"}', headers={"content-type": kind})
    assert response.status_code == 415
    assert not await api.store.runs()


async def test_no_get_changes_anything(api: Place) -> None:
    await api.run("r", *ASKED)
    async with api.client() as http:
        for path in (*forms(api), *changing()):
            for method in ("GET", "HEAD"):
                await http.request(method, path, params={"verdict": "approve", "goal": "x"})
    assert len(await api.store.read("r")) == 3
    assert len(await api.store.runs()) == 1


@pytest.mark.parametrize(("origin", "secure"), [("https://127.0.0.1:8700", True), ("http://127.0.0.1:8700", False)])
async def test_the_cookie_is_for_no_script_and_for_no_other_site(api: Place, origin: str, *, secure: bool) -> None:
    async with api.client("") as http:
        signed = await http.post("/login", data={"token": api.admin}, headers={"origin": origin})
    cookie = signed.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert ("secure" in cookie) == secure


PATHS = [
    "/",
    "/login",
    "/health",
    "/runs/r",
    "/runs/none",
    "/nothing",
    "/openapi.json",
    "/static/console.css",
    "/static/none",
    "/v1/runs",
    "/v1/runs/none",
    "/v1/tools",
    "/v1/callbacks/x",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
async def test_every_answer_carries_the_security_headers(api: Place, path: str, method: str) -> None:
    await api.run("r", *ASKED)
    async with api.client() as http:
        headers = (await http.request(method, path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert "server" not in headers
    assert not [name for name in headers if name.startswith("access-control-")]
    assert "cache-control" in headers


CLIMBING = [
    "../pages.py",
    "..%2fpages.py",
    "%2e%2e/pages.py",
    "%2e%2e%2fpages.py",
    "..%5cpages.py",
    "..\\pages.py",
    "....//pages.py",
    "%252e%252e/pages.py",
    "%c0%ae%c0%ae/pages.py",
    "console.css/../../pages.py",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "//etc/passwd",
    "console.css%00.js",
    "..;/pages.py",
    "%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "~root",
    "",
]


async def raw(url: str, target: str, token: str) -> tuple[int, str]:
    """GET exactly this target, which no client library makes nicer."""
    at = httpx.URL(url)
    headers = [(b"authorization", b"Bearer " + token.encode())]
    request = httpx.Request("GET", at.copy_with(raw_path=target.encode()), headers=headers)
    async with httpx.AsyncClient() as http:
        response = await http.send(request)
    return response.status_code, response.text


@pytest.mark.parametrize("climbing", CLIMBING)
async def test_no_path_climbs_out(api: Place, climbing: str) -> None:
    await api.run("r", *ASKED)
    async with api.served() as url:
        for prefix in ("/static/", "/runs/", "/runs/r/raw/", "/v1/runs/", "/v1/runs/r/raw/", "/"):
            status, text = await raw(url, prefix + climbing, api.admin)
            assert status < 500, prefix
            assert "root:" not in text
            assert "from __future__" not in text
            assert status in {400, 404, 405} or (prefix == "/" and not climbing) or "<main" in text, prefix


RUN_IDS = [
    *CLIMBING[:-1],
    "r%00",
    "r%0d%0aset-cookie:x=y",
    "%ff%fe",
    "x" * 5000,
    "' OR '1'='1",
    "r;drop table runs",
    "%",
    "*",
]


@pytest.mark.parametrize("run_id", RUN_IDS)
async def test_any_run_id_is_a_run_or_none(api: Place, run_id: str) -> None:
    await api.run("r", *ASKED)
    async with api.client() as http:
        for path in ("/v1/runs/{}", "/v1/runs/{}/events", "/v1/runs/{}/raw/d", "/runs/{}", "/runs/{}/raw/d"):
            response = await http.get(path.format(run_id.replace("?", "").replace("#", "")))
            assert response.status_code in {303, 400, 404, 405, 422}, path
            assert "set-cookie" not in response.headers
            if response.headers.get("content-type", "").startswith("text/html"):
                harmless(response.text)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "example.org", "127.0.0.1.evil.example", "127.1"])
def test_beyond_this_machine_nothing_is_served_without_a_token(tmp_path: Path, host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ConfigError, match="token create"):
        Gate(TokenFile(tmp_path / "t.json"), loopback=is_loopback(host))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_is_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8700", "[::2]:8700", "", "localhost.evil.example"]
)
async def test_a_name_that_was_rebound_to_this_machine_is_not_answered(tmp_path: Path, host: str) -> None:
    async with place(tmp_path, tokens=False) as api, api.client("") as http:
        await api.run("r", *ASKED, goal="their secret")
        for path in ("/", "/runs/r", "/v1/runs", "/v1/runs/r/events"):
            response = await http.get(path, headers={"host": host})
            assert response.status_code == 403
            assert "their secret" not in response.text
