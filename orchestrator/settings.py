"""One frozen model of every setting, read once. Precedence: environment over file over default.

The file is TOML (`orchestrator.toml`, or what `ORCHESTRATOR_CONFIG` names). A variable `ORCHESTRATOR_A__B` sets `b` of table `a`.
Where nothing configures a model, `ANTHROPIC_BASE_URL` / `ANTHROPIC_AUTH_TOKEN` (or `ANTHROPIC_API_KEY`) / `ANTHROPIC_MODEL` and
`OPENAI_BASE_URL` / `OPENAI_API_KEY` / `OPENAI_MODEL` do. A secret may be written `env:NAME` or `file:/path`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from orchestrator.alerts.settings import AlertSettings, HookSettings
from orchestrator.core.clean import mask
from orchestrator.core.spec import AgentSpec, Language, Limits, Protocol
from orchestrator.egress.settings import EgressSettings
from orchestrator.errors import ConfigError
from orchestrator.mcp_settings import McpName, McpSettings
from orchestrator.permission_settings import Permissions, ToolOverride
from orchestrator.secret import secret
from orchestrator.settings_problems import invalid, unread
from orchestrator.trace_settings import TraceSettings

CONFIG = "orchestrator.toml"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Price(_Table):
    """Price per million tokens, in one currency of the operator's choice. `cached` defaults to `input`."""

    input: float
    output: float
    cached: float | None = None


class Timeouts(_Table):
    """Seconds: to connect, to the first streamed token, between two of them, and for the whole call."""

    connect: float = 5.0
    first_token: float = 60.0
    between_tokens: float = 30.0
    whole: float = 300.0


class Retry(_Table):
    """At most `attempts` tries of one call within `total` seconds; delays grow from `base` to `cap` seconds, with full jitter."""

    attempts: int = Field(default=4, ge=1)
    total: float = Field(default=120.0, gt=0)
    base: float = Field(default=0.5, gt=0)
    cap: float = Field(default=20.0, gt=0)


class Limit(_Table):
    """At most `at_once` calls under way, and `calls` and `tokens` in any `window` seconds, all runs together. None is no limit."""

    at_once: int | None = Field(default=None, ge=1)
    calls: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    window: float = Field(default=60.0, gt=0)


class ModelSettings(_Table):
    """One model behind one endpoint. `max_tokens` is the budget of a reply, `max_tokens_cap` the larger one of a reply that was
    cut (four times as much by default); without them the agent's limits hold. `stop` is how stop sequences are sent: not at all, plainly, or for replies that start with the label."""

    provider: Literal["openai", "anthropic"]
    base_url: str
    model: str
    api_key: SecretStr = SecretStr("")
    protocol: Protocol = "native"
    stop: Literal["off", "plain", "start"] = "plain"
    constrain: Literal["off", "grammar", "json_schema"] = "off"
    stream: bool = True
    temperature: float | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_tokens_cap: int | None = Field(default=None, ge=1)
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    price: Price | None = None
    timeouts: Timeouts = Timeouts()
    retry: Retry = Retry()
    limit: Limit | None = None
    extra: dict[str, Any] = {}

    @field_validator("base_url")
    @classmethod
    def _url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        value = value.rstrip("/")
        for path in ("/chat/completions", "/v1/messages"):
            if value.endswith(path):
                raise ValueError(f"must not end with {path}: that is added to it; write {value.removesuffix(path)}")
        return value

    @field_validator("api_key", mode="before")
    @classmethod
    def _secret(cls, value: object) -> object:
        return secret(value) if isinstance(value, str) else value


class LimitSettings(_Table):
    """Limits of a run; see `core.spec.Limits` for meanings and defaults."""

    max_steps: int = Field(default=Limits().max_steps, ge=1)
    deadline: float | None = Field(default=Limits().deadline, gt=0, allow_inf_nan=False)
    max_tokens: int | None = Field(default=None, ge=1)
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_output: int = Field(default=Limits().max_output, ge=1)
    max_output_cap: int = Field(default=Limits().max_output_cap, ge=1)
    tool_errors: int = Field(default=Limits().tool_errors, ge=1)
    malformed: int = Field(default=Limits().malformed, ge=1)
    repeats: int = Field(default=Limits().repeats, ge=1)
    stall: int = Field(default=Limits().stall, ge=1)
    stall_end: int = Field(default=Limits().stall_end, ge=1)
    observation_chars: int = Field(default=Limits().observation_chars, ge=200)
    summary_chars: int = Field(default=Limits().summary_chars, ge=0)


