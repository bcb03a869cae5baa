"""`@tool`: a typed function becomes a Tool. Its schema, its description and the check of its input come off the signature."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args, overload

from orchestrator.core.measure.common import is_common
from orchestrator.core.spec import Effect, Json, Role, ToolResult, ToolSpec
from orchestrator.errors import ConfigError, Permanent
from orchestrator.tool.signature import Arguments, described, signature_of

F = TypeVar("F", bound=Callable[..., Any])
Hook = Callable[..., Awaitable[Any]]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
EFFECTS: tuple[str, ...] = get_args(Effect)
ROLES: tuple[str, ...] = get_args(Role)
MARKS = ("repeatable", "side_effect", "trusted", "requires_approval", "common")
_RESERVED = frozenset({"finish", "final_answer", "final"})


class ToolError(Permanent):
    """The tool says that it failed: `code` is an UPPER_SNAKE word, `message` what happened and what to do instead."""

    def __init__(self, code: str, message: str = "", **more: Any) -> None:
        super().__init__(code, message, **more)


@dataclass(frozen=True, slots=True)
class Tool:
    """A spec and the function behind it. `arguments` checks an input; `function` takes the checked arguments by name.

    `threaded` functions are synchronous and run in a thread. `reconcile` takes the same arguments and says what became of an
    action that was begun and never observed (a ToolResult, a value, or None: unknown); `home` is where the tool was written.
    `approval` takes them too and says whether a person must approve this very input.
    """

    spec: ToolSpec
    function: Callable[..., Any]
    arguments: Arguments
    threaded: bool = False
    reconcile: Hook | None = None
    home: str = ""
    approval: Callable[..., bool] | None = None

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        return self.spec.name

    @property
    def written(self) -> str:
        """Where it was written, for people."""
        code = getattr(self.function, "__code__", None)
        if code is None or self.function.__module__ != self.home:
            return self.home
        return f"{code.co_filename}:{code.co_firstlineno}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function, unchecked: for tests and for other tools."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(*, name: str | None = None, **options: Any) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a typed function with a docstring.

    Options, all by name: `name`, `description` (default: the docstring up to its arguments), `repeatable` (may run twice with
    the same input: the condition of any retry), `effect` ("read", "write", or "send": something leaves the house; default: "write"
    for a tool that is not repeatable), `side_effect` (True: "write"), `timeout` in seconds (30), `facts` {label: JSON Pointer},
    `roles` {argument: "detail", "content" or "reach"} and `names` {argument: (field, name)} (`core.spec.ToolSpec`),
    `aliases`, `common` (default: by a word list), `trusted` (False: its results come from outside), `version`,
    `requires_approval`, `approval` (a plain function of the arguments: True when this input needs a person's approval),
    `reconcile` (a coroutine function). ConfigError says what to change.
    """
    if function is None:
        return lambda decorated: _made(decorated, name, options)
    return _made(function, name, options)


def _made(function: Callable[..., Any], name: str | None, options: dict[str, Any]) -> Tool:
    if isinstance(function, Tool) or not inspect.isroutine(function):
        raise ConfigError(f"@tool decorates a plain function, not {_named(function)}")
    name = name or function.__name__
    where = _where(function)
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: {name!r} cannot name a tool; use letters, digits, _ and -, at most 64, not first a digit"
        )
    if name.lower() in _RESERVED:
        raise ConfigError(f"{where}: the name {name!r} ends a run in the text protocol; choose another")
    known = {
        "description",
        "repeatable",
        "side_effect",
        "effect",
        "roles",
        "names",
        "timeout",
        "facts",
        "aliases",
        "common",
        "trusted",
        "version",
        "requires_approval",
        "approval",
        "reconcile",
    }
    if unknown := set(options) - known:
        raise ConfigError(f"{where}: @tool has no option {min(unknown)!r}; it has {', '.join(sorted(known))}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{where}: a tool gives one result and this one yields; return a list")
    arguments = signature_of(function, where)
    hook = options.pop("reconcile", None)
    if hook is not None and not inspect.iscoroutinefunction(hook):
        raise ConfigError(f"{where}: reconcile must be an async function that takes the tool's arguments")
    approval = options.pop("approval", None)
    if approval is not None and (not callable(approval) or inspect.iscoroutinefunction(approval)):
        raise ConfigError(
            f"{where}: approval must be a plain function that takes the tool's arguments and gives a bool"
        )
    description = options.pop("description", None) or described(function)
    if not description:
        raise ConfigError(f"{where}: the model chooses by the description; write a docstring")
    first = ToolSpec(name, description, arguments.schema, reconcilable=hook is not None)
    spec = _spec(first, options, where)
    threaded = not inspect.iscoroutinefunction(function)
    return Tool(spec, function, arguments, threaded, hook, function.__module__, approval)


