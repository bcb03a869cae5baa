"""The tables `[mcp.NAME]` of the settings: foreign servers of tools, and which of their tools may be offered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    field_validator,
    model_validator,
)

from orchestrator.permission_settings import ToolOverride
from orchestrator.secret import secret

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}")
_TELLING = re.compile(r"key|token|secret|passw|pwd|credential|auth", re.IGNORECASE)
_REFERENCE = ("env:", "file:")


class McpToolSettings(ToolOverride):
    """What the operator says of one tool; None leaves the word to the server's annotations, or to the safe default (not trusted).

    `facts` maps a label shown to the model to a JSON Pointer into the result.
    """

    side_effect: bool | None = None
    repeatable: bool | None = None
    timeout: float | None = Field(default=None, gt=0, lt=86_400)
    facts: dict[str, str] = Field(default={})

    @field_validator("facts")
    @classmethod
    def _pointers(cls, value: dict[str, str]) -> dict[str, str]:
        if wrong := [label for label, pointer in value.items() if pointer and not pointer.startswith("/")]:
            raise ValueError(f"{wrong[0]!r} needs a JSON Pointer such as '/temperature'")
        return value


class McpSettings(BaseModel):
    """One server: `command` with `args` (a child process, spoken to over stdio) or `url` (streamable HTTP) with `headers`.

    `tools` are the names (the server's own) that may be offered; "*" is all of them. The child's environment is HOME, LOGNAME,
    PATH, SHELL, TERM and USER, and what `env` adds. `annotations = false` believes nothing that the server says about its tools'
    effects. Seconds: `connect` until it has listed its tools, `timeout` for a call. Where a URL may lead is `[egress]`'s to say.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, SecretStr] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, SecretStr] = {}
    tools: tuple[str, ...] | Literal["*"]
    annotations: bool = True
    connect: float = Field(default=20.0, gt=0)
    timeout: float = Field(default=30.0, gt=0, lt=86_400)
    tool: dict[str, McpToolSettings] = {}
    _referenced: frozenset[str] = PrivateAttr(default=frozenset())

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(given, Mapping):
            return handler(given)
        env, headers = _texts(given, "env"), _texts(given, "headers")
        plain = {"env": _resolved(env), "headers": _resolved(headers)}
        made = handler({**given, **{field: table for field, table in plain.items() if table}})
        made._referenced = frozenset(name for name, value in env.items() if value.startswith(_REFERENCE))  # noqa: SLF001  its own
        return made

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must stand in no log and no Observation: every header, and of `env` what is a reference or bears a telling name."""
        hidden = [each for name, each in self.env.items() if name in self._referenced or _TELLING.search(name)]
        texts = [each.get_secret_value() for each in (*hidden, *self.headers.values())]
        return tuple(filter(None, dict.fromkeys((*texts, *(text.partition(" ")[2] for text in texts)))))

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("write either `command` (a child process) or `url` (streamable HTTP)")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError("url must start with http:// or https://")
        wrong = {"args", "env", "cwd"} if self.url else {"headers"}
        if stray := sorted(wrong & self.model_fields_set & {name for name in wrong if getattr(self, name)}):
            raise ValueError(f"{stray[0]} belongs to a server with `{'command' if self.url else 'url'}`")
        if self.tools != "*" and (unknown := sorted(set(self.tool) - set(self.tools))):
            raise ValueError(f"tool.{unknown[0]} is not among `tools`")
        return self


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("the name of a server is letters, digits and -, at most 32, first a letter")
    return name


McpName = Annotated[str, AfterValidator(_named)]
"""It stands before the names of the server's tools, so it has no `_`, which ends it there."""


def _resolved(table: Mapping[str, str]) -> dict[str, str]:
    return {name: secret(value) for name, value in table.items()}


def _texts(given: Mapping[str, Any], field: str) -> dict[str, str]:
    """A table of texts as it was written. ValueError names what is none."""
    table = given.get(field, {})
    if not isinstance(table, Mapping):
        raise ValueError(f"{field} must be a table of texts")  # noqa: TRY004  pydantic takes a ValueError
    plain = {key: each.get_secret_value() if isinstance(each, SecretStr) else each for key, each in table.items()}
    if wrong := [key for key, each in plain.items() if not isinstance(each, str)]:
        raise ValueError(f"{field}.{wrong[0]} must be a text, in quotes")
    return plain
