"""The command line in an empty folder, with the demo model at hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli import main
from tests.cli.said import Call, Said
from tests.served import demo_server, only_the_demo


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with demo_server() as found:
        yield found


@pytest.fixture
def cli(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line in this process, in an empty folder, with a model at hand."""
    only_the_demo(monkeypatch, tmp_path, url)
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
