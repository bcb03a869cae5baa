"""Settings in, Ports out: the one place that knows how the parts are put together, and how a run is begun.

Every door (the command line, the HTTP control plane, the in-process Agent, the worker) comes in through here.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.clean import hidden, hide, mask
from orchestrator.core.decide import Wait, decide
from orchestrator.core.events import Entry, RunStarted
from orchestrator.core.run import Run, replay
from orchestrator.core.spec import Language, Protocol, ToolSpec
from orchestrator.egress import adopt
from orchestrator.errors import ConfigError
from orchestrator.model import EndpointModels
from orchestrator.permission_settings import overridden, rules_of
from orchestrator.policy import Incident, LimitRules, Price, Rules, price_of, unobserved
from orchestrator.policy import Observer as PolicyObserver
from orchestrator.runner import Listener, Observer, Ports, drive
from orchestrator.secret import secrets_in
from orchestrator.settings import Settings, limits_of
from orchestrator.stores import Store
from orchestrator.stores.earlier import informed
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.sqlite import SqliteStore
from orchestrator.tool import Tool
from orchestrator.toolbox import Toolbox, rules_for
from orchestrator.toolbox.load import tools_at

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: sorts as it counts, and has no i, l, o, u
LOOK = 1.0
Watch: TypeAlias = Callable[[Literal["model", "tool"], Incident], None]
"""Told of what the policies of models and of tools do, at once: it must be quick and must not raise."""
STORES = "memory, sqlite:///PATH, or postgresql://USER@HOST/NAME"


def unwatched(_kind: Literal["model", "tool"], _incident: Incident) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to run. None leaves the choice to the agent's settings.

    `tools` names those to offer (None: all that the agent may use). `deadline` is in seconds, `max_tokens` and `max_cost` are for
    the whole run.
    """

    goal: str
    agent: str = "default"
    model: str | None = None
    protocol: Protocol | None = None
    language: Language | None = None
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    max_steps: int | None = None
    deadline: float | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    tenant: str = ""
    run_kind: str | None = None
    min_steps: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


_REQUEST = TypeAdapter(RunRequest)


def parse_request(raw: Mapping[str, Any], place: str) -> RunRequest:
    """A request that somebody else wrote. ConfigError names the place (a file and line, a body) and the field."""
    try:
        return _REQUEST.validate_python(dict(raw))
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, each['loc'])) or 'request'}: {each['msg']}" for each in error.errors())
        raise ConfigError(f"{place}: {'; '.join(problems)}") from error


async def submit(ports: Ports, settings: Settings, request: RunRequest) -> str:
    """Begin a run: append its RunStarted and give back its id. ConfigError when the request names what is not there."""
    now = ports.clock()
    first = await informed(ports.store, started(settings, ports.toolbox.specs, request), now=now)
    run_id = new_run_id(now)
    ports.models.open(replay((Entry(run_id, 1, now, first),)))  # what cannot be asked is refused now
    for entry in await ports.store.append(run_id, 0, (first,), at=now):
        for observe in ports.observers:
            observe(Run(), entry)
    return run_id


def started(settings: Settings, offered: Sequence[ToolSpec], request: RunRequest) -> RunStarted:
    """The first event of a run: the agent of the settings, with what the request changes.

    ConfigError: an empty question, an agent, model or tool that is not there, a limit that is none, `max_cost` with an unpriced model.
    """
    if not request.goal.strip():
        raise ConfigError("the question is empty: write what the agent is to find out")
    spec, limits = asked(settings, request.agent, request.model).agent(request.agent)
    models = tuple(name if name in settings.models else next(iter(settings.models)) for name in spec.models)
    spec = replace(
        spec,
        models=models,
        protocol=request.protocol or spec.protocol,
        language=request.language or spec.language,
        instructions=spec.instructions if request.instructions is None else request.instructions,
    )
    limits = limits_of(
        limits,
        max_steps=request.max_steps,
        deadline=request.deadline,
        max_tokens=request.max_tokens,
        max_cost=request.max_cost,
    )
    prices = {name: Price(**model.price.model_dump()) for name, model in settings.models.items() if model.price}
    for name in models:
        price_of(name, prices, money=limits.max_cost)
    names = settings.agents[request.agent].tools if request.tools is None else request.tools
    known = secrets_of(settings)
    return RunStarted(
        hide(request.goal, known),
        replace(spec, instructions=hide(spec.instructions, known)),
        limits,
        chosen(offered, names),
        tenant=request.tenant,
        run_kind=request.run_kind,
        min_steps=request.min_steps,
        labels=hidden(request.labels, known),
        boundary=_letters(secrets.randbits(60), 12),
        permissions=rules_of(settings.permissions),
    )


