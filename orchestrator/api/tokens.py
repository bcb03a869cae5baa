"""API tokens: 256 random bits, kept as sha256 only, each with scopes, a tenant and perhaps an end.

They live in one small JSON file, for its owner only, so that every process (or pod, as a mounted secret) sees the same ones;
it is read again when it changes, so a revoked token is refused at once. The file alone opens nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.core.permission import POLICY
from orchestrator.errors import ConfigError, StoreError

Scope: TypeAlias = Literal["submit", "read", "approve", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
EVERY_TENANT = "*"
"""The tenant of a token that sees the runs of all."""

RESERVED = frozenset({"local", POLICY})
"""Names that say in a Trace that nobody with a token decided."""

PREFIX = "orc_"
TENANT = r"^[^\x00-\x1f\x7f\ud800-\udfff]*$"


class Token(BaseModel):
    """A token as it is kept. `digest` is the sha256 hex of its text, `id` the first characters of it; times are unix seconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    name: str
    digest: str
    scopes: tuple[Scope, ...]
    tenant: str = ""
    created_at: float = 0.0
    expires_at: float | None = None


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    tokens: tuple[Token, ...] = Field(default=())


class TokensUnreadable(StoreError):
    """The file of tokens is there and cannot be read: nobody gets in. `why` is in words, without the file's place."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"the tokens in {path} cannot be read: it {why}; restore the file, or make new ones")
        self.path, self.why = path, why


class TokenFile:
    """The tokens of one file; none where there is no file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    def all(self) -> tuple[Token, ...]:
        """Every token, expired ones too. TokensUnreadable when the file cannot be read: then nobody gets in."""
        try:
            state = self.path.stat()
            seen = (state.st_mtime_ns, state.st_size, state.st_ino)
            if seen != self._seen:
                self._tokens, self._seen = _File.model_validate_json(self.path.read_bytes()).tokens, seen
        except FileNotFoundError:
            self._tokens, self._seen = (), None
        except (OSError, ValidationError) as error:
            raise TokensUnreadable(self.path, _why(error)) from None
        return self._tokens

    def never(self) -> bool:
        """Was no token ever made here?"""
        self.all()
        return self._seen is None

    def find(self, text: str, now: float) -> Token | None:
        """The token with this text, unless it has expired. Takes as long whether it is there or not."""
        digest, found = digest_of(text), None
        for each in self.all():
            if hmac.compare_digest(each.digest.encode(), digest.encode()):
                found = each
        return None if found is None or (found.expires_at is not None and found.expires_at <= now) else found

    def create(
        self, name: str, scopes: Iterable[Scope], tenant: str, now: float, expires_at: float | None = None
    ) -> str:
        """Make a token; its text, which is told once and kept nowhere. ConfigError for a name that is taken or RESERVED."""
        if name.casefold() in RESERVED:
            raise ConfigError(f"{name!r} stands in Traces for something else than a person: choose another name")
        if any(each.name == name for each in self.all()):
            raise ConfigError(f"there is a token {name!r} already: revoke it, or choose another name")
        text = PREFIX + secrets.token_urlsafe(32)
        digest = digest_of(text)
        new = Token(
            id=digest[:12],
            name=name,
            digest=digest,
            scopes=tuple(scopes),
            tenant=tenant,
            created_at=now,
            expires_at=expires_at,
        )
        self._change(lambda kept: (*kept, new))
        return text

    def revoke(self, which: str) -> Token:
        """Take back the token of this id or name. ConfigError when there is none."""
        gone = next((each for each in self.all() if which in {each.id, each.name}), None)
        if gone is None:
            raise ConfigError(f"no token {which!r} in {self.path}: `orchestrator token list` shows them")
        self._change(lambda kept: tuple(other for other in kept if other.id != gone.id))
        return gone

    def _change(self, change: Callable[[tuple[Token, ...]], tuple[Token, ...]]) -> None:
        """Whole or not at all, for its owner only."""
        kept = _File(tokens=change(self.all()))
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft.touch(mode=0o600)
            draft.write_text(kept.model_dump_json(indent=1) + "\n", "utf-8")
            draft.replace(self.path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise ConfigError(
                f"api.tokens: {self.path} cannot be written: {error.strerror}; choose another path"
            ) from error


def _why(error: OSError | ValidationError) -> str:
    """What is wrong with the file. Nothing that stands in it is said."""
    if isinstance(error, OSError):
        return f"cannot be opened ({error.strerror or type(error).__name__})"
    wrong = [
        f"{'.'.join(map(str, each['loc'])) or 'the whole'}: {each['msg']}"
        for each in error.errors(include_url=False, include_context=False, include_input=False)[:3]
    ]
    return f"is malformed ({'; '.join(wrong)})"


def digest_of(text: str) -> str:
    """The sha256 hex of a token's text: it has 256 random bits, so no slow hash is needed."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
