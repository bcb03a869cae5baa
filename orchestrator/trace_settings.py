"""The settings of the Trace: what its hashes are keyed with, and what signs exports."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

from orchestrator.secret import secret

SHORTEST_KEY = 16


class TraceSettings(BaseModel):
    """`key` keys the hashes of the Trace (at least 16 characters); `old_keys` are those it had before, to verify what they
    hashed; `signing_key` is the Ed25519 private key (PEM) that signs exports. Each may be `env:NAME` or `file:/path`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: SecretStr = SecretStr("")
    old_keys: tuple[SecretStr, ...] = ()
    signing_key: SecretStr = SecretStr("")

    @field_validator("key", "old_keys", "signing_key", mode="before")
    @classmethod
    def _secrets(cls, value: object) -> object:
        if isinstance(value, list | tuple):
            return [secret(each) if isinstance(each, str) else each for each in value]
        return secret(value) if isinstance(value, str) else value

    @field_validator("key")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value) < SHORTEST_KEY:
            raise ValueError(f"a key has at least {SHORTEST_KEY} characters: `openssl rand -hex 32` makes one")
        return value

    @property
    def key_bytes(self) -> bytes:
        """The key as it is used; b"" without one."""
        return self.key.get_secret_value().encode()
