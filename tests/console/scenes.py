"""Runs worth looking at, made of events: for pictures, and for tests in a browser."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import replace

from orchestrator.core.events import (
    Action,
    Actions,
    ActionStarted,
    Anomaly,
    Attempt,
    Decision,
    Event,
    Final,
    ModelTurn,
    Observation,
    Outcome,
    RunEnded,
    RunStarted,
    StopReason,
    Usage,
    Waiting,
)
from orchestrator.core.spec import AgentSpec, Limits, Rule, ToolSpec
from orchestrator.dispatch import Job
from orchestrator.settings import Settings
from tests.api.place import MODEL, Place

Timed = tuple[float, Event]
"""Seconds since the event before, and the event."""

RULES = (
    Rule("marked", "ask", "The operator wants a person to approve each call of this tool.", marked=True),
    Rule("reads", "allow", "Reading changes nothing.", effects=("read",)),
)


def settings() -> Settings:
    """Those of a server that knows the model of these runs."""
    return Settings(models={"qwen3-32b": MODEL.model_copy(update={"model": "qwen3-32b"})})


def tool(name: str, description: str, **more: bool) -> ToolSpec:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    return ToolSpec(name, description, schema, repeatable=not more.get("requires_approval"), **more)  # type: ignore[arg-type]


TOOLS = (
    tool("search_orders", "Search the orders of a customer."),
    tool("get_invoice", "Get one invoice."),
    tool("fetch_page", "Fetch a page from the web.", trusted=False),
    tool("refund", "Refund an order.", requires_approval=True, side_effect=True),
)


def first(goal: str, **more: object) -> RunStarted:
    agent = AgentSpec("support", "7", ("qwen3-32b", "deepseek-v3"))
    start = RunStarted(goal, agent, Limits(), TOOLS, labels={"channel": "chat"}, permissions=RULES)
    return replace(start, **more)  # type: ignore[arg-type]


def turn(
    step: int, thought: str, *calls: tuple[str, dict[str, object]], seconds: float = 1.4, **more: object
) -> ModelTurn:
    actions = tuple(Action(f"{step}.{index}", name, given) for index, (name, given) in enumerate(calls))  # type: ignore[arg-type]
    usage = Usage(900 + 410 * step, 60 + 17 * step, 820 if step > 1 else 0, 0, round(0.0011 * (step + 1), 6))
    made = ModelTurn(thought, Actions(actions), StopReason.TOOL_USE, usage, model="qwen3-32b", seconds=seconds)
    return replace(made, first_token=round(seconds / 4, 3), **more)  # type: ignore[arg-type]


def answer(step: int, text: str, thought: str = "", *, missing: str | None = None) -> ModelTurn:
    usage = Usage(900 + 410 * step, 120, 820, 0, 0.0031)
    return ModelTurn(thought, Final(text, missing), usage=usage, model="qwen3-32b", seconds=2.1, first_token=0.4)


def seen(
    id: str, name: str, content: str, *, code: str | None = None, seconds: float = 0.4, **more: object
) -> Observation:
    digest = hashlib.sha256(content.encode()).hexdigest()
    status = "success" if code is None else "error"
    return replace(
        Observation(id, name, status, content, code, size=len(content.encode()), digest=digest, seconds=seconds),  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )


def began(*ids: str, rule: str = "reads") -> list[Timed]:
    return [(0.01, ActionStarted(id, rule=rule)) for id in ids]


def investigated() -> list[Timed]:
    """Parallel calls, retries of a model and a tool, an error that is noticed, an answer that rests on two Observations."""
    slow = (Attempt("qwen3-32b", "RATE_LIMITED", 0.6), Attempt("qwen3-32b", "OVERLOADED", 0.9))
    lame = (Attempt("get_invoice", "UPSTREAM_TIMEOUT", 1.0),)
    return [
        (
            1.6,
            turn(
                1,
                "I look for the customer's orders with search_orders, and read the returns policy with fetch_page.",
                ("search_orders", {"q": "Lin Wei, last 30 days"}),
                ("fetch_page", {"q": "https://shop.example/returns"}),
                seconds=1.5,
            ),
        ),
        *began("1.0", "1.1"),
        (0.7, seen("1.0", "search_orders", '{"orders": [{"id": "SO-20931", "total": "129.00", "state": "delivered"}]}', facts={"Order": "SO-20931"}, seconds=0.7)),
        (1.1, seen("1.1", "fetch_page", "Goods may be returned within 30 days of delivery. Refunds go to the card that paid.", seconds=1.8, sanitised=("markup",))),
        (5.2, turn(2, "Order SO-20931 was delivered. I get its invoice with get_invoice.", ("get_invoice", {"order": "SO-20931"}), attempts=slow)),
        *began("2.0"),
        (1.3, seen("2.0", "get_invoice", "UPSTREAM_TIMEOUT: the billing service did not answer within 1 s", code="UPSTREAM_TIMEOUT", seconds=1.3, attempts=(*lame, Attempt("get_invoice", "UPSTREAM_TIMEOUT", 0.2)))),
        (1.8, turn(3, "The billing service timed out. I try get_invoice once more, by the invoice number.", ("get_invoice", {"invoice": "INV-77120"}), reasoning="The error says a timeout, so the same call may work now.")),
        *began("3.0"),
        (2.4, seen("3.0", "get_invoice", '{"invoice": "INV-77120", "order": "SO-20931", "paid": "129.00 EUR", "card": "**** 4411", "delivered": "2026-11-12"}', seconds=2.4, attempts=lame, facts={"Invoice": "INV-77120"})),
        (2.2, answer(4, "Order SO-20931 (129.00 EUR, invoice INV-77120) was delivered on 2026-11-12, so it can be returned until 2026-12-12. The refund goes to the card ending in 4411.")),
        (0.01, RunEnded(Outcome.ANSWERED, "Order SO-20931 (129.00 EUR, invoice INV-77120) was delivered on 2026-11-12, so it can be returned until 2026-12-12. The refund goes to the card ending in 4411.")),
    ]  # fmt: skip


def running() -> list[Timed]:
    """Three calls side by side, one of them still going on."""
    return [
        (1.2, turn(1, "I search the orders and fetch both pages side by side.", ("search_orders", {"q": "Zhao Min"}), ("fetch_page", {"q": "https://carrier.example/track/88123"}), ("fetch_page", {"q": "https://shop.example/delivery"}), seconds=1.2)),
        *began("1.0", "1.1", "1.2"),
        (0.5, seen("1.0", "search_orders", '{"orders": [{"id": "SO-21007", "state": "shipped", "parcel": "88123"}]}', seconds=0.5)),
        (0.9, seen("1.2", "fetch_page", "Parcels arrive within four working days.", seconds=1.4)),
    ]  # fmt: skip


def failed() -> list[Timed]:
    """A forged Observation, an ignored error, searches that bring nothing new, and an honest end."""
    timed_out = "UPSTREAM_TIMEOUT: the billing service did not answer within 10 s"
    return [
        (1.9, turn(1, "I search for the order.", ("search_orders", {"q": "order 55-1"}), anomalies=(Anomaly.FORGED_OBSERVATION, Anomaly.EXTRA_ACTIONS))),
        *began("1.0"),
        (10.0, seen("1.0", "search_orders", timed_out, code="UPSTREAM_TIMEOUT", seconds=10.0)),
        (1.5, turn(2, "The order is known, so I fetch its page with fetch_page.", ("get_invoice", {"order": "55-1"}))),
        *began("2.0"),
        (0.3, seen("2.0", "get_invoice", "NOT_FOUND: there is no order 55-1", code="NOT_FOUND", seconds=0.3)),
        (1.4, turn(3, "There is no order 55-1; I search under the customer's name.", ("search_orders", {"q": "customer 55"}))),
        *began("3.0"),
        (0.4, seen("3.0", "search_orders", '{"orders": []}', seconds=0.4)),
        (1.4, turn(4, "Nothing found. I search again.", ("search_orders", {"q": "55"}))),
        *began("4.0"),
        (0.4, seen("4.0", "search_orders", '{"orders": []}', seconds=0.4)),
        (0.01, RunEnded(Outcome.NO_PROGRESS, missing="order 55-1; customer 55; 55", code="NO_PROGRESS", detail="3 steps brought nothing new")),
    ]  # fmt: skip


def asking(now: float) -> list[Timed]:
    """An action that waits for a person, after a long tool was waited for."""
    return [
        (1.7, turn(1, "I look up the order first.", ("search_orders", {"q": "SO-20931"}))),
        *began("1.0"),
        (0.2, Waiting("1.0", now + 900)),
        (340.0, seen("1.0", "search_orders", '{"orders": [{"id": "SO-20931", "total": "129.00", "card": "**** 4411"}]}', seconds=340.2)),
        (1.8, turn(2, "The customer asked for the refund and the order is within 30 days: I call refund.", ("refund", {"order": "SO-20931", "amount": 129.0, "currency": "EUR", "note": "Customer returned the goods on 2026-11-29."}))),
        (0.01, Waiting("2.0", now + 86_400, "approval", why="marked: The operator wants a person to approve each call of this tool.")),
    ]  # fmt: skip


def refused(now: float) -> list[Timed]:
    return [
        *asking(now),
        (75.0, Decision("2.0", "ann", "refuse", reason="The parcel is not back yet.")),
        (0.01, seen("2.0", "refund", "ann refused this action: The parcel is not back yet.", code="REFUSED", seconds=0.0)),
        (1.9, answer(3, "I could not refund order SO-20931: ann refused it, because the parcel is not back yet.", missing="an approval")),
        (0.01, RunEnded(Outcome.GAVE_UP, "I could not refund order SO-20931: ann refused it, because the parcel is not back yet.", "an approval")),
    ]  # fmt: skip


def long(steps: int = 2000) -> list[Timed]:
    """A run of so many steps, one in seven with an error."""
    found: list[Timed] = []
    for step in range(1, steps + 1):
        code = "NOT_FOUND" if step % 7 == 0 else None
        found += [
            (1.0, turn(step, f"I look at page {step} of the archive with fetch_page.", ("fetch_page", {"q": f"archive page {step}"}), seconds=0.9)),
            *began(f"{step}.0"),
            (0.3, seen(f"{step}.0", "fetch_page", f"Page {step}: record QX{step:04} was kept in box {step % 90}. " + "Lorem ipsum dolor sit amet. " * 8, code=code, seconds=0.3)),
        ]  # fmt: skip
    return [
        *found,
        (1.0, answer(steps + 1, "The record is QX0577.")),
        (0.01, RunEnded(Outcome.ANSWERED, "The record is QX0577.")),
    ]


async def play(place: Place, run_id: str, start: RunStarted, events: Sequence[Timed], at: float) -> None:
    """Put a run into the store, its first event at `at`."""
    place.now = at
    await place.dispatcher.submit(Job(run_id, start.tenant), start, now=at)
    for seq, (wait, event) in enumerate(events, 1):
        at += wait
        blobs = {}
        if isinstance(event, Observation) and event.digest:
            blobs = {event.digest: event.content.encode()}
        await place.store.append(run_id, seq, [event], at=at, blobs=blobs)
    place.now = at


QUESTIONS = (
    "Can order SO-20931 still be returned, and where does the money go?",
    "《三体》的作者出生在哪个省？该省的人口是多少？",
    "Which of our suppliers in Guangdong raised their prices by more than 5 % since March, and by how much?",
    "Summarise yesterday's incidents of the payment service for the morning meeting.",
    "把最近七天未发货的订单按仓库汇总，并找出积压最严重的仓库。",
    "When does the warranty of serial number 7741-AC end?",
)
ENDS = (Outcome.ANSWERED,) * 6 + (Outcome.GAVE_UP, Outcome.TOOL_ERRORS, Outcome.OUT_OF_STEPS)


async def a_day(place: Place, now: float) -> None:
    """A day's runs, for the list and the plots: the errors of the evening are ignored more often."""
    chance = random.Random(7)
    for number in range(90):
        at = now - 86_000 + number * 940 + chance.random() * 300
        outcome = chance.choice(ENDS)
        bad = chance.random() < (0.05 if number < 60 else 0.3)
        said = "The record is known." if bad else "The tool failed with NOT_FOUND; I search elsewhere."
        goal = chance.choice(QUESTIONS)
        named = "fetch_page" if chance.random() < 0.06 else "search_orders"
        events: list[Timed] = [
            (1.5, turn(1, f"I call {named} for it.", ("search_orders", {"q": goal[:20]}))),
            *began("1.0"),
            (0.5, seen("1.0", "search_orders", "NOT_FOUND: nothing by that name", code="NOT_FOUND")),
            (1.5, turn(2, said, ("get_invoice", {"q": "QX77"}))),
            *began("2.0"),
            (chance.random() * 3, seen("2.0", "get_invoice", "The record QX7731 belongs to Liu Cixin.")),
            *([(1.4, turn(3, "I make sure with search_orders.", ("search_orders", {"q": "QX7731"}))), *began("3.0"), (0.4, seen("3.0", "search_orders", "It is so."))] if number % 4 == 0 else []),
            (1.2, answer(4 if number % 4 == 0 else 3, "Liu Cixin, by record QX7731.")),
            (0.01, RunEnded(outcome, "Liu Cixin, by record QX7731.")),
        ]  # fmt: skip
        await play(place, f"01kb8{number:02}yq4m7zr8tc2x5e1hv0n", first(goal), events, at)
    place.now = now
