"""Debian's Chromium, driven by playwright; its own browsers are never downloaded."""

from __future__ import annotations

import shutil

from playwright.async_api import Browser, Playwright

NAME = "chromium"


async def launched(player: Playwright) -> Browser:
    """A browser without a window."""
    return await player.chromium.launch(
        executable_path=shutil.which(NAME),
        args=["--disable-gpu", "--font-render-hinting=none", "--disable-dev-shm-usage"],
    )
