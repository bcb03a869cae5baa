"""Every regular expression of the package, and for each the texts on which it would be slow if it could be.

The texts are made from the pattern itself: for each repetition in its parse tree, what may stand before it, then what it repeats
(one text for each way to go on), many times over, then something that does not fit. So a new pattern is tried without a new test.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import sre_constants as C
    import sre_parse

import orchestrator

ROOT = Path(orchestrator.__file__).parent.parent
FOLDERS = (ROOT / "orchestrator", ROOT / "tools")
ANCHORED = frozenset({"match", "fullmatch"})
METHODS = ANCHORED | {"search", "sub", "subn", "split", "findall", "finditer"}
_REPEATS = (C.MAX_REPEAT, C.MIN_REPEAT, C.POSSESSIVE_REPEAT)
_UNFIT = ("\x00!", "\n")
MOST_PUMPS = 16
_WAYS = 6


@dataclass(frozen=True, slots=True)
class Found:
    """One expression: `place` is module and name, or file and line; `methods` are those it is used with."""

    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]

    def run(self, text: str) -> None:
        """Use it on this text as the package does."""
        given = text if isinstance(self.pattern.pattern, str) else text.encode("utf-8", "replace")
        if "fullmatch" in self.methods:
            self.pattern.fullmatch(given)
        if "match" in self.methods:
            self.pattern.match(given)
        if self.methods - ANCHORED:
            deque(self.pattern.finditer(given), maxlen=0)


@dataclass(frozen=True, slots=True)
class File:
    """A file of source: its calls of functions of `re`, the names it imports from elsewhere, and for each name what is done with it:
    methods of a pattern that are called on it, "finditer" (the hardest) where it is passed on."""

    tree: ast.Module
    calls: tuple[ast.Call, ...]
    imported: frozenset[str]
    used: Mapping[str, frozenset[str]]


@cache
def sources() -> Mapping[Path, File]:
    paths = [path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))]
    return {path: _file(ast.parse(path.read_text("utf-8"))) for path in paths}


def _file(tree: ast.Module) -> File:
    calls: list[ast.Call] = []
    imported: set[str] = set()
    used: dict[str, set[str]] = {}
    names: list[ast.Name] = []
    held: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.append(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            held.add(id(node.value))
            used.setdefault(node.value.id, set()).update({node.attr} & METHODS)
        elif isinstance(node, ast.Call) and _calls_re(node):
            calls.append(node)
        elif isinstance(node, ast.ImportFrom):
            imported.update(alias.name for alias in node.names)
    for name in names:
        if isinstance(name.ctx, ast.Load) and id(name) not in held:
            used.setdefault(name.id, set()).add("finditer")
    return File(tree, tuple(calls), frozenset(imported), {name: frozenset(each) for name, each in used.items()})


def modules() -> Iterator[ModuleType]:
    """Every module of the package that can be imported here, and the shipped tools."""
    for info in pkgutil.walk_packages(orchestrator.__path__, "orchestrator."):
        if not info.name.endswith("__main__"):
            try:
                yield importlib.import_module(info.name)
            except ImportError:  # an extra that is not installed
                continue
    for path in sorted((ROOT / "tools").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"redos_{path.stem}", path)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            yield module


def found() -> list[Found]:
    """Each expression once: the objects that modules hold, and those written as text in a call of `re`."""
    known: dict[str, Found] = {}
    for module in modules():
        for name, value in vars(module).items():
            for pattern in _patterns(value):
                place = f"{module.__name__}.{name}"
                known.setdefault(_key(pattern), Found(place, pattern, methods(module.__name__, name)))
    for place, method, text, flags in literals():
        pattern = re.compile(text, flags)
        known.setdefault(_key(pattern), Found(place, pattern, frozenset({method})))
    return sorted(known.values(), key=lambda each: each.place)


def literals() -> Iterator[tuple[str, str, str, int]]:
    """(place, method, text, flags) of each call of `re` with its pattern written out."""
    for path, node in calls():
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            assert isinstance(node.func, ast.Attribute)
            words = {
                each.attr
                for arg in [*node.args[1:], *(k.value for k in node.keywords)]
                for each in ast.walk(arg)
                if isinstance(each, ast.Attribute)
            }
            flags = sum(
                getattr(re, word)
                for word in words
                if word.isupper() and isinstance(getattr(re, word, None), re.RegexFlag)
            )
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node.func.attr, first.value, int(flags)


def built() -> set[str]:
    """`file:function` of each call of `re` in a function whose pattern is put together there."""
    places = set()
    for path, source in sources().items():
        for function in ast.walk(source.tree) if source.calls else ():
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if (
                        isinstance(node, ast.Call)
                        and _calls_re(node)
                        and not (node.args and isinstance(node.args[0], ast.Constant))
                    ):
                        places.add(f"{path.relative_to(ROOT)}:{function.name}")
    return places


def calls() -> Iterator[tuple[Path, ast.Call]]:
    """Each call of a function of `re`."""
    for path, source in sources().items():
        for node in source.calls:
            yield path, node


def _calls_re(node: ast.AST) -> Any:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in METHODS | {"compile"}
    )


@cache
def methods(module: str, name: str) -> frozenset[str]:
    """How a module's pattern is used, there or where its name is imported; "finditer", the hardest, where it is passed on."""
    used: set[str] = set()
    for path, source in sources().items():
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if (
            own == module
            or own == f"tools.{module.removeprefix('redos_')}"
            or (name[0] != "_" and name in source.imported)
        ):
            used |= source.used.get(name, frozenset())
    return frozenset(used or {"finditer"})