class AgentSettings(_Table):
    """One agent: which models (the first, then its stand-ins), which tools, in which language, within which limits."""

    models: tuple[str, ...] = ("default",)
    tools: tuple[str, ...] | None = None
    protocol: Protocol | None = None
    language: Language = "en"
    instructions: str = ""
    version: str = "1"
    limits: LimitSettings = LimitSettings()


class WorkerSettings(_Table):
    """The worker: runs driven at once, seconds of grace for a drain, heartbeats and their lease, where its health is served, and
    whether it also evaluates the alert rules."""

    concurrency: int = Field(default=1000, ge=1)
    grace: float = Field(default=25.0, ge=0)
    beat: float = Field(default=2.0, gt=0)
    lease: float = Field(default=10.0, gt=0)
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    monitor: bool = False

    @model_validator(mode="after")
    def _in_time(self) -> Self:
        if self.lease < 3 * self.beat:
            raise ValueError(f"lease must be at least three beats, {3 * self.beat:g} s: one lost heartbeat is no death")
        return self


class ApiSettings(_Table):
    """Where the HTTP API and the console are served, the file of their tokens (hashes only), and whether they are an MCP server too."""

    host: str = "127.0.0.1"
    port: int = Field(default=8700, ge=0, le=65535)
    tokens: str = "var/tokens.json"
    mcp: bool = False


class TenantSettings(_Table):
    """One tenant: runs at once over all workers, tokens and money in any UTC day."""

    concurrency: int | None = Field(default=None, ge=1)
    tokens_per_day: int | None = Field(default=None, ge=0)
    cost_per_day: float | None = Field(default=None, ge=0)


class ScheduleSettings(_Table):
    """A question that is asked again and again, at the times (UTC) of a cron line."""

    cron: str
    question: str
    agent: str = "default"
    tenant: str = ""
    priority: int = 0


