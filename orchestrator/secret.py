"""A secret is written in the settings, or where it is said there: `env:NAME`, `file:/path`; and which secrets there are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, SecretStr

from orchestrator.errors import ConfigError

SHORTEST: Final = 6
"""Characters of the shortest value that counts as a secret: a shorter one is a word, and hiding it would eat words."""

NO_SECRETS: Final = frozenset(
    {
        *(
            "ollama",
            "lm-studio",
            "no-key",
            "not-needed",
            "no-key-needed",
            "not-required",
            "no-key-required",
            "unused",
            "ignored",
        ),
        *("sk-no-key-required", "placeholder", "default", "localhost", "postgres", "changeme", "anything", "optional"),
    }
)
"""What people write where a key is asked for and none is needed."""

_TELLING = re.compile(r"key|token|secret|pass|pwd|auth|cred|cookie|session|signature", re.IGNORECASE)
_MEDIA = re.compile(r"(?:application|text|image|audio|video|multipart|\*)/[a-z0-9.+*-]{1,80}")
_PART = 16
"""Characters of the shortest part of a secret URL, or line or word of a longer secret, that gives it away alone."""


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


def secrets_in(settings: BaseModel) -> tuple[str, ...]:
    """Every secret that these settings hold, at any depth: what is declared one (SecretStr), the parts of it that give it away
    alone (the key in a hook's URL, the word behind `Bearer`), and the passwords in plain URLs. Words that are none are left out.
    """
    found = dict.fromkeys(_secrets(settings, ""))
    return tuple(each for each in found if len(each) >= SHORTEST and not _is_none(each.lower()))


def _secrets(value: object, name: str) -> Iterator[str]:
    """`name`: the key in a table of the operator's own names, where not each value need be a secret; "" elsewhere."""
    if isinstance(value, SecretStr):
        kept = value.get_secret_value()
        if not name or _TELLING.search(name) or _random(kept):
            yield from (kept, *_parts(kept))
    elif isinstance(value, str):
        yield from _password(value)
    elif isinstance(value, BaseModel):
        for _, each in value:
            yield from _secrets(each, "")
        yield from getattr(value, "secrets", ())
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _secrets(each, str(key))
    elif isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from _secrets(each, name)


def _parts(kept: str) -> Iterator[str]:
    """What of a secret of several parts must not be shown either."""
    if "://" not in kept:
        yield from (word for word in kept.split() if word != kept and len(word) >= _PART)
        return
    yield from _password(kept)
    try:
        url = urlsplit(kept)
    except ValueError:
        return
    behind = kept.partition(url.netloc)[2] if url.netloc else ""
    yield from (each for each in (behind, behind.partition("?")[0], *url.path.split("/")) if len(each) >= _PART)
    yield from (each for _, each in parse_qsl(url.query) if len(each) >= SHORTEST + 2)


def _password(text: str) -> Iterator[str]:
    """The password in a URL, as it is written there and as it is meant; also where it stands in the query, as libpq allows."""
    if "://" not in text:
        return
    try:
        url = urlsplit(text)
        written = [url.password or "", *(each for key, each in parse_qsl(url.query) if key == "password")]
    except ValueError:
        return
    for each in filter(None, written):
        yield from (each, unquote(each))


def _is_none(text: str) -> bool:
    """A word for no key, or a media type (a header that is configured need not be a secret)."""
    return text in NO_SECRETS or _MEDIA.fullmatch(text) is not None


def _random(text: str) -> bool:
    """Does it hold a long word of letters and digits, as no level, path or media type does?"""
    words = re.split(r"[^A-Za-z0-9_+=-]+", text)
    return any(len(each) >= 12 and re.search(r"\d", each) and re.search(r"[A-Za-z]", each) for each in words)
