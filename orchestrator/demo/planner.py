"""The demo model's mind: conversation → Step, a pure function of what it is sent. Rules, no language model.

It walks from the entities the question names, along the relations the question asks for, over what the Observations have
shown so far. The first thing that is neither known nor asked is the next call; when nothing is left to ask it answers, or
says what is missing. The same conversation always brings the same reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from orchestrator.demo import words
from orchestrator.demo.conversation import Conversation
from orchestrator.demo.errands import errand
from orchestrator.demo.known import Known, known
from orchestrator.demo.question import Question, Wish, read
from orchestrator.demo.relations import BY_FIELD, INVERSE, RELATIONS, Relation

MEMORY = {"三体": "刘慈欣"}
"""What a real model remembers and the article's guessed in parallel: a hint where to search, never a fact of an answer."""

STALLED = ("brought nothing new", "nothing new", "没有带来新信息", "没有新增", "结果不会变")
LAST = ("last step", "最后一步", "不会再执行")
TOLD = STALLED + LAST
"""What a host says to a model that should finish."""

DEEPEST = 8
OF_A_PLACE = frozenset({"population", "area", "language", "currency", "capital", "founded"})
TOWN = frozenset({"birthplace", "headquarters", "location"})
PROVINCE_AND_TOWN = re.compile(r"(.{2,8}?(?:省|自治区))(.{2,10}?[市州县])?")


@dataclass(frozen=True, slots=True)
class Need:
    """One call to make, and the words that announce it."""

    tool: str
    argument: str
    thought: str


@dataclass(frozen=True, slots=True)
class Step:
    """What the model does now: calls (all independent of one another), or an answer.

    `thought` goes before an answer in the text protocol; natively `remark` (an error it has just met) goes after it.
    """

    needs: tuple[Need, ...] = ()
    answer: str = ""
    thought: str = ""
    remark: str = ""


@dataclass(slots=True)
class Walk:
    """One walk over what is known: calls that would lead on, sentences found, wishes still open."""

    question: Question
    known: Known
    native: bool
    open: list[Wish]
    needs: list[Need] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    last: str = ""

    def explore(self, entity: str, via: str, depth: int) -> None:
        """Take what this entity's entry has, then go on to the entities it names."""
        if depth > DEEPEST or (not self.open and depth):
            return
        self.last = entity
        fields = self.entry(entity)
        if fields is None:
            self.reach(entity, via, depth)
            return
        here = ("", "*", via, "town" if via in TOWN else via)
        taken = [wish for wish in self.open if wish.relation.hop and wish.relation.name in fields and wish.of in here]
        self.report(entity, via, fields, ends=not taken)
        self.open = [wish for wish in self.open if wish not in taken]
        following = [(wish.relation, fields[wish.relation.name]) for wish in taken]
        for relation, value in following:
            self.said.append(words.sentence(self.question, entity, relation, value))
        if not following and any(wish.relation.place or wish.relation.name in OF_A_PLACE for wish in self.open):
            following = [(BY[name], value) for name, value in fields.items() if BY[name].place][:1]
        for relation, value in following:
            self.explore(*self.place(relation, value), depth + 1)
        self.report(entity, "", fields, ends=True)

    def entry(self, entity: str) -> dict[str, str] | None:
        """The known fields of an entity by relation name."""
        wanted = entity.casefold()
        record = next((fields for name, fields in self.known.records.items() if name.casefold() == wanted), None)
        if record is None:
            return None
        return {BY_FIELD[name].name: value for name, value in record.items() if name in BY_FIELD}

    def report(self, entity: str, via: str, fields: dict[str, str], *, ends: bool) -> None:
        """Say the values that belong here. With `via` "" the walk is on its way back and takes what nothing deeper had."""
        if not via and self.needs:
            return
        for wish in list(self.open):
            name = wish.relation.name
            if wish.relation.hop or name not in fields:
                continue
            here = wish.of in ("", via, "town" if via in TOWN else via) or (wish.of == "*" and ends)
            waits = not wish.of and name in OF_A_PLACE and not ends and via != "start"
            if (here and not waits) or (not via and wish.of in ("", "*")):
                self.said.append(words.sentence(self.question, entity, wish.relation, fields[name]))
                self.open.remove(wish)

    def reach(self, entity: str, via: str, depth: int) -> None:
        """An entity without an entry: search it, look it up, or go round by an entry that names it."""
        asked, speak = self.known.was_asked, self.question
        habit = not self.native and speak.chinese and via == "author" and not self.known.hits
        if habit and not asked("lookup", entity) and not asked("search", entity):
            self.needs.append(Need("lookup", entity, words.look(speak, entity, self.known)))
        elif not asked("search", entity):
            self.needs.append(Need("search", entity, words.open_entry(speak, entity, self.wanted(), self.known)))
        elif depth == 0 and not asked("lookup", entity):
            self.needs.append(Need("lookup", entity, words.look(speak, entity, self.known)))
        elif depth == 0:
            self.go_round(entity, depth)

    def go_round(self, entity: str, depth: int) -> None:
        """`刘慈欣 / 代表作: 三体、球状闪电` names the author of 球状闪电."""
        for owner, label, value in self.known.hits:
            inverse = (
                BY[INVERSE[BY_FIELD[label].name]] if label in BY_FIELD and BY_FIELD[label].name in INVERSE else None
            )
            if inverse is not None and entity in re.split(r"[、,，]\s*", value):
                self.open = [wish for wish in self.open if wish.relation != inverse]
                self.said.append(words.sentence(self.question, entity, inverse, owner))
                self.explore(owner, inverse.name, depth + 1)
                return

    def place(self, relation: Relation, value: str) -> tuple[str, str]:
        """The entity that a hop's value names. `山西省阳泉市` names two; the one that is asked for counts."""
        match = PROVINCE_AND_TOWN.fullmatch(value)
        if match is None:
            return re.split(r"[、;；]", value, maxsplit=1)[0].strip(), relation.name
        province = [wish for wish in self.open if wish.relation.name == "province"]
        if province or match.group(2) is None:
            self.open = [wish for wish in self.open if wish not in province]
            return match.group(1), "province"
        return match.group(2), "birthplace"

    def wanted(self) -> str:
        """The labels of what is still open, as the question's language has them."""
        return words.labels(self.question, [wish.relation for wish in self.open])


