"""The tools of an agent, and one way to call any of them: check the input, call under policies, clean what comes back.

`Toolbox.call` never raises but on cancellation: whatever a tool does is an Observation. It knows nothing of runs or prompts.
"""

from __future__ import annotations

from orchestrator.core.clean import plain as as_json
from orchestrator.tool import Context
from orchestrator.toolbox.box import Toolbox, rules_for
from orchestrator.toolbox.called import Called, Pending
from orchestrator.toolbox.invoke import Invocation

__all__ = ["Called", "Context", "Invocation", "Pending", "Toolbox", "as_json", "rules_for"]
