"""The worker logs what goes wrong; here much does."""

from __future__ import annotations

import pytest

from orchestrator import log


@pytest.fixture(autouse=True)
def terse_log() -> None:
    log.configure("json", "error")
