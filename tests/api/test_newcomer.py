"""As a newcomer: the ten lines of the README, and those of docs/api.md, submit a run, stream its events and print its answer."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import CodeType

import pytest

from tests.api.test_process import Folder, folder
from tests.test_docs import ROOT, code

__all__ = ["folder"]

ADDRESS, TOKEN = "http://127.0.0.1:8700", ', token="orc_..."'


def lines(page: str) -> str:
    """The example of the client on this page."""
    return next(each for each in code((ROOT / page).read_text("utf-8"), "python") if "Client(" in each)


def program(page: str, url: str) -> str:
    """The example, asking this server."""
    example = lines(page).replace(ADDRESS, url).replace(TOKEN, "")
    if "asyncio.run(" in example:
        return example
    body = compile(example, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(body, CodeType)  # it is an `await` away from a program
    indented = "".join(f"    {line}\n" for line in example.splitlines())
    return f"import asyncio\nasync def main():\n{indented}\nasyncio.run(main())\n"


@pytest.mark.parametrize("page", ["README.md", "docs/api.md"])
def test_the_lines_of_the_documents_submit_follow_and_answer(folder: Folder, page: str, tmp_path: Path) -> None:
    assert len([line for line in lines(page).splitlines() if line.strip()]) <= 10
    with folder.serving("--worker") as (url, _):
        command = [sys.executable, "-c", program(page, url)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "1 run_started"
    assert said[-2].endswith("run_ended")
    assert "the capital of Ostermark is Quenby" in said[-1]