def asked(settings: Settings, agent: str, model: str | None) -> Settings:
    """The settings with another model for this agent. ConfigError when there is no such model."""
    if model is None or agent not in settings.agents:
        return settings
    settings.model(model)
    changed = settings.agents[agent].model_copy(update={"models": (model,)})
    return settings.model_copy(update={"agents": {**settings.agents, agent: changed}})


def chosen(offered: Sequence[ToolSpec], names: Sequence[str] | None) -> tuple[ToolSpec, ...]:
    """The tools of these names, in this order; all of them for None. ConfigError for a name that is not there."""
    if names is None:
        return tuple(offered)
    by_name = {spec.name: spec for spec in offered}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise ConfigError(
            f"no tool {', '.join(missing)}: there are {', '.join(sorted(by_name)) or 'none'} (setting `tools`)"
        )
    return tuple(by_name[name] for name in dict.fromkeys(names))


def new_run_id(now: float) -> str:
    """26 characters: the milliseconds of `now`, then 80 random bits. Ids sort by time."""
    return _letters((int(now * 1000) << 80) | secrets.randbits(80), 26)


def _letters(number: int, length: int) -> str:
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(5 * length - 5, -1, -5))


def store_of(settings: Settings) -> Store:
    """The settings' store, not opened yet; what it appends is hashed under the operator's key, if there is one."""
    return make_store(settings.store, settings.trace.key_bytes)


def make_store(url: str, key: bytes = b"") -> Store:
    """The store that a URL names, not opened yet. ConfigError when it names none."""
    scheme, _, rest = url.partition(":")
    if url in {"memory", "memory:", "memory://"}:
        return MemoryStore(key=key)
    if scheme == "sqlite" and rest.startswith("///") and len(rest) > len("///"):
        return SqliteStore(_with_folder(Path(rest.removeprefix("///"))), key=key)
    if scheme in {"postgresql", "postgres"}:
        return _postgres(url, key)
    raise ConfigError(f"store = {mask(url)!r} is no store: write {STORES}")


