"""The HTTP control plane. `words` (what goes over the wire) and `tokens` need no server; the rest is the extra `orchestrator[api]`."""
