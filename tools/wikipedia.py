"""Wikipedia, with the two actions of the ReAct paper's environment (arXiv:2210.03629, section 3.1), but stateless.

`wikipedia_search` gives the first paragraph of a page or five similar titles; `wikipedia_lookup` gives the n-th sentence of
a page that contains a keyword. Pages come from the MediaWiki action API, similar titles from its REST search. Both go out as
`wikipedia` (`[egress.tools.wikipedia]` of the settings).
"""

import os
import re
from typing import Any

import httpx

from orchestrator.tool import ToolError, ToolResult, tool, web_client

WIKI = "https://en.wikipedia.org"
# https://meta.wikimedia.org/wiki/User-Agent_policy: a name and a way to reach the operator.
USER_AGENT = "orchestrator-react/0.1 (https://www.mediawiki.org/wiki/API:Etiquette; contact: {contact})"
SIMILAR = 5
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")

transport: httpx.AsyncBaseTransport | None = None


@tool(repeatable=True, timeout=15.0, trusted=False, aliases=("维基搜索",))
async def wikipedia_search(title: str) -> ToolResult:
    """Open the Wikipedia page with this title: its first paragraph, or five similar titles if there is no such page."""
    if not title.strip():
        raise ToolError("INVALID_PARAM", "title must not be empty")
    async with client() as http:
        page = await fetch_page(http, title, intro=True)
        if page is not None and page["extract"]:
            paragraph = page["extract"].split("\n", 1)[0].strip()
            return ToolResult("success", data={"title": page["title"], "paragraph": paragraph})
        found = await get_json(http, "/w/rest.php/v1/search/page", {"q": title, "limit": str(SIMILAR)})
    similar = [str(hit.get("title")) for hit in found.get("pages", []) if hit.get("title") != title][:SIMILAR]
    message = f'could not find "{title}". Similar: {", ".join(similar)}' if similar else f'could not find "{title}"'
    return ToolResult("error", code="NOT_FOUND", data={"similar": similar}, message=message)


@tool(repeatable=True, timeout=15.0, trusted=False, aliases=("维基检索",))
async def wikipedia_lookup(title: str, keyword: str, nth: int = 1) -> dict[str, Any]:
    """Find a keyword on a Wikipedia page: the nth sentence (from 1) that contains it, and how many there are."""
    if not title.strip() or not keyword.strip() or nth < 1:
        raise ToolError("INVALID_PARAM", "title and keyword must not be empty, and nth counts from 1")
    async with client() as http:
        page = await fetch_page(http, title, intro=False)
    if page is None:
        raise ToolError("NOT_FOUND", f'there is no page "{title}"; open it with wikipedia_search first')
    wanted = keyword.strip().casefold()
    hits = [sentence.strip() for sentence in SENTENCE_END.split(page["extract"]) if wanted in sentence.casefold()]
    if nth > len(hits):
        what = f'only {len(hits)} sentences contain "{keyword}"' if hits else f'no sentence contains "{keyword}"'
        raise ToolError("NO_MORE_RESULTS" if hits else "NOT_FOUND", f"{what} on the page {page['title']}")
    return {"title": page["title"], "sentence": hits[nth - 1], "result": nth, "of": len(hits)}


def client() -> httpx.AsyncClient:
    """One client per call: no state is shared between runs."""
    contact = os.environ.get("ORCHESTRATOR_CONTACT", "operator of this installation")
    return web_client(
        "wikipedia",
        inner=transport,
        base_url=os.environ.get("ORCHESTRATOR_WIKI", WIKI),
        headers={"user-agent": USER_AGENT.format(contact=contact)},
    )


async def fetch_page(http: httpx.AsyncClient, title: str, *, intro: bool) -> dict[str, str] | None:
    """The page's title after redirects and its plain text; None if there is no such page or it only lists meanings."""
    query = {
        "action": "query",
        "format": "json",
        "formatversion": "2",
        "redirects": "1",
        "prop": "extracts|pageprops",
        "ppprop": "disambiguation",
        "explaintext": "1",
        "exsectionformat": "plain",
        "titles": title,
    }
    if intro:
        query["exintro"] = "1"
    body = await get_json(http, "/w/api.php", query)
    if "error" in body:
        raise ToolError("WIKI_ERROR", str(body["error"])[:200])
    pages = body.get("query", {}).get("pages", [])
    if (
        not pages
        or pages[0].get("missing")
        or pages[0].get("invalid")
        or "disambiguation" in pages[0].get("pageprops", {})
    ):
        return None
    return {"title": str(pages[0]["title"]), "extract": str(pages[0].get("extract", ""))}


async def get_json(http: httpx.AsyncClient, path: str, params: dict[str, str]) -> dict[str, Any]:
    """GET a JSON object; whatever else comes is a ToolError with a code."""
    try:
        response = await http.get(path, params=params)
        response.raise_for_status()
        body = response.json()
    except httpx.TimeoutException as error:
        raise ToolError("API_TIMEOUT", f"{http.base_url} did not answer in time") from error
    except httpx.HTTPStatusError as error:
        raise ToolError(f"HTTP_{error.response.status_code}", f"{http.base_url} refused {path}") from error
    except httpx.HTTPError as error:
        raise ToolError("UNAVAILABLE", f"{http.base_url} cannot be reached: {error}") from error
    except ValueError as error:
        raise ToolError("BAD_RESPONSE", f"{http.base_url} sent something that is not JSON") from error
    if not isinstance(body, dict):
        raise ToolError("BAD_RESPONSE", f"{http.base_url} sent JSON that is no object")
    return body
