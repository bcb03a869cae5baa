"""Submitting, listing and reading runs over HTTP."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.core.events import Anomaly, ModelTurn, Outcome, RunEnded, Waiting
from orchestrator.core.run import replay
from orchestrator.core.spec import JsonObject
from orchestrator.dispatch import needs_of
from orchestrator.dispatch.lack import NOBODY
from orchestrator.inbox import signed
from tests.api.place import KEY, NOW, Place
from tests.build import acts, final, observed, spec, started

DONE = (acts(1, ("search", {"q": "x"})), observed("1.0"), final("Liu"), RunEnded(Outcome.ANSWERED, "Liu"))


async def test_a_submitted_run_is_in_the_store_and_in_the_queue(api: Place) -> None:
    async with api.client() as http:
        response = await http.post("/v1/runs", json={"goal": "Who?", "max_steps": 3, "labels": {"a": "b"}, "kind": "k"})
    assert response.status_code == 201
    said = response.json()
    assert response.headers["location"] == f"/v1/runs/{said['run_id']}"
    assert (said["state"], said["goal"], said["labels"], said["kind"]) == ("open", "Who?", {"a": "b"}, "k")
    run = replay(await api.store.read(said["run_id"]))
    assert run.start.limits.max_steps == 3
    assert run.start.agent.models == ("main",)
    assert (await api.dispatcher.depth(now=api.now)).queued == 1


async def test_the_same_key_again_gives_back_the_first_run(api: Place) -> None:
    async with api.client() as http:
        first = await http.post("/v1/runs", json={"goal": "Who?", "key": "k1"})
        again = await http.post("/v1/runs", json={"goal": "Another?", "key": "k1"})
        other = await http.post("/v1/runs", json={"goal": "Who?", "key": "k1", "tenant": "t"})
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 201)
    assert first.json()["run_id"] == again.json()["run_id"] != other.json()["run_id"]


async def test_a_run_that_no_worker_takes_says_what_it_needs(api: Place) -> None:
    async with api.client() as http:
        run_id = (await http.post("/v1/runs", json={"goal": "Who?"})).json()["run_id"]
        lonely = (await http.get(f"/v1/runs/{run_id}")).json()
        needs = needs_of(replay(await api.store.read(run_id)).start)
        assert not await api.dispatcher.take(1, now=api.now, has=needs - {"model:main"}, wait=0.0)
        lacking = (await http.get(f"/v1/runs/{run_id}")).json()
        assert await api.dispatcher.take(1, now=api.now, has=needs, wait=0.0)
        driven = (await http.get(f"/v1/runs/{run_id}")).json()
    assert {each["state"] for each in (lonely, lacking, driven)} == {"open"}
    assert lonely["detail"] == NOBODY
    assert "it needs the model 'main';" in lacking["detail"]
    assert driven["detail"] == ""


async def test_a_run_for_later_is_not_queued_now(api: Place) -> None:
    async with api.client() as http:
        assert (await http.post("/v1/runs", json={"goal": "Who?", "at": NOW + 60})).status_code == 201
    depth = await api.dispatcher.depth(now=api.now)
    assert (depth.queued, depth.scheduled) == (0, 1)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, "goal"),
        ({"goal": ""}, "goal"),
        ({"goal": "  "}, "question is empty"),
        ({"goal": 3}, "goal"),
        ({"goal": "x", "gaol": 1}, "gaol"),
        ({"goal": "x", "max_steps": 0}, "max_steps"),
        ({"goal": "x", "agent": "nobody"}, "no agent 'nobody'"),
        ({"goal": "x", "model": "nothing"}, "no model 'nothing'"),
        ({"goal": "x", "tools": ["nothing"]}, "no tool nothing"),
        ({"goal": "x", "key": "a\u0000b"}, "key"),
        ([1], "body"),
        (None, "body"),
    ],
)
async def test_what_is_wrong_with_a_submission_is_named(api: Place, body: Any, names: str) -> None:
    async with api.client() as http:
        response = await http.post("/v1/runs", content=json.dumps(body), headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert names in response.json()["detail"]
    assert await api.store.runs() == ()


async def test_pages_of_the_list_are_disjoint_and_complete_while_runs_come_in(api: Place) -> None:
    for number in range(7):
        api.now = NOW + number // 2
        await api.run(f"r{number}")
    seen: list[str] = []
    cursor = None
    async with api.client() as http:
        while True:
            query: dict[str, Any] = {"limit": 3} | ({"cursor": cursor} if cursor else {})
            page = (await http.get("/v1/runs", params=query)).json()
            seen += [run["run_id"] for run in page["runs"]]
            await api.run(f"new{len(seen)}")
            if (cursor := page["next"]) is None:
                break
    assert seen == [f"r{number}" for number in (6, 5, 4, 3, 2, 1, 0)]


async def test_the_list_is_filtered(api: Place) -> None:
    await api.run("done", *DONE)
    await api.run("open", tenant="t")
    async with api.client() as http:

        async def ids(**query: Any) -> list[str]:
            return [run["run_id"] for run in (await http.get("/v1/runs", params=query)).json()["runs"]]

        assert await ids(outcome="answered") == ["done"]
        assert await ids(outcome="open") == ["open"]
        assert await ids(tenant="t") == ["open"]
        assert await ids(agent="nobody") == []
        assert await ids(since=NOW + 1000) == []


@pytest.mark.parametrize("query", ["cursor=x", "cursor=W10=", "limit=0", "limit=x", "outcome=maybe", "colour=red"])
async def test_a_query_that_makes_no_sense_is_refused(api: Place, query: str) -> None:
    async with api.client() as http:
        assert (await http.get(f"/v1/runs?{query}")).status_code == 422


async def test_an_ended_run_tells_its_answer_and_its_tokens(api: Place) -> None:
    await api.run("done", *DONE)
    async with api.client() as http:
        said = (await http.get("/v1/runs/done")).json()
    assert (said["state"], said["outcome"], said["answer"], said["steps"]) == ("ended", "answered", "Liu", 2)
    assert said["usage"]["input_tokens"] == 20


async def test_a_damaged_run_is_told_as_damaged(api: Place) -> None:
    await api.run("bad", observed("1.0"))
    async with api.client() as http:
        said = (await http.get("/v1/runs/bad")).json()
    assert said["state"] == "damaged"
    assert "not pending" in said["detail"]


async def test_whatever_a_model_wrote_is_json_on_the_wire(api: Place) -> None:
    turn = acts(1, ("pay", {"half": "\ud800", "nan": float("nan"), "big": 10**30}))
    await api.run("odd", turn, Waiting("1.0", NOW, "approval"), goal="half \udfff")
    async with api.client() as http:
        response = await http.get("/v1/runs/odd")
    waiting = json.loads(response.content)["waiting"]
    assert waiting[0]["input"] == {"half": "?", "nan": None, "big": 10**30}


async def test_a_wrong_query_is_told_by_its_parameter_and_what_is_allowed(api: Place) -> None:
    async with api.client() as http:
        said = {
            query: (await http.get(f"/v1/runs?{query}")).json()["detail"]
            for query in ("outcome=maybe", "limit=x", "since=x", "colour=red")
        }
        body = (await http.post("/v1/runs", json={"labels": {"a": 1, "b\n": "x"}})).json()["detail"]
    assert said["outcome=maybe"].startswith("the query is not as it should be. outcome: Input should be 'answered', ")
    assert said["outcome=maybe"].endswith(" or 'open'")
    assert [said[query].partition(". ")[2].partition(":")[0] for query in said] == [
        "outcome",
        "limit",
        "since",
        "colour",
    ]
    assert all("str-enum" not in each and "literal" not in each for each in said.values())
    assert "goal: Field required; labels.a: Input should be a valid string" in body
    assert "[key]" not in body


async def test_an_edit_that_the_tool_would_not_take_is_refused_in_words(api: Place) -> None:
    takes: JsonObject = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    await api.begin("r", started(replace(spec("pay", requires_approval=True), schema=takes)))
    await api.more("r", acts(1, ("pay", {"n": 1})), Waiting("1.0", NOW + 1e6, "approval"))
    async with api.client() as http:
        wrong = [
            await http.post("/v1/runs/r/actions/1.0/edit", json={"input": given})
            for given in ({"n": "2"}, {"n": 2.5}, {}, {"n": 2, "m": 3})
        ]
        assert len(await api.store.read("r")) == 3
        right = await http.post("/v1/runs/r/actions/1.0/edit", json={"input": {"n": 2}})
    assert [each.json()["detail"] for each in wrong] == [
        "n: '2' is not of type 'integer'. Allowed: n (integer, required)",
        "n: 2.5 is not of type 'integer'. Allowed: n (integer, required)",
        "'n' is a required property. Allowed: n (integer, required)",
        "Additional properties are not allowed ('m' was unexpected). Allowed: n (integer, required)",
    ]
    assert {(each.status_code, each.json()["type"]) for each in wrong} == {
        (422, "urn:orchestrator:problem:invalid_arguments")
    }
    assert right.status_code == 200
    assert replay(await api.store.read("r")).decided["1.0"].input == {"n": 2}


async def test_an_edit_is_no_deeper_than_what_a_model_may_write(api: Place) -> None:
    await api.run("r", acts(1, ("pay", {"n": 1})), Waiting("1.0", NOW + 1e6, "approval"))
    deep = '{"n":' * 900 + "1" + "}" * 900
    async with api.client(**{"content-type": "application/json"}) as http:
        edited = await http.post("/v1/runs/r/actions/1.0/edit", content=f'{{"input":{deep}}}')
    assert edited.status_code == 422
    assert "nested deeper than 64 levels" in edited.json()["detail"]
    assert len(await api.store.read("r")) == 3


async def test_a_person_approves_edits_and_refuses(api: Place) -> None:
    turn = acts(1, *[("pay", {"n": n}) for n in range(3)])
    await api.run("r", turn, *[Waiting(f"1.{n}", NOW + 1e6, "approval") for n in range(3)])
    async with api.client(api.token("ann", ["approve"])) as http:
        assert (await http.post("/v1/runs/r/actions/1.0/approve")).status_code == 200
        edited = await http.post("/v1/runs/r/actions/1.1/edit", json={"input": {"n": 9}, "reason": "less"})
        refused = await http.post("/v1/runs/r/actions/1.2/refuse", json={"reason": "no"})
        again = await http.post("/v1/runs/r/actions/1.2/refuse", json={"reason": "no"})
        unknown = await http.post("/v1/runs/r/actions/9.9/approve")
    assert (edited.status_code, refused.status_code, again.status_code, unknown.status_code) == (200, 200, 409, 409)
    assert again.json()["code"] == "NOT_WAITING"
    decided = replay(await api.store.read("r")).decided
    assert {key: (each.by, each.verdict, each.reason) for key, each in decided.items()} == {
        "1.0": ("ann", "approve", ""),
        "1.1": ("ann", "edit", "less"),
        "1.2": ("ann", "refuse", "no"),
    }


async def test_cancelling_twice_is_once_and_an_ended_run_is_a_conflict(api: Place) -> None:
    await api.run("r")
    await api.run("done", *DONE)
    async with api.client() as http:
        for _ in range(2):
            assert (await http.post("/v1/runs/r/cancel", json={"reason": "late"})).status_code == 200
        assert (await http.post("/v1/runs/done/cancel")).status_code == 409
    assert [entry.event.kind for entry in await api.store.read("r")] == ["run_started", "decision"]


async def test_a_callback_is_good_once_and_only_with_our_signature(api: Place) -> None:
    await api.run("r", acts(1, ("search", {})), Waiting("1.0", NOW + 1e6))
    good, late = signed(KEY, "r", "1.0", NOW + 1e5), signed(KEY, "r", "1.0", NOW - 1)
    forged = signed(b"another key", "r", "1.0", NOW + 1e5)
    async with api.client("") as http:

        async def bring(token: str, result: Any = "delivered") -> int:
            return (await http.post(f"/v1/callbacks/{token}", json=result)).status_code

        assert await bring(forged) == 403
        assert await bring(late) == 410
        assert await bring("x.y") == 403
        assert await bring(good, {"status": "pending", "code": None, "data": None, "message": ""}) == 422
        assert await bring(good) == 204
        assert await bring(good) == 409
    trace = await api.store.read("r")
    assert trace[-1].event.kind == "observation"


async def test_the_raw_body_is_given_only_through_its_own_run(api: Place) -> None:
    seen = observed("1.0", "cleaned")
    await api.run("r", acts(1, ("search", {})), seen)
    await api.run("other")
    await api.store.append("other", 1, [ModelTurn("", final().intent)], at=api.now, blobs={seen.digest: b"<script>"})
    async with api.client() as http:
        response = await http.get(f"/v1/runs/r/raw/{seen.digest}")
        assert (response.status_code, response.content) == (200, b"<script>")
        assert response.headers["content-disposition"] == "attachment"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert (await http.get(f"/v1/runs/other/raw/{seen.digest}")).status_code == 404


async def test_tools_and_models_are_listed_without_addresses_and_keys(api: Place) -> None:
    async with api.client() as http:
        tools, models = await http.get("/v1/tools"), await http.get("/v1/models")
    assert [tool["name"] for tool in tools.json()["tools"]] == ["search", "pay"]
    assert tools.json()["tools"][1]["schema"] == spec().schema
    assert models.json()["models"] == [{"name": "main", "provider": "openai", "model": "demo", "protocol": "native"}]
    assert "127.0.0.1" not in models.text


async def test_the_health_of_a_window_is_recomputed_from_its_traces(api: Place) -> None:
    await api.run("done", *DONE)
    await api.run("bad", observed("1.0"))
    failing = acts(1, ("search", {"q": "x"}), thought="I use pay.", anomalies=(Anomaly.EXTRA_ACTIONS,))
    await api.run("r", failing, observed("1.0", code="TIMEOUT"), final("It timed out."))
    async with api.client() as http:
        said = (await http.get("/v1/health", params={"since": NOW - 1, "until": NOW + 100})).json()
        empty = (await http.get("/v1/health", params={"until": NOW - 1})).json()
    assert (said["runs"], said["damaged"], said["complete"]) == (3, 1, True)
    assert said["outcomes"] == {"answered": 1, "open": 2}
    assert said["error_propagation"] == {"value": 1.0, "of": 1}
    assert said["thought_action_gap"]["of"] >= 1
    assert empty["thought_action_gap"] == {"value": None, "of": 0}
