"""Nothing that a model, a tool, a user, a provider or a person wrote becomes part of a page: whatever field it is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from orchestrator.core.events import (
    Action,
    Actions,
    ActionStarted,
    Anomaly,
    Attempt,
    Decision,
    Event,
    Malformed,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    RunStarted,
    Usage,
    Waiting,
)
from orchestrator.core.spec import AgentSpec
from tests.api.place import NOW, Place
from tests.build import final, spec
from tests.console.page import harmless

EVIL = (
    "\"'><script>alert(1)</script><img src=x onerror=alert(1)>",
    "</textarea></pre></title><svg onload=alert(1)>",
    "javascript:alert(1)//{{7*7}}{%raw%}",
    "\u202e\x1b[2J\x00&lt;b&gt;\ud800",
)
OURS = frozenset({"kind", "id", "status", "verdict", "stop", "protocol", "language", "outcome", "token"})


def poisoned(value: Any, evil: str, name: str = "") -> Any:
    """The same event with every free text replaced."""
    if type(value) is str:
        return value if name in OURS or value in {"approval", "tool"} else evil
    if is_dataclass(value) and not isinstance(value, type):
        changes = {each.name: poisoned(getattr(value, each.name), evil, each.name) for each in fields(value)}
        return replace(value, **changes)
    if isinstance(value, Mapping):
        return {evil: evil} if name in {"input", "facts", "labels"} else value
    if isinstance(value, tuple) and not (value and isinstance(value[0], Anomaly)):
        return tuple(poisoned(each, evil, name) for each in value)
    return value


def every_event() -> list[Event]:
    tried = (Attempt("model", "TIMEOUT", 0.5),)
    actions = tuple(Action(f"1.{index}", "pay", {"q": 1}) for index in range(4))
    usage = Usage(10, 5, 2, 1, 0.25)
    turn = ModelTurn(
        "t", Actions(actions), usage=usage, anomalies=(Anomaly.EXTRA_ACTIONS,), reasoning="r", model="m", attempts=tried
    )
    error = Observation(
        "1.1", "pay", "error", "c", code="X", digest="d", size=3, sanitised=("cut",), attempts=(*tried, *tried)
    )
    return [
        turn,
        ActionStarted("1.0"),
        Observation("1.0", "pay", "success", "c", digest="d", seconds=0.5),
        Waiting("1.1", NOW + 1e6),
        error,
        Waiting("1.2", NOW + 1e6, "approval"),
        Decision("1.2", "ann", "edit", {"a": 1}, "because"),
        Waiting("1.3", NOW + 1e6, "approval"),
        Decision("", "ann", "cancel", reason="because"),
    ]


def ending() -> list[Event]:
    return [
        Observation("1.2", "pay", "success", "c"),
        Observation("1.3", "pay", "success", "c"),
        replace(final("answer", missing="m", thought="t"), intent=Malformed(Anomaly.NO_ACTION, "detail")),
        final("answer", missing="m", thought="t"),
        RunEnded(Outcome.GAVE_UP, "answer", "missing", "CODE", "detail"),
    ]


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("whole", [False, True], ids=["open", "ended"])
async def test_no_field_of_a_trace_becomes_part_of_a_page(api: Place, evil: str, whole: bool) -> None:
    first = RunStarted(
        "goal", AgentSpec("a", "1", ("m",)), tools=(spec("pay"),), tenant="t", run_kind="k", labels={"a": "b"}
    )
    run_id = evil.replace("/", "|")[:60] if evil.isprintable() else "r"
    await api.begin(run_id, poisoned(first, evil))
    await api.more(run_id, *[poisoned(event, evil) for event in every_event() + (ending() if whole else [])])
    async with api.client() as http:
        for query in ("/", "/health"):
            listed = await http.get(query)
            assert listed.status_code == 200
            harmless(listed.text)
        link = next(each["href"] for each in harmless((await http.get("/")).text).all("a") if "data-item" in each)
        for query in ("", "?part=1", "?lang=zh"):
            shown = await http.get(link + query)
            assert shown.status_code == 200, shown.text
            page = harmless(shown.text)
            assert "49{" not in page.text
            odd = [line for line in page.text.splitlines() if set(line) & set("\u202e\x1b\x00")]
            assert not odd
    if "<script>" in evil:
        assert "<script>alert(1)</script>" in page.text


@pytest.mark.parametrize("evil", [each for each in EVIL if each.isprintable()])
async def test_no_part_of_a_request_becomes_part_of_a_page(api: Place, evil: str) -> None:
    query = dict.fromkeys(("outcome", "agent", "anomaly", "tool", "hours", "next", "lang"), evil)
    async with api.client() as http:
        for path in ("/", "/login", "/health", "/runs/none"):
            harmless((await http.get(path, params=query)).text)
        harmless((await http.get(f"/runs/{evil}".replace("?", ""))).text)
        harmless((await http.get("/", params={"cursor": evil})).text)
        harmless((await http.post("/login", data={"next": evil, "token": evil})).text)


@pytest.mark.parametrize("evil", EVIL)
async def test_a_raw_body_is_shown_as_text(api: Place, evil: str) -> None:
    body = evil.encode("utf-8", "surrogatepass")
    seen = Observation("1.0", "search", "success", "c", digest="d" * 64)
    turn = ModelTurn("", Actions((Action("1.0", "search", {}),)))
    await api.run("r", turn)
    await api.store.append("r", 2, [seen], at=api.now, blobs={seen.digest: body})
    async with api.client() as http:
        response = await http.get(f"/runs/r/raw/{seen.digest}")
        assert response.headers["content-type"].startswith("text/plain")
        assert response.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "<script" not in evil or "<script>alert(1)</script>" in response.text
        assert (await http.get("/runs/r/raw/none")).status_code == 404