class Settings(BaseSettings):
    """All settings. `Settings.load()` reads them; every problem is a ConfigError that names the setting."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="ORCHESTRATOR_", env_nested_delimiter="__"
    )

    models: dict[str, ModelSettings] = {}
    agents: dict[str, AgentSettings] = {"default": AgentSettings()}
    store: str = "sqlite:///var/orchestrator.db"
    tools: tuple[str, ...] = ()
    tool_threads: int = Field(default=32, ge=1)
    tool_limits: dict[str, Limit] = {}
    tool_overrides: dict[str, ToolOverride] = {}
    permissions: Permissions = ()
    worker: WorkerSettings = WorkerSettings()
    api: ApiSettings = ApiSettings()
    tenants: dict[str, TenantSettings] = {}
    schedules: dict[str, ScheduleSettings] = {}
    callback_key: SecretStr = SecretStr("")
    trace: TraceSettings = TraceSettings()
    hooks: dict[str, HookSettings] = {}
    alerts: AlertSettings = AlertSettings()
    egress: EgressSettings = EgressSettings()
    mcp: dict[McpName, McpSettings] = {}
    log_format: Literal["console", "json", "auto"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "warning"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment first, then what `load` read from the file."""
        return env_settings, init_settings

    @model_validator(mode="after")
    def _known_models(self) -> Self:
        for name, agent in self.agents.items():
            for model in agent.models:
                if model not in self.models and model != "default":
                    raise ValueError(
                        f"agents.{name}.models names {model!r}; configured are {sorted(self.models) or 'none'}"
                    )
        return self

    @model_validator(mode="after")
    def _known_prices(self) -> Self:
        """An unknown price is never zero where money is counted."""
        counted = [name for name, tenant in self.tenants.items() if tenant.cost_per_day is not None]
        unpriced = [name for name, model in self.models.items() if model.price is None]
        if counted and unpriced:
            raise ValueError(
                f"tenants.{counted[0]}.cost_per_day needs a price for each model: models.{unpriced[0]} has none"
            )
        return self

    @field_validator("callback_key", mode="before")
    @classmethod
    def _callback_key(cls, value: object) -> object:
        return secret(value) if isinstance(value, str) else value

    @classmethod
    def load(cls, path: str | Path | None = None) -> Settings:
        """Read the file (if there is one) and the environment. ConfigError names what is wrong and where."""
        named = path or os.environ.get("ORCHESTRATOR_CONFIG")
        file = Path(named or CONFIG)
        try:
            raw = tomllib.loads(file.read_text("utf-8")) if named or file.exists() else {}
        except FileNotFoundError as error:
            raise ConfigError(
                f"no settings file at {file}: create it, or name another (--config, ORCHESTRATOR_CONFIG)"
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise ConfigError(f"{file} cannot be read as TOML: {error}") from error
        found = _from_environment(os.environ)
        read, configured = bool(raw), raw.get("models", {})
        if isinstance(configured, dict):
            raw["models"] = {**found, **configured}
        try:
            return cls(**raw)
        except ValidationError as error:
            raise invalid(error, file if read else None, os.environ, found) from error
        except SettingsError as error:
            raise unread(error, cls.model_fields, os.environ) from error

    @property
    def place(self) -> str:
        """Where Traces are kept, to be shown: the store's URL without its password."""
        return mask(self.store)

    def model(self, name: str) -> ModelSettings:
        """A model by name; "default" is the first one configured unless one bears that name."""
        if name in self.models:
            return self.models[name]
        if name == "default" and self.models:
            return next(iter(self.models.values()))
        raise ConfigError(
            f"no model {name!r}: configured are {sorted(self.models) or 'none'}. Write a [models.{name}] table with provider, base_url "
            "and model, or set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL (or the ANTHROPIC_ ones)"
        )

    def agent(self, name: str) -> tuple[AgentSpec, Limits]:
        """What `RunStarted` records of an agent. ConfigError when there is none of that name."""
        found = self.agents.get(name)
        if found is None:
            raise ConfigError(
                f"no agent {name!r}: configured are {sorted(self.agents)}; write an [agents.{name}] table"
            )
        first = self.model(found.models[0])
        protocol = found.protocol or first.protocol
        spec = AgentSpec(name, found.version, found.models, protocol, found.language, found.instructions)
        limits = Limits(**found.limits.model_dump())
        if first.max_tokens is not None:
            limits = replace(
                limits, max_output=first.max_tokens, max_output_cap=first.max_tokens_cap or 4 * first.max_tokens
            )
        return spec, limits


def redacted(settings: Settings) -> dict[str, Any]:
    """The settings as plain data, secrets as asterisks."""
    return {**settings.model_dump(mode="json"), "store": settings.place}


def limits_of(limits: Limits, **changes: Any) -> Limits:
    """Limits with the given ones changed; a None changes nothing. ConfigError names a limit that is none (0, NaN)."""
    given = {key: value for key, value in changes.items() if value is not None}
    try:
        return Limits(**LimitSettings(**{**asdict(limits), **given}).model_dump())
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ConfigError(f"limits of the run: {problems}") from error


def _from_environment(env: Mapping[str, str]) -> dict[str, dict[str, str]]:
    models: dict[str, dict[str, str]] = {}
    if env.get("ANTHROPIC_MODEL") or env.get("ANTHROPIC_BASE_URL"):
        models["anthropic"] = {
            "provider": "anthropic",
            "base_url": env.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com",
            "api_key": env.get("ANTHROPIC_AUTH_TOKEN") or env.get("ANTHROPIC_API_KEY") or "",
            "model": env.get("ANTHROPIC_MODEL") or "claude-sonnet-4-5",
        }
    if env.get("OPENAI_MODEL") or env.get("OPENAI_BASE_URL"):
        models["openai"] = {
            "provider": "openai",
            "base_url": env.get("OPENAI_BASE_URL") or "https://api.openai.com/v1",
            "api_key": env.get("OPENAI_API_KEY") or "",
            "model": env.get("OPENAI_MODEL") or "gpt-4.1",
        }
    return models
