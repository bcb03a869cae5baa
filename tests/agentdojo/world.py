"""AgentDojo's tools as ours: the operator's declarations beside them, AgentDojo's own runtime behind them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentdojo.functions_runtime import Function, FunctionCall, FunctionsRuntime
from agentdojo.task_suite.task_suite import TaskSuite
from pydantic import BaseModel

from orchestrator.core.spec import Json, ToolSpec
from orchestrator.policy import ONCE, Rules
from orchestrator.tool import Arguments, Tool, ToolError
from orchestrator.toolbox import Toolbox

DECLARED: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("declared.toml").read_text(encoding="utf-8")
)
_NO_POLICIES = Rules(timeout=None, retry=ONCE, breaker=None)


@dataclass(slots=True)
class World:
    """A suite's environment during one run, and the calls that were really made in it. `tools` act on whatever is in `environment`."""

    suite: TaskSuite[Any]
    environment: Any = None
    made: list[FunctionCall] = field(default_factory=list)
    toolbox: Toolbox = field(init=False)

    def __post_init__(self) -> None:
        """One toolbox for all runs of the suite."""
        runtime = FunctionsRuntime(self.suite.tools)
        self.toolbox = Toolbox([self._tool(each, runtime) for each in self.suite.tools], rules=_plain)

    def begin(self, environment: Any) -> None:
        """Let the tools act on this environment, of which no call is known yet."""
        self.environment = environment
        self.made = []

    def _tool(self, function: Function[..., Any], runtime: FunctionsRuntime) -> Tool:
        known = DECLARED[function.name]
        spec = ToolSpec(
            function.name,
            function.description,
            function.parameters.model_json_schema(),
            repeatable=known["effect"] == "read",
            effect=known["effect"],
            trusted=known["trusted"],
            requires_approval=known.get("approval", False),
            roles=known.get("roles", {}),
            names={argument: tuple(where) for argument, where in known.get("names", {}).items()},
        )
        arguments = Arguments(spec.schema, _check(function.parameters))
        return Tool(spec, self._caller(function.name, runtime), arguments)

    def _caller(self, name: str, runtime: FunctionsRuntime) -> Callable[..., Any]:
        async def call(**given: Any) -> Json:
            made = FunctionCall(function=name, args=given)
            result, error = runtime.run_function(self.environment, name, given)
            if error is not None:
                raise ToolError("TOOL_FAILED", error)
            self.made.append(made)
            return _json(result)

        return call


def _plain(_spec: ToolSpec) -> Rules:
    return _NO_POLICIES


def _check(parameters: type[BaseModel]) -> Callable[[bytes | str], dict[str, Any]]:
    def check(given: bytes | str) -> dict[str, Any]:
        return parameters.model_validate_json(given).model_dump(exclude_unset=True)

    return check


def _json(value: Any) -> Json:
    if isinstance(value, BaseModel):
        dumped: Json = value.model_dump(mode="json")
        return dumped
    if isinstance(value, list):
        return [_json(each) for each in value]
    plain: Json = value
    return plain
