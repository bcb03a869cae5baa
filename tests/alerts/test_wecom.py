"""The robot: its markdown, its limit in bytes, and errors inside an HTTP 200."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.alerts import Links, Wording
from orchestrator.errors import CallError, RateLimited, Rejected, Unauthorised, Unavailable
from orchestrator.hooks import Hook
from orchestrator.hooks.card import Card, card
from orchestrator.hooks.wecom import CUT, MOST_BYTES, Wecom, cut, fitted, markdown
from orchestrator.providers.wire import Reply
from tests.alerts.hooked import KEY, hook, sent
from tests.alerts.make import note


async def test_the_robot_gets_markdown_with_figure_threshold_group_runs_and_runbook() -> None:
    receiver = await sent(f"/cgi-bin/webhook/send?key={KEY}", kind="wecom")
    (body,) = receiver.bodies
    assert receiver.paths == [f"/cgi-bin/webhook/send?key={KEY}"]
    assert body["msgtype"] == "markdown"
    text = body["markdown"]["content"]
    for part in ("Thought-Action gap", "12.5 %", "above 5 %", "shop", "main", "2023-11-14 22:13:20 UTC", "40"):
        assert part in text
    assert "[r1](https://console.example/runs/r1) · [r2](https://console.example/runs/r2)" in text
    assert "https://runbook.example/#thought_action_gap" in text
    assert 'color="warning"' in text


async def test_the_robot_speaks_chinese_when_told_to() -> None:
    receiver = await sent("/r?key=k", kind="wecom", language="zh")
    assert "智能体 shop（模型 main）" in receiver.texts()[0]
    assert "**告警**" in receiver.texts()[0]


@given(st.text(max_size=3000), st.integers(40, 5000))
def test_a_cut_text_fits_in_bytes_and_breaks_no_character(text: str, most: int) -> None:
    short = cut(text, most)
    raw = short.encode()
    assert len(raw) <= most
    whole = text.encode("utf-8", "replace").decode()
    assert short == whole or (short.endswith(CUT) and whole.startswith(short.removesuffix(CUT)))


@given(st.sampled_from(["界", "é", "a", "🙂"]), st.integers(1, 4000))
def test_no_message_is_larger_than_the_robot_takes(letter: str, times: int) -> None:
    long = Card("firing", "critical", letter * times, letter * times, ((letter * times, letter * times),) * 5)
    request = Wecom("/", Wording()).message(markdown((long,), "zh"))
    assert len(json.loads(request.body)["markdown"]["content"].encode()) <= MOST_BYTES


@pytest.mark.parametrize("letter", ["a", "界", "🙂"])
@pytest.mark.parametrize("status", ["firing", "resolved"])
def test_however_long_its_words_are_a_message_has_all_figures_and_the_runbook(letter: str, status: Any) -> None:
    links = Links("https://runbook.example/" + "b" * 200, "https://console.example/" + "c" * 300 + "/{run}")
    made = note(
        labels={"agent": letter * 200, "model": letter * 200},
        says={"en": letter * 300 + "{agent}{model}", "zh": letter * 300 + "{agent}{model}"},
        title={"en": letter * 300, "zh": letter * 300},
        runs=tuple(f"run-{n}" for n in range(5)) if status == "firing" else (),
        status=status,
    )
    request = Wecom("/", Wording("zh", links)).encode(made, 0.0)
    text = json.loads(request.body)["markdown"]["content"]
    assert len(text.encode()) <= MOST_BYTES
    for part in ("12.5 %", "高于 5 %", "2023-11-14 22:13:20 UTC", "agent", "model", letter * 10, "样本数"):
        assert part in text
    assert text.endswith(f"({links.to_runbook('thought_action_gap')})")
    assert text.count("<font") == text.count("</font>")
    assert ("run-0" in text) == (status == "firing")


@given(st.sampled_from("界é🙂a"), st.integers(1, 700), st.integers(1, 12))
def test_a_card_that_is_too_long_is_made_shorter_not_cut_off(letter: str, times: int, facts: int) -> None:
    long = letter * times
    each = Card("firing", "critical", long, long, ((long, long),) * facts, (long,) * 5, "https://runbook.example/#r")
    text = fitted((each,), "zh")
    assert len(text.encode()) <= MOST_BYTES
    assert text.endswith("(https://runbook.example/#r)")


@pytest.mark.parametrize(
    "label", ["<@everyone>", '<font color="info">fine</font>', "`x`", "a\n> b", "\x1b[31m\u202e", "\ud800"]
)
def test_a_label_cannot_become_markup_or_ping_people(label: str) -> None:
    hostile = note(labels={"agent": label, "model": "m"})
    text = markdown((card(hostile, Wording()),), "en")
    harmless = markdown((card(note(labels={"agent": "A", "model": "m"}), Wording()),), "en")
    assert text.count("<") == harmless.count("<")
    assert text.count("\n") == harmless.count("\n")
    text.encode()
    made = hook(kind="slack", url="https://hooks.example/x")
    assert isinstance(made, Hook)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"errcode": 45009, "errmsg": "api freq out of limit"}, RateLimited),
        ({"errcode": 45033, "errmsg": "concurrent"}, RateLimited),
        ({"errcode": -1, "errmsg": "system busy"}, Unavailable),
        ({"errcode": 93000, "errmsg": "invalid webhook url"}, Unauthorised),
        ({"errcode": 40058, "errmsg": "markdown.content exceed max length 4096"}, Rejected),
        ({"errcode": 1}, Rejected),
        ({"errcode": "0"}, Unavailable),
        ({"errcode": False}, Rejected),
        ({}, Unavailable),
        ([], Unavailable),
        ("<html>sign in</html>", Unavailable),
        ("", Unavailable),
        ("[" * 100_000, Unavailable),
    ],
)
def test_an_http_200_without_errcode_0_is_a_failure(answer: Any, error: type[CallError]) -> None:
    body = answer if isinstance(answer, str) else json.dumps(answer)
    with pytest.raises(error):
        Wecom("/", Wording()).accept(Reply(200, {}, body.encode()))
