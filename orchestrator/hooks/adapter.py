"""Alertmanager → WeCom robot: an HTTP endpoint that takes Alertmanager's webhook (version 4) and posts to the robot.

Alertmanager's own `wechat_configs` speaks to applications, not to group robots. A 503 asks it to try again, a 4xx not to.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

import orjson
from aiohttp import web

from orchestrator.alerts import Wording
from orchestrator.alerts.notice import OVER, lasted, moment
from orchestrator.alerts.settings import HookSettings
from orchestrator.core.clean import hide
from orchestrator.core.spec import Language
from orchestrator.errors import CallError, ConfigError, Transient
from orchestrator.hooks.card import WORDS, Card, line
from orchestrator.hooks.posted import divided, endpoint
from orchestrator.hooks.wecom import MOST_BYTES, Wecom, fitted, markdown
from orchestrator.http import Timeouts
from orchestrator.policy import Ask, LimitRules, RetryRules, Rules, guard
from orchestrator.secret import secrets_in

LARGEST_BODY: Final = 4 * 1024 * 1024
MOST_MESSAGES: Final = 3
"""Messages for one post of Alertmanager; alerts beyond them are counted, not shown."""
COUNTED: Final = 64
"""Bytes that are kept for how many alerts are left out."""

_RETRY: Final = RetryRules(attempts=3, total=20.0, base=0.5, cap=5.0, share=1.0, floor=60.0)
_UNSHOWN: Final = frozenset({"alertname", "severity", "rule", "job"})


class Robot:
    """Posts texts to a group robot, behind the same policies as a hook."""

    def __init__(self, name: str, given: HookSettings, *, loopback: bool = False) -> None:
        base, path = divided(given.url.get_secret_value(), f"hooks.{name}.url")
        self._dialect = Wecom(path, Wording(given.language))
        self._endpoint = endpoint(base, given, loopback=loopback)
        self._timeouts = Timeouts(connect=given.timeout, first_token=None, between_tokens=None, whole=given.timeout)
        limit = LimitRules(at_once=1, calls=given.calls, window=60.0)
        rules = Rules(timeout=given.timeout + 1.0, retry=_RETRY, breaker=None, limit=limit)
        self._call = guard(self._once, f"hook {name}", rules).call

    async def tell(self, text: str, deadline: float) -> None:
        """Post one text. Raises CallError; Timeout when there is no place for it before the deadline (the loop's time)."""
        await self._call(Ask(text, deadline=deadline))

    async def _once(self, ask: Ask[str]) -> None:
        self._dialect.accept(await self._endpoint.post(self._dialect.message(ask.input), self._timeouts))

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()


class Adapter:
    """The two routes. With a `token`, a post must bear it (Alertmanager: `http_config.authorization`); no answer holds the `secrets`."""

    PATIENCE: Final = 30.0
    """Seconds for all of a post: less than Alertmanager waits for the answer, a minute as it is shipped here."""
    HALF_DONE: Final = 100

    def __init__(self, robot: Robot, language: Language, token: str = "", secrets: tuple[str, ...] = ()) -> None:  # nosec B107  # empty is none
        self._robot = robot
        self._language = language
        self._token = f"Bearer {token}".encode() if token else b""
        self._secrets = secrets
        self._posted: OrderedDict[bytes, int] = OrderedDict()

    def app(self) -> web.Application:
        """POST /alertmanager and GET /healthz."""
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post("/alertmanager", self.take)
        app.router.add_get("/healthz", self.healthy)
        return app

    async def healthy(self, _: web.Request) -> web.Response:
        """It answers."""
        return web.Response(text="ok\n")

    async def take(self, request: web.Request) -> web.Response:
        """One post of Alertmanager, as one or more messages of the robot."""
        given = request.headers.get("authorization", "").encode("utf-8", "replace")
        if self._token and not hmac.compare_digest(given, self._token):
            return web.Response(status=401, text="a bearer token is needed: the hook's `secret`\n")
        body = await request.read()
        try:
            cards, more = read(orjson.loads(body), self._language)
        except (orjson.JSONDecodeError, ConfigError) as error:
            return web.Response(status=400, text=f"not Alertmanager's webhook version 4: {error}\n")
        try:
            await self._tell(hashlib.sha256(body).digest(), tuple(messages(cards, self._language, more)))
        except CallError as error:
            again = isinstance(error, Transient)
            return web.Response(status=503 if again else 422, text=f"{hide(str(error), self._secrets)}\n")
        return web.Response(text="ok\n")

    async def _tell(self, post: bytes, texts: Sequence[str]) -> None:
        """Those of a post's texts that were not told when it came before and failed half way."""
        deadline = asyncio.get_running_loop().time() + self.PATIENCE
        for told in range(self._posted.pop(post, 0), len(texts)):
            try:
                await self._robot.tell(texts[told], deadline)
            except CallError:
                self._posted[post] = told
                while len(self._posted) > self.HALF_DONE:
                    self._posted.popitem(last=False)
                raise


def read(document: object, language: Language) -> tuple[tuple[Card, ...], int]:
    """The alerts of a post, and how many more Alertmanager left out. ConfigError when it is no such document."""
    if not isinstance(document, dict) or not isinstance(document.get("alerts"), list):
        raise ConfigError("an object with a list `alerts` is wanted")
    alerts = [each for each in document["alerts"] if isinstance(each, dict)]
    more = document.get("truncatedAlerts")
    return tuple(_card(each, language) for each in alerts), more if isinstance(more, int) and more > 0 else 0


def messages(cards: Sequence[Card], language: Language, more: int = 0) -> Iterator[str]:
    """The cards in as few messages as the robot's limit allows, MOST_MESSAGES at most; the last says how many are missing."""
    packed: list[list[Card]] = []
    for each in cards:
        if packed and len(markdown([*packed[-1], each], language).encode()) <= MOST_BYTES - COUNTED:
            packed[-1].append(each)
        else:
            packed.append([each])
    shown, left = packed[:MOST_MESSAGES], sum(map(len, packed[MOST_MESSAGES:])) + more
    for index, group in enumerate(shown, 1):
        last = index == len(shown) and left
        yield fitted(group, language, MOST_BYTES - COUNTED) + (f"\n\n… +{left}" if last else "")


def _card(alert: Mapping[str, Any], language: Language) -> Card:
    labels, notes, words = _texts(alert.get("labels")), _texts(alert.get("annotations")), WORDS[language]
    says = (notes.get(f"summary_{language}"), notes.get("summary"), notes.get("description"), notes.get("message"))
    facts = {name: value for name, value in labels.items() if name not in _UNSHOWN}
    over = alert.get("status") == "resolved"
    for name, word in (("value", "last" if over else "value"), ("threshold", "threshold")):
        if notes.get(name):
            facts[words[word]] = notes[name]
    facts[words["since"]] = line(str(alert.get("startsAt", "")))
    if over:
        facts[words["ended"]] = line(str(alert.get("endsAt", "")))
    runs = "" if over else notes.get("run_links") or notes.get("runs", "")
    return Card(
        "resolved" if over else "firing",
        labels.get("severity", "warning"),
        labels.get("alertname", "alert"),
        _over(alert, notes, language) if over else next(filter(None, says), ""),
        tuple(facts.items())[:12],
        (runs,) if runs else (),
        notes.get("runbook_url", ""),
    )


def _over(alert: Mapping[str, Any], notes: Mapping[str, str], language: Language) -> str:
    """That an alert is over: Alertmanager sends the sentence that it fired with again."""
    begun, ended = (_unix(alert.get(name)) for name in ("startsAt", "endsAt"))
    if begun is None or ended is None:
        return f"{WORDS[language]['resolved']}."
    text = OVER[language].format(lasted=lasted(ended - begun, language), since=moment(begun))
    return f"{text} {WORDS[language]['last']}: {notes['value']}" if notes.get("value") else text


def _unix(written: object) -> float | None:
    """An RFC 3339 time as unix seconds; None for what is none."""
    try:
        return datetime.fromisoformat(str(written)).timestamp()
    except (ValueError, OverflowError):
        return None


def _texts(value: object) -> dict[str, str]:
    """Labels or annotations, each one line."""
    return {line(str(name)): line(str(each)) for name, each in value.items()} if isinstance(value, dict) else {}


@asynccontextmanager
async def serving(
    name: str, given: HookSettings, host: str, port: int, *, loopback: bool = False
) -> AsyncIterator[str]:
    """Serve while the block lasts; gives the URL. `loopback`: the robot may be on this machine. ConfigError when the hook is no robot or the address cannot be had."""
    if given.kind != "wecom":
        raise ConfigError(f'hooks.{name} is of kind {given.kind}; the adapter posts to a robot: kind = "wecom"')
    robot = Robot(name, given, loopback=loopback)
    adapter = Adapter(robot, given.language, given.secret.get_secret_value(), secrets_in(given))
    runner = web.AppRunner(adapter.app(), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except (OSError, OverflowError) as error:
            raise ConfigError(f"{host}:{port} cannot be served: {error}; choose another --host or --port") from error
        yield f"http://{host}:{runner.addresses[0][1]}/alertmanager"
    finally:
        await runner.cleanup()
        await robot.close()
