"""What the demo model says, in Chinese and English. A Thought names the tool it is about to call, and the error it has just met."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.demo.known import Known
from orchestrator.demo.question import Question
from orchestrator.demo.relations import Relation


def labels(question: Question, relations: Sequence[Relation]) -> str:
    """Relations by name."""
    names = dict.fromkeys(relation.zh if question.chinese else relation.en for relation in relations)
    return ("、" if question.chinese else ", ").join(names)


def sentence(question: Question, entity: str, relation: Relation, value: str) -> str:
    """One found fact."""
    if question.chinese:
        return f"{'《' + entity + '》' if '《' + entity + '》' in question.text else entity}的{relation.zh}是{value}"
    return f"the {relation.en} of {entity} is {value}"


def joined(question: Question, sentences: Sequence[str]) -> str:
    """The answer."""
    if question.chinese:
        return "；".join(sentences) + "。"
    text = "; ".join(sentences) + "."
    return text[0].upper() + text[1:]


def insufficient(question: Question, lacking: str) -> str:
    """The honest way out, in the words that the host's prompt teaches."""
    return f"资料不足：缺少 {lacking}" if question.chinese else f"insufficient: missing {lacking}"


def entry_of(question: Question) -> str:
    """What is missing if a start has no entry."""
    return f"{question.starts[0]} 的条目" if question.chinese else f"an entry for {question.starts[0]}"


def after_error(question: Question, known: Known) -> str:
    """The last step's error, by its code."""
    if not known.error:
        return ""
    if question.chinese:
        return f"上一步 {known.failed_tool or '工具'} 返回 {known.error}，没有查到。"
    return f"The last {known.failed_tool or 'tool'} call returned {known.error}. "


def open_entry(question: Question, entity: str, wanted: str, known: Known) -> str:
    """Before a search."""
    if question.chinese:
        need = f"，还需要{wanted}" if wanted else ""
        return f"{after_error(question, known)}用 search 查「{entity}」的条目{need}。"
    need = f" I still need the {wanted}." if wanted else ""
    return f"{after_error(question, known)}Use search to open the entry of {entity}.{need}"


def look(question: Question, entity: str, known: Known) -> str:
    """Before a lookup."""
    if question.chinese:
        return f"{after_error(question, known)}用 lookup 在整个知识库里检索「{entity}」。"
    return f"{after_error(question, known)}Use lookup to find where {entity} is mentioned."


def last_try(question: Question, entity: str, label: str) -> str:
    """Before the lookup that precedes giving up."""
    if question.chinese:
        return f"{entity}的条目里没有{label}，再用 lookup 检索一次。"
    return f"The entry of {entity} does not show the {label}; use lookup once more."


def remembered(question: Question, name: str) -> str:
    """Where a name comes from memory instead of an Observation."""
    return (
        f"凭记忆同时用 search 查「{name}」，以查到的为准。"
        if question.chinese
        else f"From memory, use search for {name} as well."
    )


def run(tool: str, *, chinese: bool) -> str:
    """Before an errand."""
    return f"调用 {tool} 得到结果。" if chinese else f"Call {tool} for this."


def concluding(question: Question, known: Known, *, complete: bool) -> str:
    """Before the answer."""
    if complete:
        return f"{after_error(question, known)}{'信息齐了。' if question.chinese else 'That is all I need.'}"
    gap = "检索若干次仍找不到，如实说明。" if question.chinese else "I could not find what is missing, so I say so."
    return f"{after_error(question, known)}{gap}"
