"""The characters of everyday texts, Chinese, Japanese and Korean ones too: a text of nothing else is told by one quick look."""

from __future__ import annotations

import re

_RARE = re.compile(
    "[^\t\n -~\xa0-\xac\xae-\xbf\xdf-\xff\u2010-\u2027\u2030-\u2038\u203b-\u205e\u20a0-\u20bf\u2103\u2190-\u2235\u2237-\u23ff\u2500-\u26ff"
    "\u3001-\u3007\u300a-\u3163\u3165-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff0d\uff1a\uff1b\uff1f]"
)


def is_everyday(text: str) -> bool:
    """Does nothing in the text hide, stand for another character, or, outside ASCII, have a lower case?"""
    return _RARE.search(text) is None
