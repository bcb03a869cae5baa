"""Stored attacks in Chromium: in every text of every event, on every page, opened, hovered and focused. Nothing may run, load or lead away."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import pytest
from playwright.async_api import Browser, expect

from orchestrator.console import visit
from orchestrator.core.events import Event, Observation
from orchestrator.core.run import replay
from orchestrator.settings import Settings
from tests.api.place import MODEL, NOW, Place
from tests.build import trace
from tests.console import evil
from tests.console.browser import Watched, opened
from tests.console.page import harmless

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="session")]

TOUCHED = """() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  for (const each of document.querySelectorAll("*")) {
    for (const kind of ["mouseover", "mouseenter", "focus", "toggle"]) each.dispatchEvent(new Event(kind, { bubbles: true }));
  }
}"""


async def store(place: Place, run_id: str, events: list[Event], body: bytes) -> None:
    first, *rest = events
    await place.begin(run_id, first)  # type: ignore[arg-type]
    await place.more(run_id, *rest[:-1])
    row = await place.store.row(run_id)
    assert row is not None
    digests = {event.digest for event in events if isinstance(event, Observation)}
    await place.store.append(run_id, row.last_seq, rest[-1:], at=place.now, blobs=dict.fromkeys(digests, body))


async def untouched(at: Watched) -> None:
    """The page as the browser made it out, everything in it unfolded and touched, is still only ours."""
    await at.answers(TOUCHED)
    await expect(at.page.locator("details[data-load] .json")).to_have_count(
        await at.page.locator("details[data-load]").count()
    )
    assert await at.answers("() => typeof window.__xss") == "undefined"
    harmless(await at.page.content())


@pytest.mark.parametrize("payload", evil.PAYLOADS)
async def test_no_text_of_any_event_runs_loads_or_leads_away_on_any_page(
    chromium: Browser, console: Place, payload: str
) -> None:
    text = evil.PAYLOADS[payload]
    models = {text: MODEL.model_copy(update={"model": text})}
    object.__setattr__(console.service, "settings", Settings(models=models))
    running = evil.history(text, NOW)
    await store(console, "running", running, text.encode("utf-8", "surrogatepass"))
    await store(console, "ended", [*running, *evil.ending(text)], text.encode("utf-8", "surrogatepass"))
    query = urlencode(dict.fromkeys(("agent", "tool"), text.encode("utf-8", "replace")))
    async with opened(chromium, console) as at:
        for path in ("/", f"/?{query}", "/health", f"/login?next={quote(text.encode('utf-8', 'replace'))}"):
            await at.go(path)
            await untouched(at)
        for run in ("running", "ended"):
            await at.go(f"/runs/{run}")
            await untouched(at)
            for path in ("?lang=zh", "/steps/1/request", "/steps/3/request", "/steps/2/reply"):
                await at.go(f"/runs/{run}{path}")
                await untouched(at)
        await at.go("/runs/running?lang=en")
        for event in evil.ending(text):
            await console.more("running", event)
        await expect(at.page.locator("#sum dt").filter(has_text="Rests on")).to_be_visible()
        await untouched(at)


async def test_a_raw_body_is_never_a_page(chromium: Browser, console: Place) -> None:
    seen = evil.poisoned(Observation, "x", id="2.0", status="error", digest="d" * 64)
    events = evil.history("x", NOW)[:4]
    await store(console, "r", [*events, seen], evil.MARKUP.encode("utf-8", "surrogatepass"))
    async with opened(chromium, console) as at:
        await at.go(f"/runs/r/raw/{seen.digest}")
        assert "<script>window.__xss=1;alert(1)</script>" in await at.page.locator("pre").inner_text()
        assert await at.page.locator("script, img, svg, iframe").count() == 0


async def test_pages_that_do_not_escape_are_found_out_and_even_there_nothing_runs(
    chromium: Browser, console: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visit, "_pages", visit._pages.overlay(autoescape=False))
    await store(console, "r", evil.history(evil.PARTS[0], NOW), b"")
    async with opened(chromium, console) as at:
        await at.go("/runs/r")
        with pytest.raises(AssertionError):
            harmless(await at.page.content())
        assert await at.answers("() => typeof window.__xss") == "undefined"
        assert any("Content Security Policy" in each for each in at.wrong)
        at.wrong.clear()


@pytest.mark.parametrize("payload", evil.PAYLOADS.values(), ids=evil.PAYLOADS)
async def test_the_attack_is_a_whole_run_and_no_kind_of_event_is_missing(payload: str) -> None:
    events = [*evil.history(payload, NOW), *evil.ending(payload)]
    assert replay(trace(*events)).ended is not None
    assert {type(event) for event in events} == evil.kinds()