def _patterns(value: Any, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, Mapping):
        for each in value.values():
            yield from _patterns(each, depth - 1)
    elif depth and isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from _patterns(each, depth - 1)
    elif depth and isinstance(value, type) and value.__module__.startswith("orchestrator"):
        for each in vars(value).values():
            yield from _patterns(each, 0)


def _key(pattern: re.Pattern[Any]) -> str:
    return f"{pattern.flags}:{pattern.pattern!r}"


@dataclass(frozen=True, slots=True)
class Pump:
    """A family of texts: `before`, then `again` n times, then `after`."""

    before: str
    again: str
    after: str

    def of(self, length: int) -> str:
        """The text of about this many characters."""
        return self.times(length // len(self.again) + 1)

    def times(self, rounds: int) -> str:
        """The text of so many rounds."""
        return self.before + self.again * rounds + self.after


def pumps(pattern: re.Pattern[Any]) -> list[Pump]:
    """The texts for one pattern, each once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree: Any = sre_parse.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    whole = "".join(_one(item) for item in tree)
    made = {(before, again) for before, again in _repeated(tree, "") if again}
    made |= {("", whole), ("", whole[:-1]), ("", whole[:1])}
    every = sorted((before, again) for before, again in made if again)
    some = every[:: len(every) // MOST_PUMPS + 1]
    return [Pump(before, again, after) for before, again in some for after in _UNFIT]


def _repeated(items: Any, before: str) -> Iterator[tuple[str, str]]:
    """(what stands before, one round) of every repetition, at any depth."""
    for item in items:
        op, value = item
        if op in _REPEATS:
            most, body = value[1], value[2]
            if most is C.MAXREPEAT or most > 3:
                yield from ((before, again) for again in _ways(body))
            yield from _repeated(body, before)
        else:
            for inner in _inner(op, value):
                yield from _repeated(inner, before)
        before += _one(item)


def _inner(op: Any, value: Any) -> list[Any]:
    if op is C.SUBPATTERN:
        return [value[3]]
    if op is C.BRANCH:
        return list(value[1])
    if op in (C.ASSERT, C.ASSERT_NOT):
        return [value[1]]
    if op is C.ATOMIC_GROUP:
        return [value]
    if op is C.GROUPREF_EXISTS:
        return [each for each in value[1:] if each is not None]
    return []


def _ways(body: Any) -> list[str]:
    """Some texts that one round of a repetition takes, as different as can be."""
    found = [""]
    for item in body:
        some = _some(item)
        found = [left + right for left in found for right in some][:_WAYS]
    return found


def _some(item: Any) -> list[str]:
    op, value = item
    if op is C.BRANCH:
        return [way for branch in value[1] for way in _ways(branch)[:2]][:_WAYS]
    if op is C.SUBPATTERN:
        return _ways(value[3])
    if op is C.ATOMIC_GROUP:
        return _ways(value)
    if op is C.IN:
        return _members(value)
    if op in _REPEATS:
        return [way * max(value[0], 1) for way in _ways(value[2])]
    return [_one(item)]


def _members(value: Any) -> list[str]:
    if value and value[0][0] is C.NEGATE:
        taken = _members_all(value[1:])
        return [char for char in "a 0-A\n\"'<x" if char not in taken][:_WAYS] or ["\u4e00"]
    return (_members_all(value, 2) or ["a"])[:_WAYS]


def _members_all(value: Any, each: int = 64) -> list[str]:
    found: list[str] = []
    for op, arg in value:
        if op is C.LITERAL:
            found.append(chr(arg))
        elif op is C.RANGE:
            found += [chr(code) for code in range(arg[0], min(arg[1], arg[0] + each) + 1)]
        elif op is C.CATEGORY:
            found += _CATEGORY.get(arg, ["a"])
    return found


_CATEGORY: Mapping[Any, list[str]] = {
    C.CATEGORY_DIGIT: ["0", "7"],
    C.CATEGORY_NOT_DIGIT: ["a", " "],
    C.CATEGORY_SPACE: [" ", "\t", "\n"],
    C.CATEGORY_NOT_SPACE: ["a", "-", "0"],
    C.CATEGORY_WORD: ["a", "0", "_"],
    C.CATEGORY_NOT_WORD: [" ", "-", "\n"],
}


def _one(item: Any) -> str:
    """A text that this item takes; "" where it takes none."""
    op, value = item
    if op is C.LITERAL:
        return chr(value)
    if op is C.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if op is C.ANY:
        return "a"
    if op in (C.AT, C.ASSERT_NOT, C.GROUPREF):
        return ""
    if op is C.ASSERT:
        return "" if value[0] > 0 else (_ways(value[1]) or [""])[0]
    return (_some(item) or [""])[0]
