"""http_get reads public text within its bounds, and reaches nothing private."""

from collections.abc import Iterator

import httpx
import pytest

from orchestrator.egress import EgressSettings, Refused, adopt
from orchestrator.errors import CallError, Unavailable
from tests.tools.call import call
from tools import http


@pytest.fixture(autouse=True)
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A web of a few pages, whatever the host."""
    monkeypatch.setattr(http, "transport", httpx.MockTransport(page))
    adopt(EgressSettings())
    yield
    adopt(EgressSettings())


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
        case "/tongue":
            return httpx.Response(200, content=b"x" * 1000, headers={"content-type": "text/html; charset=punycode"})
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
        ("http://2130706433/text", "FORBIDDEN_ADDRESS"),
        ("http://example.org:22/text", "FORBIDDEN_PORT"),
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
    with pytest.raises(CallError) as caught:
        await call(http.http_get, url=url)
    assert caught.value.code == code


async def test_a_charset_that_is_none_of_texts_is_not_used() -> None:
    assert (await call(http.http_get, url="http://example.org/tongue"))["text"] == "x" * 1000
    assert [http.charset(each) for each in ("GBK", "Shift_JIS", "windows-1252", "latin1", "utf-16le")] == [
        "gbk",
        "shift_jis",
        "cp1252",
        "iso8859-1",
        "utf-16-le",
    ]
    for declared in ("punycode", "idna", "unicode_escape", "utf_7", "zip", "rot13", "undefined", "\x00", None):
        assert http.charset(declared) == "utf-8"


async def test_the_operators_switch_opens_loopback_and_nothing_else() -> None:
    adopt(EgressSettings(loopback=True))
    assert (await call(http.http_get, url="http://127.0.0.1/text"))["text"] == "hello"
    with pytest.raises(Refused):
        await call(http.http_get, url="http://10.0.0.1/text")


async def test_the_operators_list_of_hosts_holds() -> None:
    adopt(EgressSettings.model_validate({"tools": {"http_get": {"hosts": ["*.example.org"]}}}))
    assert (await call(http.http_get, url="http://www.example.org/text"))["text"] == "hello"
    with pytest.raises(Refused, match=r"FORBIDDEN_HOST.*\*\.example\.org"):
        await call(http.http_get, url="http://example.com/text")


async def test_a_host_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(Unavailable) as caught:
        await call(http.http_get, url="http://no-such-host.invalid/")
    assert caught.value.code == "UNKNOWN_HOST"
