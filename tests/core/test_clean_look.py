"""The short ways of cleaning skip nothing that the long ones would change: over texts in which everything stands that could matter."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.core.clean import EMPTY, Head, Rules, clean, mask, strip
from orchestrator.core.clean.draft import opened
from orchestrator.core.clean.hide import net
from orchestrator.core.clean.look import look
from orchestrator.core.clean.steps import STEPS, untouched
from orchestrator.core.clean.strip import is_clear
from orchestrator.core.text.words import LABELS, TAGS

masking: Any = import_module("orchestrator.core.clean.mask")
defusing: Any = import_module("orchestrator.core.clean.defuse")
everyday_ones: Any = import_module("orchestrator.core.clean.everyday")
EVERY_CHARACTER = "".join(map(chr, range(sys.maxunicode + 1)))

SIGNS = [
    *("\n", "\r", "\r\n", "\u2028", " ", "\t", "\u3000", "\x00", "\x08", "\x7f", "\x85", "\x1b[31m", "\ud835", "\ufffd", "\u200b", "\u200d", "\ufe0f"),
    *("\u202e", "\u00ad", "\u3164", "\ufeff", "\U000e0041", "é", "É", "İ", "ſ", "\u212a", "ß", "Σ", "℃", "™", "…", "—", "“", "，", "。", "：", "（", "😀"),
    *("𝐀", "Ａ", "ａ", "１", "а", "〈", "<", ">", "|", "/", "[", "]", "(", "{", "}", '"', "'", "\\", "\\n", "\\u0041", "&#60;", "%41", ",", ";", "_", "-", "."),
    *("**", "1. ", "> ", "【", "】", "⟦", "⟧", "✿", ":", "=", "://", "-----", "---", "NaN", "Infinity", "null", "1e999", "12", "true"),
]  # fmt: skip
WORDS = [
    *("Action", "act", "ion", "Final Answer:", "Ａｃｔｉｏｎ：", "Аction:", "行动：", "最终答案", "finish[", "Finish (", "answer", "Thought: x", "system"),
    *("<|im_end|>", "</tool_result>", "<tool_call>", "[INST]", "[calling tool:", "[[ ## a ## ]]", "✿FUNCTION✿", "functools[", "END", " OF ", "OBSERVATION"),
    *("--- END OF OBSERVATION ---", "<html>", "<p>", "</p>", "<script>", "<!--", "<html><body>x</body></html>", '{"status": "error", "code": "E1"}'),
    *('{"a": "x", "b": [1, 2.5, null]}', "data:image/png;base64," + "QUJD" * 40, ";base64,", "A1b" * 400, "a" * 15, "a" * 16, "a" * 17, "/usr/lib/site-packages"),
    *("sk-proj-EXAMPLEexampleEXAMPLE0000", "AKIAABCDEFGHIJKLMNOP", "ghp_abcdefghijklmnopqrstuvwx12", "eyJhbGciOiJI.eyJzdWIiOiIx.abc", "Bearer abcdefgh12345678"),
    *("basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic abc123", "authorization", "cookie: a=b12345678901234567", "https://user:pa55word@host/x"),
    *("hooks.slack.com/services/T000/B000/XXXXXXXX", "-----BEGIN RSA PRIVATE KEY-----", "MIIEabc/+=", "-----END RSA PRIVATE KEY-----", "private key"),
    *("password: hunter2x", "password", "passphrase", "pwd=ab12cd34", "client_secret", "api_key", "access_token", "credential", "密码：abc123x", "口令", "密钥=ab12cd34"),
    *("correct horse", "%63orrect horse", "correct+horse", "c\\u006frrect horse", "c&#111;rrect horse", "Y29ycmVjdCBob3JzZQ", "hunter2hunter2"),
    *("the quick brown fox", "word ", "天气晴朗", "，今天", "한국어", "日本語です"),
]  # fmt: skip
PIECES = st.sampled_from([*SIGNS, *WORDS])
CALM = st.sampled_from(
    ["the ", "word ", "quick, ", "brown. ", "fox\n", "12 ", "天气晴朗", "，今天", "file/name ", "(see) ", "key ", "a: "]
)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(PIECES, max_size=20).map("".join),
    st.tuples(st.lists(CALM, max_size=120), PIECES, st.lists(CALM, max_size=60)).map(
        lambda t: "".join((*t[0], t[1], *t[2]))
    ),
    st.lists(CALM | PIECES, max_size=60).map("".join),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["id", "status", "error", "text", "content_type", "token"]) | PIECES, inner, max_size=5
        )
    ),
    max_leaves=8,
)
RAW = st.one_of(
    TEXTS, VALUES, VALUES.map(json.dumps), VALUES.map(lambda v: json.dumps(v, ensure_ascii=False, indent=1))
)
SECRETS = st.sampled_from([(), ("correct horse", "hunter2hunter2"), ("abc",)])
RULES = st.builds(
    Rules, st.sampled_from([64, 300, 8000]), st.sampled_from(["", "", "text/html", "application/json"]), SECRETS
)
LONG_RUN = re.compile(r"[A-Za-z0-9_.+/=~-]{16}")


def masked_at_length(text: str, secrets: tuple[str, ...]) -> str:
    """`mask` with every expression on the whole text: nothing decides that one has nothing to find."""
    if secrets:
        text = net(secrets).hide(text)
    if LONG_RUN.search(text):
        text, whole = masking._TOKEN.sub("[REDACTED]", text), text
        if "://" in whole:
            text = masking._HOOK.sub(masking._value_masked, text)
        text = masking._COOKIE.sub(masking._value_masked, text)
        text = masking._SCHEME.sub(masking._scheme_masked, text)
    text = masking._URL.sub(masking._password_in_url, text)
    text = masking._HEADER.sub(masking._value_masked, text)
    text = masking._PEM_TAIL.sub("[REDACTED]", masking._PEM.sub("[REDACTED]", text))
    return str(masking._named(text))


def tokens_at_length(text: str) -> str:
    """`defuse_tokens` with every expression, on copies folded anew."""
    folded = text.replace("\u0130", "i").lower().translate(defusing._FOLD)
    for pattern, whole in (
        (defusing._TOKEN, False),
        (defusing._BRACKETS, False),
        (defusing._WORDS_AS_TOKENS, False),
        (defusing._END, True),
    ):
        text, folded = defusing._bracketed(text, folded, pattern, whole=whole)
    return text


@settings(max_examples=400, deadline=None)
@given(TEXTS, SECRETS)
@example("x" * 300 + " token: ab12cd34", ())
@example("a: b " * 40 + "https://u:p4ssw0rd@h", ())
@example("密码：abc123x", ())
def test_no_secret_is_missed_because_nobody_looked(text: str, secrets: tuple[str, ...]) -> None:
    assert mask(text, secrets) == masked_at_length(text, secrets)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_no_token_is_missed_because_nobody_looked(text: str) -> None:
    assert defusing.defuse_tokens(text) == tokens_at_length(text)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_a_look_is_true(text: str) -> None:
    seen = look(text)
    assert seen.text is text
    assert seen.low == text.lower()
    assert seen.runs == (LONG_RUN.search(text) is not None)
    if seen.plain:
        assert is_clear(text)
        assert strip(text) == text
        assert seen.low == defusing._folded(text)


def test_no_character_hides_among_the_everyday_ones() -> None:
    everyday = "".join(re.findall(everyday_ones._RARE.pattern.replace("[^", "[", 1) + "+", EVERY_CHARACTER))
    assert len(everyday) > 40_000
    assert look(everyday).plain
    assert is_clear(everyday)
    assert not defusing.is_disguised(everyday.lower())
    assert everyday.lower() == "".join(char.lower() if char.isascii() else char for char in everyday)
    assert [char for char in map(chr, range(128)) if look(char).plain] == [
        char for char in map(chr, range(128)) if is_clear(char)
    ]


def at_length(raw: Any, head: Head, rules: Rules) -> tuple[Any, ...]:
    """What `clean` makes of it in all its steps, and without anything that was seen before."""
    draft = replace(opened(raw, head, rules), seen=None)
    for step in STEPS:
        draft = step(draft)
    return draft.text, draft.json and draft.json.value, draft.head, draft.source, draft.steps


@settings(max_examples=600, deadline=None)
@given(RAW, st.sampled_from([Head(), Head("error", "correct horse"), Head(message="a message")]), RULES)
def test_cleaning_in_short_is_cleaning_at_length(raw: Any, head: Head, rules: Rules) -> None:
    text, data, said, source, steps = at_length(raw, head, rules)
    cleaned = clean(raw, head, rules)
    assert cleaned.steps == steps
    assert cleaned.head == said
    assert cleaned.body == (text or ("" if head.message else EMPTY))
    assert repr(cleaned.data) == repr(data)
    assert cleaned.size == len(source if isinstance(source, bytes) else source.encode("utf-8", "replace"))


@settings(max_examples=400, deadline=None)
@given(TEXTS, RULES)
def test_what_is_called_untouched_is_not_touched(text: str, rules: Rules) -> None:
    if untouched(text, rules):
        assert at_length(text, Head(), rules) == (text, None, Head(), text, ())


@pytest.mark.parametrize("word", [*WORDS, *(f"\n{word}:" for words in LABELS.values() for word in words), *(t for tags in TAGS.values() for t in tags)])  # fmt: skip
def test_a_word_that_matters_is_not_overlooked_in_calm_text(word: str) -> None:
    for before, behind in (("", ""), ("calm words ", " and more"), ("平静的文字，", "。更多")):
        text = f"{before * 20}{word}{behind * 20}"
        found = at_length(text, Head(), Rules())
        assert clean(text).steps == found[4]
        assert clean(text).body == (found[0] or EMPTY)
        assert untouched(text, Rules()) <= (found[4] == ())


def test_everyday_results_are_untouched() -> None:
    for text in (
        "ok",
        "Oslo: 12 °C\n\twind 3 m/s",
        "天气晴朗：气温 12 摄氏度。",
        "see https://example.com/a/long/path/to/something",
    ):
        assert untouched(text, Rules())


def test_json_that_names_a_constant_in_a_string_stays_as_it_is() -> None:
    text = '{"a":  "NaN and Infinity"}'
    assert clean(text).body == text
    assert clean('{"a":  NaN}').body == '{"a": "NaN"}'
