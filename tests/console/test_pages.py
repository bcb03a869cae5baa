"""What the pages show, and what their forms do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from orchestrator.api.auth import COOKIE
from orchestrator.console import pages
from orchestrator.console.words import WORDS
from orchestrator.core.events import Anomaly, Attempt, Decision, ModelTurn, Observation, Outcome, RunEnded, Waiting
from orchestrator.core.run import replay
from orchestrator.core.spec import JsonObject
from tests.api.place import NOW, Place, place
from tests.build import acts, final, observed, spec, started
from tests.console import scenes
from tests.console.page import Page, harmless

DONE = (
    acts(1, ("search", {"q": "x"}), thought="I search."),
    observed("1.0"),
    final("Liu"),
    RunEnded(Outcome.ANSWERED, "Liu"),
)
ASKED = (acts(1, ("pay", {"n": 1})), Waiting("1.0", NOW + 1e6, "approval"))
TEMPLATES = sorted((Path(pages.__file__).parent / "templates").glob("*.html"))


@asynccontextmanager
async def browser(api: Place, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """Signed in."""
    async with api.client("") as http:
        signed = await http.post("/login", data={"token": token, "next": "/"})
        assert signed.status_code == 303
        assert "HttpOnly" in signed.headers["set-cookie"]
        yield http


async def test_the_list_shows_runs_and_filters_them(api: Place) -> None:
    await api.run("done", *DONE, goal="Who wrote it?")
    await api.run("odd", acts(1, ("pay", {}), anomalies=(Anomaly.EXTRA_ACTIONS,)), goal="Pay!")
    async with api.client() as http:

        async def goals(**query: str) -> set[str]:
            text = Page((await http.get("/", params=query)).text).text
            return {goal for goal in ("Who wrote it?", "Pay!") if goal in text}

        assert await goals() == {"Who wrote it?", "Pay!"}
        assert await goals(outcome="answered") == {"Who wrote it?"}
        assert await goals(outcome="open") == {"Pay!"}
        assert await goals(tool="pay") == {"Pay!"}
        assert await goals(anomaly="extra_actions") == {"Pay!"}
        assert await goals(agent="nobody") == set()
        assert await goals(hours="nonsense", outcome="nonsense") == {"Who wrote it?", "Pay!"}


async def test_pages_of_the_list_are_complete(api: Place) -> None:
    for number in range(120):
        await api.run(f"r{number:03}")
    seen: list[str] = []
    path: str | None = "/"
    async with api.client() as http:
        while path:
            links = Page((await http.get(path)).text).all("a")
            seen += [each["href"] for each in links if "data-item" in each]
            path = next((each["href"] for each in links if each.get("rel") == "next"), None)
    assert seen == [f"/runs/r{number:03}" for number in reversed(range(120))]


async def test_a_run_is_shown_with_its_waterfall_and_its_trace(api: Place) -> None:
    tried = (Attempt("main", "RATE_LIMITED", 0.5),)
    turn = acts(1, ("search", {"q": "深圳"}), ("pay", {}), thought="I search.")
    turn = ModelTurn(turn.thought, turn.intent, model="main", seconds=1.0, attempts=tried)
    error = Observation("1.1", "pay", "error", "no funds", code="REFUSED", seconds=0.25)
    await api.run("r", turn, observed("1.0", "42 results"), error, final("Liu", thought="It was refused."))
    async with api.client() as http:
        page = harmless((await http.get("/runs/r")).text)
    kinds = [each["class"].split()[1] for each in page.all("rect")]
    assert kinds == ["tried", "model", "tool", "error", "model"]
    for text in (
        "I search.",
        '"q": "深圳"',
        "42 results",
        "REFUSED",
        "RATE_LIMITED",
        "named in the Thought",
        "error noticed",
    ):
        assert text in page.text, text
    assert [each["data-follow"] for each in page.all("div") if "data-follow" in each] == ["/v1/runs/r/events?after=5"]


async def test_an_ended_run_is_not_followed(api: Place) -> None:
    found = observed("1.0", "It was written by Liu Cixin in 2006.")
    answer = "Liu Cixin wrote it in 2006."
    await api.run("r", DONE[0], found, final(answer), RunEnded(Outcome.ANSWERED, answer))
    async with api.client() as http:
        page = harmless((await http.get("/runs/r")).text)
    assert not [each for each in page.all("div") if "data-follow" in each]
    assert "Liu Cixin" in page.text
    assert "1.00 2/2, trace" in page.text


async def test_a_damaged_run_is_shown_as_far_as_it_goes(api: Place) -> None:
    await api.run("r", *ASKED, observed("9.9"))
    async with api.client() as http:
        text = harmless((await http.get("/runs/r")).text).text
    assert "damaged trace" in text
    assert '"n": 1' in text


async def test_somebody_signs_in_approves_and_signs_out(api: Place) -> None:
    await api.run("r", *ASKED)
    async with browser(api, api.token("ann", ["read", "approve"])) as http:
        fields = harmless((await http.get("/runs/r")).text).fields()
        said = {"form": fields["form"], "verdict": "edit", "input": '{"n": 2}', "reason": "less"}
        assert (await http.post("/runs/r/actions/1.0", data=said)).status_code == 303
        decided = replay(await api.store.read("r")).decided["1.0"]
        assert (decided.by, decided.verdict, decided.input, decided.reason) == ("ann", "edit", {"n": 2}, "less")
        assert (await http.post("/runs/r/actions/1.0", data=said)).status_code == 409
        assert (await http.post("/runs/r/cancel", data=said)).status_code == 403
        assert (await http.post("/logout", data={"form": fields["form"]})).headers["location"] == "/login"
        assert (await http.get("/")).headers["location"] == "/login?next=%2F"


async def test_an_edit_that_the_tool_would_not_take_is_told_on_the_page(api: Place) -> None:
    takes: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    await api.begin("r", started(replace(spec("pay", requires_approval=True), schema=takes)))
    await api.more("r", *ASKED)
    async with browser(api, api.admin) as http:
        form = harmless((await http.get("/runs/r")).text).fields()["form"]
        said = {"form": form, "verdict": "edit", "input": '{"n": "<b>2"}'}
        response = await http.post("/runs/r/actions/1.0", data=said)
    assert response.status_code == 422
    assert "n: '<b>2' is not of type 'integer'. Allowed: n (integer)" in harmless(response.text).text
    assert len(await api.store.read("r")) == 3


@pytest.mark.parametrize("forged", [{}, {"form": ""}, {"form": "0" * 64}, {"form": "é"}])
async def test_a_form_that_is_not_from_our_page_does_nothing(api: Place, forged: dict[str, str]) -> None:
    await api.run("r", *ASKED)
    async with browser(api, api.admin) as http:
        for path in ("/runs/r/cancel", "/runs/r/actions/1.0", "/logout"):
            response = await http.post(path, data={**forged, "verdict": "approve"})
            assert response.status_code == 403, path
    assert len(await api.store.read("r")) == 3


async def test_a_browser_may_use_our_own_page_and_no_other(tmp_path: Path) -> None:
    async with place(tmp_path, tokens=False) as api, api.client("") as http:
        await api.run("r", *ASKED)
        page = await http.get("/runs/r")
        assert page.headers["referrer-policy"] == "same-origin", (
            "no-referrer makes a browser's own forms say `Origin: null`"
        )
        form, fetch = {"form": Page(page.text).fields()["form"]}, {"sec-fetch-site": "same-origin"}
        for origin in ("null", "http://evil.example", "http://127.0.0.1:9999"):
            assert (
                await http.post("/runs/r/cancel", data=form, headers={"origin": origin, **fetch})
            ).status_code == 403
        own = {"origin": "http://127.0.0.1:8700", **fetch}
        assert (await http.post("/runs/r/cancel", data=form, headers=own)).status_code == 303


async def test_the_form_of_one_session_is_no_good_in_another(api: Place) -> None:
    await api.run("r", *ASKED)
    async with (
        browser(api, api.token("a", ["admin"])) as one,
        browser(api, api.token("b", ["admin"])) as two,
    ):
        fields = Page((await one.get("/runs/r")).text).fields()
        assert (await two.post("/runs/r/cancel", data=fields)).status_code == 403


async def test_without_tokens_forms_are_signed_too(tmp_path: Path) -> None:
    async with place(tmp_path, tokens=False) as api, api.client("") as http:
        await api.run("r", *ASKED)
        fields = Page((await http.get("/runs/r")).text).fields()
        assert (await http.post("/runs/r/cancel", data={})).status_code == 403
        assert (await http.post("/runs/r/cancel", data={"form": fields["form"]})).status_code == 303


async def test_a_wrong_token_does_not_sign_in(api: Place) -> None:
    async with api.client("") as http:
        response = await http.post("/login", data={"token": "orc_wrong"})
    assert response.status_code == 401
    assert COOKIE not in response.headers.get("set-cookie", "")
    harmless(response.text)


@pytest.mark.parametrize(
    "asked", ["//evil.example", "https://evil.example", "/\\evil", "/runs/../x//y", "javascript:x", "/login"]
)
async def test_signing_in_leads_to_our_own_pages_only(api: Place, asked: str) -> None:
    async with api.client("") as http:
        response = await http.post("/login", data={"token": api.admin, "next": asked})
    assert response.headers["location"] == "/"


async def test_one_tenant_sees_nothing_of_another(api: Place) -> None:
    await api.run("theirs", *ASKED, tenant="b", goal="their secret")
    async with browser(api, api.token("a", ["admin"], "a")) as http:
        assert "their secret" not in (await http.get("/")).text
        for path in (
            "/runs/theirs",
            "/runs/theirs?part=1",
            "/runs/theirs/raw/d",
            "/runs/theirs/steps/1/request",
            "/runs/theirs/steps/1/reply",
        ):
            response = await http.get(path)
            assert response.status_code == 404
            assert "their secret" not in response.text
        form = Page((await http.get("/")).text).fields()["form"]
        assert (await http.post("/runs/theirs/cancel", data={"form": form})).status_code == 404
    assert len(await api.store.read("theirs")) == 3


async def test_no_script_but_our_own_may_run(api: Place) -> None:
    async with api.client() as http:
        policy = (await http.get("/")).headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for name in ("console.js", "console.css", "icon.svg"):
            assert (await http.get(f"/static/{name}")).status_code == 200
        for path in ("/static/../pages.py", "/static/%2e%2e/pages.py", "/static/"):
            assert (await http.get(path)).status_code in {404, 405}


async def test_the_pages_speak_chinese(api: Place) -> None:
    await api.run("r", *ASKED)
    async with api.client() as http:
        chosen = await http.get("/runs/r?lang=zh")
        by_browser = await http.get("/runs/r", headers={"accept-language": "zh-CN,zh;q=0.9"})
        kept = await http.get("/runs/r")
    for page in (chosen, by_browser, kept):
        assert "批准" in page.text
        assert 'lang="zh"' in page.text


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda each: each.name)
def test_templates_have_no_inline_script_style_or_unescaped_text_and_no_word_of_their_own(template: Path) -> None:
    text = template.read_text("utf-8")
    assert not re.search(r"\|\s*safe|autoescape|<script(?! src=\"/static/)|<style|style=|\son\w+=|https?:", text)
    assert set(re.findall(r"\bt\.(\w+)", text)) - {"get"} <= set(WORDS)
    assert set(re.findall(r"\bt\[\"(\w+)\"\]", text)) <= set(WORDS)


async def test_health_is_plotted_with_its_limits(api: Place) -> None:
    await api.run("r", *DONE)
    api.now = NOW + 600
    async with api.client() as http:
        page = harmless((await http.get("/health?hours=1")).text)
        assert (await http.get("/health?hours=x")).status_code == 200
    assert len(page.all("figure")) == 3
    assert [each["r"] for each in page.all("circle")] == ["4"]
    assert "5.0 %" in page.text
    assert "answered" in page.text


async def test_who_allowed_each_action_and_why_is_shown(api: Place) -> None:
    await scenes.play(api, "r", scenes.first("Refund it."), scenes.refused(NOW), NOW)
    told = Decision("3.0", "policy", "refuse", reason="never: Not on a holiday.")
    await api.run(
        "p", acts(1, ("pay", {})), replace(told, id="1.0"), observed("1.0", "refused", code="REFUSED", tool="pay")
    )
    async with api.client() as http:
        text = Page((await http.get("/runs/r")).text).text
        for said in (
            "allowed · by policy · reads: Reading changes nothing.",
            "asks a person · by policy · marked: The operator wants a person to approve each call of this tool.",
            "refused · by ann · The parcel is not back yet.",
        ):
            assert said in text, said
        assert "refused · by policy · never: Not on a holiday." in Page((await http.get("/runs/p")).text).text


async def test_what_the_answer_rests_on_is_marked_and_text_from_outside_is_told(api: Place) -> None:
    await scenes.play(api, "r", scenes.first("What of it?"), scenes.investigated(), NOW)
    async with api.client() as http:
        page = Page((await http.get("/runs/r")).text)
    assert [each["href"] for each in page.all("a") if each.get("class") == "rests"] == ["#a1.0", "#a1.1", "#a3.0"]
    assert "The answer rests on text from outside." in page.text
    assert page.text.count("◆ the answer rests on this") == 3 + 1  # and the legend


async def test_runs_of_an_interval_are_listed(api: Place) -> None:
    for number in range(3):
        api.now = NOW + number * 100
        await api.run(f"r{number}", goal=f"goal {number}")
    async with api.client() as http:
        page = Page((await http.get("/", params={"since": str(int(NOW + 50)), "until": str(int(NOW + 150))})).text)
        assert [each["href"] for each in page.all("a") if "data-item" in each] == ["/runs/r1"]
        assert page.fields()["since"] == str(int(NOW + 50))
        assert (await http.get("/", params={"since": "9" * 40, "until": "-1"})).status_code == 200


async def test_runs_that_wait_for_somebody_are_listed_whatever_happened_after_they_began_to(api: Place) -> None:
    both = acts(1, ("pay", {}), ("search", {}))
    await api.run("waits", both, Waiting("1.0", NOW + 1e6, "approval"), observed("1.1"))
    await api.run("waited", *ASKED, observed("1.0", tool="pay"))
    await api.run("damaged", *ASKED, observed("9.9"))
    await api.run("ended", *DONE)
    async with api.client() as http:
        page = harmless((await http.get("/?outcome=waiting")).text)
    assert [each["href"] for each in page.all("a") if "data-item" in each] == ["/runs/waits"]
