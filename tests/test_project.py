"""The project files agree with each other: what is declared is locked, what a wheel needs is in it, CI runs what the README says."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
EXTRAS = tuple(name for name in PROJECT["project"]["optional-dependencies"] if name != "local")


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


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-audit.lock"])
def test_everything_that_is_locked_has_a_hash(name: str) -> None:
    lines = (ROOT / name).read_text("utf-8").splitlines()
    while lines[0].startswith("#"):
        del lines[0]
    for block in re.split(r"\n(?=[a-z0-9])", "\n".join(lines)):
        assert "--hash=sha256:" in block, block.splitlines()[0]


def test_ci_runs_what_the_readme_says() -> None:
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "\nmake test\n" in ci
    assert "\nmake lint\n" in ci
    assert "make test" in (ROOT / "README.md").read_text("utf-8")


def test_the_wheel_takes_the_tools_folder_into_the_package() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"] == {"tools": "orchestrator/_tools"}
    assert PROJECT["project"]["scripts"] == {"orchestrator": "orchestrator.cli:main"}


def test_nothing_is_installed_without_its_hash() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock" in makefile
    assert "--require-hashes --requirement requirements-audit.lock" in makefile
    assert "--require-hashes" in (ROOT / "deploy" / "Dockerfile").read_text("utf-8")


def test_lint_runs_bandit_and_every_exception_has_a_reason() -> None:
    assert "-m bandit --quiet --configfile pyproject.toml --recursive orchestrator tools\n" in (
        ROOT / "Makefile"
    ).read_text("utf-8")
    assert set(PROJECT["tool"]["bandit"]) == {"exclude_dirs"}, "no finding is skipped as a whole"
    for path in (path for folder in ("orchestrator", "tools") for path in (ROOT / folder).rglob("*.py")):
        for line in path.read_text("utf-8").splitlines():
            assert "# nosec" not in line or re.search(r"# nosec B\d{3}  # \w+", line), f"{path}: {line.strip()}"


AUDITS = {
    "clean": ("No known vulnerabilities found", 0, 0),
    "vulnerable": ("Found 1 known vulnerability in 1 package", 1, 1),
    "a mirror without advisories": (
        "ERROR:pip_audit._cli:yarl: Dependency not found on PyPI and could not be audited",
        1,
        2,
    ),
    "no network": ("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='pypi.org')", 1, 2),
}


@pytest.mark.parametrize("case", AUDITS)
def test_an_audit_that_could_not_ask_is_no_clean_bill(case: str, tmp_path: Path) -> None:
    says, code, wanted = AUDITS[case]
    for name in (".ci/audit", ".venv-audit/bin/pip-audit"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / ".ci/audit").write_text((ROOT / ".ci/audit").read_text("utf-8"), "utf-8")
    fake = tmp_path / ".venv-audit/bin/pip-audit"
    fake.write_text(f'#!/bin/sh\necho "{says}" >&2\nexit {code}\n', "utf-8")
    fake.chmod(0o755)
    done = subprocess.run(["sh", str(tmp_path / ".ci/audit")], capture_output=True, text=True, check=False)
    assert done.returncode == wanted
    assert ("nothing is known of it" in done.stderr) == (wanted == 2)
