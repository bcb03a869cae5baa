"""The command line in an empty folder, with the demo model at hand."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli import main
from tests.cli.said import Call, Said
from tests.served import demo_server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with demo_server() as found:
        yield found


@pytest.fixture
def cli(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line in this process, in an empty folder, with a model at hand."""
    for name in list(os.environ):
        if name.startswith(("ORCHESTRATOR_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
    monkeypatch.setenv("OPENAI_MODEL", "demo")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    def call(*words: str, model: str = "demo") -> Said:
        monkeypatch.setenv("OPENAI_MODEL", model)
        monkeypatch.setattr(sys, "argv", ["orchestrator", *words])
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return call
