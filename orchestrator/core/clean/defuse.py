"""Look-alikes of our own words in foreign text are put in ⟦ ⟧: still readable, no longer a label, a token or an end marker.

Three kinds: labels at the start of a line (`Action:`, `**Final Answer:**`, `动作：`), tokens of chat templates and tags of tool
dialects anywhere (`<|im_start|>`, `</tool_result>`, `[INST]`), and the end marker. They are looked for in a folded copy of
equal length (lower case, full-width forms, mathematical letters, Cyrillic and Greek twins), so that a disguise does not help.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from orchestrator.core.clean.everyday import is_everyday
from orchestrator.core.text.words import LABELS

END = "--- END OF OBSERVATION ---"

# Besides the labels that core/text reads: roles of chat transcripts, and words that other frameworks use.
_MORE_LABELS = (
    *(
        "reflection",
        "final",
        "finish",
        "new input",
        "tool",
        "tool name",
        "tool call",
        "tool input",
        "function call",
        "assistant",
    ),
    *(
        "system",
        "developer",
        "反思",
        "推理",
        "操作",
        "操作输入",
        "执行",
        "工具",
        "工具调用",
        "调用工具",
        "最终结果",
        "回答",
        "系统",
        "系統",
        "助手",
    ),
    *("도구", "ツール", "respuesta", "resposta", "réponse", "antwort", "risposta", "ответ"),
)
_TAGS = (
    r"[\w:-]{0,24}(?:tool|function|action)[_▁ -]?(?:call|use|result|response|output|code|request|input|name)s?",
    r"function|(?:antml:)?(?:invoke|parameter)",
    r"think(?:ing)?|thoughts?|reasoning|scratchpad|reflection|actions?|observations?|final(?:_answer|_response)?|answer|finish",
    r"(?:thinking|thought)_process|in(?:ner|ternal)_(?:monologue|thoughts?)|思考(?:过程|過程)?|推理(?:过程|過程)?",
    r"system(?:[_-](?:prompt|reminder))?|assistant|human|arg_(?:key|value)|s|bos|eos|pad|unk|start_of_turn|end_of_turn|start_of_image",
    r"begin_of_text|end_of_text|execute(?:_tool)?|tools|available_tools",
)
_TOKEN = re.compile(
    r"<(?:"
    r"/?[|｜¦│](?!\s)(?:[\w▁ .:/=|｜¦│-]{1,64}>|dsml[|｜])|/?[\w▁-]{1,48}[|｜¦│]>"  # <|im_start|>, <｜User｜>, <|tool_call>, <tool_call|>
    r"|<\s?/?sys>>?"
    r"|\s?/?\s?(?:" + "|".join(_TAGS) + r")(?=[\s>=/]|$)(?:[^<>\n]{0,120}>)?"
    r")"
)
_BRACKETS = re.compile(
    r"\[\s?/?(?:inst|tool_calls?|tool_results?|tool_content|available_tools|system_prompt|think|args|call_id|sys|gmask|sop|eop|control_\d{1,4})\s?\]"
    r"|\[calling tool:?|\[\[ ?## ?[\w ]{1,40}(?: ?## ?\]\])?"
)
_WORDS_AS_TOKENS = re.compile(r"✿[\w ]{1,24}✿|functools\[")
_END = re.compile(r"end[\s_‐-―−─━-]{1,3}of[\s_‐-―−─━-]{1,3}observations?")
_DECORATION = r"[^\S\n]|[>*_#`~+•·.、:：()\-\d【「『《\[|—–\ufffd\u2190-\u27e5\u27e8-\u2bff\U0001f000-\U0001faff]"
_TWINS = dict(zip("авекмнорстхуіѕјԁһԛԝαβεζηικμνορτυχɑɡıſ", "abekmhopctxyisjdhqwabezhikmvoptyxagis", strict=True))
_FOLDED_RANGES = ((0xFF01, 0xFF5F), (0x1D400, 0x1D800), (0x2100, 0x2150), (0x1F130, 0x1F14A), (0xFE4D, 0xFE70))


def _fold_table() -> dict[int, str]:
    """One character for one character, so that places in the folded copy are places in the text."""
    table = {ord(char): twin for char, twin in _TWINS.items()}
    for start, end in _FOLDED_RANGES:
        for code in range(start, end):
            folded = unicodedata.normalize("NFKC", chr(code))
            if len(folded) == 1 and folded.isascii():
                table[code] = folded.lower()
    table |= dict.fromkeys((0x2236, 0xA789, 0xFE13, 0xFE55, 0x02D0, 0x0589, 0xFF1A), ":") | {0x0130: "i"}
    table |= {0x2039: "<", 0x203A: ">", 0x276E: "<", 0x276F: ">", 0x27E8: "<", 0x27E9: ">", 0x3008: "<", 0x3009: ">"}
    for lead, base in ((0x24B6, "a"), (0x24D0, "a"), (0x1F130, "a")):
        table |= {lead + step: chr(ord(base) + step) for step in range(26)}
    return table


_FOLD = _fold_table()
_LETTERLIKE = "".join(chr(code) for code in range(0x2100, 0x2150) if code in _FOLD)
_FOLDABLE = re.compile(
    f"[{_LETTERLIKE}\u0131\u017f\u0251\u0261\u02d0\u0370-\u04ff\u0500-\u0589\u2039\u203a\u2236\u24b6-\u24e9\u276e\u276f"
    "\u27e8\u27e9\u3008\u3009\ua789\ufe13\ufe4d-\ufe6f\uff0e-\uff19\uff1c-\uff1e\uff21-\uff5e\U0001d400-\U0001d7ff\U0001f130-\U0001f149]"
)


def _spelled(label: str) -> str:
    return "[ \t_-]?".join(re.escape(word) for word in label.lower().translate(_FOLD).split(" "))


_WORDS = sorted({word for words in LABELS.values() for word in words} | set(_MORE_LABELS), key=len, reverse=True)
_AFTER = r"[^\S\n]|[*_`~\d.#()\-\]】」』》|]"


def _labels(words: Sequence[str]) -> re.Pattern[str]:
    spelled = "|".join(map(_spelled, words))
    first = "".join(sorted({_spelled(word)[:1] for word in words}))
    after = rf"(?:{_AFTER})*+(?:[:：\n]|\Z)|(?:[^\S\n]|[\d#()])*+】"
    return re.compile(rf"\n(?:{_DECORATION})*+(?=[{first}])({spelled})(?={after})")


_LABEL = _labels(_WORDS)
_ASCII_LABEL = _labels([word for word in _WORDS if word.isascii()])
_FINISH = re.compile(rf"\n(?:{_DECORATION})*+(finish)(?=\s{{0,4}}[\[(])")


def defuse(text: str, folded: str | None = None) -> str:
    """`text` with look-alikes in ⟦ ⟧. Idempotent: what stands in ⟦ ⟧ is none. `folded`: its folded copy, where somebody has it."""
    return _without_labels(*_without_tokens(text, _folded(text) if folded is None else folded))


def defuse_tokens(text: str, folded: str | None = None) -> str:
    """Chat-template tokens, tool tags and the end marker, wherever they stand (also inside a JSON string)."""
    return _without_tokens(text, _folded(text) if folded is None else folded)[0]


def without(text: str, word: str, instead: str) -> str:
    """`text` with every `word` (in lower case) replaced, however it is disguised."""
    folded = _folded(text)
    if folded.rfind(word) < 0:
        return text
    pieces: list[str] = []
    done = 0
    while (at := folded.find(word, done)) >= 0:
        pieces += (text[done:at], instead)
        done = at + len(word)
    return "".join((*pieces, text[done:]))


def _without_tokens(text: str, folded: str) -> tuple[str, str]:
    if "<" in folded:
        text, folded = _bracketed(text, folded, _TOKEN)
    called = "[" in folded and folded.rfind("functools[") >= 0
    if "[" in folded:
        text, folded = _bracketed(text, folded, _BRACKETS)
    if called or "✿" in folded:
        text, folded = _bracketed(text, folded, _WORDS_AS_TOKENS)
    if folded.rfind("observation") >= 0:
        text, folded = _bracketed(text, folded, _END, whole=True)
    return text, folded


def _without_labels(text: str, folded: str) -> str:
    """Labels at the start of a line, behind any Markdown or number."""
    pattern = _ASCII_LABEL if folded.isascii() else _LABEL
    text, folded = _bracketed("\n" + text, "\n" + folded, pattern, group=1, whole=True)
    if ("[" in folded or "(" in folded) and folded.rfind("finish") >= 0:
        text, folded = _bracketed(text, folded, _FINISH, group=1, whole=True)
    if "\ufffd" in text:
        text = "\n".join(map(_unbroken, text.split("\n")))
    return text[1:]


def _unbroken(line: str) -> str:
    """A label that is broken by a replacement character is one to a reader that skips it."""
    if "\ufffd" in line and _LABEL.match("\n" + _folded(line.replace("\ufffd", ""))):
        return f"⟦\ufffd⟧ {line}"
    return line


def _folded(text: str) -> str:
    """`text` in lower case and without disguise, character for character."""
    low = text.lower()
    if low.isascii():
        return low
    if len(low) != len(text):
        low = text.replace("\u0130", "i").lower()
    return low if is_everyday(low) or not is_disguised(low) else low.translate(_FOLD)


def is_disguised(low: str) -> bool:
    """Does a text in lower case hold a character that stands for another?"""
    return _FOLDABLE.search(low) is not None


def _bracketed(
    text: str, folded: str, pattern: re.Pattern[str], *, group: int = 0, whole: bool = False
) -> tuple[str, str]:
    """Each match in ⟦ ⟧; of a token its own angle or square brackets give way to them, unless it is kept `whole`."""
    if pattern.search(folded) is None:
        return text, folded
    pieces: list[str] = []
    done = 0
    for found in pattern.finditer(folded):
        start, end = found.span(group)
        if whole and start and text[start - 1] == "⟦" and text[end : end + 1] == "⟧":
            continue
        inner = text[start:end]
        if not whole:
            inner = inner[inner[:1] in "<＜‹〈❮⟨[［【✿" :]
            inner = inner[:-1] if inner[-1:] in ">＞›〉❯⟩]］✿[" else inner
        pieces += (text[done:start], "⟦", inner, "⟧")
        done = end
    if not pieces:
        return text, folded
    text = "".join((*pieces, text[done:]))
    return text, _folded(text)
