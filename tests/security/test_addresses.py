"""What an address is, whatever form it is written in; and which hosts a list of globs means."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orchestrator.egress import EgressSettings, Refused, Rules
from orchestrator.egress.address import Kind, kind_of

EVERY_SWITCH = Rules(loopback=True, private=True, ports=None)
INNER = ["10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255", "198.18.0.1"]
NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.51.100.1",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "100::1",
    "2001::1",
    "2001:0:5ef5:79fd::1",
    "2001:10::1",
    "2001:2::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "64:ff9b:1::1",
    "64:ff9b::7f00:1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "::ffff:0:127.0.0.1",
    "::127.0.0.1",
    "::ffff:169.254.169.254",
    "2606:4700::5efe:10.0.0.1",
]
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.215.14",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "64:ff9b::8.8.8.8",
    "::ffff:8.8.8.8",
]


@pytest.mark.parametrize(
    ("kind", "addresses"),
    [
        ("public", PUBLIC),
        ("private", [*INNER, "fd12:3456::1", "fc00::1", "::ffff:10.1.2.3", "::ffff:192.168.0.1"]),
        ("loopback", ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"]),
        ("forbidden", NEVER),
    ],
)
def test_an_address_is_of_its_kind(kind: Kind, addresses: list[str]) -> None:
    assert {each: kind_of(ip_address(each)) for each in addresses} == dict.fromkeys(addresses, kind)


@given(st.ip_addresses(v=4))
def test_what_python_calls_not_global_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if not address.is_global or address.is_multicast:
        assert kind_of(address) != "public"


@given(st.ip_addresses(v=6))
def test_what_python_calls_not_global_in_version_6_is_never_public(address: IPv4Address | IPv6Address) -> None:
    assert isinstance(address, IPv6Address)
    if (not address.is_global or address.is_multicast) and address.ipv4_mapped is None:
        assert kind_of(address) != "public"


@given(
    st.ip_addresses(v=4),
    st.sampled_from(["::ffff:", "64:ff9b::", "::", "::ffff:0:", "64:ff9b:1::", "2606:4700::5efe:"]),
)
def test_no_form_of_version_6_makes_an_inner_address_public(inner: IPv4Address, prefix: str) -> None:
    outer = kind_of(ip_address(f"{prefix}{inner}"))
    assert outer != "public" or kind_of(inner) == "public"


@pytest.mark.parametrize("address", NEVER)
def test_no_switch_opens_what_is_never_asked(address: str) -> None:
    with pytest.raises(Refused) as caught:
        EVERY_SWITCH.judge("http", address, 80)
    assert caught.value.code in {"FORBIDDEN_ADDRESS", "INVALID_URL"}
    with pytest.raises(Refused):
        EVERY_SWITCH.judge_address("name.example", address, 80)


DISGUISED = [
    "2130706433",
    "0x7f000001",
    "0X7F.1",
    "0x7f.0.0.1",
    "017700000001",
    "0177.0.0.1",
    "127.1",
    "127.0.1",
    "010.0.0.1",
    "0x0a.0.0.1",
    "00000127.0.0.1",
    "127.0.0.1.",
    "0",
    "0x",
    "127.0.0.0x1",
    "1.2.3.4.5",
    "example.1",
    "3232235521",
    "0xA9FEA9FE",
    "169.254.43518",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "localhost.localdomain",
    "metadata",
    "metadata.google.internal",
    "METADATA.google.internal.",
    "kubernetes.default.svc.cluster.local",
    "router.home.arpa",
    "intranet",
]


@pytest.mark.parametrize("host", [*DISGUISED, *INNER, "127.0.0.1", "::1", "fc00::1"])
def test_no_way_of_writing_it_leads_inside(host: str) -> None:
    with pytest.raises(Refused) as caught:
        Rules().judge("http", host, None)
    assert caught.value.code == "FORBIDDEN_ADDRESS"


@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        "a..b",
        "a b.example",
        "a%6f.example",
        "a/b",
        "a\x00.example",
        "-.example",
        "x" * 64 + ".example",
        "a." * 130 + "b",
        "[::1",
    ],
)
def test_what_is_no_host_is_no_url(host: str) -> None:
    with pytest.raises(Refused) as caught:
        Rules().judge("http", host, None)
    assert caught.value.code == "INVALID_URL"


@given(st.text(max_size=300), st.sampled_from(["http", "https"]), st.none() | st.integers(-10, 70000))
def test_any_host_is_judged_without_an_error_of_another_kind(host: str, scheme: str, port: int | None) -> None:
    try:
        plain = Rules().judge(scheme, host, port)
    except Refused:
        return
    assert plain == plain.lower().rstrip(".")


@pytest.mark.parametrize(
    ("scheme", "port", "userinfo", "code"),
    [
        ("ftp", None, "", "INVALID_URL"),
        ("file", None, "", "INVALID_URL"),
        ("gopher", 80, "", "INVALID_URL"),
        ("", None, "", "INVALID_URL"),
        ("http", 22, "", "FORBIDDEN_PORT"),
        ("https", 6379, "", "FORBIDDEN_PORT"),
        ("http", None, "a:b", "INVALID_URL"),
    ],
)
def test_only_the_web_goes_out(scheme: str, port: int | None, userinfo: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        Rules().judge(scheme, "example.org", port, userinfo)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("glob", "host", "fits"),
    [
        ("*", "anything.example", True),
        ("example.org", "example.org", True),
        ("example.org", "EXAMPLE.org.", True),
        ("example.org", "evilexample.org", False),
        ("example.org", "example.org.evil.com", False),
        ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", "evilexample.org", False),
        ("api-?.example.org", "api-1.example.org", True),
        ("8.8.8.8", "8.8.8.8", True),
        ("*.example.org", "8.8.8.8", False),
    ],
)
def test_a_list_of_hosts_means_what_it_says(glob: str, host: str, *, fits: bool) -> None:
    rules = EgressSettings.model_validate({"tools": {"it": {"hosts": [glob]}}}).rules("it")
    if fits:
        rules.judge("https", host, None)
        return
    with pytest.raises(Refused) as caught:
        rules.judge("https", host, None)
    assert caught.value.code == "FORBIDDEN_HOST"


@pytest.mark.parametrize(
    "glob", ["", "*example.org", "https://example.org", "example.org/x", "a b", "user@example.org"]
)
def test_a_glob_that_would_mean_more_than_it_says_is_refused(glob: str) -> None:
    with pytest.raises(ValidationError, match="glob of a host"):
        EgressSettings.model_validate({"hosts": [glob]})


def test_a_tools_own_rules_replace_the_general_ones() -> None:
    settings = EgressSettings.model_validate(
        {"hosts": ["a.example"], "tools": {"wiki": {"hosts": ["10.0.0.1"], "ports": [8080], "private": True}}}
    )
    settings.rules("wiki").judge("http", "10.0.0.1", 8080)
    for name, host, port in (("wiki", "a.example", 8080), ("other", "10.0.0.1", 80), ("wiki", "10.0.0.1", 80)):
        with pytest.raises(Refused):
            settings.rules(name).judge("http", host, port)
    settings.rules("other").judge("http", "a.example", 80)
