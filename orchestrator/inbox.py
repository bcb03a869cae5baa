"""Words of outsiders to a run: a callback with a long tool's result, a person's Decision, a cancel.

Whoever has no claim on a run may still append to its trace, guarded by `seq` alone: where the run's driver was quicker, the trace
is read again and the word is tried anew, or refused if it no longer fits. Then the run is woken. A callback's token is signed
(HMAC over run, action and expiry) and good once: when its action has an Observation, nothing more is taken for it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from orchestrator.core.arguments import too_deep
from orchestrator.core.clean import Rules as Cleaning
from orchestrator.core.clean import hidden, hide
from orchestrator.core.events import Decision, Event
from orchestrator.core.permission import POLICY
from orchestrator.core.repair import MAX_DEPTH
from orchestrator.core.run import Run, replay
from orchestrator.core.spec import JsonObject, ToolSpec
from orchestrator.dispatch import Dispatcher
from orchestrator.errors import Conflict, OrchestratorError, Rejected
from orchestrator.stores import UNFENCED, Store
from orchestrator.toolbox.called import called, settle
from orchestrator.toolbox.invoke import returned

DAYS = 86_400.0
LONGEST = 366 * DAYS
"""Seconds that a callback's token is good: as long as the longest deadline that a tool may give."""
EARLY = 5.0
"""Seconds that a callback waits for its action to be recorded as waiting: it may be quicker than our own append."""
TRIES = 100

Verdict = Literal["approve", "edit", "refuse"]
Wake = Callable[[str], Awaitable[None]]


class NotTaken(OrchestratorError):
    """A word that does not fit. `code`: UNKNOWN_RUN, RUN_ENDED, NOT_WAITING, BAD_TOKEN, EXPIRED, BAD_RESULT,
    INVALID_ARGUMENTS, BUSY."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Inbox:
    """Takes outsiders' words for the runs of one store. `key` signs callbacks; without one (b"") none are taken.

    `wake` is called after the dispatcher was told: the `nudge` of a worker in this very process, which then need not look.
    """

    def __init__(  # noqa: PLR0913  each is one thing it needs
        self,
        store: Store,
        dispatcher: Dispatcher,
        *,
        key: bytes = b"",
        clock: Callable[[], float] = time.time,
        secrets: tuple[str, ...] = (),
        wake: Wake | None = None,
    ) -> None:
        self._store, self._dispatcher, self._key = store, dispatcher, key
        self._clock, self._secrets, self._wake = clock, secrets, wake

    async def cancel(self, run_id: str, *, by: str, reason: str = "", via: str = "") -> Run:
        """End the run as soon as its driver hears of it. Again: nothing more happens. NotTaken when it has ended."""
        _person(by)

        def word(run: Run) -> Event | None:
            if run.cancelled is not None:
                return None
            return Decision("", by, "cancel", reason=hide(reason, self._secrets), via=via)

        return await self._append(run_id, word)

    async def decide(  # noqa: PLR0913  a Decision's own fields
        self,
        run_id: str,
        action_id: str,
        verdict: Verdict,
        *,
        by: str,
        input: JsonObject | None = None,
        reason: str = "",
        via: str = "",
    ) -> Run:
        """A person's word on an action that waits for approval; `input` replaces the action's where the verdict is "edit": it is
        kept and run as it was given, or NotTaken (INVALID_ARGUMENTS) says what of it the tool's schema refuses. `via` is the id of the token
        it came with."""
        _person(by)
        if (verdict == "edit") != (input is not None):
            raise NotTaken(
                "BAD_RESULT", f"{verdict} with input={input!r}: an edit brings the new input, and nothing else does"
            )
        if input is not None and too_deep(input):
            raise NotTaken("BAD_RESULT", f"the input is nested deeper than {MAX_DEPTH} levels: no tool takes that")

        def word(run: Run) -> Event:
            waiting = run.waiting.get(action_id)
            if waiting is None or waiting.reason != "approval":
                asked = [each.id for each in run.waiting.values() if each.reason == "approval"]
                raise NotTaken(
                    "NOT_WAITING",
                    f"action {action_id!r} of run {run_id} waits for no approval; these do: {asked or 'none'}",
                )
            kept = hidden(input, self._secrets)
            if kept is not None:
                _fits(kept, run.tool(run.action(action_id).tool))
            return Decision(action_id, by, verdict, kept, hide(reason, self._secrets), via)

        return await self._append(run_id, word)

    def claimed(self, token: str) -> tuple[str, str]:
        """(run id, action id) of a callback's token. NotTaken: BAD_TOKEN, EXPIRED."""
        return opened(self._key, token, self._clock())

    async def callback(self, token: str, result: Any) -> Run:
        """The result of a long tool: any JSON value (a success), or the envelope {"status", "code", "data", "message"}."""
        run_id, action_id = self.claimed(token)
        run = await self._waiting(run_id, action_id)
        action, spec = run.action(action_id), run.tool(run.action(action_id).tool)
        said, bare = returned(result)
        if said.status == "pending":
            raise NotTaken("BAD_RESULT", "a callback brings a result; `pending` is none")
        rules = Cleaning(run.start.limits.observation_chars, secrets=self._secrets)
        settled = called(action, settle(said, spec, rules, bare=bare), self._clock())
        observation = settled.observation
        if observation is None:
            raise NotTaken("BAD_RESULT", "a callback brings a result")
        blobs = {} if settled.raw is None else {observation.digest: settled.raw}

        def word(run: Run) -> Event:
            if _state(run, action_id) != "waiting":
                raise _settled(run_id, action_id)
            return observation

        return await self._append(run_id, word, blobs)

    async def _waiting(self, run_id: str, action_id: str) -> Run:
        """The run, once the action is recorded as waiting."""
        for _ in range(round(EARLY / 0.1)):
            run = await self._read(run_id)
            state = _state(run, action_id)
            if state == "waiting":
                return run
            if state == "settled":
                await self._tell(run_id)  # whoever brought it first may have died before it told anybody
                raise _settled(run_id, action_id)
            await asyncio.sleep(0.1)
        raise NotTaken("BUSY", f"action {action_id} of run {run_id} is not recorded as waiting yet: call again later")

    async def _read(self, run_id: str) -> Run:
        trace = await self._store.read(run_id)
        if not trace:
            raise NotTaken("UNKNOWN_RUN", f"there is no run {run_id!r} in this store")
        return replay(trace)

    async def _append(
        self, run_id: str, word: Callable[[Run], Event | None], blobs: Mapping[str, bytes] | None = None
    ) -> Run:
        """Append what `word` says of the run as it stands; anew, where somebody else was quicker."""
        for _ in range(TRIES):
            run = await self._read(run_id)
            if run.ended is not None:
                raise NotTaken("RUN_ENDED", f"run {run_id} has ended: {run.ended.outcome}")
            event = word(run)
            if event is not None:
                now = self._clock()
                try:
                    entries = await self._store.append(
                        run_id, run.seq, [event], at=now, epoch=UNFENCED, blobs=blobs or {}
                    )
                except Conflict:
                    continue
                run = replay(entries, run)
            await self._tell(run_id)
            return run
        raise NotTaken("BUSY", f"run {run_id} is being written too fast to say a word: try again")

    async def _tell(self, run_id: str) -> None:
        """Somebody has written: let the run be driven."""
        await self._dispatcher.wake(run_id, now=self._clock())
        if self._wake is not None:
            await self._wake(run_id)


