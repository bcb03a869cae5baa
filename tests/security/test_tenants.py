"""One tenant never sees another's run: over every operation of the table and every page, so that a new one cannot be forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.routing import Mount, Route

from orchestrator.api.auth import COOKIE
from orchestrator.api.operation import Operation
from orchestrator.api.table import OPERATIONS
from orchestrator.api.tokens import SCOPES, Scope
from orchestrator.console import pages
from orchestrator.core.events import Observation, Outcome, RunEnded, Waiting
from orchestrator.inbox import signed
from orchestrator.metrics.recompute import samples
from tests.api.conftest import api, terse_log
from tests.api.place import KEY, NOW, Place
from tests.build import acts, final
from tests.console.page import Page, harmless

__all__ = ["api", "terse_log"]

SECRET = "their-secret-4711"
DIGEST = "d" * 64
IN_PATH = {"run_id": SECRET, "digest": DIGEST, "action_id": "2.0", "step": "1", "name": "request"}
BODIES: dict[str, dict[str, Any]] = {
    "submit_run": {"goal": "mine", "key": "same"},
    "edit_action": {"input": {}},
    "call_back": {"status": "success"},
}
NO_RUN = frozenset({"submit_run", "list_runs", "list_tools", "list_models", "get_health", "call_back"})
"""Operations that name no run in their path; each was thought about, and what it shows is looked at below."""


async def theirs(api: Place) -> int:
    """A run of tenant b that has everything there is to be asked for; its number of entries."""
    seen = Observation("1.0", "search", "success", SECRET, digest=DIGEST)
    await api.run(SECRET, acts(1, ("search", {"q": SECRET}), thought=SECRET), tenant="b", goal=SECRET)
    await api.store.append(SECRET, 2, [seen], at=api.now, blobs={DIGEST: SECRET.encode()})
    await api.more(SECRET, acts(2, ("pay", {"n": SECRET})), Waiting("2.0", NOW + 1e6, "approval"))
    first = (await api.store.read(SECRET))[0].event
    await api.begin("done-" + SECRET, first)  # type: ignore[arg-type]
    await api.more("done-" + SECRET, final(SECRET), RunEnded(Outcome.ANSWERED, SECRET))
    return 5


def path_of(path: str, run_id: str = SECRET) -> str:
    return path.format(**{**IN_PATH, "run_id": run_id, "token": "none"})


def body_of(operation: Operation) -> dict[str, Any]:
    return {"json": BODIES.get(operation.name, {})} if operation.body is not None else {}


def as_one(body: bytes) -> bytes:
    return body.replace(SECRET.encode(), b"*").replace(b"none", b"*")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
async def test_what_is_anothers_looks_like_nothing(api: Place, operation: Operation) -> None:
    entries = await theirs(api)
    own = operation.name in NO_RUN
    assert own == ("{run_id}" not in operation.path), f"{operation.name}: say how a tenant is kept out of it"
    async with api.client(api.token("a", ["admin"], "a")) as http:
        found = await http.request(operation.method, path_of(operation.path), **body_of(operation))
        if not own:
            missing = await http.request(operation.method, path_of(operation.path, "none"), **body_of(operation))
            assert found.status_code == missing.status_code == 404
            assert as_one(found.content) == as_one(missing.content)
    assert SECRET not in found.text
    assert len(await api.store.read(SECRET)) == entries


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
async def test_another_tenants_word_in_query_or_body_opens_nothing(api: Place, operation: Operation) -> None:
    entries = await theirs(api)
    more = body_of(operation)
    if operation.name == "submit_run":
        more["json"] = {**more["json"], "tenant": "b"}
    async with api.client(api.token("a", ["admin"], "a"), **{"x-tenant": "b", "x-forwarded-user": "b"}) as http:
        path = path_of(operation.path)
        found = await http.request(operation.method, path, params={"tenant": "b"}, **more)
    assert SECRET not in found.text
    assert found.status_code != 500
    assert len(await api.store.read(SECRET)) == entries
    assert [row.run_id for row in await api.store.runs(tenant="b")] == ["done-" + SECRET, SECRET]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
@pytest.mark.parametrize("scope", [*SCOPES, None])
async def test_only_the_scope_of_an_operation_or_admin_lets_in(
    api: Place, operation: Operation, scope: Scope | None
) -> None:
    await theirs(api)
    token = api.token("t", [] if scope is None else [scope], "b")
    async with api.client(token) as http:
        path = path_of(operation.path, "none")  # an event stream would not end
        found = await http.request(operation.method, path, **body_of(operation))
        async with api.client("") as stranger:
            unknown = await stranger.request(operation.method, path, **body_of(operation))
    if operation.scope is None:
        assert (found.status_code, found.json()["code"]) == (403, "BAD_TOKEN")
        return
    assert unknown.status_code == 401
    assert (found.status_code == 403) == (scope not in {operation.scope, "admin"})
    assert found.status_code != 403 or found.json()["code"] == "SCOPE_MISSING"


def of_console(api: Place) -> Iterator[tuple[str, str]]:
    for route in pages.routes(api.service):
        if isinstance(route, Mount):
            assert route.path == "/static"
            continue
        assert isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}:
            yield method, route.path


async def browser(api: Place, token: str) -> httpx.AsyncClient:
    http = api.client("")
    http.cookies.set(COOKIE, token)
    return http


async def test_no_page_shows_another_tenants_run_and_no_form_changes_it(api: Place) -> None:
    entries = await theirs(api)
    routes = list(of_console(api))
    assert len(routes) > 8
    async with await browser(api, api.token("a", ["admin"], "a")) as http:
        fields = {**Page((await http.get("/")).text).fields(), "verdict": "approve", "reason": "x"}
        for method, path in routes:
            if path == "/logout":
                continue
            for query in ("", "?part=1", "?tenant=b", "?lang=zh"):
                data = fields if method == "POST" else None
                found = await http.request(method, path_of(path) + query, data=data)
                missing = await http.request(method, path_of(path, "none") + query, data=data)
                assert SECRET not in found.text.replace(f"/runs/{SECRET}", ""), path
                assert ("{run_id}" in path) == (found.status_code == 404), path
                assert found.status_code == missing.status_code
    assert len(await api.store.read(SECRET)) == entries


async def test_without_signing_in_no_page_shows_anything(api: Place) -> None:
    await theirs(api)
    async with api.client("") as http:
        for method, path in of_console(api):
            found = await http.request(method, path_of(path))
            assert SECRET not in found.text.replace(f"/runs/{SECRET}", "")
            assert found.status_code in ({200, 303} if method == "GET" else {401, 403}), path


async def test_a_stream_is_refused_before_its_first_event_and_ended_when_its_token_is(
    api: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.api.events.BEAT", 0.0)
    await theirs(api)
    async with api.client(api.token("a", ["read"], "a")) as http:
        refused = await http.get(f"/v1/runs/{SECRET}/events")
    assert (refused.status_code, SECRET in refused.text) == (404, False)
    own = api.token("b", ["read"], "b")
    async with (
        api.served() as url,
        httpx.AsyncClient(headers={"Authorization": f"Bearer {own}"}) as http,
        http.stream("GET", f"{url}/v1/runs/{SECRET}/events") as response,
    ):
        lines = response.aiter_lines()
        assert [line async for line in first(lines, "id: 2")]
        api.tokens.revoke("b")
        await api.more(SECRET, Observation("2.0", "pay", "success", "after the end"))
        rest = [line async for line in lines]
    assert any('"status": 401' in line for line in rest)
    assert not any("after the end" in line for line in rest)


async def first(lines: Any, mark: str) -> Any:
    async for line in lines:
        yield line
        if line == mark:
            return


async def test_a_page_of_the_list_that_was_begun_by_one_tenant_goes_on_in_the_others_own_runs(api: Place) -> None:
    for number in range(6):
        await api.run(f"{'ab'[number % 2]}{number}", tenant="ab"[number % 2])
    async with api.client(api.token("b", ["read"], "b")) as http:
        cursor = (await http.get("/v1/runs", params={"limit": 1})).json()["next"]
    async with api.client(api.token("a", ["read"], "a")) as http:
        page = (await http.get("/v1/runs", params={"cursor": cursor})).json()["runs"]
    assert {run["tenant"] for run in page} == {"a"}


async def test_a_key_that_another_tenant_used_gives_a_run_of_ones_own(api: Place) -> None:
    ids = set()
    for tenant in ("a", "b"):
        async with api.client(api.token(tenant, ["submit"], tenant)) as http:
            ids.add((await http.post("/v1/runs", json={"goal": SECRET, "key": "same"})).json()["run_id"])
    assert len(ids) == 2


async def test_what_is_counted_is_ones_own(api: Place) -> None:
    await theirs(api)
    window = {"since": 0, "until": NOW + 1e6}
    seen = {}
    for tenant in ("a", "b", "*"):
        async with api.client(api.token(f"t-{tenant}", ["read"], tenant)) as http:
            health = (await http.get("/v1/health", params=window)).json()
            page = harmless((await http.get("/health", params={"hours": 9999})).text)
            seen[tenant] = (health["runs"], health["outcomes"], "answered" in page.text)
    assert seen["a"] == (0, {}, False)
    assert seen["b"] == seen["*"] == (2, {"answered": 1, "open": 1}, True)


async def test_no_metric_names_a_tenant(api: Place) -> None:
    await theirs(api)
    for run_id in (SECRET, "done-" + SECRET):
        for sample in samples(await api.store.read(run_id)):
            assert "tenant" not in sample.labels
            assert SECRET not in " ".join(sample.labels.values())


async def test_a_callback_is_good_for_its_own_action_alone(api: Place) -> None:
    entries = await theirs(api)
    await api.run("own", acts(1, ("search", {})), Waiting("1.0", NOW + 1e6), tenant="a")
    async with api.client("") as http:
        for run_id, action in ((SECRET, "2.0"), (SECRET, "1.0"), ("own", "9.9")):
            token = signed(KEY, run_id, action, NOW + 1e6)
            found = await http.post(f"/v1/callbacks/{token}", json={"x": 1})
            assert found.status_code in {404, 409, 503}, (run_id, action)
        good = signed(KEY, "own", "1.0", NOW + 1e6)
        assert (await http.post(f"/v1/callbacks/{good}", json={"x": 1})).status_code == 204
    assert len(await api.store.read(SECRET)) == entries
