"""The loop: lead? look, evaluate, write down, and only then tell.

What a hook is to be told is in the book before it is called, and leaves it when the hook has taken it: a monitor that dies
in between leaves a Notification to its successor, which may deliver it twice (receivers drop doubles by its key), never not. What
cannot be written down has not happened: the next look comes to it again. One that finds another's page in the book (it stood still
while another led) begins from that page.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import structlog

from orchestrator.alerts import (
    QUIET,
    AlertState,
    Gauge,
    Group,
    Kind,
    Notification,
    Reading,
    Rule,
    evaluate,
    read_gauges,
)
from orchestrator.errors import StoreError
from orchestrator.hooks import Hook
from orchestrator.monitor.book import Book
from orchestrator.monitor.courier import Courier
from orchestrator.monitor.feed import Feed
from orchestrator.monitor.gauges import GaugeSource, unknown
from orchestrator.monitor.page import Owed, Page, Standing, dump, load

_log = structlog.stdlib.get_logger("orchestrator.monitor")
_COUNTING = frozenset({Kind.RATIO, Kind.MEAN, Kind.INCREASE})


class Monitor:
    """One of any number; the one that leads does the work. `clock` gives unix seconds, `feed` makes a fresh Feed.

    It looks `every` so many seconds, and leads for `lease` seconds after its last look.
    """

    def __init__(  # noqa: PLR0913  its parts
        self,
        feed: Callable[[], Feed],
        book: Book,
        rules: Sequence[Rule],
        hooks: Sequence[Hook],
        *,
        clock: Callable[[], float],
        gauges: GaugeSource = unknown,
        every: float = 15.0,
        lease: float = 60.0,
    ) -> None:
        self.who = secrets.token_hex(8)
        self._make_feed = feed
        self._book = book
        self._rules = {rule.name: rule for rule in rules}
        self._hooks = hooks
        self._clock = clock
        self._gauges = gauges
        self._every = every
        self._lease = lease
        self._feed: Feed | None = None
        self._page = Page()
        self._bodies: tuple[bytes, ...] = ()
        self._courier = Courier(hooks, self._settled, clock)
        self._told = asyncio.Event()

    @property
    def leading(self) -> bool:
        """Does this one evaluate?"""
        return self._feed is not None

    @property
    def standing(self) -> tuple[Standing, ...]:
        """The alerts that are pending or firing, as far as this one knows."""
        return self._page.standing

    async def run(self) -> None:
        """Look until cancelled; then hand over the lead."""
        try:
            while True:
                try:
                    await self.look()
                except StoreError as error:
                    _log.warning("monitor_blind", error=str(error))
                await self._rest()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Stop telling, keep what is owed, and let another one lead."""
        await self._courier.stop()
        if self._feed is None:
            return
        self._feed = None
        try:
            await self._book.resign(self.who)
        except StoreError as error:
            _log.warning("monitor_blind", error=str(error))

    async def look(self) -> tuple[Notification, ...]:
        """One look: what began to fire and what is over since the last. Raises StoreError; empty when another one leads."""
        now = self._clock()
        body = await self._book.lead(self.who, now=now, until=now + self._lease)
        if body is None:
            await self._step_down()
            return ()
        if self._feed is not None and body not in self._bodies:
            await self._step_down()
        feed = self._feed or self._take_over(body)
        await feed.look(now, self._renew)
        gauges, before = await self._present(feed, now), self._page.standing
        told = self._evaluate(feed, gauges, now)
        owed = tuple(Owed(hook.name, note) for note in told for hook in self._hooks if hook.wants(note))
        self._page = replace(self._page, owed=self._page.owed + owed)
        try:
            saved = await self._saved()
        except StoreError:
            self._page = replace(self._page, standing=before, owed=_without(self._page.owed, owed))
            raise
        if not saved:
            await self._step_down()
            return ()
        for note in told:
            level = logging.WARNING if note.status == "firing" else logging.INFO
            _log.log(level, f"alert_{note.status}", rule=note.rule, says=note.sentence(), **note.labels)
        for each in owed:
            self._courier.put(each)
        return told

    def _take_over(self, body: bytes) -> Feed:
        page = load(body)
        if page is None:
            _log.warning("monitor_state_unreadable", note="starting anew: what still holds will fire again")
        self._page = page or Page()
        self._bodies = (body,)
        self._feed = self._make_feed()
        for each in self._page.owed:
            self._courier.put(each)
        return self._feed

    async def _step_down(self) -> None:
        if self._feed is not None:
            _log.info("monitor_follows", who=self.who)
            self._feed = None
            self._page = Page()
            await self._courier.stop()

    async def _renew(self) -> None:
        """Keep the lead during a long look."""
        now = self._clock()
        await self._book.lead(self.who, now=now, until=now + self._lease)

    async def _present(self, feed: Feed, now: float) -> tuple[Gauge, ...]:
        """All gauges. A source that cannot be asked is no data."""
        try:
            outside = tuple(await self._gauges(now))
        except StoreError as error:
            _log.warning("monitor_blind", error=str(error))
            outside = ()
        return (*feed.gauges(now), *outside)

    def _evaluate(self, feed: Feed, gauges: Iterable[Gauge], now: float) -> tuple[Notification, ...]:
        """Every rule and group one step on. The alerts of rules that are gone are forgotten."""
        before = {(each.rule, each.group): each.state for each in self._page.standing if each.rule in self._rules}
        standing: list[Standing] = []
        told: list[Notification] = []
        gauges = tuple(gauges)
        for rule in self._rules.values():
            readings = feed.window.read(rule, now) if rule.kind in _COUNTING else read_gauges(rule, gauges)
            held = {group for name, group in before if name == rule.name and len(group) == len(rule.by)}
            for group in sorted(readings.keys() | held):
                state = before.get((rule.name, group), QUIET)
                after, note = evaluate(rule, group, readings.get(group, _absent(rule)), state, now)
                standing += _kept(rule, group, after)
                told += [note] if note else []
        self._page = replace(self._page, standing=tuple(standing))
        return tuple(told)

    def _settled(self, owed: Owed) -> None:
        """A hook has taken it: strike it out, and write that down soon."""
        self._page = replace(self._page, owed=_without(self._page.owed, (owed,)))
        self._told.set()

    async def _rest(self) -> None:
        """Until the next look; what hooks have taken meanwhile is written down at once."""
        end = asyncio.get_running_loop().time() + self._every
        while True:
            try:
                async with asyncio.timeout_at(end):
                    await self._told.wait()
            except TimeoutError:
                return
            self._told.clear()
            try:
                if self._feed is not None and not await self._saved():
                    return
            except StoreError as error:
                _log.warning("monitor_blind", error=str(error))
                return

    async def _saved(self) -> bool:
        """Whether the page was written. `_bodies` is what stands in the book if nobody else wrote: a save that failed may have come through."""
        body = dump(self._page)
        self._bodies = tuple(dict.fromkeys((*self._bodies, body)))
        saved = await self._book.save(self.who, body)
        if saved:
            self._bodies = (body,)
        return saved


def _absent(rule: Rule) -> Reading:
    """What a group reads that had samples before and has none now: nothing spent is 0, any other kind is no data."""
    return Reading(0.0) if rule.kind is Kind.INCREASE else Reading()


def _without(owed: tuple[Owed, ...], gone: Iterable[Owed]) -> tuple[Owed, ...]:
    left = list(owed)
    for each in gone:
        if each in left:
            left.remove(each)
    return tuple(left)


def _kept(rule: Rule, group: Group, state: AlertState) -> list[Standing]:
    return [] if state.phase == "quiet" else [Standing(rule.name, group, state)]
