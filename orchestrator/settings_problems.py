"""What is wrong with the settings, in words: the place where it is written (a variable, or the file), the setting, what to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import SettingsError

from orchestrator.errors import ConfigError

PREFIX = "ORCHESTRATOR_"
UNKNOWN = "; there is no such setting, docs/settings.md lists them"


def invalid(error: ValidationError, file: Path | None, env: Mapping[str, str], common: Iterable[str]) -> ConfigError:
    """Each problem on its own. `file` is what was read, `common` the models that come from variables all tools know."""
    return ConfigError("; ".join(_said(error, file, env, frozenset(common))))


def _said(error: ValidationError, file: Path | None, env: Mapping[str, str], common: frozenset[str]) -> Iterator[str]:
    for each in error.errors():
        where, told = each["loc"], each["msg"].removeprefix("Value error, ")
        place = variable(where, env)
        if place is None and len(where) > 1 and where[0] == "models" and where[1] in common:
            place = f"{str(where[1]).upper()}_* variables"
        name = ".".join(map(str, where))
        hint = UNKNOWN if each["type"] == "extra_forbidden" else ""
        yield f"settings ({place or file or 'environment'}): {name + ': ' if name else ''}{told}{hint}"


def unread(error: SettingsError, fields: Iterable[str], env: Mapping[str, str]) -> ConfigError:
    """A list or a table in a variable is JSON; the library names the field whose variable is none."""
    for field in fields:
        name = variable((field,), env)
        if name is not None and f'"{field}"' in str(error):
            return ConfigError(
                f'settings ({name}): the value is no JSON: write a list as \'["a", "b"]\', a table as \'{{"a": 1}}\''
            )
    return ConfigError(f"settings (environment): {error}")


def variable(where: Sequence[str | int], env: Mapping[str, str]) -> str | None:
    """The variable that says something of this setting, if one does."""
    written = {name.upper(): name for name in env}
    for length in range(len(where), 0, -1):
        name = PREFIX + "__".join(str(part).upper() for part in where[:length])
        if name in written:
            return written[name]
    return None
