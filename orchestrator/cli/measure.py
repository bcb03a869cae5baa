"""`measure`: the health metrics again, from stored traces."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from orchestrator.alerts import Rule, load_rules
from orchestrator.alerts.rule import shown
from orchestrator.assembly import make_store
from orchestrator.cli.context import Context, context, say_json, spin
from orchestrator.cli.queue import span
from orchestrator.core.events import Outcome
from orchestrator.core.measure import Sample
from orchestrator.errors import IllegalEvent, StoreError
from orchestrator.metrics import Total, recompute, samples, totals
from orchestrator.show import plain

ENDED: Final = "orchestrator_runs_total"
TOKENS: Final = "orchestrator_tokens_total"
COST: Final = "orchestrator_cost_total"
SECONDS: Final = "orchestrator_model_seconds"
RULES: Final = ("thought_action_gap", "error_propagation", "step_bloat")


def measure(
    typed: typer.Context,
    *,
    since: Annotated[
        str | None, typer.Option("--since", help="Only runs that began within so long: 15m, 6h, 7d.")
    ] = None,
    run: Annotated[list[str] | None, typer.Option("--run", help="Only this run; may be given more than once.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every series, one JSON object a line.")] = False,
) -> None:
    """Recompute the metrics from stored traces, by the function that feeds the live ones: they are equal, sample for sample."""
    ctx = context(typed)
    found, runs, damaged = spin(_measured(ctx, since, run or ()))
    for problem in damaged:
        ctx.err.print(f"not measured: {plain(problem)}", style="yellow")
    if as_json:
        for total in totals(found):
            say_json(asdict(total), indent=None)
        return
    ctx.out.print(f"{runs} runs, {len(found)} samples")
    ctx.out.print(table(totals(found), load_rules(ctx.settings.alerts.rules)))


async def _measured(ctx: Context, since: str | None, runs: Sequence[str]) -> tuple[list[Sample], int, list[str]]:
    """The samples, how many runs they are of, and what is wrong with traces that cannot be folded."""
    found: list[Sample] = []
    damaged: list[str] = []
    count = 0
    begun = None if since is None else time.time() - span(since)
    async with make_store(ctx.settings.store) as store:
        async for run_id, trace in recompute(store, since=begun, runs=runs):
            if not trace:
                raise StoreError(f"no run {run_id!r} in {ctx.settings.place}: `orchestrator runs` lists them")
            count += 1
            try:
                found += list(samples(trace))
            except IllegalEvent as error:
                damaged.append(f"run {run_id}: {error}")
    return found, count, damaged


def table(found: Sequence[Total], rules: Sequence[Rule]) -> Table:
    """The three rates by agent and model, each beside its limit and what it rests on; then what else tells agents apart."""
    drawn = Table(box=None, pad_edge=False)
    for column in ("metric", "of", "value", "limit", "verdicts"):
        drawn.add_column(column, overflow="fold", no_wrap=column != "verdicts")
    for rule in rules:
        if rule.name in RULES:
            for group in sorted({tuple(each.labels.get(label, "") for label in rule.by) for each in of(rule, found)}):
                drawn.add_row(*row(rule, group, found))
    for cells in besides(found):
        drawn.add_row(*map(Text, cells))
    return drawn


def besides(found: Sequence[Total]) -> Iterator[tuple[str, str, str, str, str]]:
    """What else tells agents apart, a line for each: how their runs ended, and what a run and a turn took."""
    agents = sorted({each.labels["agent"] for each in found if each.series == ENDED})
    for title, tell in (
        ("Answered", _answered),
        ("Tokens a run", _tokens),
        ("Cost a run", _cost),
        ("Seconds a turn", _seconds),
    ):
        for agent in agents:
            told = tell([each for each in found if each.labels.get("agent") == agent])
            if told is not None:
                yield title, plain(agent), told[0], "", plain(told[1])


def _answered(mine: Sequence[Total]) -> tuple[str, str]:
    outcomes = {each.labels["outcome"]: each.sum for each in mine if each.series == ENDED}
    share = outcomes.get(Outcome.ANSWERED, 0.0) / sum(outcomes.values())
    return f"{100 * share:.4g} %", ", ".join(f"{outcome} {count:.0f}" for outcome, count in outcomes.items())


def _tokens(mine: Sequence[Total]) -> tuple[str, str]:
    kinds = {kind: _sum(mine, TOKENS, type=kind) for kind in ("input", "output")}
    return f"{sum(kinds.values()) / _sum(mine, ENDED):.0f}", ", ".join(f"{kind} {n:.0f}" for kind, n in kinds.items())


def _cost(mine: Sequence[Total]) -> tuple[str, str] | None:
    cost = _sum(mine, COST)
    return (f"{cost / _sum(mine, ENDED):.4g}", f"cost {cost:.6g}") if cost else None


def _seconds(mine: Sequence[Total]) -> tuple[str, str] | None:
    turns = sum(each.count for each in mine if each.series == SECONDS)
    return (f"{_sum(mine, SECONDS) / turns:.3g}", f"turns {turns}") if turns else None


def _sum(mine: Sequence[Total], series: str, **labels: str) -> float:
    return sum(each.sum for each in mine if each.series == series and labels.items() <= each.labels.items())


def of(rule: Rule, found: Sequence[Total]) -> list[Total]:
    """The totals of a rule's series, whatever their result."""
    return [each for each in found if each.series == rule.over.metric]


def row(rule: Rule, group: tuple[str, ...], found: Sequence[Total]) -> tuple[Text, ...]:
    """One line of the table. Too few samples to judge by are said to be."""
    mine = [each for each in of(rule, found) if tuple(each.labels.get(label, "") for label in rule.by) == group]
    over = [each for each in mine if rule.over.takes(each.labels)]
    if rule.under is None:
        count = sum(each.count for each in over)
        value = sum(each.sum for each in over) / count if count else None
    else:
        count = round(sum(each.sum for each in mine if rule.under.takes(each.labels)))
        value = sum(each.sum for each in over) / count if count else None
    said_of = Counter[str]()
    for each in mine:
        said_of[_word(each)] += each.count if rule.under is None else round(each.sum)
    verdicts = ", ".join(f"{word} {times}" for word, times in said_of.items())
    few = f"; {count} are too few to alert" if count < rule.minimum else ""
    bad = value is not None and rule.breached(value)
    said = "no data" if value is None else shown(value, rule.unit)
    limit = f"{rule.comparison} {shown(rule.threshold, rule.unit)}"
    cells = (rule.title["en"], " on ".join(map(plain, group)), said, limit, plain(verdicts) + few)
    return tuple(Text(cell, "bold red" if bad and index == 2 else "") for index, cell in enumerate(cells))


def _word(total: Total) -> str:
    return total.labels.get("result") or total.labels.get("basis") or json.dumps(dict(total.labels))
