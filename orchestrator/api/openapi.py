"""/openapi.json: OpenAPI 3.1 from the table of operations and the pydantic models. Nothing in it is written twice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from orchestrator.api import problems
from orchestrator.api.operation import Operation
from orchestrator.api.state import JSON
from orchestrator.api.table import OPERATIONS
from orchestrator.api.words import Nothing, ProblemWords

REF = "#/components/schemas/{model}"
ABOUT = (
    "Submit and follow runs of ReAct agents. Errors are problem+json: `code` for programs, `detail` says what to do. "
    "Tokens come from `orchestrator token create`; each has scopes (submit, read, approve, admin) and a tenant."
)


@cache
def document() -> Mapping[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "orchestrator", "version": "1", "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(each: Operation) -> dict[str, Any]:
    responses = {str(status): _answer(status, answer) for status, answer in each.answers.items()}
    responses |= {str(status): _answer(status, ProblemWords, problems.MEDIA) for status in each.statuses}
    words: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.says,
        "security": [{"token": []}] if each.scope else [],
        "parameters": [*_path(each), *_query(each)],
        "responses": responses,
    }
    if each.scope:
        words["description"] = f"Needs the scope `{each.scope}`."
    if each.body is not None:
        content = {JSON: {"schema": {"$ref": REF.format(model=each.body.__name__)}}}
        words["requestBody"] = {"required": not each.optional, "content": content}
    return words


def _answer(status: int, answer: type[BaseModel] | str | None, media: str = JSON) -> dict[str, Any]:
    words: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if isinstance(answer, str):
        words["content"] = {answer: {"schema": {"type": "string"}}}
    elif answer is not None:
        words["content"] = {media: {"schema": {"$ref": REF.format(model=answer.__name__)}}}
    return words


def _path(each: Operation) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", each.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query(each: Operation) -> Iterator[dict[str, Any]]:
    if each.query is Nothing:
        return
    schema = each.query.model_json_schema()
    inner = schema.get("$defs", {})
    for name, field in schema["properties"].items():
        yield {"name": name, "in": "query", "required": False, "schema": _parameter(field, inner)}


def _parameter(field: Mapping[str, Any], inner: Mapping[str, Any]) -> Mapping[str, Any]:
    """A query parameter's schema: no references, and no null, which a query cannot say."""
    kinds = [_inlined(each, inner) for each in field.get("anyOf", [field]) if each.get("type") != "null"]
    kinds = [{key: value for key, value in each.items() if key not in {"title", "default"}} for each in kinds]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _inlined(schema: Mapping[str, Any], inner: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    return schema if reference is None else dict(inner[reference.rpartition("/")[2]])


def _schemas() -> Mapping[str, Any]:
    asked: list[type[BaseModel]] = [each.body for each in OPERATIONS if each.body is not None]
    told: list[type[BaseModel]] = [
        answer for each in OPERATIONS for answer in each.answers.values() if isinstance(answer, type)
    ]
    told.append(ProblemWords)
    return {**_definitions(asked, "validation"), **_definitions(told, "serialization")}


def _definitions(models: Sequence[type[BaseModel]], mode: Any) -> Mapping[str, Any]:
    unique = list(dict.fromkeys(models))
    _, schema = models_json_schema([(model, mode) for model in unique], ref_template=REF)
    found: Mapping[str, Any] = schema["$defs"]
    return found
