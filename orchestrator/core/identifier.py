"""What a text points at (an address, a URL, an account, a path), and the two readings in which texts are compared.

To trust, a text is read *strictly*: letters of any case and runs of spaces are one, nothing else is. To suspect, it is read
*loosely*: full-width forms, invisible characters, percent-escapes, HTML entities, base64 and every separator are undone. So an
evasion can make a value look like nobody's, or like an attacker's, but never like the user's.
Every pattern is bounded: the time is linear in the text.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote

from orchestrator.core.clean.strip import strip
from orchestrator.core.spec import Sensitive

_TOKEN = re.compile(
    r"[A-Za-z]:\\[^\s\"'<>|,;]*|[^\s<>()\[\]{}\"'`,;|\\^，。；：、！？（）《》〈〉「」『』【】“”‘’…]+|\\\\?[^\s\"'<>|]+"
)
_EMAIL = re.compile(r"[^\s@/:]{1,64}@(?:[^\s@/:.]{1,63}\.){1,8}[^\s@/:.\d][^\s@/:.]{0,62}")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,19}:/{1,3}(?=[^/])", re.IGNORECASE)
_HOST = re.compile(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}\.?(?::\d{1,5})?(?:[/?#]\S*)?")
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?:[/?#]\S*)?|\[[0-9a-f:.]{2,45}\]\S*", re.IGNORECASE)
_PATH = re.compile(r"(?:~|\.{1,2})?/\S*|[A-Za-z]:[\\/]\S*|\\\\\S+|[^\s/]{1,255}(?:/[^\s/]{1,255}){1,64}/?")
_FILE = re.compile(r"[^\s/]{1,200}\.[A-Za-z][A-Za-z0-9]{0,4}")
_ACCOUNT = re.compile(
    r"(?<![A-Za-z0-9_])(?:[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z]{0,4}\d{2,4}){2,9}(?![A-Za-z0-9])|\+?\(?\d(?:[ .()/-]{0,2}\d){6,33}(?!\d))"
)
_DATE = re.compile(r"\d{4}[-./]\d{1,2}[-./]\d{1,2}\b.*|\d{1,2}[-./]\d{1,2}[-./]\d{4}\b.*", re.DOTALL)
_ENDS = ".:!?*_~"
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_SEPARATORS = re.compile(r"[^\w@./:]+|_")
BLANKS = " \t\r\n\f\v"
"""What the strict reading takes for a space. Another blank is a letter like any: in a file's name it makes another file."""
_SPACES = re.compile(f"[{BLANKS}]+")
_NO_CAPITALS = re.compile("([\u0130\u2126\u212a\u212b])")
"""Characters whose lower case is another letter's: the Kelvin sign is no capital k."""
_LONGEST_ENCODED = 8192


def plain(text: str) -> str:
    """The strict reading: in lower case, spaces collapsed, and nothing else undone."""
    return _SPACES.sub(" ", lower(text)).strip(" ")


def lower(text: str) -> str:
    """In lower case, and no more: no ligature, long s or sign becomes the letter that it looks like."""
    if text.isascii() or _NO_CAPITALS.search(text) is None:
        return text.lower()
    return "".join(piece if at % 2 else piece.lower() for at, piece in enumerate(_NO_CAPITALS.split(text)))


def written(text: str) -> str:
    """What somebody who wrote this text can have meant: as it stands, and in the usual forms of its letters and digits."""
    usual = unicodedata.normalize("NFKC", strip(text))
    return text if usual == text else f"{text}\n{usual}"


@lru_cache(maxsize=512)
def loose(text: str) -> str:
    """The loose reading, separators gone, on one line; what stood in it in base64 follows, a line each."""
    return "\n".join(_SEPARATORS.sub("", each.casefold()) for each in undone(text))


def undone(text: str) -> Iterator[str]:
    """The text with full-width forms, invisible characters, entities and escapes undone; then what stands in it in base64."""
    usual = unicodedata.normalize("NFKC", strip(html.unescape(text)))
    for _ in range(2):
        if "%" not in usual:
            break
        usual = unquote(usual)
    yield usual
    yield from _decoded(text)


def _decoded(text: str) -> Iterator[str]:
    """The texts that stand in base64 in it."""
    for found in _ENCODED.finditer(text):
        body = found[0].rstrip("=").replace("-", "+").replace("_", "/")[:_LONGEST_ENCODED]
        try:
            raw = base64.b64decode(body[: len(body) - (len(body) % 4 == 1)] + "=" * (-len(body) % 4)).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            continue
        if raw.isprintable():
            yield raw


def identifiers(text: str) -> Iterator[tuple[Sensitive, str]]:
    """Each address, URL, account and path in a text: its kind and its canonical form. A word may be of two kinds."""
    for found in _ACCOUNT.finditer(text):
        if not _DATE.fullmatch(found[0]):
            yield "account", account(found[0])
    for word in _TOKEN.findall(text):
        for token in dict.fromkeys((word, *_cut_free(word))):
            bare = token.rstrip(_ENDS)
            for kind in kinds_of(bare):
                yield kind, canonical(kind, bare)


def without_accounts(text: str) -> str:
    """The text with each account number that is written in groups taken out."""
    return _ACCOUNT.sub(lambda found: found[0] if found[0].isalnum() or _DATE.fullmatch(found[0]) else "\n", text)


def _cut_free(word: str) -> Iterator[str]:
    """What stands in a word between characters of scripts without spaces: 发到bob@x.com吧, 见https://x.com/文档."""
    if _UNSPACED.search(word) is not None:
        yield from _UNSPACED.split(word)
        if (scheme := _SCHEME.search(word)) is not None:
            yield word[scheme.start() :]


def kinds_of(token: str) -> Iterator[Sensitive]:
    """What one word points at; nothing for most words."""
    bare = token.removeprefix("mailto:")
    if _EMAIL.fullmatch(bare):
        yield "email"
    elif _SCHEME.match(token) or _ADDRESS.fullmatch(token):
        yield "url"
    else:
        if _HOST.fullmatch(token):
            yield "url"
        if _PATH.fullmatch(token) or _FILE.fullmatch(token):
            yield "path"


def canonical(kind: Sensitive, token: str) -> str:
    """One spelling for all strict spellings of the same thing. A path keeps its case: on most systems it matters."""
    match kind:
        case "email":
            return lower(token.removeprefix("mailto:"))
        case "url":
            return _url(token)
        case "account":
            return account(token)
        case _:
            return token


def account(text: str) -> str:
    """An account, card or phone number: its letters and digits."""
    return lower("".join(char for char in text if char.isalnum()))


def _url(token: str) -> str:
    """Host (and user, and port) case-folded, path and query as written; `http://` is what no scheme means, and `https://` too."""
    scheme = _SCHEME.match(token)
    rest = token[scheme.end() :] if scheme else token
    named = scheme[0].casefold().rstrip("/").rstrip(":") if scheme else ""
    end = next((at for at, char in enumerate(rest) if char in "/?#"), len(rest))
    host, path = lower(rest[:end]).rstrip("."), rest[end:]
    port = {"http": ":80", "https": ":443", "": ":80"}.get(named, "")
    host = host.removesuffix(port) if port else host
    head = "" if named in {"", "http", "https"} else f"{named}://"
    return head + host + ("" if path == "/" else path)


def host_of(url: str) -> str:
    """The host of a canonical URL, without user and port."""
    rest = url.partition("://")[2] or url
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return authority.rpartition("@")[2].partition(":")[0]
