"""http_get reads public text within its bounds, and reaches nothing private."""

import httpx
import pytest

from tests.tools.call import call, refused
from tools import http


@pytest.fixture(autouse=True)
def web(monkeypatch: pytest.MonkeyPatch) -> None:
    """A public web of a few pages; every host name of it has a public address."""

    async def addresses(host: str, _port: int) -> list[str]:
        return {"inside.example": ["10.1.2.3"], "both.example": ["93.184.215.14", "127.0.0.1"]}.get(
            host, [host if host[0].isdigit() or ":" in host else "93.184.215.14"]
        )

    monkeypatch.setattr(http, "addresses", addresses)
    monkeypatch.setattr(http, "transport", httpx.MockTransport(page))
    monkeypatch.delenv("ORCHESTRATOR_ALLOW_LOOPBACK", raising=False)


def page(request: httpx.Request) -> httpx.Response:
    match request.url.path:
        case "/text":
            return httpx.Response(200, text="hello", headers={"content-type": "text/plain; charset=utf-8"})
        case "/gbk":
            return httpx.Response(200, content="你好".encode("gbk"), headers={"content-type": "text/html; charset=gbk"})
        case "/odd":
            return httpx.Response(200, content=b"ok \xff", headers={"content-type": "text/html; charset=nonsense"})
        case "/large":
            return httpx.Response(200, text="x" * (http.MOST_BYTES + 10), headers={"content-type": "text/plain"})
        case "/picture":
            return httpx.Response(200, content=b"\x89PNG", headers={"content-type": "image/png"})
        case "/moved":
            return httpx.Response(302, headers={"location": "/text"})
        case "/trap":
            return httpx.Response(302, headers={"location": "http://169.254.169.254/latest/meta-data"})
        case "/file":
            return httpx.Response(302, headers={"location": "file:///etc/passwd"})
        case "/loop":
            return httpx.Response(302, headers={"location": "/loop"})
        case "/slow":
            raise httpx.ReadTimeout("slow", request=request)
        case _:
            return httpx.Response(404)


async def test_a_page_comes_with_status_and_content_type() -> None:
    assert await call(http.http_get, url="https://example.org/text") == {
        "url": "https://example.org/text",
        "status": 200,
        "content_type": "text/plain; charset=utf-8",
        "text": "hello",
        "cut": False,
    }


async def test_a_redirect_is_followed_and_a_declared_charset_is_used() -> None:
    assert (await call(http.http_get, url="http://example.org/moved"))["url"] == "http://example.org/text"
    assert (await call(http.http_get, url="http://example.org/gbk"))["text"] == "你好"
    assert (await call(http.http_get, url="http://example.org/odd"))["text"] == "ok \ufffd"


async def test_a_large_page_is_cut() -> None:
    found = await call(http.http_get, url="http://example.org/large")
    assert (len(found["text"]), found["cut"]) == (http.MOST_BYTES, True)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://127.0.0.1/text", "FORBIDDEN_ADDRESS"),
        ("http://[::1]/text", "FORBIDDEN_ADDRESS"),
        ("http://[::ffff:10.0.0.1]/text", "FORBIDDEN_ADDRESS"),
        ("http://169.254.169.254/latest", "FORBIDDEN_ADDRESS"),
        ("http://0.0.0.0/text", "FORBIDDEN_ADDRESS"),
        ("http://100.64.0.1/text", "FORBIDDEN_ADDRESS"),
        ("http://inside.example/text", "FORBIDDEN_ADDRESS"),
        ("http://both.example/text", "FORBIDDEN_ADDRESS"),
        ("http://example.org/trap", "FORBIDDEN_ADDRESS"),
        ("http://example.org/file", "INVALID_URL"),
        ("file:///etc/passwd", "INVALID_URL"),
        ("ftp://example.org/", "INVALID_URL"),
        ("http://user:secret@example.org/text", "INVALID_URL"),
        ("example.org/text", "INVALID_URL"),
        ("http://", "INVALID_URL"),
        ("http://[::1", "INVALID_URL"),
        ("http://xn--a.com/", "INVALID_URL"),
        ("\x00", "INVALID_URL"),
        ("http://example.org/loop", "TOO_MANY_REDIRECTS"),
        ("http://example.org/none", "HTTP_404"),
        ("http://example.org/picture", "NOT_TEXT"),
        ("http://example.org/slow", "TIMEOUT"),
    ],
)
async def test_what_may_not_or_cannot_be_fetched_is_named(url: str, code: str) -> None:
    assert (await refused(http.http_get, url=url)).code == code


async def test_the_operators_switch_opens_loopback_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATOR_ALLOW_LOOPBACK", "1")
    assert (await call(http.http_get, url="http://127.0.0.1/text"))["text"] == "hello"
    assert (await refused(http.http_get, url="http://10.0.0.1/text")).code == "FORBIDDEN_ADDRESS"


async def test_a_host_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert (await refused(http.http_get, url="http://no-such-host.invalid/")).code == "UNKNOWN_HOST"
