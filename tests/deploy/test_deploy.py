"""The deployment files against the code, in the normal suite: no validator is needed. `make deploy-check` adds those."""

from __future__ import annotations

import pytest

from tests.deploy.facts import LAWS
from tests.deploy.laws import Law
from tests.deploy.tree import Tree

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
