"""An httpx transport that judges each hop and connects to exactly the address that was judged.

It rides on aiohttp, whose connector asks our resolver and dials what that answers: one resolution for each connection, so a
name that changes its mind between check and use (DNS rebinding) has nothing to change. What is dialled is judged once more at
the socket. The name stays in the Host header, in SNI, and in what the certificate is verified against.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final, TypeAlias

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from httpx_aiohttp import AiohttpTransport

from orchestrator.egress.body import Bounded
from orchestrator.egress.rules import Refused, Rules
from orchestrator.egress.settings import EgressSettings
from orchestrator.errors import Unavailable

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""(name, port) to addresses; OSError when there are none."""

MOST_HEADERS: Final = 128
LONGEST_HEADER: Final = 8190
"""Bytes of one header line of an answer, and of its status line."""
AT_ONCE: Final = 100
RESOLVERS: Final = 16
"""Names that are resolved at once in a process; the others wait, and may run into `connect`."""
STRICT: Final = Rules()
_HOP: Final = "orchestrator.egress"
_GOES_ALONG: Final = frozenset({"accept", "accept-encoding", "accept-language", "host", "traceparent", "user-agent"})
"""Headers that follow a redirect to another origin; whatever else there is may be a secret."""


async def resolved(host: str, port: int) -> list[str]:
    """Every address of a name, by the system's resolver in a thread of its own pool: names that take long hold up no other work."""
    ask = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_resolvers(), ask)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@functools.cache
def _resolvers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(RESOLVERS, "egress-resolver")


def client(
    rules: Rules = STRICT,
    *,
    headers: Mapping[str, str] | None = None,
    base_url: str = "",
    resolve: Resolve = resolved,
    inner: httpx.AsyncBaseTransport | None = None,
) -> httpx.AsyncClient:
    """An httpx client under the rules. It follows redirects, each judged anew, keeps no cookies and knows no proxy. Besides httpx's errors it raises Refused, and Unavailable (UNKNOWN_HOST)."""
    nothing = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    return httpx.AsyncClient(
        base_url=base_url,
        headers=headers,
        transport=transport(rules, resolve=resolve, inner=inner),
        timeout=httpx.Timeout(rules.seconds, connect=rules.connect),
        follow_redirects=True,
        max_redirects=rules.redirects,
        cookies=nothing,
        trust_env=False,
    )


def transport(
    rules: Rules, *, resolve: Resolve = resolved, inner: httpx.AsyncBaseTransport | None = None
) -> httpx.AsyncBaseTransport:
    """The transport alone, for one who needs no httpx client. `inner` stands for the network in tests."""
    return _Guarded(inner or _network(rules, resolve), rules)


_adopted = EgressSettings()


def adopt(settings: EgressSettings) -> None:
    """Let the tools of this process go by these settings: tools are functions of modules, and a module is there once a process."""
    global _adopted
    _adopted = settings


def rules_of(name: str) -> Rules:
    """The rules that were adopted for a tool; the strict ones before any were."""
    return _adopted.rules(name)


def web_client(name: str, *, inner: httpx.AsyncBaseTransport | None = None, **more: Any) -> httpx.AsyncClient:
    """For tools: an httpx client that reaches what the operator's `[egress]` allows to the tool of this name."""
    return client(rules_of(name), inner=inner, **more)


@dataclass(frozen=True, slots=True)
class _Hop:
    """What is remembered from the first hop of a request to its last: where it began, and when it must have ended."""

    origin: tuple[str, str, int | None]
    end: float | None