BY = {relation.name: relation for relation in RELATIONS}


def plan(conversation: Conversation, heeding: tuple[str, ...] = TOLD) -> Step:
    """The next step. After a word of `heeding` from the host it asks nothing more."""
    facts = known(conversation)
    question = read(conversation.goal)
    simple = errand(conversation, facts)
    if simple is not None:
        tool, argument, answer = simple
        if not answer:
            return Step((Need(tool, argument, words.run(tool, chinese=question.chinese)),))
        if not facts.error:
            return Step(answer=answer)
        remark = words.after_error(question, facts).strip()
        return Step(answer=words.insufficient(question, argument), thought=remark, remark=remark)
    walk = Walk(question, facts, conversation.native, list(question.wishes))
    for start in question.starts:
        walk.open = list(question.wishes) if len(question.starts) > 1 else walk.open
        walk.explore(start, "start", 0)
    told = any(phrase in conversation.last for phrase in heeding)
    needs = walk.needs or last_try(walk)
    if needs and not told:
        return Step(tuple(unique(needs + aside(walk))) if conversation.native else tuple(needs[:1]))
    return conclude(walk, facts)


def last_try(walk: Walk) -> list[Need]:
    """Before giving up: one lookup by name and relation."""
    if not walk.open or not walk.last:
        return []
    label = words.labels(walk.question, [walk.open[0].relation])
    argument = f"{walk.last} {label}"
    if walk.known.was_asked("lookup", argument):
        return []
    return [Need("lookup", argument, words.last_try(walk.question, walk.last, label))]


def aside(walk: Walk) -> list[Need]:
    """What the article's native model asked in parallel: a remembered name, and a broad lookup beside a search for a place."""
    more = [
        Need("search", MEMORY[need.argument], words.remembered(walk.question, MEMORY[need.argument]))
        for need in walk.needs
        if need.argument in MEMORY and not walk.known.was_asked("search", MEMORY[need.argument])
    ]
    for need in walk.needs:
        if need.argument.endswith("省") and walk.open:
            label = words.labels(walk.question, [walk.open[0].relation])
            more.append(Need("lookup", f"{need.argument[:-1]} {label}", words.look(walk.question, label, walk.known)))
    return more


def unique(needs: list[Need]) -> list[Need]:
    """Each call once."""
    return list({(need.tool, need.argument): need for need in needs}.values())


def conclude(walk: Walk, facts: Known) -> Step:
    """The answer, or what it lacks."""
    question = walk.question
    thought = words.concluding(question, facts, complete=not walk.open and bool(walk.said))
    remark = words.after_error(question, facts).strip()
    if not question.wishes:
        walk.said += everything(walk)
    if walk.open:
        answer = words.insufficient(question, walk.wanted())
    elif walk.said:
        answer = words.joined(question, walk.said)
    elif question.starts:
        answer = words.insufficient(question, words.entry_of(question))
    else:
        answer = words.insufficient(question, "可检索的实体" if question.chinese else "an entity to search for")
    return Step(answer=answer, thought=thought, remark=remark)


def everything(walk: Walk) -> list[str]:
    """A question that asks for nothing in particular gets the whole entry."""
    records = walk.known.records.items()
    starts = {start.casefold() for start in walk.question.starts}
    return [
        f"{name}: {', '.join(f'{each} {value}' for each, value in record.items())}"
        for name, record in records
        if name.casefold() in starts
    ]
