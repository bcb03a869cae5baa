"""A console to look at."""

from __future__ import annotations

from tests.api.conftest import api, terse_log

__all__ = ["api", "terse_log"]
