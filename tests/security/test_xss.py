"""Cross-site scripting, stored and reflected, over every page of the console and every answer of the API. At the level of HTML."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from starlette.routing import Route

from orchestrator.api.table import OPERATIONS
from orchestrator.console import pages
from orchestrator.core.events import RunStarted
from orchestrator.core.spec import AgentSpec
from tests.api.conftest import api, terse_log
from tests.api.place import Place
from tests.build import spec
from tests.console.page import harmless
from tests.console.test_hostile import ending, every_event, poisoned

__all__ = ["api", "terse_log"]

PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    '" autofocus onfocus=alert(1) x="',
    "' onmouseover='alert(1)",
    "` onclick=alert(1) `",
    "<a href=javascript:alert(1)>x</a>",
    "javascript:alert(1)",
    "java\tscript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "//evil.example/x.js",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{background:url(//evil.example)}</style>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</pre></code></details><script>alert(1)</script>",
    "--><script>alert(1)</script><!--",
    "]]><script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)",
    "\\u003cscript\\u003ealert(1)",
    "{{7*'7'}}{% import os %}${7*7}#{7*7}<%=7*7%>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<form action=//evil.example><input name=form><button>",
    "<x onclick=alert(1)>",
    "\u2028alert(1)\u2029",
    "\ufeff\u200b<script\u00a0>alert(1)</script>",
    "＜script＞alert(1)＜/script＞",
    "a\r\nSet-Cookie: x=1\r\n\r\n<script>alert(1)</script>",
]


def of_console(api: Place) -> Iterator[Route]:
    return (each for each in pages.routes(api.service) if isinstance(each, Route))


def safe(response: httpx.Response, where: str) -> None:
    """A page in which nothing foreign is an element, or what no browser takes for a page."""
    kind = response.headers.get("content-type", "")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in response.headers or "x=1" not in response.headers["set-cookie"]
    if kind.startswith("text/html"):
        harmless(response.text)
        assert "script-src 'self'" in response.headers["content-security-policy"], where
        assert "7777777" not in response.text, where
    elif kind.startswith("text/plain"):
        assert response.headers["content-security-policy"].startswith("sandbox"), where
    elif response.content and not kind.startswith(
        ("application/json", "application/problem+json", "text/event-stream")
    ):
        assert response.headers.get("content-disposition") == "attachment", (where, kind)


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_what_is_stored_stays_text_on_every_page(api: Place, payload: str) -> None:
    agent = AgentSpec("a", "1", ("main",))
    first = RunStarted("goal", agent, tools=(spec("pay"),), tenant="t", run_kind="k", labels={"a": "b"})
    await api.begin("r", poisoned(first, payload))
    await api.more("r", *[poisoned(event, payload) for event in every_event() + ending()])
    async with api.client() as http:
        for route in of_console(api):
            if "GET" not in (route.methods or ()):
                continue
            path = route.path.format(run_id="r", digest="d", step="1", action_id="1.0")
            for query in ("", "?lang=zh") if "{step}" in path else ("", "?part=1"):
                safe(await http.get(path + query), path)
        for operation in OPERATIONS:
            if operation.method == "GET":
                path = operation.path.format(run_id="r", digest="d", action_id="1.0")
                safe(await http.get(path), path)


@pytest.mark.parametrize("payload", [each for each in PAYLOADS if each.isascii() and each.isprintable()])
async def test_what_is_asked_stays_text_in_every_answer(api: Place, payload: str) -> None:
    await api.begin("r", RunStarted("goal", AgentSpec("a", "1", ("main",))))
    words = ("outcome", "agent", "anomaly", "tool", "hours", "cursor", "next", "lang", "part", "from", "step", "x")
    asked = {**dict.fromkeys(words, payload), payload: payload}
    climbing = dict.fromkeys(("run_id", "digest", "step", "action_id"), quote(payload))
    headers = {"accept-language": payload, "cookie": f"lang={payload}", "referer": payload}
    async with api.client() as http:
        for route in of_console(api):
            path = route.path.format(run_id="r", digest="d", step="1", action_id="1.0")
            for method in (route.methods or set()) - {"HEAD"}:
                safe(await http.request(method, path, params=asked, headers=headers), path)
                safe(await http.request(method, path, params={**asked, "cursor": "", "lang": "en"}), path)
                safe(await http.request(method, route.path.format(**climbing)), path)
        for operation in OPERATIONS:
            path = operation.path.format(**climbing, token=quote(payload))
            safe(await http.request(operation.method, path, params=asked, json={payload: payload}), path)
        safe(await http.post("/login", data={"token": payload, "next": payload}), "/login")


async def test_a_form_that_is_refused_gives_back_no_word_of_it(api: Place) -> None:
    await api.begin("r", RunStarted("goal", AgentSpec("a", "1", ("main",))))
    async with api.client("") as http:
        for payload in PAYLOADS:
            for route in of_console(api):
                if "POST" in (route.methods or ()):
                    path = route.path.format(run_id="r", action_id="1.0")
                    fields = dict.fromkeys(("form", "verdict", "input", "reason", "token", "next"), payload)
                    safe(await http.post(path, data=fields), path)
