"""Tools out of files: the folder an operator adds tools to, loaded by path, so that no module called `tools` is needed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from orchestrator.errors import ConfigError
from orchestrator.tool import Tool


def tools_at(path: str | Path) -> Iterator[Tool]:
    """The tools of a folder (its *.py, in order of name, none that begins with _), of one file, or of a dotted module name.

    ConfigError names the file and the line: where it is not there, does not run, or defines no tool.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        files = sorted(each for each in place.glob("*.py") if not each.name.startswith("_"))
        if not files:
            raise ConfigError(f"the tools folder {place} holds no *.py file; put one there or name another folder")
        for file in files:
            yield from _found(_file(file))
        return
    if place.suffix == ".py":
        if not place.is_file():
            raise ConfigError(
                f"the tool file {place} is not there; check `tools` in the settings (now in {Path.cwd()})"
            )
        yield from _some(_file(place), str(place))
        return
    name = str(path)
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(
            f"{name!r} is no folder, no .py file and no dotted module name; check `tools` in the settings"
        )
    yield from _some(_executed(lambda: importlib.import_module(name), name), name)


def _some(module: ModuleType, name: str) -> Iterator[Tool]:
    tools = list(_found(module))
    if not tools:
        raise ConfigError(f"{name} defines no tool; put @tool over a function in it")
    return iter(tools)


def _found(module: ModuleType) -> Iterator[Tool]:
    """The tools that were written in this module; those that it imported belong elsewhere."""
    seen: set[int] = set()
    for value in vars(module).values():
        if isinstance(value, Tool) and value.home == module.__name__ and id(value) not in seen:
            seen.add(id(value))
            yield value


def _file(path: Path) -> ModuleType:
    resolved = path.resolve()
    name = f"orchestrator_tools_{sha256(str(resolved).encode()).hexdigest()[:8]}_{path.stem}"
    if (loaded := sys.modules.get(name)) is not None:
        return loaded
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be loaded as Python; name a .py file")
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    sys.modules[name] = module

    def execute() -> ModuleType:
        loader.exec_module(module)
        return module

    try:
        return _executed(execute, str(path))
    except ConfigError:
        del sys.modules[name]
        raise


def _executed(load: Callable[[], ModuleType], where: str) -> ModuleType:
    try:
        return load()
    except ConfigError:
        raise
    except SyntaxError as error:
        raise ConfigError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except SystemExit as error:
        raise ConfigError(
            f"{_line(error, where)}: the file ends the process (SystemExit: {error.code}) when it is loaded; take that out"
        ) from error
    except ModuleNotFoundError as error:
        if error.name is not None and not where.endswith(".py") and f"{where}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{where!r} is no folder here and no module of this Python; check `tools` in the settings (now in {Path.cwd()})"
            ) from error
        raise ConfigError(f"{_line(error, where)}: {type(error).__name__}: {error}") from error
    except Exception as error:  # an operator's file may raise anything when it is run: the place is what he needs
        raise ConfigError(f"{_line(error, where)}: {type(error).__name__}: {error}") from error


def _line(error: BaseException, where: str) -> str:
    """The last line of the file itself in the traceback, or the file."""
    name = Path(where).name
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == name]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else where
