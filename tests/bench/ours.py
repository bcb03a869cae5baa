"""Our adapter for the harness that measured the peers (`../shared/perf`): copy it to its `adapters/` and set OURS=ours,ours:sqlite."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

VENV = str(Path(os.environ.get("ORCHESTRATOR_HOME", Path.cwd())) / ".venv")
DISTS = ["orchestrator", "httpx", "aiohttp", "httpx-aiohttp"]


async def setup(cfg: Any) -> dict[str, Any]:
    """cfg: base_url, model, workdir, variant ('' memory, 'sqlite')."""
    import common  # type: ignore[import-not-found]

    from orchestrator.assembly import open_ports
    from orchestrator.core.events import RunStarted
    from orchestrator.core.spec import AgentSpec, Limits
    from orchestrator.settings import ModelSettings, Settings
    from orchestrator.tool import tool
    from orchestrator.toolbox import Toolbox

    @tool(repeatable=True)
    async def search(query: str) -> str:
        """Search the entry of one entity."""
        return str(common.search(query))

    @tool(repeatable=True)
    async def lookup(keyword: str) -> str:
        """Find every field of the knowledge base that contains a keyword."""
        return str(common.lookup(keyword))

    model = ModelSettings(provider="openai", base_url=cfg.base_url, model=cfg.model, stream=False)
    store = f"sqlite:///{cfg.workdir}/ours.db" if cfg.variant == "sqlite" else "memory"
    toolbox = Toolbox([search, lookup])
    opened = open_ports(Settings(models={"m": model}, store=store), toolbox=toolbox)
    far = 10**6
    limits = Limits(max_steps=far, deadline=None, repeats=far, stall=far, stall_end=far, tool_errors=far)
    agent = AgentSpec(models=("m",), instructions=common.SYSTEM)
    first = RunStarted(common.QUESTION, agent, limits, toolbox.specs)
    return {"opened": opened, "ports": await opened.__aenter__(), "first": first}


async def run(state: dict[str, Any], number: int) -> str:
    from orchestrator.runner import drive

    run_id = f"run-{number}"
    await state["ports"].store.append(run_id, 0, [state["first"]], at=time.time())
    ended = (await drive(run_id, state["ports"])).ended
    return f"{ended.answer or ended.detail}" if ended else "not ended"


async def close(state: dict[str, Any]) -> None:
    await state["opened"].__aexit__(None, None, None)
