"""The tools of this deployment, one file a family.

To add a tool: write a typed function in a file of this folder (or of one that the setting `tools` names), put `@tool` on it. A tool
imports `orchestrator.tool` and whatever library it needs, and nothing else of the orchestrator or of this folder: each
file stands alone. Return what can be written as JSON; raise `ToolError(code, message)` when the answer is no. Declare
`repeatable=True` only if the same call may run twice without harm: such a call is retried and run again after a crash.
"""
