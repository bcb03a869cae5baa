"""For the whole suite: `@pytest.mark.virtual` puts a test on virtual time; nobody connects beyond this machine."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.clock import VirtualLoop

settings.register_profile(
    "suite",
    deadline=None,  # two shared cores: a pause of the machine is no failure of the law
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "virtual: run this async test on the virtual-time loop of tests/clock.py")
    config.addinivalue_line("markers", "needs(*programs): programs that no Python package brings; CI installs them")


PROGRAMS = ("promtool", "amtool", "prometheus", "prometheus-alertmanager", "chromium", "mcp-server-everything")
"""What `@pytest.mark.needs` may name."""


def pytest_report_header() -> list[str]:
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return [f"LEFT OUT: tests of {', '.join(absent)} (Debian has them; .ci/run says the packages)"] if absent else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a stranger's machine a test of a program that is not there is left out, and said so. In CI it fails."""
    if os.environ.get("CI"):
        return
    left_out = [item for item in items if any(shutil.which(name) is None for name in _needs(item))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _needs(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers("needs"):
        assert set(mark.args) <= set(PROGRAMS), f"{item.nodeid} needs {mark.args}: name it in PROGRAMS"
        yield from mark.args


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual"):
        return {"virtual": VirtualLoop}
    return {"real": asyncio.SelectorEventLoop}


def stays_here(family: int, address: Any) -> bool:
    """A Unix socket, localhost, or a loopback address."""
    if family not in {socket.AF_INET, socket.AF_INET6}:
        return True
    host = str(address[0]).partition("%")[0]
    if host in {"localhost", ""}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def fresh_log() -> Iterator[None]:
    """A test that configures the log (every command does) leaves no stream of its own behind."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session", autouse=True)
def only_loopback() -> Iterator[None]:
    """Python sockets refuse other hosts (C drivers and uvloop are out of its sight)."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(real: Callable[[socket.socket, Any], Any]) -> Callable[[socket.socket, Any], Any]:
        def attempt(self: socket.socket, address: Any) -> Any:
            if not stays_here(self.family, address):
                raise PermissionError(f"a test tried to connect to {address!r}: use a loopback server instead")
            return real(self, address)

        return attempt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded(connect))
        patch.setattr(socket.socket, "connect_ex", guarded(connect_ex))
        yield