def _with_folder(path: Path) -> Path:
    """The path, once its folder is there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"store: the folder {path.parent} cannot be made: {error.strerror}; choose another path"
        ) from error
    return path


def _postgres(url: str, key: bytes) -> Store:
    try:
        from orchestrator.stores.postgres import PostgresStore  # noqa: PLC0415  an optional driver
    except ImportError as error:
        raise ConfigError(
            f"store = {mask(url)!r} needs the extra: pip install '.[postgres]' in the checkout ({error})"
        ) from error
    return PostgresStore(url, key=key)


def shipped_tools() -> Path:
    """The folder of tools that comes with the package: `tools/` beside it in a checkout, `_tools` inside it in a wheel."""
    package = Path(__file__).parent
    checkout = package.parent / "tools"
    return checkout if (package.parent / "pyproject.toml").is_file() and checkout.is_dir() else package / "_tools"


def make_toolbox(
    settings: Settings, observe: PolicyObserver = unobserved, given: Sequence[Tool] | None = None
) -> Toolbox:
    """The tools that are given, else those that the settings name, or the shipped ones, all under the settings' overrides and
    limits; from here on tools reach what `egress` of the settings allows. An override of a tool that is not there is a
    ConfigError, but for given tools: they may be some of those that the settings speak of."""
    adopt(settings.egress)

    def rules(spec: ToolSpec) -> Rules:
        limit = settings.tool_limits.get(spec.name)
        return rules_for(spec) if limit is None else replace(rules_for(spec), limit=LimitRules(**limit.model_dump()))

    found = given
    for each in given or ():
        if not isinstance(each, Tool):
            raise ConfigError(
                f"{each!r} is no tool; put @tool over the function, or give None for the tools of the settings"
            )
    if found is None:
        found = [tool for path in settings.tools or (str(shipped_tools()),) for tool in tools_at(path)]
    unknown = settings.tool_overrides.keys() - {tool.name for tool in found}
    if unknown and given is None:
        raise ConfigError(
            f"tool_overrides.{min(unknown)}: there is no such tool here; for a tool of an MCP server write [mcp.SERVER.tool.NAME]"
        )
    tools = (replace(tool, spec=overridden(tool.spec, settings.tool_overrides)) for tool in found)
    return Toolbox(tools, threads=settings.tool_threads, rules=rules, observe=observe)


@asynccontextmanager
async def open_toolbox(settings: Settings, observe: PolicyObserver = unobserved) -> AsyncIterator[Toolbox]:
    """The tools that the settings name, and those of the MCP servers, which are connected while the block lasts. A server that
    is down does not hold this up: its tools join when it is back, and `absent` of the toolbox says so until then."""
    toolbox = make_toolbox(settings, observe)
    if not settings.mcp:
        yield toolbox
        return
    try:
        from orchestrator.mcp.servers import open_servers  # noqa: PLC0415  an extra
    except ImportError as error:
        name = next(iter(settings.mcp))
        raise ConfigError(f"[mcp.{name}] needs the extra: pip install '.[mcp]' in the checkout ({error})") from error
    async with open_servers(settings.mcp, settings.egress, toolbox):
        yield toolbox


class Offered(Sequence[ToolSpec]):
    """The tools of a toolbox as they are whenever one looks."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    @overload
    def __getitem__(self, index: int) -> ToolSpec: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ToolSpec]: ...
    def __getitem__(self, index: int | slice) -> ToolSpec | Sequence[ToolSpec]:
        return self._toolbox.specs[index]

    def __len__(self) -> int:
        return len(self._toolbox.specs)


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """Every configured secret, to be hidden wherever something is stored or shown."""
    return secrets_in(settings)


@asynccontextmanager
async def open_ports(  # noqa: PLR0913  each is one part
    settings: Settings,
    *,
    store: Store | None = None,
    toolbox: Toolbox | None = None,
    observers: tuple[Observer, ...] = (),
    listener: Listener | None = None,
    observe: Watch = unwatched,
) -> AsyncIterator[Ports]:
    """All that a run needs, open. A `store` or `toolbox` that is given is the caller's. `observe` is told of the policies' incidents."""
    async with EndpointModels(settings, observe=partial(observe, "model")) as models:
        kept = store or await _opened(settings)
        try:
            async with AsyncExitStack() as stack:
                box = toolbox
                if box is None:
                    box = await stack.enter_async_context(open_toolbox(settings, partial(observe, "tool")))
                ports = Ports(kept, models, box, observers, secrets=secrets_of(settings))
                yield ports if listener is None else replace(ports, listener=listener)
        finally:
            if store is None:
                await kept.close()


async def _opened(settings: Settings) -> Store:
    store = store_of(settings)
    await store.open()
    return store


async def finish(run_id: str, ports: Ports) -> Run:
    """Drive a run to its end, through its waits; less far when told to stop.

    While it waits it is looked at every LOOK seconds, for a callback or a Decision that somebody else appends.
    """
    while (run := await drive(run_id, ports)).ended is None and not ports.stopping():
        command = decide(run, ports.clock())
        until = command.until if isinstance(command, Wait) else ports.clock()
        await asyncio.sleep(max(0.0, min(until - ports.clock(), LOOK)))
    return run
