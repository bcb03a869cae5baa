"""The tables `[alerts]` and `[hooks.NAME]` of the settings."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from orchestrator.alerts.load import load_rules
from orchestrator.alerts.rule import Severity
from orchestrator.core.spec import Language
from orchestrator.egress.settings import HostGlob
from orchestrator.secret import secret


class HookSettings(BaseModel):
    """One receiver. `url` holds the key of a WeCom robot or a Slack webhook, so it is a secret; `secret` signs a webhook.

    `key` is PagerDuty's routing key, `argv` the command. `severity` is the least that is told; at most `calls` a minute.
    `private` lets it be in the operator's own networks; `proxy` reaches it through the environment's proxy, which then decides
    where that is; `hosts` are globs that its name must match.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["wecom", "slack", "webhook", "pagerduty", "command"]
    url: SecretStr = SecretStr("")
    secret: SecretStr = SecretStr("")
    key: SecretStr = SecretStr("")
    argv: tuple[str, ...] = ()
    language: Language = "en"
    severity: Severity = "info"
    timeout: float = Field(default=10.0, gt=0)
    calls: int = Field(default=20, ge=1)
    private: bool = False
    proxy: bool = False
    hosts: tuple[HostGlob, ...] = ("*",)

    @field_validator("url", "secret", "key", mode="before")
    @classmethod
    def _secret(cls, value: object) -> object:
        return secret(value) if isinstance(value, str) else value

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must stand in no log."""
        url = self.url.get_secret_value()
        texts = (url, url.partition("key=")[2], self.secret.get_secret_value(), self.key.get_secret_value())
        return tuple(filter(None, texts))


class AlertSettings(BaseModel):
    """The monitor looks `every` so many seconds; the one that leads is replaced `lease` seconds after its last look.

    `runbook` is where the runbook is published, `console` a URL template that holds {run}. `rules` changes rules by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: float = Field(default=15.0, gt=0)
    lease: float = Field(default=60.0, gt=0)
    runbook: str = "docs/runbook.md"
    console: str = ""
    rules: dict[str, dict[str, Any]] = {}

    @field_validator("rules")
    @classmethod
    def _known(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        load_rules(value)
        return value