def _person(by: str) -> None:
    """NotTaken for the name under which the host's own permissions decide."""
    if by.strip().casefold() == POLICY:
        raise NotTaken("BAD_RESULT", f"a person decides under another name than {by!r}: that is the host's own policy")


def _fits(given: JsonObject, spec: ToolSpec | None) -> None:
    """NotTaken for an input that the tool's schema refuses. The schema is the run's: the tool itself may be in another process."""
    if spec is None:
        return
    try:
        _promise(spec)(given)
    except Rejected as error:
        raise NotTaken(error.code, error.message) from None


def _promise(spec: ToolSpec) -> Callable[[JsonObject], object]:
    """The check of an input by the schema that the model was shown. One that cannot be kept refuses nothing: the tool does."""
    from orchestrator.mcp.schema import BadSchema, arguments_of  # noqa: PLC0415  jsonschema takes 50 ms to import

    try:
        return arguments_of(dict(spec.schema)).read
    except BadSchema:
        return dict


def callback_token(key: bytes, run: Run, action_id: str) -> str:
    """The signed word for one action, "" without a key. For `Ports.callback`."""
    return signed(key, run.run_id, action_id, run.at + LONGEST) if key else ""


def signed(key: bytes, run_id: str, action_id: str, until: float) -> str:
    """run, action and expiry (unix seconds), then 144 bits of HMAC-SHA256 over them; URL-safe."""
    claim = json.dumps([run_id, action_id, int(until)], separators=(",", ":")).encode("utf-8", "surrogatepass")
    return f"{_b64(claim)}.{_b64(_mac(key, claim))}"


def opened(key: bytes, token: str, now: float) -> tuple[str, str]:
    """(run id, action id) of a token of ours. NotTaken: BAD_TOKEN, EXPIRED."""
    bad = NotTaken("BAD_TOKEN", "this is no token of ours: send what the tool found in context().callback")
    claim, _, mac = token.partition(".")
    try:
        body, given = _unb64(claim), _unb64(mac)
    except (binascii.Error, ValueError):
        raise bad from None
    if not key or not hmac.compare_digest(_mac(key, body), given):
        raise bad
    run_id, action_id, until = json.loads(body)
    if now > until:
        raise NotTaken(
            "EXPIRED", f"the token for action {action_id} of run {run_id} was good until {until} (unix seconds)"
        )
    return str(run_id), str(action_id)


def _mac(key: bytes, claim: bytes) -> bytes:
    return hmac.digest(key, claim, hashlib.sha256)[:18]


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _state(run: Run, action_id: str) -> Literal["waiting", "begun", "settled"]:
    if action_id in run.waiting:
        return "waiting" if run.waiting[action_id].reason == "tool" else "begun"
    return "begun" if any(each.id == action_id for each in run.pending) and run.ended is None else "settled"


def _settled(run_id: str, action_id: str) -> NotTaken:
    return NotTaken("NOT_WAITING", f"action {action_id} of run {run_id} has its Observation already, or never was")
