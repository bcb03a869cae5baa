"""Wikipedia as the ReAct paper's environment has it, over answers in the shape of the real API (Arctic Monkeys: own words)."""

import httpx
import pytest

from tests.tools.call import answering, call, refused
from tools import wikipedia

PAGES = {
    "arctic monkeys": "wikipedia_intro.json",
    "Arctic Monkeys": "wikipedia_page.json",
    "Mercury": "wikipedia_disambiguation.json",
}


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    requests: list[httpx.Request] = []

    def choose(request: httpx.Request) -> str:
        requests.append(request)
        if request.url.path == "/w/rest.php/v1/search/page":
            return "wikipedia_search.json"
        return PAGES.get(request.url.params["titles"], "wikipedia_missing.json")

    monkeypatch.setattr(wikipedia, "transport", answering(choose))
    return requests


async def test_search_gives_the_first_paragraph_after_redirects(asked: list[httpx.Request]) -> None:
    result = await call(wikipedia.wikipedia_search, title="arctic monkeys")
    assert result.data == {
        "title": "Arctic Monkeys",
        "paragraph": "Arctic Monkeys are an English rock band formed in Sheffield in 2002. The group has four members.",
    }
    assert asked[0].url.host == "en.wikipedia.org"
    assert asked[0].headers["user-agent"].startswith("orchestrator-react/")


@pytest.mark.parametrize("title", ["Arctik Monkees", "Mercury"])
async def test_a_page_that_is_not_there_or_only_lists_meanings_brings_similar_titles(title: str) -> None:
    result = await call(wikipedia.wikipedia_search, title=title)
    assert (result.status, result.code) == ("error", "NOT_FOUND")
    assert "Mercury (planet)" in result.data["similar"]
    assert title not in result.data["similar"]
    assert len(result.data["similar"]) <= 5
    assert "Mercury (planet)" in result.message


async def test_lookup_gives_the_nth_sentence_with_the_keyword() -> None:
    first = await call(wikipedia.wikipedia_lookup, title="Arctic Monkeys", keyword="sheffield")
    assert first == {
        "title": "Arctic Monkeys",
        "sentence": "Arctic Monkeys are an English rock band formed in Sheffield in 2002.",
        "result": 1,
        "of": 3,
    }
    third = await call(wikipedia.wikipedia_lookup, title="Arctic Monkeys", keyword="sheffield", nth=3)
    assert third["sentence"] == "Did Sheffield notice?"


async def test_lookup_past_the_last_sentence_is_an_error() -> None:
    error = await refused(wikipedia.wikipedia_lookup, title="Arctic Monkeys", keyword="Sheffield", nth=4)
    assert error.code == "NO_MORE_RESULTS"
    assert (await refused(wikipedia.wikipedia_lookup, title="Arctic Monkeys", keyword="gorilla")).code == "NOT_FOUND"
    assert (await refused(wikipedia.wikipedia_lookup, title="No Page", keyword="x")).code == "NOT_FOUND"
    assert (await refused(wikipedia.wikipedia_lookup, title="Arctic Monkeys", keyword=" ")).code == "INVALID_PARAM"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (httpx.Response(503), "HTTP_503"),
        (httpx.Response(429), "HTTP_429"),
        (httpx.Response(200, text="<html>"), "BAD_RESPONSE"),
        (httpx.Response(200, json=[]), "BAD_RESPONSE"),
        (httpx.Response(200, json={"error": {"code": "maxlag"}}), "WIKI_ERROR"),
    ],
)
async def test_a_bad_answer_is_named(monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, code: str) -> None:
    monkeypatch.setattr(wikipedia, "transport", answering(lambda _request: answer))
    assert (await refused(wikipedia.wikipedia_search, title="Arctic Monkeys")).code == code


@pytest.mark.parametrize(("error", "code"), [(httpx.ReadTimeout, "API_TIMEOUT"), (httpx.ConnectError, "UNAVAILABLE")])
async def test_a_failed_connection_is_named(
    monkeypatch: pytest.MonkeyPatch, error: type[httpx.TransportError], code: str
) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error("no", request=request)

    monkeypatch.setattr(wikipedia, "transport", httpx.MockTransport(fail))
    assert (await refused(wikipedia.wikipedia_lookup, title="Arctic Monkeys", keyword="x")).code == code
