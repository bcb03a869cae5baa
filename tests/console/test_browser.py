"""The console in Chromium: followed live, decided by mouse and keyboard, read without scripts, offline, long runs in no time."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from playwright.async_api import Browser, CDPSession, expect

from orchestrator.core.events import ActionStarted, Decision, Outcome, RunEnded, Waiting
from orchestrator.core.run import replay
from tests.api.place import NOW, Place
from tests.build import acts, final, observed
from tests.console import scenes
from tests.console.browser import opened

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="session")]

ASKED = (acts(1, ("pay", {"n": 1}), thought="I pay."), Waiting("1.0", NOW + 1e6, "approval"))
SCRIPT_SECONDS = 2.0


async def test_a_run_is_followed_live_without_a_reload(chromium: Browser, console: Place) -> None:
    await console.run("r")
    async with opened(chromium, console) as at:
        await at.go("/runs/r")
        await at.answers("() => { window.same = 1 }")
        await expect(at.page.locator("#sum .tag.big")).to_have_text("running")
        await console.more("r", acts(1, ("search", {"q": "x"}), thought="I search."))
        await expect(at.page.locator("#s1 .text")).to_have_text("I search.")
        await console.more("r", ActionStarted("1.0", rule="reads"))
        await expect(at.page.locator("#a1\\.0 .ruling")).to_contain_text("by policy · reads")
        await at.page.locator("#reply1 summary").click()
        await expect(at.page.locator("#reply1 .json")).to_contain_text("I search.")
        await console.more("r", observed("1.0", "Liu Cixin wrote it."))
        await expect(at.page.locator("#a1\\.0")).to_contain_text("Liu Cixin wrote it.")
        await expect(at.page.locator("#reply1 .json")).to_contain_text("I search.")
        await console.more("r", final("Liu Cixin."), RunEnded(Outcome.ANSWERED, "Liu Cixin."))
        await expect(at.page.locator(".answer")).to_have_text("Liu Cixin.")
        await expect(at.page.locator("#sum .tag.big")).to_have_text("answered")
        await expect(at.page.locator(".waterfall .bar")).to_have_count(3)
        await expect(at.page.locator("#cancel")).to_have_count(0)
        assert await at.answers("() => window.same") == 1


async def decided(place: Place) -> Decision:
    return replay(await place.store.read("r")).decided["1.0"]


async def test_an_approval_is_given_by_a_click(chromium: Browser, console: Place) -> None:
    await console.run("r", *ASKED)
    async with opened(chromium, console) as at:
        await at.go("/runs/r")
        await expect(at.page.locator(".ask")).to_contain_text("waits for your word: pay")
        await at.page.get_by_label("Reason").first.fill("The invoice is right.")
        await at.page.get_by_role("button", name="Approve").click()
        await expect(at.page.locator("#a1\\.0 .ruling").last).to_have_text(
            re.compile(r"approved · by admin \(Token \w+\) · The invoice is right\.")
        )
        await expect(at.page.get_by_role("button", name="Approve")).to_have_count(0)
    assert (await decided(console)).verdict == "approve"


async def test_an_approval_is_given_from_the_keyboard_alone(chromium: Browser, console: Place) -> None:
    await console.run("r", *ASKED, goal="Pay it!")
    async with opened(chromium, console) as at:
        await at.go("/")
        await at.page.keyboard.press("j")
        await at.page.keyboard.press("Enter")
        await expect(at.page.locator("h1")).to_have_text("Pay it!")
        await at.page.wait_for_load_state()  # its script is there
        await at.page.keyboard.press("a")
        await expect(at.page.get_by_role("button", name="Approve")).to_be_focused()
        await at.page.keyboard.press("Enter")
        await expect(at.page.locator("#a1\\.0 .ruling").last).to_contain_text("approved · by admin")
        await at.page.wait_for_load_state()
        await at.page.keyboard.press("u")
        await expect(at.page.locator("h1")).to_have_text("Runs")
    assert (await decided(console)).verdict == "approve"


async def test_an_action_is_refused_with_a_reason(chromium: Browser, console: Place) -> None:
    await console.run("r", *ASKED)
    async with opened(chromium, console) as at:
        await at.go("/runs/r")
        await at.page.get_by_label("Reason").first.fill("Too much.")
        await at.page.get_by_role("button", name="Refuse").click()
        await expect(at.page.locator("#a1\\.0 .ruling").last).to_have_text(
            re.compile(r"refused · by admin \(Token \w+\) · Too much\.")
        )
    assert (await decided(console)).reason == "Too much."


async def test_an_action_runs_with_another_input(chromium: Browser, console: Place) -> None:
    await console.run("r", *ASKED)
    async with opened(chromium, console) as at:
        await at.go("/runs/r")
        await at.page.get_by_text("Change its input").click()
        await at.page.locator("textarea").fill('{"n": 2}')
        await at.page.get_by_role("button", name="Run with this input").click()
        await expect(at.page.locator("#a1\\.0")).to_contain_text('{"n": 2}')
    assert (await decided(console)).input == {"n": 2}


async def test_what_somebody_writes_survives_what_the_run_does_meanwhile(chromium: Browser, console: Place) -> None:
    calls = acts(1, ("pay", {"n": 1}), ("search", {"q": "x"}))
    await console.run("r", calls, Waiting("1.0", NOW + 1e6, "approval"), ActionStarted("1.1"))
    async with opened(chromium, console) as at:
        await at.go("/runs/r")
        reason = at.page.get_by_label("Reason").first
        await reason.fill("I am still")
        await console.more("r", observed("1.1", "found it"))
        await expect(at.page.locator(".bar.open")).to_have_count(1)
        await expect(reason).to_have_value("I am still")
        await console.more("r", Decision("1.0", "bob", "refuse", reason="No."))
        await expect(at.page.locator("#a1\\.0 .ruling").last).to_have_text("refused · by bob · No.")
        await expect(at.page.locator("#a1\\.1")).to_contain_text("found it")


async def busy_seconds(session: CDPSession) -> float:
    """What scripts, styles and layout took since the page was opened."""
    found = {each["name"]: each["value"] for each in (await session.send("Performance.getMetrics"))["metrics"]}
    assert found["ScriptDuration"] > 0
    assert found["LayoutDuration"] > 0
    return float(found["ScriptDuration"] + found["LayoutDuration"] + found["RecalcStyleDuration"])


async def test_a_run_of_two_thousand_steps_opens_at_once_and_every_step_can_be_reached(
    chromium: Browser, console: Place
) -> None:
    await scenes.play(console, "r", scenes.first("Read it all."), scenes.long(2000), NOW)
    async with opened(chromium, console) as at:
        session = await at.page.context.new_cdp_session(at.page)
        await session.send("Performance.enable")
        await at.go("/runs/r")
        await expect(at.page.locator("article")).to_have_count(50)
        await expect(at.page.locator("#s2001")).to_contain_text("QX0577")
        await expect(at.page.locator(".cell")).to_have_count(182)
        await at.page.screenshot()  # whatever is to be laid out is
        assert await busy_seconds(session) < SCRIPT_SECONDS
        await at.page.get_by_role("link", name="577.0", exact=True).first.click()
        await expect(at.page.locator("#a577\\.0 .tag.rests")).to_be_visible()
        assert "from=577" in at.page.url
        await at.page.get_by_role("link", name="First").click()
        await expect(at.page.locator("#s1")).to_be_visible()
        await at.page.get_by_role("link", name="Later").first.click()
        await expect(at.page.locator("#s51")).to_be_visible()
        assert await busy_seconds(session) < SCRIPT_SECONDS


async def test_everything_can_be_read_without_scripts(chromium: Browser, console: Place) -> None:
    await scenes.play(console, "r", scenes.first("What of it?"), scenes.investigated(), NOW - 60)
    object.__setattr__(console.service, "settings", scenes.settings())
    async with opened(chromium, console, java_script_enabled=False) as at:
        await at.go("/")
        await at.page.get_by_role("link", name="What of it?").click()
        await expect(at.page.locator(".answer")).to_contain_text("SO-20931")
        await at.page.locator("#request3 summary").click()
        await at.page.locator("#request3").get_by_role("link").click()
        await expect(at.page.locator(".json")).to_contain_text("messages")
        await at.go("/runs/r")
        await at.page.get_by_role("link", name="raw").first.click()
        assert json.loads(await at.page.locator("pre").inner_text())["orders"]


@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_no_page_is_wider_than_a_phone(chromium: Browser, console: Place, theme: str, language: str) -> None:
    wide = "W" * 150
    first = replace(scenes.first(f"Why {wide}?"), labels={wide: wide}, tenant=wide)
    await scenes.play(
        console, "r", replace(first, agent=replace(first.agent, name=wide)), scenes.asking(NOW), NOW - 400
    )
    await console.run(
        "wide", acts(1, (wide, {wide: wide}), thought=wide), observed("1.0", wide, code=wide, tool=wide), goal=wide
    )
    phone = {"viewport": {"width": 360, "height": 740}, "color_scheme": theme, "locale": language}
    async with opened(chromium, console, **phone) as at:
        for path in ("/", "/runs/r", "/runs/wide", "/health", "/runs/wide/steps/1/reply", "/nowhere"):
            await at.page.goto(at.url + path)
            if path == "/nowhere":
                at.wrong.clear()
                continue
            over = await at.answers("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert over <= 0, f"{path} is {over} px too wide"


LUMINANCE = """([text, back]) => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((each) => {
      const part = each / 255; return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [a, b] = [light(text), light(back)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""
COLOURS = """() => {
  const behind = (each) => { for (let at = each; at; at = at.parentElement) { const found = getComputedStyle(at).backgroundColor; if (!/, 0\\)$/.test(found) && found !== "transparent") return found; } return "rgb(255, 255, 255)"; };
  const texts = [...document.querySelectorAll("body *")].filter((each) => !each.closest("svg") && [...each.childNodes].some((one) => one.nodeType === 3 && one.data.trim()));
  return [...new Set(texts.map((each) => JSON.stringify([getComputedStyle(each).color, behind(each)])))].map((each) => JSON.parse(each));
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_text_stands_out_from_what_is_behind_it(chromium: Browser, console: Place, theme: str) -> None:
    """WCAG AA: a contrast of 4.5."""
    await scenes.play(console, "a", scenes.first("a"), scenes.asking(NOW), NOW - 400)
    await scenes.play(console, "f", scenes.first("f"), scenes.failed(), NOW - 100)
    await scenes.play(console, "i", scenes.first("i"), scenes.investigated(), NOW - 60)
    async with opened(chromium, console, color_scheme=theme) as at:
        for path in ("/", "/runs/a", "/runs/f", "/runs/i", "/health", "/login", "/runs/i/steps/1/reply"):
            await at.go(path)
            for pair in await at.answers(COLOURS):
                contrast = await at.page.evaluate(LUMINANCE, pair)
                assert contrast >= 4.5, f"{path}: {pair} {contrast:.2f}"


async def test_a_dot_of_a_plot_leads_to_its_runs(chromium: Browser, console: Place) -> None:
    await scenes.play(console, "i", scenes.first("What of it?"), scenes.investigated(), NOW - 3600)
    console.now = NOW
    async with opened(chromium, console) as at:
        await at.go("/health")
        await at.page.locator("circle").first.click()
        await expect(at.page).to_have_url(re.compile("since="))
        await expect(at.page.get_by_role("link", name="What of it?")).to_be_visible()
