"""What the settings speak of and is not there, or cannot be: found by `doctor` before it is missed at night."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass

from orchestrator.audit.sign import signer
from orchestrator.core.spec import ToolSpec
from orchestrator.cron import Cron
from orchestrator.errors import ConfigError
from orchestrator.hooks import make_hook
from orchestrator.settings import Settings
from orchestrator.settings_problems import PREFIX

_OF_KUBERNETES = re.compile(r"_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)")
"""How the names of the variables end that Kubernetes sets for a Service, here one called orchestrator-something."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `advice` is no fault: everything works, and somebody should look."""

    name: str
    ok: bool
    detail: str
    advice: bool = False

    @property
    def line(self) -> dict[str, str | bool]:
        """As JSON has it."""
        return {"check": self.name, "ok": self.ok, "advice": self.advice, "detail": self.detail}

    @property
    def mark(self) -> str:
        """What it is called in front of its line."""
        return "warn" if self.ok and self.advice else "ok" if self.ok else "FAIL"


def of_tools(settings: Settings, specs: Collection[ToolSpec], absent: Collection[str]) -> Iterator[Check]:
    """Agents whose tools are not there, and settings for tools that are not. What an MCP server owes is told by its own check."""
    here = {spec.name for spec in specs}

    def missed(name: str) -> bool:
        return name not in here and not name.startswith("mcp__") and name not in absent

    for agent, given in settings.agents.items():
        missing = [name for name in given.tools or () if missed(name)]
        if missing:
            told = (
                f"there is no tool {', '.join(missing)}: its runs cannot begin; `orchestrator tools list` has the names"
            )
            yield Check(f"agents.{agent}.tools", ok=False, detail=told)
    for table, names in (("tool_limits", settings.tool_limits), ("egress.tools", settings.egress.tools)):
        for name in names:
            if missed(name) and name not in settings.mcp:
                told = "there is no such tool here, so this holds for nothing; `orchestrator tools list` has the names"
                yield Check(f"{table}.{name}", ok=True, detail=told, advice=True)


async def of_others(settings: Settings) -> AsyncIterator[Check]:
    """Schedules that cannot be kept, hooks that cannot be called, a key that cannot sign: each would be found when it is needed."""
    for name, schedule in settings.schedules.items():
        try:
            Cron.parse(schedule.cron, f"schedules.{name}.cron")
            settings.agent(schedule.agent)
        except ConfigError as error:
            yield Check(f"schedules.{name}", ok=False, detail=str(error))
    for name, given in settings.hooks.items():
        try:
            await make_hook(name, given, settings).close()
        except ConfigError as error:
            yield Check(f"hooks.{name}", ok=False, detail=str(error))
    pem = settings.trace.signing_key.get_secret_value()
    if pem:
        try:
            signer(pem, "trace.signing_key")
        except ConfigError as error:
            yield Check("trace.signing_key", ok=False, detail=str(error))


def of_variables(env: Mapping[str, str], options: Collection[str]) -> Iterator[Check]:
    """Variables that nobody reads: a setting misspelt there is no error, so it would do nothing, and silently."""
    known = {name.upper() for name in Settings.model_fields}
    for name in sorted(env):
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper in options or upper.removeprefix(PREFIX).partition("__")[0] in known:
            continue
        if _OF_KUBERNETES.search(upper) or (upper.endswith("_PORT") and "://" in env[name]):
            continue
        told = "nothing reads this variable; `b` of the table `a` is ORCHESTRATOR_A__B, and docs/settings.md lists them"
        yield Check(name, ok=True, detail=told, advice=True)
