"""Pure codecs, one file a dialect of HTTP: Prompt → Request, Reply → Completion. They know `core.prompt`, never a protocol."""

from __future__ import annotations

from orchestrator.providers import anthropic, openai
from orchestrator.providers.wire import Asked, Head, Options, Provider, Reply, Request, Stream

PROVIDERS: dict[str, Provider] = {"openai": openai, "anthropic": anthropic}
"""By the name that the settings use."""

__all__ = ["PROVIDERS", "Asked", "Head", "Options", "Provider", "Reply", "Request", "Stream"]
