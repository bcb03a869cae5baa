"""Proof of a Trace for one who does not trust the database: verified against its hash chain, exported, signed.

`verify` judges what a store holds of a run, `write_export` puts it into a file that proves itself, `read_export` judges such a file without a store.
"""

from __future__ import annotations

from orchestrator.audit.anchor import Anchor, compare, verify_stored
from orchestrator.audit.export import write_export
from orchestrator.audit.file import Export, read_export
from orchestrator.audit.sign import Signer, new_key, public_key, signer
from orchestrator.audit.verify import Verdict, verify
from orchestrator.audit.walk import Chains

__all__ = [
    "Anchor",
    "Chains",
    "Export",
    "Signer",
    "Verdict",
    "compare",
    "new_key",
    "public_key",
    "read_export",
    "signer",
    "verify",
    "verify_stored",
    "write_export",
]
