"""A run in the queue, and what may become of it: the rules that the engines with a database write in SQL.

Four states: `later` (its start is in the future), `queued` (due: any worker may take it), `held` (a worker drives it) and
`waiting` (parked: somebody else has the word). An ended run has no ticket.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, TypeVar

from orchestrator.dispatch import Depth, DispatchRules, Job

LONGEST_NAME = 200

State: TypeAlias = Literal["later", "queued", "held", "waiting"]


@dataclass(frozen=True, slots=True)
class Ticket:
    """`number` counts submissions and never changes: a run that comes back stands before those submitted after it.

    `at` is when a `later` or `waiting` run is due, `since` when a `queued` one became so (unix seconds). `woken`: somebody
    appended to the trace while the run was held.
    """

    run_id: str
    number: int
    tenant: str = ""
    priority: int = 0
    needs: frozenset[str] = frozenset()
    state: State = "queued"
    at: float = 0.0
    since: float = 0.0
    worker: str = ""
    epoch: int = 0
    woken: bool = False
    approval: bool = False

    @property
    def rank(self) -> tuple[int, int]:
        """Smaller goes first: priority, then age."""
        return -self.priority, self.number


def safe(name: str) -> str:
    """The name of a tenant or a key as any database can keep it: as it is, or its digest."""
    if len(name) <= LONGEST_NAME and (name.isprintable() or not name):
        return name
    return "sha256:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def submitted(job: Job, number: int, now: float) -> Ticket:
    """The ticket of a new run."""
    state: State = "later" if job.at > now else "queued"
    return Ticket(job.run_id, number, job.tenant, job.priority, job.needs, state, job.at, max(job.at, now))


def due(ticket: Ticket, since: float) -> Ticket:
    """Any worker may take it, from `since` on."""
    return replace(ticket, state="queued", since=since, worker="", woken=False, approval=False)


def claimed(ticket: Ticket, worker: str, epoch: int) -> Ticket:
    """`worker` drives it. It reads the trace after this: what woke the run before is no news."""
    return replace(ticket, state="held", worker=worker, epoch=epoch, woken=False)


def parked(ticket: Ticket, until: float, *, approval: bool, now: float) -> Ticket:
    """It waits until `until`; or not at all, if it was woken while it was held."""
    if ticket.woken:
        return due(ticket, now)
    return replace(ticket, state="waiting", at=until, worker="", approval=approval)


def woken(ticket: Ticket, now: float) -> Ticket:
    """Something new is in its trace: nudge its holder, or have it driven soon."""
    if ticket.state == "held":
        return replace(ticket, woken=True)
    return ticket if ticket.state == "queued" else due(ticket, now)


def depth(tickets: Iterable[Ticket], workers: int, now: float) -> Depth:
    """The counts and the greatest age."""
    counts: dict[str, int] = {"later": 0, "queued": 0, "held": 0, "waiting": 0}
    approvals, oldest = 0, now
    for ticket in tickets:
        overdue = ticket.state in {"later", "waiting"} and ticket.at <= now
        counts["queued" if overdue else ticket.state] += 1
        if overdue or ticket.state == "queued":
            oldest = min(oldest, ticket.at if overdue else ticket.since)
        elif ticket.approval:
            approvals += 1
    return Depth(counts["queued"], now - oldest, counts["later"], counts["held"], counts["waiting"], approvals, workers)


def lacking(needs: Iterable[str], workers: Iterable[Iterable[str]]) -> frozenset[str] | None:
    """What of these needs the worker has not that has most of them; None without any worker."""
    return min((frozenset(needs).difference(has) for has in workers), key=len, default=None)


class Tenanted(Protocol):
    """What `admit` needs to know of a run."""

    @property
    def tenant(self) -> str: ...  # noqa: D102


T = TypeVar("T", bound=Tenanted)


def admit(ready: Iterable[T], most: int, held: Mapping[str, int], rules: DispatchRules) -> Sequence[T]:
    """The first `most` of those that are ready, in their order, without more than its limit for any tenant.

    `held` is how many runs of each tenant are held already, by any worker.
    """
    chosen: list[T] = []
    running = dict(held)
    for each in ready:
        if len(chosen) >= most:
            break
        limit, count = rules.limit(each.tenant), running.get(each.tenant, 0)
        if limit is None or count < limit:
            running[each.tenant] = count + 1
            chosen.append(each)
    return chosen


def full(held: Mapping[str, int], rules: DispatchRules) -> frozenset[str]:
    """The tenants that may have no more runs at once."""
    limits = ((tenant, rules.limit(tenant)) for tenant in held.keys() | rules.tenant_limits.keys())
    return frozenset(tenant for tenant, limit in limits if limit is not None and held.get(tenant, 0) >= limit)
