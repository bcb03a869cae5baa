"""Who may do what: tokens, scopes, tenants, browsers; and what every answer carries."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from orchestrator.api.auth import Gate
from orchestrator.api.events import frame
from orchestrator.api.operation import LARGEST_BODY
from orchestrator.api.tokens import Scope, TokenFile
from orchestrator.core.events import Waiting
from orchestrator.errors import ConfigError, StoreError
from tests.api.place import NOW, Place, place
from tests.build import acts, observed

LISTED = [
    ("GET", "/v1/runs/theirs"),
    ("GET", "/v1/runs/theirs/events"),
    ("GET", "/v1/runs/theirs/raw/d"),
    ("POST", "/v1/runs/theirs/cancel"),
    ("POST", "/v1/runs/theirs/actions/1.0/approve"),
    ("POST", "/v1/runs/theirs/actions/1.0/refuse"),
    ("POST", "/v1/runs/theirs/actions/1.0/edit"),
]


@pytest.mark.parametrize(("method", "path"), LISTED)
async def test_another_tenants_run_looks_like_no_run(api: Place, method: str, path: str) -> None:
    await api.run("theirs", acts(1, ("pay", {})), Waiting("1.0", NOW + 1e6, "approval"), tenant="b")
    body: dict[str, object] = {"input": {}} if path.endswith("edit") else {}
    async with api.client(api.token("a", ["read", "submit", "approve"], "a")) as http:
        foreign = await http.request(method, path, json=body)
        missing = await http.request(method, path.replace("theirs", "none"), json=body)
    assert foreign.status_code == missing.status_code == 404
    assert foreign.content == missing.content
    assert len(await api.store.read("theirs")) == 3


async def test_a_tenant_lists_submits_and_measures_only_its_own(api: Place) -> None:
    await api.run("theirs", tenant="b")
    await api.run("own", tenant="a")
    async with api.client(api.token("a", ["read", "submit"], "a")) as http:
        assert [run["run_id"] for run in (await http.get("/v1/runs")).json()["runs"]] == ["own"]
        assert (await http.get("/v1/runs?tenant=b")).status_code == 403
        assert (await http.get("/v1/health", params={"until": NOW + 100})).json()["runs"] == 1
        assert (await http.post("/v1/runs", json={"goal": "x", "tenant": "b"})).status_code == 403
        assert (await http.post("/v1/runs", json={"goal": "x"})).json()["tenant"] == "a"


async def test_a_key_of_one_tenant_is_not_anothers(api: Place) -> None:
    ids = []
    for tenant in ("a", "b"):
        async with api.client(api.token(tenant, ["submit"], tenant)) as http:
            ids.append((await http.post("/v1/runs", json={"goal": "x", "key": "same"})).json()["run_id"])
    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    ("scopes", "method", "path", "status"),
    [
        (["read"], "POST", "/v1/runs", 403),
        (["read"], "POST", "/v1/runs/r/cancel", 403),
        (["read", "submit"], "POST", "/v1/runs/r/actions/1.0/approve", 403),
        (["submit", "approve"], "GET", "/v1/runs", 403),
        (["submit", "approve"], "GET", "/v1/health", 403),
        (["read"], "GET", "/v1/runs", 200),
        (["admin"], "GET", "/v1/runs", 200),
    ],
)
async def test_a_scope_is_needed(api: Place, scopes: list[Scope], method: str, path: str, status: int) -> None:
    async with api.client(api.token("t", scopes)) as http:
        response = await http.request(method, path)
    assert response.status_code == status
    assert status == 200 or response.json()["code"] == "SCOPE_MISSING"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic eDp5", "Bearer orc_" + "A" * 43, "Bearer \xff"])
async def test_without_a_good_token_nobody_gets_in(api: Place, header: str) -> None:
    headers = [(b"Authorization", header.encode("latin-1"))] if header else []
    async with api.client("") as http:
        response = await http.get("/v1/runs", headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")


async def test_expired_and_revoked_tokens_are_refused_at_once(api: Place) -> None:
    expiring, revoked = api.token("e", ["read"], expires_at=NOW + 10), api.token("v", ["read"])
    async with api.client(expiring) as old, api.client(revoked) as gone:
        assert [(await http.get("/v1/runs")).status_code for http in (old, gone)] == [200, 200]
        api.now += 11
        TokenFile(api.tokens.path).revoke("v")
        assert [(await http.get("/v1/runs")).status_code for http in (old, gone)] == [401, 401]


async def test_where_no_token_was_made_everybody_on_this_machine_may_do_everything(tmp_path: Path) -> None:
    async with place(tmp_path, tokens=False) as api, api.client("") as http:
        assert (await http.post("/v1/runs", json={"goal": "x"})).status_code == 201
        assert (await http.get("/v1/runs", headers={"host": "localhost:8700"})).status_code == 200
        rebound = await http.get("/v1/runs", headers={"host": "evil.example"})
        assert (rebound.status_code, rebound.json()["code"]) == (403, "FOREIGN_HOST")
        api.token("first", ["read"])
        assert (await http.get("/v1/runs")).status_code == 401
        api.tokens.revoke("first")
        assert (await http.get("/v1/runs")).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}],
)
async def test_a_foreign_page_cannot_make_a_browser_act(tmp_path: Path, headers: dict[str, str]) -> None:
    async with place(tmp_path, tokens=False) as api, api.client("", **headers) as http:
        await api.run("r")
        response = await http.post("/v1/runs/r/cancel")
        assert (response.status_code, response.json()["code"]) == (403, "FOREIGN_ORIGIN")
        assert (await http.post("/v1/runs", json={"goal": "x"})).status_code == 403


async def test_bound_to_the_world_a_token_must_exist(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "t.json")
    with pytest.raises(ConfigError, match="token create"):
        Gate(tokens, loopback=False)
    tokens.create("a", ["read"], "", NOW)
    tokens_gate = Gate(tokens, loopback=False)
    tokens.revoke("a")
    assert not tokens_gate.open


def test_the_file_holds_no_token_and_is_its_owners(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "deep" / "t.json")
    text = tokens.create("a", ["read"], "x", NOW)
    kept = tokens.path.read_text()
    assert text not in kept
    assert text.removeprefix("orc_") not in kept
    assert len(text) > 43
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="already"):
        tokens.create("a", ["read"], "", NOW)
    with pytest.raises(ConfigError, match="no token"):
        tokens.revoke("b")


@pytest.mark.parametrize("content", ["", "[]", '{"tokens": [{}]}', "\xff"])
async def test_a_damaged_file_of_tokens_lets_nobody_in(api: Place, content: str) -> None:
    api.tokens.path.write_text(content, "latin-1")
    with pytest.raises(StoreError, match="cannot be read"):
        TokenFile(api.tokens.path).all()
    async with api.client() as http:
        response = await http.get("/v1/runs")
    assert response.status_code == 503
    assert str(api.tokens.path) not in response.text


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "Invalid JSON"),
        ("[]", "the whole: "),
        ('{"tokens": [{"id": "sec"}]}', "tokens.0.name: Field required"),
        (None, "cannot be opened \\(Is a directory\\)"),
    ],
)
def test_serving_begins_with_no_file_of_tokens_that_cannot_be_read(
    tmp_path: Path, content: str | None, says: str, *, loopback: bool
) -> None:
    path = tmp_path / "tokens.json"
    path.mkdir() if content is None else path.write_text(content)
    with pytest.raises(ConfigError, match=says) as refused:
        Gate(TokenFile(path), loopback=loopback)
    assert str(path) in str(refused.value)
    assert "api.tokens" in str(refused.value)
    assert "sec" not in str(refused.value).replace("second", "")


@pytest.mark.parametrize("path", ["/v1/runs", "/"])
async def test_a_file_of_tokens_that_goes_bad_is_told_as_that(api: Place, path: str) -> None:
    async with api.client() as http:
        api.tokens.path.write_text('{"tokens": 3}')
        with capture_logs() as logged:
            response = await http.get(path)
    assert response.status_code == 503
    assert "TOKENS_UNAVAILABLE" in response.text
    assert "malformed" in response.text
    assert "store" not in response.text.partition("TOKENS_UNAVAILABLE")[2].partition("</p>")[0]
    assert api.tokens.path.name not in response.text
    (line,) = logged
    assert str(api.tokens.path) in line["error"]
    assert "malformed" in line["error"]


async def test_every_answer_carries_the_security_headers(api: Place) -> None:
    async with api.client() as http:
        for path in ("/v1/runs", "/nothing", "/v1/runs/none", "/openapi.json"):
            headers = (await http.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["cache-control"] == "no-store"


async def test_what_is_not_there_is_a_problem_that_says_so(api: Place) -> None:
    async with api.client() as http:
        missing, wrong = await http.get("/v1/nothing"), await http.request("DELETE", "/v1/runs")
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert missing.headers["content-type"] == "application/problem+json"


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(api: Place) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b"x" * 65536

    async with api.client() as http:
        said = await http.post("/v1/runs", content=b"x" * (LARGEST_BODY + 1))
        chunked = await http.post("/v1/runs", content=endless())
    assert (said.status_code, chunked.status_code) == (413, 413)


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b'{"goal": "x"}', "text/plain", 415),
        (b'{"goal": "x"}', "", 415),
        (b'{"goal": ', "application/json", 422),
        (b'{"goal": "\\ud800"}', "application/json", 422),
        (b'{"goal": NaN}', "application/json", 422),
        (b"[" * 100_000, "application/json", 422),
        (b'{"goal": "x"}', "Application/JSON; charset=utf-8", 201),
    ],
)
async def test_only_json_is_taken(api: Place, content: bytes, kind: str, status: int) -> None:
    async with api.client() as http:
        response = await http.post("/v1/runs", content=content, headers={"content-type": kind} if kind else {})
    assert response.status_code == status


async def test_something_unforeseen_says_nothing_of_the_inside(api: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret inside")

    monkeypatch.setattr(api.store, "runs", broken)
    async with api.client() as http:
        response = await http.get("/v1/runs")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.json()["code"] == "INTERNAL_ERROR"


async def test_what_is_for_a_provider_or_a_tool_alone_is_not_told(api: Place) -> None:
    turn = replace(acts(1, ("search", {}), ("pay", {})), opaque={"signature": "sig-123"})
    await api.run("r", turn, Waiting("1.1", NOW + 1e6, token="ticket-9"), observed("1.0"))
    frames = [frame(entry) for entry in await api.store.read("r")]
    assert not [each for each in frames if b"sig-123" in each or b"ticket-9" in each]
    assert json.loads(frames[1].split(b"data: ")[1])["event"]["kind"] == "model_turn"
