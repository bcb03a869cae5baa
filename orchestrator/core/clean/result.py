"""The values of cleaning: what is said about a result, by which rules it is cleaned, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.core.quick import quick
from orchestrator.core.spec import Json


@quick
@dataclass(frozen=True, slots=True)
class Head:
    """What the tool, or the host in its place, says about the result. `trusted` False marks data from outside in the first line."""

    status: Literal["success", "error"] = "success"
    code: str | None = None
    message: str = ""
    trusted: bool = True


@quick
@dataclass(frozen=True, slots=True)
class Rules:
    """`limit` is in characters of content (the frame adds one short line at each end; a text that had to be cut fits `limit`
    with its frame, from 256 upwards). `content_type` is the HTTP header, `secrets` are values that must never be shown.
    `believe` lets an error object in a body turn success into error."""

    limit: int = 8000
    content_type: str = ""
    secrets: tuple[str, ...] = ()
    believe: bool = True


@quick
@dataclass(frozen=True, slots=True)
class Cleaned:
    """`text` is what the model reads, `body` its part between the frame's lines. `data` is the JSON that was in it, cleaned, or None.

    `raw` is the body as it came, secrets masked, or None if `body` shows all of it unchanged; `size` (bytes) and `digest`
    (sha256 hex) are those of that body. `steps` names what changed something.
    """

    text: str
    body: str
    data: Json
    head: Head
    size: int
    digest: str
    raw: bytes | None
    steps: tuple[str, ...]
