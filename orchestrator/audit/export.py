"""Traces as JSON lines that prove themselves: entries with their hashes, raw bodies, and a last line with the heads and a signature.

```
{"kind":"export","version":1,"made":1790000000.0}
{"kind":"entry","run_id":"...","seq":1,"at":1790000000.0,"epoch":1,"hash":"sha256:...","event":{...}}      the event byte for byte as stored
{"kind":"body","run_id":"...","digest":"...","base64":"..."}
{"kind":"end","lines":17,"sha256":"...","runs":{"...":{"seq":9,"hash":"sha256:...",...}},"algorithm":"ed25519","public_key":"...","signature":"..."}
```

`sha256` is that of all bytes before the last line; what is signed is the last line up to `,"signature"`. So nothing can be changed anywhere,
white space included: a tool that writes JSON anew breaks the proof.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from orchestrator.audit.sign import Signer
from orchestrator.audit.verify import Verdict, verify
from orchestrator.audit.walk import Chains
from orchestrator.core.chain import written
from orchestrator.stores import Store
from orchestrator.stores.evidence import Evidence

VERSION = 1
EVENT = b',"event":'
"""Parts the head of an entry's line from its stored bytes: no JSON text before it can hold this, for a quote in a text is escaped."""

SIGNATURE = b',"signature":'


class _Lines:
    """Writes lines, and remembers what the last one says of them."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self.sha256 = hashlib.sha256()
        self.count = 0

    def put(self, line: bytes) -> None:
        self.sha256.update(line + b"\n")
        self.count += 1
        self._write(line + b"\n")


async def write_export(  # noqa: PLR0913  each is one part
    store: Store,
    run_ids: Iterable[str],
    write: Callable[[bytes], object],
    *,
    chains: Chains,
    made: float,
    signer: Signer | None = None,
    heads_only: bool = False,
) -> list[Verdict]:
    """Write these runs, one after the other, in lines of bytes; `made` is the time, unix seconds. `heads_only` writes the last line alone.

    Every run is verified first. One that is not intact is left out: an export vouches for nothing that was changed. The Verdicts are returned.
    """
    lines = _Lines(write)
    lines.put(_json({"kind": "export", "version": VERSION, "made": made}))
    heads: dict[str, dict[str, Any]] = {}
    verdicts: list[Verdict] = []
    for run_id in run_ids:
        found = await store.evidence(run_id, bodies=not heads_only)
        verdict = verify(found, chains)
        if any(b"\n" in entry.body for entry in found.entries):
            verdict = replace(
                verdict, problems=(*verdict.problems, "an entry holds a line break: it is not as written")
            )
        verdicts.append(verdict)
        if not verdict.intact:
            continue
        heads[run_id] = _head(found, verdict)
        for line in () if heads_only else _lines_of(found):
            lines.put(line)
    write(_last(lines, heads, signer))
    return verdicts


def _lines_of(found: Evidence) -> Iterable[bytes]:
    """The lines of one run."""
    for entry in found.entries:
        head = {
            "kind": "entry",
            "run_id": found.run_id,
            "seq": entry.seq,
            "at": entry.at,
            "epoch": entry.epoch,
            "hash": written(entry.hash),
        }
        yield _json(head)[:-1] + EVENT + entry.body + b"}"
    for body in found.bodies:
        base64_body = base64.b64encode(body.body or b"").decode()
        yield _json({"kind": "body", "run_id": found.run_id, "digest": body.digest, "base64": base64_body})


def _head(found: Evidence, verdict: Verdict) -> dict[str, Any]:
    row = found.row
    return {
        "seq": found.entries[-1].seq,
        "hash": verdict.head,
        "ended_at": row.ended_at if row else None,
        "outcome": row.outcome.value if row and row.outcome else None,
    }


def _last(lines: _Lines, heads: dict[str, dict[str, Any]], signer: Signer | None) -> bytes:
    said: dict[str, Any] = {"kind": "end", "lines": lines.count, "sha256": lines.sha256.hexdigest(), "runs": heads}
    if signer is None:
        return _json({**said, "algorithm": "none"}) + b"\n"
    public = base64.b64encode(signer.public).decode()
    signed = _json({**said, "algorithm": "ed25519", "public_key": public})[:-1]
    return signed + SIGNATURE + b'"' + base64.b64encode(signer.sign(signed)) + b'"}\n'


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
