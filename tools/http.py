"""GET one public web page or API. Bounded in size, time and redirects; where it may go is the operator's `[egress]`."""

import codecs
from typing import Any

import httpx

from orchestrator.tool import ToolError, tool, trace_headers, web_client

MOST_BYTES = 512 * 1024
TEXTUAL = ("text/", "application/json", "application/xml", "application/javascript", "application/x-ndjson")
# https://encoding.spec.whatwg.org/#names-and-labels, as Python spells them
CHARSETS = ("ascii", "big5", "cp", "euc", "gb", "hz", "iso", "koi8", "mac", "shift_jis", "utf-8", "utf-16")

transport: httpx.AsyncBaseTransport | None = None


@tool(repeatable=True, timeout=20.0, trusted=False, aliases=("打开网页",))
async def http_get(url: str) -> dict[str, Any]:
    """Fetch a public http or https URL: status, content type and the text of the body, up to 512 KiB. 打开网页。"""
    headers = {"user-agent": "orchestrator-react/0.1", **trace_headers()}
    try:
        async with (
            web_client("http_get", inner=transport) as client,
            client.stream("GET", url.strip(), headers=headers) as response,
        ):
            if response.status_code >= 400:
                said = f"{response.status_code} {response.reason_phrase}"
                raise ToolError(f"HTTP_{response.status_code}", f"{response.url} answered {said}")
            return await read(response)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ToolError("INVALID_URL", f"this is no URL: {url[:200]}") from error
    except httpx.TooManyRedirects as error:
        raise ToolError("TOO_MANY_REDIRECTS", f"{url[:200]} leads from one redirect to the next") from error
    except httpx.TimeoutException as error:
        raise ToolError("TIMEOUT", f"no answer in time from {url[:200]}") from error
    except httpx.HTTPError as error:
        raise ToolError("UNAVAILABLE", f"{url[:200]} cannot be fetched: {error}") from error


async def read(response: httpx.Response) -> dict[str, Any]:
    """The body as text, cut at the bound."""
    kind = response.headers.get("content-type", "")
    if kind and not kind.startswith(TEXTUAL) and "+json" not in kind and "+xml" not in kind:
        raise ToolError("NOT_TEXT", f"{response.url} is {kind[:80]}, which cannot be read as text")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MOST_BYTES:
            break
    text = body[:MOST_BYTES].decode(charset(response.charset_encoding), errors="replace")
    return {
        "url": str(response.url),
        "status": response.status_code,
        "content_type": kind,
        "text": text,
        "cut": len(body) > MOST_BYTES,
    }


def charset(declared: str | None) -> str:
    """The codec of a declared charset, if it is one of texts on the web; UTF-8 otherwise. `punycode` and its like take time squared."""
    try:
        name = codecs.lookup(declared or "utf-8").name
    except (LookupError, ValueError):
        return "utf-8"
    return name if name.startswith(CHARSETS) else "utf-8"
