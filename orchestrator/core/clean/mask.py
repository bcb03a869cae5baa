"""Secrets are masked before anything else looks at a text: so neither the model, the log nor the trace ever holds one.

Two nets: the values the operator configured (see `hide`), and the shapes of well-known tokens. Every pattern starts at a fixed needle and
never runs back (possessive), so the time is linear.

Where a text is only asked whether it holds a word, `rfind` is asked: on CPython 3.11 it takes a third of the time of `in`.
"""

from __future__ import annotations

import re

from orchestrator.core.clean.hide import LETTERS, MASK, hide, net
from orchestrator.core.clean.look import Look, look

_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrtbf]))"  # also behind an escape such as \n in JSON text
_LINE = r"(?:[^\r\n\"'\[\\]|\\[^\"'\s]){6,4096}"  # never the backslash before a quote: what is masked stays JSON
_TOKENS = (
    r"(?:sk|rk)[-_](?=[A-Za-z0-9_-]{0,80}?[0-9A-Z])[A-Za-z0-9_-]{16,}+",
    r"gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+|gl(?:pat|dt|rt)-[A-Za-z0-9_-]{16,}+",
    r"(?:AKIA|ASIA|AKID|LTAI)[A-Za-z0-9]{12,}+",
    r"AIza[A-Za-z0-9_-]{30,}+|ya29\.[A-Za-z0-9._-]{20,}+",
    r"xox[a-z]-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{10,}+",
    r"eyJ[A-Za-z0-9_-]{6,}+\.[A-Za-z0-9_-]{2,}+\.[A-Za-z0-9_-]*+",
    r"hf_[A-Za-z0-9]{24,}+|npm_[A-Za-z0-9]{30,}+|pypi-[A-Za-z0-9_-]{24,}+|gsk_[A-Za-z0-9]{24,}+|xai-[A-Za-z0-9]{24,}+",
    r"SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+|whsec_[A-Za-z0-9+/=]{16,}+|dop_v1_[a-f0-9]{32,}+",
    r"orc_[A-Za-z0-9_-]{40,}+|shp(?:at|ca|pa|ss)_[A-Za-z0-9]{24,}+|r8_[A-Za-z0-9]{30,}+|AGE-SECRET-KEY-[A-Z0-9]{20,}+",
)
_TOKEN = re.compile(_START + "(?:" + "|".join(_TOKENS) + ")")
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----)){0,16384}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]{0,16384}+)"
)
_PEM_TAIL = re.compile(
    r"(?<![A-Za-z0-9+/=\s\\])[A-Za-z0-9+/=\s\\]*+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
)
_URL = re.compile(r"(?<=://)([^\s/@:\"'<>]{0,64}):([^\s/@\"'<>]{1,256})@")
_HOOK = re.compile(
    r"(hooks\.slack\.com/services/|webhook/send\?key=|open-apis/bot/v2/hook/|robot/send\?access_token=)[A-Za-z0-9/_-]{8,}+"
)
_SCHEME = re.compile(
    _START + r"(bearer|basic)([ \t]{1,4})(?=[A-Za-z+/=._~-]{0,80}?[0-9=])[A-Za-z0-9+/=._~-]{12,}+", re.IGNORECASE
)
_COOKIE = re.compile(
    r"((?:set-)?cookie[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?)(?=[^\r\n\"']{0,80}=)" + _LINE, re.IGNORECASE
)
_HEADER = re.compile(r"(authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?)(?!\[)" + _LINE, re.IGNORECASE)
_NAMED = re.compile(
    r"(?:passw(?:or)?d|passwd|pwd|passphrase|secret|api[_-]?key|access[_-]?key|secret[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token"
    r"|session[_-]?token|client[_-]?secret|private[_-]?key|account[_-]?key|credential|密码|口令|密钥)"
    r"(?P<quoted>[\"']?)[ \t]{0,4}[:=：][ \t]{0,4}(?P<quote>[\"']?)(?P<value>(?:[^\s\"'\\<>,;&{}\[\]()（），；。]|\\[^\"'\s]){6,512})"
)
_PLAIN_NEEDLES = ("AKIA", "ASIA", "AKID", "LTAI", "AIza")
_NEEDLES = (
    *("sk-", "sk_", "rk_", "rk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-"),
    *("ya29.", "xox", "xapp-", "eyJ", "hf_", "npm_", "pypi-", "gsk_", "xai-"),
    *("orc_", "SG.", "whsec_", "dop_v1_", "shpat_", "shpca_", "shppa_", "shpss_", "r8_", "AGE-SECRET-KEY-"),
)
_NAMES = ("pass", "pwd", "secret", "key", "token", "credential")
_NAMES_ELSEWHERE = ("密码", "口令", "密钥")
_BEFORE = 20  # characters from where "authorization" or a name begins to its colon, a quote and four blanks between
_APART = 128  # characters from colon to colon: where there are fewer, it is quicker to look at the text than at what stands before each
_PIECE = 262_144


