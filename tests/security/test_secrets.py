"""A configured secret is nowhere: not in the trace, the raw bodies, the log, the spans, an error, an answer of the API."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from orchestrator import log
from orchestrator.agent import Agent, Result
from orchestrator.alerts.settings import HookSettings
from orchestrator.api.problems import Problem, handle
from orchestrator.assembly import RunRequest, secrets_of, started
from orchestrator.cli import main
from orchestrator.core.clean import MASK, Rules, clean, hide
from orchestrator.core.clean.hide import net
from orchestrator.core.events import Actions, Final, ModelTurn, Observation
from orchestrator.core.secrecy import concealed
from orchestrator.core.spec import Json, Protocol
from orchestrator.errors import ConfigError
from orchestrator.otel.spans import Spans
from orchestrator.settings import ModelSettings, Settings
from orchestrator.stores.sqlite import SqliteStore
from orchestrator.tool import tool
from tests.build import acts, final
from tests.security.scripted import Say, Scripted, scripted
from tests.security.sent import Dialect, Sent

KEY = "sk-live-8f3kQ9x2Zp7Lm4Nv6Bt1"
PASSWORD = "p@ss/w0rd+9 é"
SLACK = "https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/abcDEF123456789xyzABCDE"
SECRETS = (KEY, PASSWORD, SLACK)

SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "percent": lambda each: quote(each, safe=""),
    "percent, lower hex": lambda each: "".join(f"%{byte:02x}" for byte in each.encode()),
    "base64": lambda each: base64.b64encode(each.encode()).decode(),
    "basic credentials": lambda each: "Basic " + base64.b64encode(b"user:" + each.encode()).decode(),
    "base64 in a middle": lambda each: base64.urlsafe_b64encode(b"a" + each.encode() + b"zz").decode(),
    "JSON": json.dumps,
    "HTML": html.escape,
    "hex": lambda each: each.encode().hex(),
    "repr": repr,
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    log.configure()
    structlog.reset_defaults()


def traces_of(secret: str) -> list[str]:
    """What would give the secret away: any third of a long one, in any spelling."""
    return [spelled(secret).removeprefix("Basic ")[4:-4] for spelled in SPELLINGS.values()] + [secret]


def assert_nowhere(text: str) -> None:
    for secret in SECRETS:
        for piece in traces_of(secret):
            assert piece not in text


def settings_of(server: Scripted, wire: Dialect, protocol: Protocol, **changes: Any) -> Settings:
    hooks = {"s": HookSettings(kind="slack", url=SecretStr(SLACK))}
    url = f"postgresql://ann:{quote(PASSWORD, safe='')}@db.example.com/x"
    settings = Settings(models={"default": server.model(wire, protocol, KEY)}, hooks=hooks, store=url)
    assert {KEY, PASSWORD, SLACK} <= set(secrets_of(settings))
    return settings


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=list(SPELLINGS))
@given(before=st.text(max_size=9), after=st.text(max_size=9))
def test_a_secret_is_found_in_every_spelling(
    spelled: Callable[[str], str], secret: str, before: str, after: str
) -> None:
    text = hide(f"{before}\n{spelled(secret)} {after}", SECRETS)
    assert MASK in text
    assert not [piece for piece in traces_of(secret) if piece in text]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("size", [0, 7, 30, 55, 76])
def test_a_secret_that_lies_across_lines_of_base64_is_found(size: int, secret: str) -> None:
    wrapped = base64.encodebytes(b"x" * size + secret.encode() + b"y" * 60).decode()
    for text in (
        wrapped,
        wrapped.replace("\n", "\r\n"),
        json.dumps(wrapped),
        f"{wrapped} {quote(quote(secret, safe=''))}",
    ):
        found = hide(text, SECRETS)
        assert MASK in found
        whole = found.replace("\r", "").replace("\n", "").replace("\\r", "").replace("\\n", "")
        assert not [piece for piece in traces_of(secret) if piece in whole]


@pytest.mark.parametrize("secret", SECRETS)
def test_an_escape_that_need_not_be_hides_nothing(secret: str) -> None:
    ways = ("\\u{:04x}", "\\\\u{:04X}", "&#{};", "&#x{:x};", "&#0{}")
    for way in ways:
        every = "".join(way.format(ord(each)) for each in secret)
        one = secret[:3] + way.format(ord(secret[3])) + secret[4:]
        for text in (every, one, f'{{"a": "{every}", "b": "{one}"}}'):
            found = hide(text, SECRETS)
            assert MASK in found
            assert html.unescape(re.sub(r"\\+u(\w{4})", lambda each: chr(int(each[1], 16)), found)).count(secret) == 0


@given(text=st.text(), secrets=st.lists(st.text(min_size=1), max_size=4).map(tuple))
def test_hiding_takes_nothing_else_and_leaves_nothing(text: str, secrets: tuple[str, ...]) -> None:
    hidden = hide(text, secrets)
    assert hidden == text or MASK in hidden
    long = [each for each in secrets if len(each) >= 4 and each not in MASK and MASK not in each]
    assert not [each for each in long if each in hidden.replace(MASK, "\0")]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_disguise_that_cleaning_takes_off_is_off_in_the_kept_body_too(secret: str) -> None:
    laced = "\u200b".join(secret)
    escaped = json.dumps({"a": "".join(f"\\u{ord(each):04x}" for each in secret)}).replace("\\\\", "\\")
    entities = "".join(f"&#{ord(each)};" for each in secret)
    page = f"<!doctype html><html><body><p>Hi <b>{entities}</b></p></body></html>"
    for raw in (laced, escaped, page, {"content_type": "text/html", "text": page}, secret.encode("utf-16")):
        cleaned = clean(raw, rules=Rules(secrets=SECRETS))
        kept = b"" if cleaned.raw is None else cleaned.raw
        assert_nowhere(cleaned.text + kept.decode("utf-8", "replace"))
        assert MASK in cleaned.text
        for form in (laced, entities, escaped[8:-3]):
            assert form.encode() not in kept


def leaky(protocol: str) -> Callable[[Sent, int], Say]:
    """A model that has learnt every secret, and writes them wherever it can."""

    def play(_sent: Sent, asked: int) -> Say:
        words = " ".join(spelled(each) for each, spelled in product(SECRETS, SPELLINGS.values()))
        if asked < 2:
            deep = [SLACK, base64.b64encode(KEY.encode()).decode()]
            given = {"q": f"{KEY} {asked}", "more": {PASSWORD: {"deep": deep}}}
            if protocol == "native":
                return Say(words, (("search", given),))
            return Say(f"Thought: {words}\nAction: search {json.dumps(given)}")
        if asked == 2:
            return Say(f"Thought: {KEY}\nno action {PASSWORD}") if protocol == "text" else Say(words, ((KEY, {}),))
        return Say(f"the key is {words}" if protocol == "native" else f"Thought: t\nAction: finish[{words}]")

    return play


def written(folder: Path) -> str:
    """Whatever the store left on the disk."""
    return b"".join(each.read_bytes() for each in sorted(folder.glob("traces.db*"))).decode("utf-8", "replace")


async def told(server: Scripted, settings: Settings, folder: Path) -> tuple[Result, str, list[Any]]:
    """One run with a tool that tells every secret. The result, all that was written and shown, and what the tool was called with."""
    called: list[Any] = []

    @tool(repeatable=True, facts={"key": "/key"})
    async def search(q: str = "", more: dict[str, Any] | None = None) -> Any:
        """Search."""
        called.append((q, more))
        words = {name: [spelled(each) for each in SECRETS] for name, spelled in SPELLINGS.items()}
        if len(called) > 1:
            raise ValueError(json.dumps(words))
        return {"key": KEY, KEY: PASSWORD, **words}

    stream, exporter = io.StringIO(), InMemorySpanExporter()
    log.configure("json", "debug", secrets_of(settings), stream)
    spans = Spans(SimpleSpanProcessor(exporter), settings, content=True, secrets=secrets_of(settings))
    file = folder / "traces.db"
    async with SqliteStore(file) as store:
        agent = Agent(settings=settings, tools=[search], store=store, observers=[log.log_entry, spans.observe])
        async with agent:
            result = await agent.run(f"Is {KEY} or {quote(PASSWORD, safe='')} known?", labels={"hook": SLACK})
        trace = await store.read(result.run_id)
        bodies = [
            await store.blob(entry.event.digest)
            for entry in trace
            if isinstance(entry.event, Observation) and entry.event.digest
        ]
    spans.close()
    shown = [repr(trace), repr(bodies), repr(result), stream.getvalue(), written(folder)]
    shown += [span.to_json() for span in exporter.get_finished_spans()]
    return result, "\n".join(shown), called


@pytest.mark.parametrize(("protocol", "wire"), list(product(("native", "text"), ("openai", "anthropic"))))
async def test_a_run_in_which_everybody_tells_the_secrets_holds_none(
    protocol: Protocol, wire: Dialect, tmp_path: Path
) -> None:
    async with scripted(leaky(protocol)) as server:
        result, shown, called = await told(server, settings_of(server, wire, protocol), tmp_path)
    assert result.answer is not None
    assert MASK in result.answer
    assert called
    assert_nowhere(shown)
    assert_nowhere(repr(called))
    for request in server.requests:
        assert_nowhere(request.body.decode())


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_provider_that_repeats_the_key_in_its_refusal_does_not_get_it_into_the_trace(
    wire: Dialect, tmp_path: Path
) -> None:
    async with scripted(lambda _sent, _asked: Say(f"Incorrect API key provided: {KEY}", status=401)) as server:
        result, shown, _ = await told(server, settings_of(server, wire, "native"), tmp_path)
    assert result.code == "AUTH_ERROR"
    assert_nowhere(shown + result.detail)


def test_what_is_recorded_is_what_runs() -> None:
    turn = acts(1, ("search", {"q": KEY, "n": 3}), thought="t")
    safe = concealed(turn, SECRETS)
    assert isinstance(safe.intent, Actions)
    assert safe.intent.actions[0].input == {"q": MASK, "n": 3}
    assert concealed(replace(turn, intent=Final("fine")), SECRETS) == replace(turn, intent=Final("fine"))
    clear = final("fine", thought="nothing here")
    assert concealed(clear, SECRETS) is clear


def test_signed_thinking_without_a_secret_goes_back_untouched() -> None:
    raw: Json = {"provider": "anthropic", "content": [{"type": "thinking", "thinking": "x", "signature": "EqQBCkgIAx"}]}
    turn = ModelTurn("t", Final(f"it is {KEY}"), opaque={"raw": raw})
    assert concealed(turn, SECRETS).opaque["raw"] == raw


def test_goal_instructions_and_labels_are_recorded_without() -> None:
    model = ModelSettings(provider="openai", base_url="http://127.0.0.1:1", model="m", api_key=SecretStr(KEY))
    request = RunRequest(f"Use {KEY}", instructions=f"The key is {KEY}.", labels={"by": KEY})
    first = started(Settings(models={"default": model}), (), request)
    assert KEY not in repr(first)
    assert first.goal == f"Use {MASK}"


async def test_a_problem_says_what_to_do_without_the_secret() -> None:
    for error in (Problem(422, "BAD", f"not {KEY}"), ConfigError(f"store {quote(PASSWORD, safe='')}")):
        reply = await handle(None, error, SECRETS)  # type: ignore[arg-type]
        assert_nowhere(bytes(reply.body).decode())
        assert MASK in bytes(reply.body).decode()


def test_an_error_on_the_terminal_is_shown_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_MODEL", "m")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("sys.argv", ["orchestrator", "--store", "memory", "run", "--tools", KEY, "Who?"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert_nowhere(said.out + said.err)
    assert MASK in said.err


def test_words_that_stand_where_a_key_is_asked_for_are_no_secrets() -> None:
    def named(key: str) -> ModelSettings:
        return ModelSettings(provider="openai", base_url="http://127.0.0.1:1", model="m", api_key=SecretStr(key))

    settings = Settings(models={key: named(key) for key in ("none", "ollama", "EMPTY", "lm-studio", "")})
    assert secrets_of(settings) == ()


def test_of_a_hooks_url_the_part_that_is_the_key_is_a_secret_alone() -> None:
    wecom = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=693a91f6-7abc-4bc4-97a0-0ec2sifa5aaa"
    hooks = {
        "s": HookSettings(kind="slack", url=SecretStr(SLACK)),
        "w": HookSettings(kind="wecom", url=SecretStr(wecom)),
    }
    known = secrets_of(Settings(hooks=hooks))
    assert {SLACK, "abcDEF123456789xyzABCDE", wecom, "693a91f6-7abc-4bc4-97a0-0ec2sifa5aaa"} <= set(known)
    for part in (
        "POST /services/T0AAAAAAA/B0BBBBBBB/abcDEF123456789xyzABCDE failed",
        "key%3D693a91f6-7abc-4bc4-97a0-0ec2sifa5aaa",
    ):
        assert MASK in hide(part, known)


def test_a_text_without_secrets_costs_about_as_much_as_with_none_configured() -> None:
    """Measured 2.8 us more for 2,000 characters and five secrets; the bound is for a busy machine."""
    text = ("The author of The Three-Body Problem is Liu Cixin, born 1963 in Yangquan, Shanxi. " * 30)[:2000]
    many = (*SECRETS, "T0ken-abcdefghijkl", "cb-key-123456789012345678")
    within = net(many)

    def spent(work: Callable[[], object]) -> float:
        best = float("inf")
        for _ in range(30):
            began = time.process_time()
            for _ in range(20):
                work()
            best = min(best, time.process_time() - began)
        return best / 20

    assert spent(lambda: within.holds(text)) < 8 * spent(lambda: text.lower().translate({1: 2}) and text.encode())
