"""A result on its way from a tool to a model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from orchestrator.core.clean import shape
from orchestrator.core.clean.decode import decode
from orchestrator.core.clean.hide import MASK, hide, net
from orchestrator.core.clean.look import Look
from orchestrator.core.clean.mask import mask, mask_seen, seen_at_once
from orchestrator.core.clean.result import Head, Rules
from orchestrator.core.quick import quick
from orchestrator.core.spec import Json


@quick
@dataclass(frozen=True, slots=True)
class Draft:
    """A result on its way. `source` is the body as it came, secrets masked; `json` what `text` says, if it is JSON and was read;
    `rest` the tail of a text whose middle is left out already (`gone` characters of it). `masked` counts the characters by
    which masking has made it shorter: they still count against the limit, so that a secret at the cut shows as a cut. `checked`: `json` has been cleaned.
    `seen` is a Look at `text`, or at what it was."""

    text: str
    head: Head
    rules: Rules
    source: bytes | str
    json: shape.Parsed | None = None
    rest: str | None = None
    gone: int = 0
    masked: int = 0
    checked: bool = False
    steps: tuple[str, ...] = ()
    seen: Look | None = None

    def looked(self) -> Look | None:
        """The Look at the text as it stands, if there is one."""
        return self.seen if self.seen is not None and self.seen.text is self.text else None

    def plain(self) -> str | None:
        """The folded copy of a text that was seen to have nothing invisible in it and nothing disguised."""
        seen = self.looked()
        return seen.low if seen is not None and seen.plain else None

    def then(self, step: str, text: str) -> Draft:
        """The draft with another text; the step is named only if it changed something."""
        return (
            self if text == self.text else replace(self, text=text, json=None, checked=False, steps=(*self.steps, step))
        )

    def bared(self, step: str, text: str) -> Draft:
        """The draft with a text in which a step has brought to light what was disguised. Where that was a secret, the body as it
        came held it too: then what is kept of it is what is shown."""
        safe = mask(text, self.rules.secrets)
        draft = self.then(step, safe)
        return draft if safe == text else replace(draft, source=safe)

    def read(self, found: shape.Parsed) -> Draft:
        """The draft whose text is JSON, and clean. Where escapes had hidden a secret, what is kept of the body is what is shown."""
        source, steps = self.source, self.steps
        if found.text != self.text:
            source = source if found.text.count(MASK) <= self.text.count(MASK) else found.text
            steps = (*steps, "json")
        head, rules = self.head, self.rules
        return Draft(
            found.text,
            head,
            rules,
            source,
            found,
            self.rest,
            self.gone,
            self.masked,
            checked=True,
            steps=steps,
            seen=self.seen,
        )

    def failed(self, code: str | None) -> Draft:
        """The draft as an error, unless the host forbids to believe a body. The tool's own code wins."""
        if not self.rules.believe:
            return self
        return replace(self, head=replace(self.head, status="error", code=self.head.code or code))


def opened(raw: bytes | Json, head: Head, rules: Rules) -> Draft:
    """The draft of any raw value: bytes decoded, other values as JSON text, secrets masked in text, source and code."""
    if head.code is not None and rules.secrets:
        head = replace(head, code=hide(head.code, rules.secrets))
    if isinstance(raw, str):
        return _masked(Draft(raw, head, rules, raw, seen=seen_at_once(raw)))
    if isinstance(raw, bytes | bytearray | memoryview):
        return _decoded(bytes(raw), head, rules)
    if raw is None:
        return Draft("", head, rules, "")
    found = shape.write(raw)
    return _masked(Draft(found.text, head, rules, found.text, found, seen=seen_at_once(found.text)))


def _masked(draft: Draft) -> Draft:
    """The draft with the secrets in its text masked. Its source is a copy of the text then."""
    text, seen, secrets = draft.text, draft.seen, draft.rules.secrets
    safe = mask(text, secrets) if seen is None else mask_seen(seen, secrets)
    if safe == text:
        return draft
    return replace(
        draft, text=safe, source=safe, json=None, masked=len(text) - len(safe), steps=(*draft.steps, "masked")
    )


def _decoded(raw: bytes, head: Head, rules: Rules) -> Draft:
    found = decode(raw, rules.content_type)
    if found.binary is not None:
        what = "" if found.binary == "unknown" else f" ({found.binary})"
        text = f"[BINARY_CONTENT: {len(raw):,} bytes that are no text{what}; ask for another form of this result]"
        for spelling in net(rules.secrets).all if rules.secrets else ():
            raw = raw.replace(spelling.encode("utf-8", "replace"), MASK.encode())
        return Draft(
            text, replace(head, status="error", code=head.code or "BINARY_CONTENT"), rules, raw, steps=("described",)
        )
    steps = ("decoded",) if found.replaced or found.charset != "utf-8" else ()
    return _masked(Draft(found.text, head, rules, raw, steps=steps, seen=seen_at_once(found.text)))
