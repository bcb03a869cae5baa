"""A question as a plan: where to start and what to find out on the way. Patterns only, and honest about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.demo.relations import RELATIONS, Relation

LABEL = re.compile(r"^\s*(?:question|goal|task|问题|目标)\s*[:：]\s*", re.IGNORECASE)
MARKED = re.compile(r"《([^》]{1,60})》|「([^」]{1,60})」|“([^”]{1,60})”|\"([^\"]{1,60})\"")
CODE_NAME = re.compile(r"\b[A-Za-z]+-?\d[\w-]*\b")
WORD = re.compile(r"[A-Z][\w'’-]*|&|[a-z][\w'’-]*|\S")
ARTICLES = frozenset({"The", "A", "An"})
JOINED = frozenset({"of", "the", "a", "to", "in", "at", "from", "&"})
NO_NAME = frozenset(
    {"Who", "What", "Which", "Where", "When", "How", "Why", "Is", "Are", "Was", "Were", "Does", "Do", "Did", "Can", "In", "On", "At", "Of", "To", "For", "And", "Or", "The", "A", "An", "CEO", "Tell", "Find", "Give", "Name", "Compare", "Please", "By", "From", "If", "Question", "I"}
)  # fmt: skip
LOWER_NAME = re.compile(
    r"\b(?:of|invented|in|is) (?:the |a )?([a-z][a-z -]{3,40}?)(?=[?.,]| (?:was|is|born|study|studied|come|and|invented)\b|$)"
)
ZH_LEAD = re.compile(r"^(?:请问|请|查询|查一下|告诉我|帮我|一下|，|,|\s)+")
BOUND_EN = re.compile(r"\b(?:of|in)\s+(?:the|that|this|its|his|her|their|said)\s+(?:same\s+)?(\w+)")
POSSESSIVE_EN = re.compile(r"\b(\w+)['’]s\s+$")
PRONOUN = re.compile(r"\b(?:its|it|their|there)\b|该|那里|它的|那个", re.IGNORECASE)
NOUNS = {
    "region": "region", "country": "country", "town": "town", "city": "town", "university": "university", "river": "river",
    "capital": "capital", "author": "author", "省": "province", "市": "town", "国家": "country",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wish:
    """A relation asked for. `of` names the hop whose value it belongs to ("" any, "*" the last one)."""

    relation: Relation
    of: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Where to start, which hops to take, which values to report."""

    text: str
    starts: tuple[str, ...]
    wishes: tuple[Wish, ...]
    chinese: bool

    @property
    def hops(self) -> frozenset[str]:
        """Names of the asked relations that lead to other entities."""
        return frozenset(wish.relation.name for wish in self.wishes if wish.relation.hop)


def read(goal: str) -> Question:
    """Read a goal; `starts` is empty if no entity is recognised."""
    text = LABEL.sub("", goal).strip()
    chinese = any("\u4e00" <= char <= "\u9fff" for char in text)
    starts = tuple(dict.fromkeys(filter(None, names(text, chinese=chinese))))
    bare = text
    for start in starts:
        bare = bare.replace(start, " _ ")
    wishes = (Wish(relation, binding(bare, match)) for relation in RELATIONS if (match := relation.words.search(bare)))
    return Question(text, starts, tuple(wishes), chinese)


def names(text: str, *, chinese: bool) -> Iterator[str]:
    """Marked names first; then code names; then capitalised ones, or what stands before 的."""
    marked = [next(filter(None, groups)) for groups in MARKED.findall(text)]
    if marked:
        yield from marked
        return
    coded = CODE_NAME.findall(text)
    if coded:
        yield from coded
    elif chinese:
        yield chinese_name(text)
    else:
        capital = list(capitalised(text))
        yield from capital or LOWER_NAME.findall(text)[:1]


def chinese_name(text: str) -> str:
    """The words before the first 的, or before the first word that asks for something."""
    head = ZH_LEAD.sub("", text)
    of = head.find("的")
    asked = (match for relation in RELATIONS if relation.name != "province" and (match := relation.words.search(head)))
    ends = [match.start() for match in asked if match.start() > 0 and match.end() != of]
    cut = min([*ends, of] if of > 0 else ends, default=0)
    return head[:cut].rstrip("在是于有，, ").strip()


def capitalised(text: str) -> Iterator[str]:
    """Runs of capitalised words, with small words between them: "Moths of the Upper Wharrel"."""
    run: list[str] = []
    gap: list[str] = []
    for word in [*WORD.findall(text), "."]:
        if word[0].isupper() and (word not in NO_NAME or (word in ARTICLES and not run)):
            run += [*gap, word]
            gap = []
        elif run and not (len(run) == 1 and run[0] in ARTICLES) and word in JOINED and len(gap) < 2:
            gap.append(word)
        else:
            if run and not (len(run) == 1 and run[0] in ARTICLES):
                yield re.sub(r"['’]s$", "", " ".join(run))
            run, gap = [], []


def binding(text: str, match: re.Match[str]) -> str:
    """The hop a value word belongs to: "population of that region", "该省的人口", "its population"."""
    before, after = text[max(0, match.start() - 12) : match.start()], text[match.end() : match.end() + 30]
    of = BOUND_EN.match(after.lstrip())
    if of is not None and of.group(1).casefold() in NOUNS:
        if re.match(r"\s*(?:of|called|named)?\s*_", after.lstrip()[of.end() :]):
            return ""
        return NOUNS[of.group(1).casefold()]
    owner = POSSESSIVE_EN.search(before)
    if owner is not None and owner.group(1).casefold() in NOUNS:
        return NOUNS[owner.group(1).casefold()]
    noun = next((NOUNS[each] for each in ("省", "市", "国家") if before.endswith((each + "的", each))), "")
    return noun or ("*" if PRONOUN.search(before) or after.strip().startswith(("there", "of it")) else "")
