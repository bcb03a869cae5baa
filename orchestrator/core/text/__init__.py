"""The text ReAct protocol: `Thought:` and `Action:` lines, for models without native tool use.

`read` turns a reply into a ModelTurn, whatever dialect the model fell into; `Cut` stops a stream where `read` would discard.
"""

from orchestrator.core.text.cut import Cut
from orchestrator.core.text.grammar import gbnf, json_schema
from orchestrator.core.text.prompt import messages, nudge, question, stops, system
from orchestrator.core.text.reader import read

__all__ = ["Cut", "gbnf", "json_schema", "messages", "nudge", "question", "read", "stops", "system"]
