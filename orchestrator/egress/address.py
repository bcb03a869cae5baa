"""What an address or a host name is, before anybody connects to it. Pure.

The tables are IANA's special-purpose registries (RFC 6890 and its updates) as of 2026-11, written out: `ipaddress.is_global`
differs between versions of Python. For IPv6 the rule is positive: global unicast without its exceptions, and nothing else.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["public", "private", "loopback", "forbidden"]
"""`forbidden` is opened by no switch: link-local, metadata, multicast, reserved, and ways to hide another address."""

_LOOPBACK: Final = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_PRIVATE: Final = tuple(
    map(IPv4Network, ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15"))
)
_FORBIDDEN: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "169.254.0.0/16",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_METADATA: Final = frozenset(
    map(
        ip_address,
        ("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
"""Where clouds keep credentials (AWS, Azure, GCP, Alibaba, Oracle); some of them look public or private."""

_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_UNIQUE_LOCAL: Final = IPv6Network("fc00::/7")
_GLOBAL: Final = IPv6Network("2000::/3")
_NOT_GLOBAL: Final = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
"""Teredo, ORCHID, benchmarking, documentation, 6to4."""

_INWARD: Final = ("localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa")
_METADATA_NAMES: Final = (
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


def kind_of(address: IPv4Address | IPv6Address) -> Kind:
    """What it is, seen through the forms in which IPv6 carries an IPv4 address."""
    if address in _METADATA:
        return "forbidden"
    if isinstance(address, IPv4Address):
        return _kind_of_4(address)
    if address.scope_id is not None:
        return "forbidden"
    if address in _MAPPED:
        return kind_of(_inner(address))
    if address in _NAT64:
        return "public" if kind_of(_inner(address)) == "public" else "forbidden"
    if address in _LOOPBACK[1]:
        return "loopback"
    if address in _UNIQUE_LOCAL:
        return "private"
    hidden = (int(address) >> 32) & 0xFFFFFFFF in {0x00005EFE, 0x02005EFE}  # ISATAP carries an IPv4 address
    if hidden or address not in _GLOBAL or any(address in each for each in _NOT_GLOBAL):
        return "forbidden"
    return "public"


def _kind_of_4(address: IPv4Address) -> Kind:
    if address in _LOOPBACK[0]:
        return "loopback"
    if any(address in each for each in _PRIVATE):
        return "private"
    return "forbidden" if any(address in each for each in _FORBIDDEN) else "public"


def _inner(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)


def literal(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is, in its one plain form; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Names this machine and nothing else."""
    address = literal(host)
    return host == "localhost" if address is None else address.is_loopback


def is_name(host: str) -> bool:
    """A host name in its ASCII form."""
    return len(host) <= 253 and all(_LABEL.fullmatch(each) for each in host.split("."))


def disguised(host: str) -> bool:
    """It ends in a number, as names do not: what resolvers take for an address (`127.1`, `0x7f.1`, `2130706433`, `0177.0.0.1`)."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def kind_of_name(name: str) -> Kind:
    """What a name says of itself, whatever it resolves to: names without a dot and those for use inside lead inside."""
    if name in _METADATA_NAMES:
        return "forbidden"
    if name == "localhost" or name.endswith(".localhost"):
        return "loopback"
    inward = "." not in name or any(name == each or name.endswith(f".{each}") for each in _INWARD)
    return "private" if inward else "public"
