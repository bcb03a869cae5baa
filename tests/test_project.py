"""The project files agree with each other: what is declared is locked, what a wheel needs is in it, CI runs what the README says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
EXTRAS = ("otel", "uvloop", "postgres")


def declared() -> list[str]:
    groups = PROJECT["dependency-groups"]
    dev = [
        name for each in groups["dev"] for name in (groups[each["include-group"]] if isinstance(each, dict) else [each])
    ]
    lists = [PROJECT["project"]["dependencies"], dev]
    lists += [PROJECT["project"]["optional-dependencies"][name] for name in EXTRAS]
    return [re.split(r"[\[<>=!~;]", each)[0].lower().replace("_", "-") for one in lists for each in one]


@pytest.mark.parametrize("name", declared())
def test_what_is_declared_is_locked(name: str) -> None:
    assert re.search(rf"^{re.escape(name)}(\[[a-z,]+\])?==", LOCK, re.MULTILINE), (
        f"`make lock`: {name} is not in requirements.lock"
    )


def test_everything_that_is_locked_has_a_hash() -> None:
    for block in re.split(r"\n(?=[a-z0-9])", LOCK.split("\n", 2)[2]):
        assert "--hash=sha256:" in block, block.splitlines()[0]


def test_ci_runs_what_the_readme_says() -> None:
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "\nmake test\n" in ci
    assert "\nmake lint\n" in ci
    assert "make test" in (ROOT / "README.md").read_text("utf-8")


def test_the_wheel_takes_the_tools_folder_into_the_package() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"] == {"tools": "orchestrator/_tools"}
    assert PROJECT["project"]["scripts"] == {"orchestrator": "orchestrator.cli:main"}
