"""GET one public web page or API. Bounded in size, time and redirects; private addresses are refused.

Every hop is resolved first, and every address it resolves to must be public; the operator's switch
ORCHESTRATOR_ALLOW_LOOPBACK=1 opens this machine's own loopback (for demonstrations and tests), and nothing else.
"""

import asyncio
import ipaddress
import os
import socket
from typing import Any

import httpx

from orchestrator.tool import ToolError, tool, trace_headers

MOST_BYTES = 512 * 1024
MOST_REDIRECTS = 5
SECONDS = 10.0
TEXTUAL = ("text/", "application/json", "application/xml", "application/javascript", "application/x-ndjson")

transport: httpx.AsyncBaseTransport | None = None


@tool(repeatable=True, timeout=20.0, trusted=False, aliases=("打开网页",))
async def http_get(url: str) -> dict[str, Any]:
    """Fetch a public http or https URL: status, content type and the text of the body, up to 512 KiB. 打开网页。"""
    try:
        async with httpx.AsyncClient(transport=transport, timeout=SECONDS, trust_env=False) as client:
            return await follow(client, httpx.URL(url.strip()))
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ToolError("INVALID_URL", f"this is no URL: {url[:200]}") from error
    except httpx.TimeoutException as error:
        raise ToolError("TIMEOUT", f"no answer within {SECONDS:.0f} s from {url[:200]}") from error
    except httpx.HTTPError as error:
        raise ToolError("UNAVAILABLE", f"{url[:200]} cannot be fetched: {error}") from error


async def follow(client: httpx.AsyncClient, url: httpx.URL) -> dict[str, Any]:
    """GET, checking the address before each hop."""
    for _ in range(MOST_REDIRECTS + 1):
        await check(url)
        async with client.stream("GET", url, headers={"user-agent": "orchestrator-react/0.1", **trace_headers()}) as response:
            if response.next_request is not None:
                url = response.next_request.url
                continue
            if response.status_code >= 400:
                raise ToolError(
                    f"HTTP_{response.status_code}", f"{url} answered {response.status_code} {response.reason_phrase}"
                )
            return await read(response)
    raise ToolError("TOO_MANY_REDIRECTS", f"more than {MOST_REDIRECTS} redirects; the last one leads to {url}")


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
    encoding = response.charset_encoding or "utf-8"
    try:
        text = body[:MOST_BYTES].decode(encoding, errors="replace")
    except LookupError:
        text = body[:MOST_BYTES].decode("utf-8", errors="replace")
    return {
        "url": str(response.url),
        "status": response.status_code,
        "content_type": kind,
        "text": text,
        "cut": len(body) > MOST_BYTES,
    }


async def check(url: httpx.URL) -> None:
    """Refuse what is not http(s), carries a password, or leads to an address that is not public."""
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolError("INVALID_URL", f"only http and https URLs with a host are fetched, not {str(url)[:200]}")
    if url.userinfo:
        raise ToolError("INVALID_URL", "a URL with a user name or password is not fetched")
    for address in await addresses(url.host, url.port or 443):
        if not permitted(address):
            raise ToolError(
                "FORBIDDEN_ADDRESS", f"{url.host} is {address}, which is not a public address; ask for a public one"
            )


async def addresses(host: str, port: int) -> list[str]:
    """Every address a host name stands for."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolError("UNKNOWN_HOST", f"the host name {host[:200]} cannot be resolved") from error
    return [str(entry[4][0]) for entry in found]


def permitted(address: str) -> bool:
    """Whether a connection to this address may be made."""
    ip = ipaddress.ip_address(address.split("%", 1)[0])
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip.sixtofour or ip
    if ip.is_loopback:
        return os.environ.get("ORCHESTRATOR_ALLOW_LOOPBACK") == "1"
    return ip.is_global and not ip.is_multicast