class _Guarded(httpx.AsyncBaseTransport):
    def __init__(self, inner: httpx.AsyncBaseTransport, rules: Rules) -> None:
        self._inner, self._rules = inner, rules

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        rules = self._rules
        hop = self._judged(request)
        if isinstance(request.stream, httpx.ByteStream):
            await request.aread()  # else the adapter sends the nothing of a redirected GET as a chunked body
        broken = functools.partial(_told, request)
        with broken():
            async with asyncio.timeout_at(hop.end):
                response = await self._inner.handle_async_request(request)
        if not isinstance(response.stream, httpx.AsyncByteStream):
            raise TypeError("the inner transport must be an asynchronous one")
        headers = response.headers.copy()
        try:
            stream = Bounded(response.stream, headers.pop("content-encoding", ""), rules.largest, hop.end, broken)
        except Refused:
            await response.aclose()
            raise
        if "content-encoding" in response.headers:
            headers.pop("content-length", None)
        return httpx.Response(
            response.status_code, headers=headers, stream=stream, request=request, extensions=response.extensions
        )

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _judged(self, request: httpx.Request) -> _Hop:
        """The request as it may go out: to its host in plain form, without what is for another origin."""
        url = request.url
        host = self._rules.judge(url.scheme, url.raw_host.decode("ascii", "replace"), url.port, url.userinfo)
        url = request.url = url.copy_with(host=host)
        request.headers["host"] = url.netloc.decode("ascii")
        if request.headers.get("accept-encoding") != "identity":
            request.headers["accept-encoding"] = "gzip, deflate"
        origin = url.scheme, host, url.port
        hop = request.extensions.get(_HOP)
        if not isinstance(hop, _Hop):
            seconds = self._rules.seconds
            end = None if seconds is None else asyncio.get_running_loop().time() + seconds
            hop = request.extensions[_HOP] = _Hop(origin, end)
        elif hop.origin != origin:
            if request.method not in {"GET", "HEAD"}:
                raise Refused(
                    "FORBIDDEN_REDIRECT", f"a {request.method} is not repeated at {host}, where it was redirected to"
                )
            for name in set(request.headers) - _GOES_ALONG:
                del request.headers[name]
        return hop


@contextmanager
def _told(request: httpx.Request) -> Iterator[None]:
    """What aiohttp, its adapter and our deadline raise, as httpx names it."""
    where = request.url.host
    try:
        yield
    except TimeoutError as error:
        raise httpx.ReadTimeout(f"no whole answer from {where} in time", request=request) from error
    except (
        httpx.ConnectError,
        httpx.ConnectTimeout,
    ) as error:  # the adapter takes one for the other; only the cause tells
        match error.__cause__:
            case aiohttp.ClientConnectorDNSError():
                raise Unavailable("UNKNOWN_HOST", f"the host name {where[:200]} cannot be resolved") from error
            case aiohttp.ClientConnectorError() as cause:
                raise httpx.ConnectError(f"no connection to {where}: {cause}", request=request) from error
            case None | TimeoutError():
                raise
            case cause:
                raise httpx.RemoteProtocolError(f"{where} hung up: {cause}", request=request) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise httpx.RemoteProtocolError(f"{where} sent no HTTP: {str(error)[:200]}", request=request) from error


class _Resolver(AbstractResolver):
    """Answers with addresses that were judged, all of them: one that is not public among others is an attack."""

    def __init__(self, rules: Rules, resolve: Resolve) -> None:
        self._rules, self._resolve = rules, resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self._rules.judge_host(host)  # as aiohttp read it
        try:
            async with asyncio.timeout(self._rules.connect):
                addresses = await self._resolve(host, port)
        except (UnicodeError, TimeoutError) as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        if not addresses:
            raise OSError("the name has no address")
        for address in addresses:
            self._rules.judge_address(host, address, port)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
            if family in {socket.AF_UNSPEC, socket.AF_INET6 if ":" in address else socket.AF_INET}
        ]

    async def close(self) -> None:
        """Nothing is held."""


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def session(rules: Rules, resolve: Resolve = resolved) -> aiohttp.ClientSession:
    """A session of aiohttp that dials what was judged, and nothing else. It judges addresses, names and ports, not URLs; open it
    inside a running loop."""

    def dial(info: Any) -> socket.socket:
        family, kind, proto, _, where = info
        rules.judge_address(where[0], where[0], where[1])
        return socket.socket(family, kind, proto)

    connector = aiohttp.TCPConnector(
        limit=AT_ONCE, resolver=_Resolver(rules, resolve), use_dns_cache=False, ssl=_tls(), socket_factory=dial
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        max_headers=MOST_HEADERS,
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
    )


def _network(rules: Rules, resolve: Resolve) -> AiohttpTransport:
    return AiohttpTransport(verify=_tls(), trust_env=False, client=lambda: session(rules, resolve))
