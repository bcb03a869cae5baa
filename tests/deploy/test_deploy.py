"""The deployment files against the code, in the normal suite: no validator is needed. `make deploy-check` adds those."""

from __future__ import annotations

import re

import pytest

from orchestrator.cli.exits import Exit
from orchestrator.worker import Ending
from tests.deploy.facts import LAWS
from tests.deploy.laws import Law
from tests.deploy.tree import ROOT, Tree
from tests.deploy.wiring import listens, port_of

TREE = Tree()


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_deployment_files_agree_with_the_code(law: Law) -> None:
    assert list(law(TREE)) == []


def test_every_kind_of_file_starts_a_worker() -> None:
    assert {load.source.partition("/")[0] for load in TREE.workers} == {
        "Dockerfile",
        "compose.yaml",
        "kubernetes",
        "systemd",
    }


def test_every_process_of_ours_is_seen() -> None:
    assert {
        (load.source.partition("/")[0], load.command[1]) for load in TREE.workloads if load.command[0] == "orchestrator"
    } == {
        ("Dockerfile", "worker"),
        ("compose.yaml", "worker"),
        ("compose.yaml", "alerts"),
        ("kubernetes", "worker"),
        ("kubernetes", "alerts"),
        ("systemd", "worker"),
        ("systemd", "monitor"),
    }


def test_the_operations_page_has_the_real_exit_codes_and_ports() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    rows = re.findall(r"^\| [^|]+\| [^|]+\| (\d+) \|$", page, re.MULTILINE)
    assert {int(code) for code in rows} == {*Ending, Exit.USAGE}
    ports = {port_of(load) for load in TREE.workloads if listens(load)}
    assert all(f" {port} " in page for port in ports)
