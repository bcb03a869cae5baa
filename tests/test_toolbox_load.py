"""Tools out of files, and what is said of those that are at fault."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog.testing

from orchestrator.errors import ConfigError
from orchestrator.tool import tool
from orchestrator.toolbox import Toolbox
from tests.test_toolbox import seen

GOOD = '"""Tools."""\nfrom orchestrator.tool import tool\n\n@tool\nasync def one(q: str) -> str:\n    """One."""\n    return q\n'


async def test_tools_are_loaded_from_folders_and_files(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "_not.py").write_text("raise ValueError")
    (tmp_path / "helper.py").write_text("X = 1\n")
    for place in (tmp_path, tmp_path / "good.py", str(tmp_path)):
        box = Toolbox.load([place])
        assert [spec.name for spec in box.specs] == ["one"]
        assert "\nhi\n" in (await seen(box, "one", {"q": "hi"})).content


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def broken(:\n", r"bad\.py:1: "),
        ("\n\nraise ValueError('boom')\n", r"bad\.py:3: ValueError: boom"),
        ("import no_such_module_at_all\n", r"bad\.py:1: ModuleNotFoundError"),
        ("from orchestrator.tool import tool\n@tool\nasync def f(q):\n    'X.'\n", r"bad\.py:2 f: q has no type"),
        ("X = 1\n", "defines no tool"),
        ("import sys\nsys.exit(3)\n", r"bad\.py:2: the file ends the process \(SystemExit: 3\)"),
    ],
)
def test_a_bad_tool_file_is_named_with_its_line(tmp_path: Path, source: str, told: str) -> None:
    (tmp_path / "bad.py").write_text(source)
    with pytest.raises(ConfigError, match=told):
        Toolbox.load([tmp_path / "bad.py"])


def test_two_tools_of_one_name_are_told_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GOOD)
    (tmp_path / "b.py").write_text("\n" + GOOD)
    with pytest.raises(ConfigError, match=r"a\.py:4 and .*b\.py:5\); rename one"):
        Toolbox.load([tmp_path])


def test_a_name_that_is_neither_a_folder_nor_a_module_is_told_where_it_was_looked_for() -> None:
    with pytest.raises(ConfigError, match=r"'nowhere_x' is no folder here and no module .*\(now in /"):
        Toolbox.load(["nowhere_x"])


async def test_where_a_tool_raised_is_logged_once_without_what_it_said() -> None:
    @tool(repeatable=True)
    async def broken(q: str) -> str:
        """X."""
        raise ZeroDivisionError(f"the customer's words: {q}")

    with structlog.testing.capture_logs() as lines:
        box = Toolbox([broken])
        for _ in range(3):
            assert "the customer's words" in (await seen(box, "broken", {"q": "x"})).content
    (line,) = (line for line in lines if line["event"] == "tool_raised")
    assert line["tool"] == "broken"
    assert line["at"].startswith(f"{__file__}:")
    assert line["exception"].endswith("ZeroDivisionError")
    assert "in broken" in line["exception"]
    assert "customer's words: x" not in str(line)


@pytest.mark.parametrize("place", ["no/such/file.py", "no_such_package_x.tools", "not a name", "empty"])
def test_a_place_without_tools_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=place.split(".", maxsplit=1)[0] if place != "empty" else "holds no"):
        Toolbox.load([tmp_path / place if place == "empty" else place])


def test_the_shipped_tools_load() -> None:
    folder = Path(__file__).parent.parent / "tools"
    assert {"calculator", "get_weather"} & {spec.name for spec in Toolbox.load([folder]).specs}
