"""What may be reached, and the judgement of one URL and of one address. Pure; whoever is refused is told what would be taken."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address

from orchestrator.egress.address import Kind, disguised, is_name, kind_of, kind_of_name, literal
from orchestrator.errors import Rejected

WEB = frozenset({80, 443})
_SCHEMES = {"http": 80, "https": 443}


class Refused(Rejected):
    """The host does not let this out. `code`: INVALID_URL, FORBIDDEN_HOST, FORBIDDEN_PORT, FORBIDDEN_ADDRESS, FORBIDDEN_REDIRECT, TOO_LARGE, BAD_ENCODING."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The bounds of one caller. `hosts` are globs, `ports` None is any; `loopback` and `private` open this machine (any port) and
    the operator's own networks. Seconds: `connect` for a name and for a connection each, `seconds` for a request with its redirects
    and its body (None: no limit, for event streams). `largest` is bytes of a body, packed or not."""

    hosts: tuple[str, ...] = ("*",)
    ports: frozenset[int] | None = WEB
    loopback: bool = False
    private: bool = False
    connect: float = 5.0
    seconds: float | None = 10.0
    largest: int | None = 10 * 1024 * 1024
    redirects: int = 5

    def judge(self, scheme: str, host: str, port: int | None, userinfo: bytes | str = "") -> str:
        """The host of a URL in its one plain form. Refused for what may not be asked at all."""
        if scheme not in _SCHEMES:
            raise Refused("INVALID_URL", f"only http and https go out, not {scheme[:20]!r}")
        if userinfo:
            raise Refused("INVALID_URL", "a URL with a user name or password is not fetched: leave them out")
        plain = self.judge_host(host)
        port = _SCHEMES[scheme] if port is None else port
        if not self.loopback:
            self._judge_port(plain, port)
        address = literal(plain)
        if address is not None:
            self.judge_address(plain, str(address), port)
        return plain

    def judge_host(self, host: str) -> str:
        """The host without its trailing dot, if it is one and on the list. Refused otherwise."""
        plain = host.lower().removesuffix(".")
        if literal(plain) is None:
            if disguised(plain):
                raise Refused("FORBIDDEN_ADDRESS", f"{host[:200]!r} is an address in disguise: write it plainly")
            if not is_name(plain):
                raise Refused("INVALID_URL", f"{host[:200]!r} is no host name")
            if not self._opens(kind_of_name(plain)):
                raise Refused("FORBIDDEN_ADDRESS", f"{host[:200]} is a name for use inside; ask for a public one")
        if not any(fnmatchcase(plain, each.lower()) for each in self.hosts):
            raise Refused("FORBIDDEN_HOST", f"{host[:200]} is not on the list of hosts; these are: {self._listed()}")
        return plain

    def judge_address(self, host: str, address: str, port: int) -> None:
        """Refused unless a connection to this address and port may be made on behalf of this host."""
        try:
            kind = kind_of(ip_address(address))
        except ValueError:
            kind = "forbidden"
        if not self._opens(kind):
            raise Refused(
                "FORBIDDEN_ADDRESS",
                f"{host[:200]} is {address}, which is not a public address; ask for a public one (`egress` in the settings opens others)",
            )
        if kind != "loopback":
            self._judge_port(host, port)

    def _judge_port(self, host: str, port: int) -> None:
        if self.ports is not None and port not in self.ports:
            raise Refused("FORBIDDEN_PORT", f"{host[:200]}:{port} is not asked; these ports are: {sorted(self.ports)}")

    def _opens(self, kind: Kind) -> bool:
        return kind == "public" or (kind == "loopback" and self.loopback) or (kind == "private" and self.private)

    def _listed(self) -> str:
        return ", ".join(self.hosts[:10]) or "none"
