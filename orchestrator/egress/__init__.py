"""The way out: everything that a model, a page or a hook may have connected goes through here, and to public places only.

`address.py` says what an address or a name is, `rules.py` what may be reached, `wire.py` makes the connection to exactly the
address that was checked, `body.py` bounds what comes back. The endpoints of models are the operator's own and do not come here.
"""

from __future__ import annotations

from orchestrator.egress.rules import Refused, Rules
from orchestrator.egress.settings import EgressSettings
from orchestrator.egress.wire import Resolve, adopt, client, resolved, rules_of, session, transport, web_client

__all__ = [
    "EgressSettings",
    "Refused",
    "Resolve",
    "Rules",
    "adopt",
    "client",
    "resolved",
    "rules_of",
    "session",
    "transport",
    "web_client",
]