def mask(text: str, secrets: tuple[str, ...] = ()) -> str:
    """`text` with secrets replaced by `[REDACTED]`. Configured values shorter than 4 characters are ignored: they would hit words."""
    if (seen := seen_at_once(text)) is not None:
        return mask_seen(seen, secrets)
    text = hide(text, secrets)
    pieces = _pieces(text)
    masked = [_shapes(look(piece)) for piece in pieces]
    return text if masked == pieces else "".join(masked)


def seen_at_once(text: str) -> Look | None:
    """The Look of a text, unless it is so long that it is looked at in pieces."""
    return look(text) if len(text) <= _PIECE else None


def mask_seen(seen: Look, secrets: tuple[str, ...] = ()) -> str:
    """`mask` for a text of which there is a Look."""
    if not secrets:
        return _shapes(seen)
    safe = net(secrets).hide(seen.text, seen.shape)
    return _shapes(seen if safe is seen.text else look(safe))


def has_run(text: str, length: int) -> bool:
    """Whether so many characters stand in a row that could be of a token or of base64: quick, for nearly no text has, and a blank
    stands in every piece of half that length."""
    half = max(1, length // 2)
    for start in range(0, len(text) - half + 1, half):
        if text.find(" ", start, start + half) < 0:
            return b"a" * length in text.encode("utf-8", "replace").translate(LETTERS)
    return False


def _pieces(text: str) -> list[str]:
    """Long texts in pieces that end at a line or word, so that no copy of the whole is made in lower case."""
    pieces, start = [], 0
    while start < len(text):
        end = start + _PIECE
        if end < len(text):
            near = text.rfind("\n", end - 8192, end)
            near = near if near > 0 else text.rfind(" ", end - 8192, end)
            end = near if near > start else end
        pieces.append(text[start:end])
        start = end
    return pieces


def _shapes(seen: Look) -> str:
    text = _long_runs(seen.text, seen.low) if seen.runs else seen.text
    near = _near_colons(seen.low)
    if near.rfind("://") >= 0:
        text = _URL.sub(_password_in_url, text)
    if near.rfind("authorization") >= 0:
        text = _HEADER.sub(_value_masked, text)
    if text.rfind("PRIVATE KEY") >= 0:
        text = _PEM_TAIL.sub(MASK, _PEM.sub(MASK, text))
    for needle in _NAMES if near.isascii() else (*_NAMES, *_NAMES_ELSEWHERE):
        if near.rfind(needle) >= 0:
            return _named(text)
    return text


def _near_colons(low: str) -> str:
    """What stands around the colons and equals signs of a text: only there a name can be whose value is a secret. One short look in
    place of eight long ones. The whole text where they stand close together."""
    even = low.replace("=", ":").replace("：", ":")
    pieces: list[str] = []
    at = even.find(":")
    while at >= 0:
        if len(pieces) > at // _APART:
            return low
        pieces.append(even[max(at - _BEFORE, 0) : at + 3])
        at = even.find(":", at + 1)
    return " ".join(pieces)


def _long_runs(text: str, low: str) -> str:
    """Secrets with at least 16 characters in a row that could be of a token."""
    signs = "-" in text or "_" in text or "." in text
    if any(needle in text for needle in _PLAIN_NEEDLES) or (signs and any(needle in text for needle in _NEEDLES)):
        text = _TOKEN.sub(MASK, text)
    if "://" in text:
        text = _HOOK.sub(_value_masked, text)
    if "cookie" in low:
        text = _COOKIE.sub(_value_masked, text)
    return _SCHEME.sub(_scheme_masked, text) if "bearer" in low or "basic" in low else text


def _value_masked(found: re.Match[str]) -> str:
    return found[1] + MASK


def _scheme_masked(found: re.Match[str]) -> str:
    return found[1] + found[2] + MASK


def _password_in_url(found: re.Match[str]) -> str:
    return f"{found[1]}:{MASK}@"


def _named(text: str) -> str:
    """Values behind a telling name: if they hold a digit or sign, or are long; a plain word behind `password:` is prose."""
    low = text.lower()
    if len(low) != len(text):
        low = text.replace("\u0130", "i").lower()
    kept: list[str] = []
    done = 0
    for found in _NAMED.finditer(low):
        value = found["value"]
        if value.rstrip(".!?:").isalpha() and len(value) < 20:
            continue
        bare_in_json = found["quoted"] and not found["quote"]
        kept += (text[done : found.start("value")], f'"{MASK}"' if bare_in_json else MASK)
        done = found.end("value")
    return "".join((*kept, text[done:])) if kept else text
