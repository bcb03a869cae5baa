"""/openapi.json says what the API does: schemathesis asks whatever the document allows, and what it forbids."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from orchestrator.api.openapi import document
from orchestrator.api.table import OPERATIONS
from orchestrator.api.words import Nothing, Result, RunState
from orchestrator.core.events import Outcome, RunEnded, Waiting
from tests.api.place import NOW, Place
from tests.build import acts, final, observed

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
RUNS = ("done", "waiting", "none")
MODES = [
    (each, mode)
    for each in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or each.query is not Nothing or each.body not in {None, Result}
]
"""Nothing but a path, and any JSON at all, cannot be wrong."""


def without_tokens(words: Any) -> Any:
    """The document as if everybody were let in: who is, tests/api/test_gate.py asks."""
    if isinstance(words, Mapping):
        return {key: without_tokens(each) for key, each in words.items() if key not in {"security", "securitySchemes"}}
    return list(map(without_tokens, words)) if isinstance(words, list) else words


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, asyncio.Runner]]:
    with asyncio.Runner() as runner:
        place = Place(tmp_path_factory.mktemp("api"))

        async def fill() -> None:
            await place.store.open()
            await place.dispatcher.open()
            step = (acts(1, ("search", {"q": "x"})), observed("1.0"), final("Liu"))
            await place.run("done", *step, RunEnded(Outcome.ANSWERED, "Liu"))
            await place.run("waiting", acts(1, ("pay", {})), Waiting("1.0", NOW + 1e9, "approval"))
            place.service.closing.set()

        runner.run(fill())
        yield place, runner


def test_every_reference_in_the_document_leads_somewhere() -> None:
    text = repr(document())
    known = set(document()["components"]["schemas"])
    assert set(re.findall(r"#/components/schemas/(\w+)", text)) <= known
    assert {each.name for each in OPERATIONS} == {
        words["operationId"] for path in document()["paths"].values() for words in path.values()
    }
    assert set(RunState.model_fields) == set(document()["components"]["schemas"]["RunState"]["properties"])


@pytest.mark.parametrize(("operation", "mode"), MODES, ids=lambda each: getattr(each, "name", each))
def test_no_answer_is_a_server_error_or_undocumented(
    here: tuple[Place, asyncio.Runner], operation: Any, mode: GenerationMode
) -> None:
    place, runner = here
    schema = schemathesis.openapi.from_dict(without_tokens(document()))
    asked = schema[operation.path][operation.method]
    bad = mode is GenerationMode.NEGATIVE

    @settings(max_examples=8, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=asked.as_strategy(generation_mode=mode), run_id=st.sampled_from(RUNS))
    def ask(case: Any, run_id: str) -> None:
        if "run_id" in case.path_parameters and not bad:
            case.path_parameters["run_id"] = run_id
        response = runner.run(send(place, case))
        case.validate_response(response, checks=[*CHECKS, *([negative_data_rejection] if bad else [])])

    ask()


async def send(place: Place, case: Any) -> schemathesis.Response:
    words = case.as_transport_kwargs(base_url="http://127.0.0.1:8700")
    async with place.client() as http:
        body = {"content" if key == "data" else key: words[key] for key in ("data", "json") if key in words}
        request = http.build_request(
            words["method"], words["url"], params=words["params"], headers=words["headers"], **body
        )
        answer = await http.send(request)
    return schemathesis.Response.from_any(answer)


async def test_the_document_is_served_to_everybody(api: Place) -> None:
    async with api.client("") as http:
        response = await http.get("/openapi.json")
    assert response.json()["openapi"] == "3.1.0"
