"""The shape of the code, held by its syntax trees: who may import whom, what core may know, how long things may be."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "orchestrator"

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors"}),
    frozenset({"core", "egress", "secret", "traceparent"}),
    frozenset({"alerts", "permission_settings", "trace_settings"}),
    frozenset({"mcp_settings", "settings_problems"}),
    frozenset({"cron", "process", "settings", "show", "log", "policy", "http", "providers", "tool"}),
    frozenset({"model", "toolbox", "stores", "hooks"}),
    frozenset({"mcp", "runner"}),
    frozenset({"assembly", "dispatch"}),
    frozenset({"audit", "metrics", "monitor", "otel"}),
    frozenset({"agent", "health", "inbox", "worker"}),
    frozenset({"api"}),
    frozenset({"client", "console"}),
    frozenset({"cli"}),
    frozenset({"demo"}),
    frozenset({"__init__", "__main__"}),
)
"""From the ground up. A unit (a module or a sub-package of `orchestrator`) may import from layers below its own."""

ALSO = frozenset({("providers", "http"), ("http", "providers"), ("log", "tool")})
"""Neighbours of one layer that may be used."""

CORE_KNOWS = frozenset({"orchestrator.core", "orchestrator.errors"})
CORE_NEVER = frozenset(
    {"asyncio", "time", "random", "logging", "secrets", "threading", "os", "socket", "datetime", "uuid"}
)

LONGEST_FILE = 350
LONGEST_FUNCTION = 60

BROAD_EXCEPTS: frozenset[str] = frozenset(
    {
        "orchestrator.api.mcp:call",
        "orchestrator.mcp.connection:run",
        "orchestrator.stores.readers:_read",
        "orchestrator.stores.writer:_commit",
        "orchestrator.stores.writer:_one",
        "orchestrator.tool.threads:_serve",
        "orchestrator.toolbox.invoke:_run",
        "orchestrator.toolbox.invoke:asks",
        "orchestrator.worker.work:_hold",
        "orchestrator.worker.work:_settled",
        "orchestrator.toolbox.load:_executed",
    }
)
"""`module:function` of each `except Exception` that may be: the borders where anything can come from outside."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def modules(folder: Path = PACKAGE) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def named(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit(module: str) -> str:
    """The unit of `orchestrator` that a module belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute, so that they can be found"
            yield from (resolved(f"{node.module}.{alias.name}") for alias in node.names)


def resolved(name: str) -> str:
    """A module for `from package import module`; the module itself for `from module import name`."""
    path = ROOT.joinpath(*name.split("."))
    return name if path.with_suffix(".py").exists() or path.is_dir() else name.rpartition(".")[0]


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name == "orchestrator" or name.startswith("orchestrator.")}


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{named(path)}:{node.name}", node


@pytest.mark.parametrize("path", modules(), ids=named)
def test_every_module_has_a_layer_and_imports_from_below_it(path: Path) -> None:
    height = {name: level for level, names in enumerate(LAYERS) for name in names}
    own = unit(named(path))
    assert own in height, f"give {own!r} its place in LAYERS"
    for name in ours(path):
        other = unit(name)
        fine = other == own or height[other] < height[own] or (own, other) in ALSO
        assert fine, f"{named(path)} imports {name}: {own} may not know {other}"


@pytest.mark.parametrize("path", modules(PACKAGE / "core"), ids=named)
def test_core_is_pure(path: Path) -> None:
    for name in imports(path):
        top = name.partition(".")[0]
        if top == "orchestrator":
            assert any(name == known or name.startswith(f"{known}.") for known in CORE_KNOWS), (
                f"{named(path)} imports {name}"
            )
        else:
            assert top in sys.stdlib_module_names, f"{named(path)} imports {name}: core is standard library only"
            assert top not in CORE_NEVER, f"{named(path)} imports {name}: no clock, no chance, no world in core"
    awaits = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Await | ast.AsyncFunctionDef)]
    assert not awaits, f"{named(path)} awaits"
    clocks = [
        node
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}
    ]
    assert not [node for node in clocks if isinstance(node.value, ast.Name) and node.value.id in {"datetime", "date"}]


@pytest.mark.parametrize("path", modules(PACKAGE / "providers"), ids=named)
def test_codecs_do_no_input_or_output(path: Path) -> None:
    tops = {name.partition(".")[0] for name in imports(path)}
    assert not tops & {"asyncio", "httpx", "aiohttp", "socket", "time", "random", "logging"}, f"{named(path)}: {tops}"


def test_only_http_knows_the_http_client() -> None:
    knowing = {
        named(path)
        for path in modules()
        for name in imports(path)
        if name.partition(".")[0] in {"httpx", "aiohttp", "httpx_aiohttp"}
    }
    assert {unit(name) for name in knowing} <= {"http", "egress", "demo", "hooks", "client", "mcp"}, knowing


def test_no_import_cycles() -> None:
    graph = {named(path): ours(path) - {named(path)} for path in modules()}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"a cycle: {' -> '.join((*above[above.index(name) :], name))}"
        if name not in done:
            for other in sorted(graph.get(name, ())):
                visit(other, (*above, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


@pytest.mark.parametrize("path", [*modules(), *modules(ROOT / "tools"), *modules(ROOT / "tests")], ids=named)
def test_no_file_and_no_function_is_long(path: Path) -> None:
    lines = path.read_text("utf-8").count("\n")
    assert lines <= LONGEST_FILE, f"{named(path)} has {lines} lines"
    for name, node in functions(path):
        length = (node.end_lineno or 0) - node.lineno + 1
        assert length <= LONGEST_FUNCTION, f"{name} has {length} lines"


def test_tools_know_only_the_tool_module() -> None:
    for path in modules(ROOT / "tools"):
        assert ours(path) <= {"orchestrator.tool"}, f"{named(path)} imports {ours(path)}"
        assert not [name for name in imports(path) if name.partition(".")[0] == "tools"], (
            f"{named(path)} must stand alone"
        )


def test_nothing_imports_the_tools_folder() -> None:
    assert not [named(path) for path in modules() for name in imports(path) if name.partition(".")[0] == "tools"]


def test_broad_excepts_are_listed_by_name() -> None:
    found = {name for path in modules() for name, node in functions(path) if any(map(broad, ast.walk(node)))}
    assert found == BROAD_EXCEPTS


def broad(node: ast.AST) -> bool:
    """`except:`, `except Exception` or `except BaseException` that does not end in a bare `raise`."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    last = node.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(
        each is None or (isinstance(each, ast.Name) and each.id in {"Exception", "BaseException"}) for each in caught
    )


def test_core_ignores_no_types_and_no_module_hides_imports() -> None:
    for path in modules(PACKAGE / "core"):
        assert "type: ignore" not in path.read_text("utf-8"), named(path)
    for path in modules():
        assert "TYPE_CHECKING" not in path.read_text("utf-8"), named(path)
