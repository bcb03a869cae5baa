"""The public names: one list, the same for people and for type checkers, and none of it costs anything before it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import orchestrator

STUB = Path(orchestrator.__file__).with_suffix(".pyi")


def test_the_stub_names_what_the_module_gives() -> None:
    nodes = [node for node in ast.parse(STUB.read_text("utf-8")).body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: node.module for node in nodes for alias in node.names}
    assert homes == {name: f"orchestrator.{home}" for name, home in vars(orchestrator)["_HOME"].items()}
    assert orchestrator.__all__ == sorted(homes)
    assert len(homes) <= 30


@pytest.mark.parametrize("name", orchestrator.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(orchestrator, name) is not None


@pytest.mark.parametrize("name", ["nothing", "_hidden", "import_modules"])
def test_no_other_name_is(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no public name '{name}'"):
        getattr(orchestrator, name)


def test_the_core_is_loaded_without_the_rest() -> None:
    script = "import sys, orchestrator.core.decide; print(*(name for name in sys.modules if name in {'pydantic', 'httpx', 'aiohttp', 'rich'}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
