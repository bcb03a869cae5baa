"""A secret is written in the settings, or where it is said there: `env:NAME`, `file:/path`."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.errors import ConfigError


def secret(value: str) -> str:
    """The secret that `env:NAME` or `file:/path` names, or the value itself. ConfigError when it is not there."""
    kind, _, where = value.partition(":")
    if kind == "env":
        if where not in os.environ:
            raise ConfigError(f"the secret env:{where} is not set in the environment")
        return os.environ[where]
    if kind == "file":
        try:
            return Path(where).read_text("utf-8").strip()
        except OSError as error:
            raise ConfigError(f"the secret file:{where} cannot be read: {error.strerror}") from error
    return value
