"""The asyncio production orchestrator for ReAct agents."""
