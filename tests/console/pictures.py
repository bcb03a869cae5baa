"""python -m tests.console.pictures [FOLDER]: the console in Chromium, as pictures: docs/images/console-*.png. Looks at every one for overflow."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from orchestrator import log
from tests.api.place import Place, place
from tests.console import scenes
from tests.console.chromium import launched

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
SHOWN = "console-run.png"
"""The one that the README shows."""
NOW = 1_796_040_000.0
WIDE, PHONE = (1360, 850), (390, 780)
IDS = {
    name: f"01kb9w{number}f4qz7m{number}r8tc2x5e{number}hv0ny"
    for number, name in enumerate(("answered", "running", "failed", "asking", "refused", "long"))
}
SHOTS = {
    "list": ("/", (1360, 620)),
    "run": (f"/runs/{IDS['answered']}", WIDE),
    "running": (f"/runs/{IDS['running']}", WIDE),
    "failed": (f"/runs/{IDS['failed']}", WIDE),
    "approval": (f"/runs/{IDS['asking']}#a2.0", WIDE),
    "long": (f"/runs/{IDS['long']}", WIDE),
    "request": (f"/runs/{IDS['answered']}/steps/3/request", WIDE),
    "plots": ("/health", WIDE),
    "phone-list": ("/", PHONE),
    "phone-approval": (f"/runs/{IDS['asking']}#a2.0", PHONE),
}
KEPT = {
    ("list", "light", "en"), ("list", "dark", "zh"), ("running", "light", "en"), ("running", "dark", "zh"), ("failed", "light", "en"),
    ("failed", "dark", "en"), ("approval", "light", "en"), ("approval", "dark", "zh"), ("plots", "light", "en"), ("plots", "dark", "en"),
    ("run", "light", "en"), ("phone-approval", "light", "zh"), ("phone-approval", "dark", "en"), ("phone-list", "light", "en"),
}  # fmt: skip
"""Of all pictures, those that stand in docs/images."""


async def filled(api: Place) -> None:
    """Something to look at."""
    object.__setattr__(api.service, "settings", scenes.settings())
    await scenes.a_day(api, NOW)
    await scenes.play(
        api,
        IDS["long"],
        scenes.first("Read the whole archive and find the record of 1977."),
        scenes.long(600),
        NOW - 90_000,
    )
    await scenes.play(
        api,
        IDS["failed"],
        scenes.first("Where is order 55-1, and why has nobody answered?"),
        scenes.failed(),
        NOW - 100,
    )
    await scenes.play(
        api, IDS["refused"], scenes.first("Please refund order SO-20931."), scenes.refused(NOW), NOW - 500
    )
    await scenes.play(api, IDS["answered"], scenes.first(scenes.QUESTIONS[0]), scenes.investigated(), NOW - 60)
    await scenes.play(
        api,
        IDS["asking"],
        scenes.first("The parcel is back. Please refund order SO-20931."),
        scenes.asking(NOW),
        NOW - 400,
    )
    await scenes.play(
        api,
        IDS["running"],
        scenes.first("Where is the parcel of Zhao Min, and when will it arrive?"),
        scenes.running(),
        NOW - 3,
    )
    api.now = NOW + 1.2


async def shoot(browser: Browser, url: str, folder: Path, name: str, theme: str, language: str) -> Path:
    path, (width, height) = SHOTS[name]
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,  # type: ignore[arg-type]
        locale="zh-CN" if language == "zh" else "en",
        device_scale_factor=1,
    )
    page = await context.new_page()
    answer = await page.goto(url + path)
    assert answer is not None
    assert answer.ok, f"{path}: {answer.status}"
    await settled(page)
    over = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if over > 0:
        print(f"{name} {theme} {language}: {over} px too wide")
    target = folder / (
        SHOWN if (name, theme, language) == ("run", "light", "en") else f"console-{name}-{theme}-{language}.png"
    )
    await page.screenshot(path=target, animations="disabled")
    await context.close()
    return target


async def settled(page: Page) -> None:
    """Nothing moves any more."""
    await page.evaluate("document.fonts.ready")


async def main(folder: Path, *, everything: bool) -> None:
    """All pictures, or those of docs/images."""
    log.configure("json", "error")
    with tempfile.TemporaryDirectory() as place_for_tokens:
        async with place(Path(place_for_tokens), tokens=False) as api, async_playwright() as player:
            await filled(api)
            browser = await launched(player)
            async with api.served() as url:
                for name in SHOTS:
                    for theme in ("light", "dark"):
                        for language in ("en", "zh"):
                            if everything or (name, theme, language) in KEPT:
                                print(await shoot(browser, url, folder, name, theme, language))
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if sys.argv[1:] else IMAGES, everything=bool(sys.argv[1:])))
