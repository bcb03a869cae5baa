"""The names of tools, and where a text spells them.

A name is found in any spelling (`get_weather`, `get weather`, `getWeather`), never inside a longer identifier, path or URL. Aliases
follow the same rules; those with Chinese, Japanese or Korean characters match inside other words. One that belongs to two tools
belongs to neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias

from orchestrator.core.measure.clauses import CJK, Text, normalise
from orchestrator.core.measure.common import is_common


@dataclass(frozen=True, slots=True)
class ToolName:
    """A tool as a text may name it. `common`: its name is an ordinary English word (see `is_common`)."""

    name: str
    aliases: tuple[str, ...] = ()
    common: bool = False
    side_effect: bool = False


Place: TypeAlias = tuple[str, int, int]
"""A tool's name, and start and end of where it is spelled."""

_LONGEST: Final = 128  # providers allow 64; a name that a model made up can have any length
_ENOUGH: Final = 4096  # a Thought that names tools more often is noise: what follows is not looked at
HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINT: Final = re.compile(r"[\s_-]+")
_SEPARATOR: Final = "[_ -]?"
_NAMESPACE: Final = r"(?:(?:functions?|tools?|default_api)[.:/]|mcp__[a-z0-9-]{1,64}?__|mcp\.[a-z0-9-]{1,64}\.)"
_NAMESPACES: Final = ("function", "tool", "default_api", "mcp")
_NAMESPACED: Final = re.compile(r"[ftdm](?:(?:unctions?|ools?|efault_api)[.:/]|cp[_.])")
_MCP: Final = re.compile(r"^mcp__[A-Za-z0-9-]{1,64}?__(?=.)")
_BEFORE: Final = r"(?<![a-z0-9_/])(?<![a-z0-9_][.-])"
_AFTER: Final = r"(?![a-z0-9_]|[-./][a-z0-9_])"
_BEGUN: Final = r"(?<![a-z0-9_/].)(?<![a-z0-9_][.-].)"
"""_BEFORE, behind the first character of a name: a pattern that begins with characters is looked for four times as quickly."""
_OPEN: Final = "(?<![a-z0-9_][a-z0-9_])"
_SHUT: Final = r"(?:(?<![a-z0-9_])|(?![a-z0-9_]))"
_IS_CJK: Final = re.compile(f"[{CJK}]")


def parts(name: str) -> tuple[str, ...]:
    """A name split at `_`, `-`, blanks and camel humps, normalised."""
    return tuple(part for part in _JOINT.split(normalise(HUMP.sub("_", name))) if part)


def spelling(name: str) -> str:
    """The pattern of a name in any spelling, not inside a longer identifier; it matches nothing for a name of no parts."""
    return f"{_BEFORE}{_SEPARATOR.join(map(re.escape, parts(name))) or '(?!)'}{_AFTER}"


class Names:
    """The names of a set of tools, compiled once."""

    def __init__(self, tools: tuple[ToolName, ...]) -> None:
        self.tools = tools
        self.registered = frozenset(tool.name for tool in tools)
        self.effects = frozenset(tool.name for tool in tools if tool.side_effect)
        self._owners = {_key(parts(tool.name)): tool.name for tool in reversed(tools)}
        self._common = {_key(parts(tool.name)) for tool in tools if tool.common and len(parts(tool.name)) == 1}
        claims: dict[tuple[str, ...], set[str]] = {}
        for tool in tools:
            short = _MCP.split(tool.name)[1:]
            self._common |= {_key(parts(name)) for name in short if is_common(name)}
            for alias in (*tool.aliases, *short):
                claims.setdefault(parts(alias), set()).add(tool.name)
        own = {
            alias: min(tools) for alias, tools in claims.items() if len(tools) == 1 and _key(alias) not in self._owners
        }
        self._owners |= {_key(alias): tool for alias, tool in own.items()}
        spellings = {
            each for each in (*map(parts, (tool.name for tool in tools)), *own) if 0 < len(_key(each)) <= _LONGEST
        }
        self._heads = frozenset(each[0] for each in spellings)
        cjk = {each for each in spellings if _IS_CJK.search(_key(each))}
        latin, cjk = spellings - cjk, {each for each in cjk if len(_key(each)) > 1}
        inside = _pattern("", _OPEN, cjk, _SHUT)
        self._plain = (*_pattern("", _BEGUN, latin, _AFTER), *inside)
        self._namespaced = (*_pattern(f"{_BEFORE}{_NAMESPACE}?", "", latin, _AFTER), *inside)

    def find(self, text: Text, meant: Callable[[int, int], bool] | None = None) -> tuple[Place, ...]:
        """Where the tools are named, the longest name first come. `meant` says whether a common word means the tool (default: yes)."""
        if not text.holds(self._heads):
            return ()
        plain = text.plain
        namespaced = text.holds(_NAMESPACES) and _NAMESPACED.search(plain)
        patterns = self._namespaced if namespaced else self._plain
        found = [match for pattern in patterns for match in islice(pattern.finditer(plain), _ENOUGH)]
        places: list[Place] = []
        for match in found:
            start, end = match.end() - 1, match.end(1)
            key = plain[start:end]
            if key not in self._owners:
                key = _key(_JOINT.split(key))
            if meant is None or key not in self._common or meant(start, end):
                places.append((self._owners[key], start, end))
        return tuple(places if len(places) <= 1 else _apart(places, len(plain)))


def _apart(places: Iterable[Place], length: int) -> list[Place]:
    """Those that overlap no longer one, by position."""
    taken = bytearray(length)
    apart: list[Place] = []
    for place in sorted(places, key=lambda place: (place[1] - place[2], place[1])):
        _, start, end = place
        if not (taken[start] or taken[end - 1]):
            taken[start:end] = b"\1" * (end - start)
            apart.append(place)
    return sorted(apart, key=lambda place: place[1])


@lru_cache(maxsize=256)
def names(tools: tuple[ToolName, ...]) -> Names:
    """The compiled names of this set of tools."""
    return Names(tools)


def _key(spelled: Iterable[str]) -> str:
    return "".join(spelled)


class _Trie(dict[str, "_Trie"]):
    """Names by their first characters; the key "" marks that a name ends here."""

    def pattern(self) -> str:
        tails = sorted((token + tail.pattern() for token, tail in self.items() if token), reverse=True)
        body = tails[0] if len(tails) == 1 else f"(?:{'|'.join(tails)})"
        return "" if not tails else f"(?:{body})?" if "" in self else body


def _pattern(before: str, begun: str, spellings: Iterable[tuple[str, ...]], after: str) -> tuple[re.Pattern[str], ...]:
    """One pattern of all names, that gives the longest at each position: it ends with a name's first character, group 1 with its last.

    `begun` is what must be true behind that first character.
    """
    root = _Trie()
    for each in spellings:
        node = root
        for index, part in enumerate(each):
            for token in (*([_SEPARATOR] if index else []), *map(re.escape, part)):
                node = node.setdefault(token, _Trie())
        node.setdefault("", _Trie())
    rest = "|".join(f"(?<={first}){tail.pattern()}" for first, tail in root.items())
    return (re.compile(f"{before}[{''.join(root)}]{begun}(?=((?:{rest}){after}))"),) if root else ()
