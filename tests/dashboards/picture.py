"""python -m tests.dashboards.picture: play the scene for three minutes and draw both boards into docs/images/ with Chromium.

With a file as argument, what Prometheus answered is kept there, or read from there if it exists: to work on the drawing.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dashboards.draw import Line, page, size
from tests.dashboards.board import BOARDS, filled, panels
from tests.dashboards.prometheus import Prometheus, Series
from tests.dashboards.scene import scene

IMAGES = Path(__file__).parents[2] / "docs" / "images"
INSTALL = "apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core fonts-noto-cjk"
WELL = {"guide": 14, "stand-in": 1}
ILL = {"guide": 8, "drifter": 4, "sleeper": 5, "busy": 3, "forger": 2, "thinker": 1, "chatter": 1, "stand-in": 1}
WORSE = {**ILL, "wanderer": 2}
PHASES: tuple[tuple[int, Mapping[str, int]], ...] = (
    (7, WELL), (1, {"guide": 400}), (3, WORSE), (8, ILL), (5, WELL),
)  # fmt: skip
"""How many times, what: a healthy minute, a burst, a bad minute, and a healthy end."""
PAUSE = 6.0


def played(folder: Path) -> dict[str, Any]:
    """What Prometheus says of every panel after the scene."""
    with scene(folder) as found:
        start = time.time()
        time.sleep(3)
        for times, what in PHASES:
            for _ in range(times):
                begun = time.monotonic()
                found.submit(what)
                time.sleep(max(0.0, PAUSE - (time.monotonic() - begun)))
        found.ended(within=60)
        end = time.time()
        boards = {
            name: {str(panel["id"]): asked(found.prometheus, panel, start, end) for panel in panels(name)}
            for name in BOARDS
        }
    return {"start": start, "end": end, "boards": boards}


def asked(server: Prometheus, panel: Mapping[str, Any], start: float, end: float) -> list[list[Any]]:
    """[name, labels, points] of each series of a panel."""
    found: list[list[Any]] = []
    for target in panel["targets"]:
        expr = filled(target["expr"], "20s")
        lines = server.instant(expr) if target["instant"] else server.range(expr, start, end, 2.0)
        for line in lines:
            points = line["values"] if "values" in line else [line["value"]]
            found.append(
                [named(target["legendFormat"], line), line["metric"], [[at, float(value)] for at, value in points]]
            )
    return found


def named(legend: str, line: Series) -> str:
    labels: dict[str, str] = line["metric"]
    if legend == "__auto":
        return ", ".join(labels.values())
    return re.sub(r"{{(\w+)}}", lambda match: labels.get(match[1], ""), legend)


def shoot(text: str, extent: tuple[int, int], path: Path) -> None:
    """The page as a PNG."""
    browser = shutil.which("chromium")
    assert browser, f"no chromium: {INSTALL}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "board.html"
        source.write_text(text, "utf-8")
        flags = (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
        )
        command = [browser, *flags, f"--window-size={extent[0]},{extent[1]}", f"--screenshot={path}", source.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def main(words: Sequence[str]) -> None:
    kept = Path(words[0]) if words else None
    if kept is not None and kept.exists():
        story = json.loads(kept.read_text("utf-8"))
    else:
        with tempfile.TemporaryDirectory() as folder:
            story = played(Path(folder))
        if kept is not None:
            kept.write_text(json.dumps(story), "utf-8")
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, board in BOARDS.items():
        answers = {
            int(number): [Line(title, [(at, value) for at, value in points], labels) for title, labels, points in lines]
            for number, lines in story["boards"][name].items()
        }
        shoot(page(board, answers, story["start"], story["end"]), size(board), IMAGES / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