def _spec(first: ToolSpec, options: Mapping[str, Any], where: str) -> ToolSpec:
    timeout = options.get("timeout", first.timeout)
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 < timeout < 86_400 * 7:
        raise ConfigError(f"{where}: timeout is {timeout!r}; write seconds above 0")
    effect = options.get("effect")
    if effect not in {None, *EFFECTS}:
        raise ConfigError(f"{where}: effect is {effect!r}; write one of {', '.join(EFFECTS)}")
    facts = dict(options.get("facts") or {})
    for label, pointer in facts.items():
        if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
            raise ConfigError(
                f"{where}: the fact {label!r} needs a JSON Pointer such as '/temperature', not {pointer!r}"
            )
    aliases = options.get("aliases") or ()
    if isinstance(aliases, str) or not all(isinstance(alias, str) and alias.strip() for alias in aliases):
        raise ConfigError(f"{where}: aliases is {aliases!r}; write a tuple of names, ('...',)")
    if len({alias.casefold() for alias in aliases} | {first.name.casefold()}) != len(aliases) + 1:
        raise ConfigError(f"{where}: an alias repeats another or the tool's own name; write each once")
    marks: dict[str, Any] = {name: _mark(options, name, where) for name in MARKS if options.get(name) is not None}
    return replace(
        first,
        timeout=float(timeout),
        facts=facts,
        aliases=tuple(aliases),
        effect=effect,
        roles=_roles(first, options, where),
        names=_names(options, where),
        version=str(options.get("version", first.version)),
        **({"common": is_common(first.name)} | marks),
    )


def _mark(options: Mapping[str, Any], name: str, where: str) -> bool:
    """A word such as "no" would count as True."""
    value = options[name]
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: {name} is {value!r}; write True or False")
    return value


def _roles(first: ToolSpec, options: Mapping[str, Any], where: str) -> dict[str, Role]:
    given = dict(options.get("roles") or {})
    arguments = first.schema.get("properties")
    known = set(arguments) if isinstance(arguments, Mapping) else set()
    for argument, role in given.items():
        if argument not in known or role not in ROLES:
            raise ConfigError(
                f"{where}: roles says that {argument!r} is {role!r}; write an argument ({', '.join(sorted(known)) or 'it has none'}) and one of "
                f"{', '.join(ROLES)}"
            )
    return given


def _names(options: Mapping[str, Any], where: str) -> dict[str, tuple[str, str]]:
    given = dict(options.get("names") or {})
    for argument, pair in given.items():
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(each, str) for each in pair)):
            raise ConfigError(
                f"{where}: names gives {pair!r} for {argument!r}; write two fields of a record, ('id', 'title')"
            )
    return {argument: (pair[0], pair[1]) for argument, pair in given.items()}


def _named(value: object) -> str:
    """A class by its own name and file; anything else as it shows itself."""
    if inspect.isclass(value):
        module = inspect.getmodule(value)
        return f"the class {value.__name__} ({getattr(module, '__file__', None) or value.__module__})"
    return repr(value)


def _where(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno} {function.__name__}" if code else repr(function)


def pending(  # nosec B107  # empty is none
    token: str = "", *, poll: float | None = None, deadline: float | None = None, message: str = ""
) -> ToolResult:
    """The result is not there yet: let the run go. `poll`: ask again in so many seconds; `deadline`: give up after so many.

    `token` is what the callback will bring, and what the tool finds in `context().token` when it is asked again.
    """
    data: dict[str, Json] = {"token": token}
    if poll is not None:
        data["poll"] = poll
    if deadline is not None:
        data["deadline"] = deadline
    return ToolResult("pending", data=data, message=message)
