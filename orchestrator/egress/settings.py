"""The table `[egress]` of the settings."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orchestrator.egress.rules import WEB, Rules


def _glob(text: str) -> str:
    """`*example.org` would let in `evilexample.org`; a scheme, a port or a path is no part of a host."""
    if not text or re.search(r"[\s/@]", text) or re.match(r"\*[^.]", text):
        raise ValueError(f"{text!r} is no glob of a host: write for example en.wikipedia.org, *.example.org, or *")
    return text.lower()


HostGlob = Annotated[str, AfterValidator(_glob)]
Port = Annotated[int, Field(ge=1, le=65535)]


class ToolEgress(BaseModel):
    """What differs for one tool or MCP server; None leaves the general rule."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: tuple[HostGlob, ...] | None = None
    ports: tuple[Port, ...] | None = None
    private: bool = False


class EgressSettings(BaseModel):
    """Where tools and hooks may connect to. `loopback` opens this machine, for development; `tools` are exceptions by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: tuple[HostGlob, ...] = ("*",)
    ports: tuple[Port, ...] = tuple(sorted(WEB))
    loopback: bool = False
    connect: float = Field(default=5.0, gt=0)
    seconds: float = Field(default=10.0, gt=0)
    redirects: int = Field(default=5, ge=0, le=20)
    largest: int = Field(default=10 * 1024 * 1024, ge=1024)
    tools: dict[str, ToolEgress] = {}

    def rules(self, name: str = "") -> Rules:
        """The rules of the tool of this name."""
        own = self.tools.get(name, ToolEgress())
        return Rules(
            hosts=self.hosts if own.hosts is None else own.hosts,
            ports=frozenset(self.ports if own.ports is None else own.ports),
            loopback=self.loopback,
            private=own.private,
            connect=self.connect,
            seconds=self.seconds,
            largest=self.largest,
            redirects=self.redirects,
        )
