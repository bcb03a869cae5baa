"""Traces for OpenTelemetry (extra `[otel]`), from the entry stream alone. `spans.py` makes them; here is whether, and where to.

Exported to where OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) says, over HTTP; the other OTEL_ variables of the
SDK hold as well. What was said is not exported unless OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is "true".
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from orchestrator.errors import ConfigError
from orchestrator.runner import Observer
from orchestrator.settings import Settings

__all__ = ["CONTENT", "ENDPOINTS", "tracing"]

CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


@contextmanager
def tracing(settings: Settings, secrets: tuple[str, ...] = ()) -> Iterator[tuple[Observer, ...]]:
    """The Observer that exports to where the environment says; none where it says nothing. ConfigError without the extra."""
    named = next((name for name in ENDPOINTS if os.environ.get(name)), None)
    if named is None:
        yield ()
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        from orchestrator.otel.spans import Spans  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"{named} is set, which needs the extra: pip install '.[otel]' in the checkout ({error})"
        ) from error
    content = os.environ.get(CONTENT, "").casefold() == "true"
    spans = Spans(BatchSpanProcessor(OTLPSpanExporter()), settings, content=content, secrets=secrets)
    try:
        yield (spans.observe,)
    finally:
        spans.close()
