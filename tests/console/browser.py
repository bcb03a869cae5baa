"""One Chromium for the whole session, and a console for each test, on one event loop. What a page must never do is watched throughout."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, Page, Route

from tests.api.place import Place


@dataclass(slots=True)
class Watched:
    """A page, and what went wrong on it: dialogs, console errors, errors of scripts, requests that leave the server."""

    page: Page
    url: str
    wrong: list[str] = field(default_factory=list)

    async def go(self, path: str) -> None:
        """Open one of our pages."""
        answer = await self.page.goto(self.url + path)
        assert answer is not None
        assert answer.ok, f"{path}: {answer.status}"

    async def answers(self, script: str) -> Any:
        """What a script in the page says."""
        return await self.page.evaluate(script)


def watch(page: Page, url: str) -> Watched:
    """Everything that a page of ours must not do."""
    watched = Watched(page, url)
    host = urlsplit(url).netloc

    async def dismiss(dialog: Any) -> None:
        watched.wrong.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("pageerror", lambda error: watched.wrong.append(f"script: {error}"))
    page.on(
        "console",
        lambda said: watched.wrong.append(f"{said.type}: {said.text}") if said.type in {"error", "warning"} else None,
    )
    page.on("popup", lambda _: watched.wrong.append("a window was opened"))
    page.on(
        "request",
        lambda asked: watched.wrong.append(f"left: {asked.url}") if urlsplit(asked.url).netloc != host else None,
    )
    return watched


@asynccontextmanager
async def opened(browser: Browser, place: Place, **how: Any) -> AsyncIterator[Watched]:
    """A signed-in page of this console; at the end nothing must have gone wrong."""
    async with place.served() as url:
        context = await browser.new_context(**{"locale": "en-US", "color_scheme": "light", **how})
        try:
            if place.admin:
                await context.add_cookies([{"name": "orchestrator_token", "value": place.admin, "url": url}])
            await at_home(context, url)
            watched = watch(await context.new_page(), url)
            yield watched
            assert not watched.wrong, watched.wrong
        finally:
            await context.close()


async def at_home(context: BrowserContext, url: str) -> None:
    """A request to anywhere else fails; nothing is ever asked of the network."""

    async def elsewhere(route: Route) -> None:
        await route.abort()

    await context.route(lambda asked: urlsplit(asked).netloc != urlsplit(url).netloc, elsewhere)
