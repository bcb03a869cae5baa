"""Bytes to text, or a word on why they are none. Standard library only; a guess never raises and is never silent.

The order is: byte order mark, the charset that was declared (header, then HTML meta), UTF-8, UTF-8 cut or slightly damaged,
UTF-16 without a mark, GB18030 where it reads as Chinese, Windows-1252 where it reads as Western text.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "ZIP"),
    (b"\x89PNG\r\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"RIFF", "RIFF"),
    (b"\x7fELF", "ELF"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"SQLite format 3\x00", "SQLite"),
    (b"OggS", "Ogg"),
    (b"ID3", "MP3"),
    (b"\xca\xfe\xba\xbe", "class file"),
    (b"\x00asm", "WebAssembly"),
    (b"wOFF", "font"),
    (b"wOF2", "font"),
    (b"PAR1", "Parquet"),
    (b"\xd0\xcf\x11\xe0", "Office document"),
)
_BEGINNINGS = tuple(first for first, _ in (*_BOMS, *_MAGIC))
# What a label means on the web (encoding.spec.whatwg.org), and nothing that is no text encoding (rot13, zlib, idna, utf-7).
_CHARSETS = {
    "ascii": "cp1252",
    "usascii": "cp1252",
    "latin1": "cp1252",
    "iso88591": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "cp936": "gb18030",
    "xgbk": "gb18030",
    "gb18030": "gb18030",
    "hzgb2312": "hz",
    "shiftjis": "cp932",
    "sjis": "cp932",
    "xsjis": "cp932",
    "windows31j": "cp932",
    "ksc56011987": "cp949",
    "euckr": "cp949",
    "big5": "big5hkscs",
    "tis620": "cp874",
    "utf8": "utf-8",
    "unicode": "utf-16",
    "macintosh": "mac_roman",
}
_PLAIN = re.compile(
    r"(utf(8|16|16le|16be|32|32le|32be)|iso8859\d{1,2}|iso2022(jp|kr)|cp\d{3,4}|windows\d{3,4}|eucjp|koi8[ru]|big5hkscs|johab)\Z"
)
_DECLARED = re.compile(r"charset\s*+=\s*+[\"']?\s*+([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*+=\s*+[\"']?\s*+([A-Za-z0-9._:-]{1,40})|<\?xml[^>]{0,80}?encoding\s*+=\s*+[\"']([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)  # fmt: skip
_CONTROLS = bytes(range(0x09)) + bytes(range(0x0E, 0x1B)) + bytes(range(0x1C, 0x20))
_SAMPLE = 65_536


@dataclass(frozen=True, slots=True)
class Decoded:
    """`text`, or `binary`: what kind of bytes these are ("PNG", "unknown"). `replaced` counts U+FFFD put in for bad bytes."""

    text: str = ""
    binary: str | None = None
    charset: str = "utf-8"
    replaced: int = 0


def charset(label: str) -> str | None:
    """The codec a charset label stands for, or None when it is unknown or not an encoding of text."""
    key = re.sub(r"[^a-z0-9]", "", label.lower())
    name = _CHARSETS.get(key) or (key if _PLAIN.match(key) else None)
    if name is None:
        return None
    name = re.sub(r"^windows(?=\d)", "cp", name)
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None


def decode(raw: bytes, content_type: str = "") -> Decoded:
    """Text of `raw`. Linear time; a body that is not text comes back as `binary`."""
    if raw.startswith(_BEGINNINGS):
        for mark, name in _BOMS:
            if raw.startswith(mark):
                return _lossy(raw[len(mark) :], name)
        kind = next(kind for magic, kind in _MAGIC if raw.startswith(magic))
        if not _reads_as_ascii(raw):
            return Decoded(binary=kind)
    named = _named(raw, content_type)
    if named is not None:
        try:
            return _checked(Decoded(raw.decode(named), charset=named), raw)
        except UnicodeDecodeError:
            pass
    try:
        return _checked(Decoded(raw.decode("utf-8")), raw)
    except UnicodeDecodeError as error:
        return _guessed(raw, error)


def _named(raw: bytes, content_type: str) -> str | None:
    declared = _DECLARED.search(content_type)
    if declared is not None:
        return charset(declared[1])
    meta = _META.search(raw, 0, 2048)
    if meta is None:
        return None
    name = charset((meta[1] or meta[2]).decode("ascii"))
    return None if name is not None and name.startswith(("utf-16", "utf-32")) else name


def _checked(decoded: Decoded, raw: bytes) -> Decoded:
    """A decoder that did not complain is no proof of text: control bytes are counted too."""
    if decoded.charset.startswith(("utf-16", "utf-32")):
        return decoded
    sample = raw[:_SAMPLE]
    nul = sample.count(0)
    if nul and _wide(sample) is not None:
        return _lossy(raw, _wide(sample) or "utf-16-le")
    controls = len(sample) - len(sample.translate(None, _CONTROLS)) - nul
    if controls * 10 > len(sample) or nul * 2 > len(sample) + 1:
        return Decoded(binary="unknown")
    return decoded


def _wide(sample: bytes) -> str | None:
    """UTF-16 without a mark, as Windows programs write it: every other byte is NUL."""
    if len(sample) < 4 or len(sample) % 2:
        return None
    half = len(sample) // 2
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd * 10 >= half * 9 and even == 0 and _looks_like_text(sample[::2]):
        return "utf-16-le"
    if even * 10 >= half * 9 and odd == 0 and _looks_like_text(sample[1::2]):
        return "utf-16-be"
    return None


def _guessed(raw: bytes, error: UnicodeDecodeError) -> Decoded:
    if error.reason == "unexpected end of data" and len(raw) - error.start <= 3 and _looks_like_text(raw[:_SAMPLE]):
        return Decoded(raw[: error.start].decode("utf-8") + "\ufffd", replaced=1)
    wide = _wide(raw[: _SAMPLE - _SAMPLE % 2])
    if wide is not None:
        return _lossy(raw, wide)
    if not _looks_like_text(raw[:_SAMPLE]):
        return Decoded(binary="unknown")
    damaged = raw.decode("utf-8", "replace")
    bad = damaged.count("\ufffd")
    wide_chars = len(raw) - len(raw.translate(None, bytes(range(0x80, 0x100))))
    if bad * 8 <= wide_chars:
        return Decoded(damaged, replaced=bad)
    chinese = _chinese(raw)
    if chinese is not None:
        return Decoded(chinese, charset="gb18030")
    if wide_chars * 2 > len(raw) + 8:
        return Decoded(binary="unknown")
    western = raw.decode("cp1252", "replace")
    return Decoded(western, charset="cp1252", replaced=western.count("\ufffd"))


def _chinese(raw: bytes) -> str | None:
    try:
        text = raw.decode("gb18030")
    except UnicodeDecodeError as error:
        if len(raw) - error.start > 3:
            return None
        text = raw[: error.start].decode("gb18030") + "\ufffd"
    sample = [char for char in text[:4096] if char > "\x7f"]
    common = sum(
        "\u4e00" <= char <= "\u9fa5" or "\u3000" <= char <= "\u303f" or "\uff00" <= char <= "\uff5e" for char in sample
    )
    return text if common * 10 >= len(sample) * 8 else None


def _looks_like_text(sample: bytes) -> bool:
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return controls * 33 <= len(sample)


def _reads_as_ascii(raw: bytes) -> bool:
    """`BZh` and `ID3` may also open a sentence; `%PDF` may not."""
    return raw[:8192].isascii() and not raw.startswith(b"%PDF-") and _looks_like_text(raw[:8192])


def _lossy(raw: bytes, name: str) -> Decoded:
    text = raw.decode(name, "replace")
    return Decoded(text, charset=name, replaced=text.count("\ufffd"))
