"""The honest way out: an answer that says what is lacking, as every prompt of ours teaches it."""

from __future__ import annotations

import re

_LEAD = r"[\s*_#>\"'“「`]{0,20}"
_GAP = r"[ \t]{0,4}"
_WAY_OUT = re.compile(
    rf"{_LEAD}(?:insufficient(?: (?:information|data|evidence))?{_GAP}[:：,，;.—-]{{1,3}}{_GAP}(?:missing\b)?"
    rf"|(?:资料|信息|证据|資料|資訊|證據)不足{_GAP}(?:[:：,，;；。—-]{{1,3}}{_GAP}(?:缺少|缺乏|缺)?|缺少|缺乏|缺)){_GAP}[:：]?([^\n]*)",
    re.IGNORECASE,
)


def missing(answer: str) -> str | None:
    """What the answer says it lacks (`insufficient: missing X`, `资料不足：缺少 X`); None when it does not begin so."""
    found = _WAY_OUT.match(answer)
    return (found[1].strip(" \t.。*_\"'”」`") or answer.strip()) if found else None
