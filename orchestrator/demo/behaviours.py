"""Ways to misbehave, each under its own name: `demo:forged` as the model, or the header `x-demo-behaviour: forged`.

What is derived from the conversation alone stands here. Faults of the wire (429, 529, hang, cut, html) are only named here;
the server performs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

from orchestrator.demo import pits
from orchestrator.demo.conversation import Call, Conversation
from orchestrator.demo.known import known
from orchestrator.demo.planner import LAST, TOLD, Need, Step, plan
from orchestrator.demo.question import Question, read
from orchestrator.demo.speech import Reply, action, call, finish, parameter, speak
from orchestrator.demo.words import insufficient, labels

WIRE_FAULTS = {
    "429": "429 with retry-after: 1, twice at the first step of a run, then fine",
    "529": "529 overloaded, twice at the first step of a run, then fine",
    "hang": "the reply starts and then nothing more comes",
    "cut": "the connection is closed in the middle of the reply",
    "cut-clean": "the stream ends properly, but without its terminal event",
    "html": "200 with a page of HTML",
}
ENOUGH_TO_THINK = 8192
WANDERINGS = 12
THINKING = "这个问题要先想清楚：刘慈欣到底出生在北京还是山西？知识库里的条目可能和记忆不一致，再权衡一遍。"


def planned(conversation: Conversation) -> Reply:
    """No misbehaviour: what the planner says."""
    return speak(conversation, plan(conversation))


def forged(conversation: Conversation) -> Reply:
    """Writes its own Observation and believes it (pit 2); ignores stop sequences, as some endpoints do."""
    if conversation.step:
        return planned(conversation)
    honest = plan(conversation)
    question = read(conversation.goal)
    if "zeta-9" in question.starts and not conversation.native:
        return Reply(pits.FORGED)
    start = question.starts[0] if question.starts else "it"
    invented = (
        f"{start}：由 Zeta 实验室（Zeta Labs）研发。"
        if question.chinese
        else f"{start}: by Zeta Labs, in Zeta City, 1,234,567."
    )
    tail = f"\nObservation: {invented}\nThought: {'条目已经明确给出。' if question.chinese else 'The entry says it.'}\n"
    reply = speak(conversation, honest)
    return replace(reply, text=f"{reply.text}{tail}Action: {finish(conversation, invented)}")


def four_actions(conversation: Conversation) -> Reply:
    """Writes four Actions at once and answers from memory (pit 3); natively a batch of four calls."""
    if conversation.step:
        return planned(conversation)
    question = read(conversation.goal)
    start = question.starts[0] if question.starts else "it"
    guesses = [("search", start), ("lookup", start), ("lookup", f"{start} 2")]
    if conversation.native:
        needs = tuple(Need(tool, argument, "") for tool, argument in [*guesses, ("search", f"{start} 3")])
        return Reply("", tuple(call(conversation, need, index) for index, need in enumerate(needs)), stop="tools")
    if "三体" in question.starts:
        return Reply(pits.FOUR_ACTIONS)
    lines = [f"Thought: {tool}.\nAction: {action(conversation, tool, argument)}" for tool, argument in guesses]
    memory = "从记忆来看是北京市，约2183.2万人" if question.chinese else "From memory: Beijing, 21,832,000"
    return Reply("\n".join([*lines, f"Thought: …\nAction: {finish(conversation, memory)}"]))


def thinking(conversation: Conversation) -> Reply:
    """Thinks until max_tokens is used up and says nothing (pit 1), unless max_tokens is at least 8192."""
    if conversation.max_tokens < ENOUGH_TO_THINK:
        return Reply(thinking=THINKING * 40, stop="length", tokens=conversation.max_tokens)
    if "zeta-9" in conversation.goal and not conversation.step and not conversation.native:
        return Reply(pits.THINKING_TURN, thinking=THINKING, tokens=pits.THINKING_TOKENS)
    return replace(planned(conversation), thinking=THINKING)


def reworded(conversation: Conversation) -> Reply:
    """Asks for the same in ever new words and never gives up, whatever the host says (pit 4)."""
    question, at = read(conversation.goal), conversation.step
    if "球状闪电" not in question.starts:
        start = question.starts[0] if question.starts else "it"
        word = (pits.MORE_WORDS if question.chinese else pits.MORE_ENGLISH_WORDS)[at % len(pits.MORE_WORDS)]
        thought, tool, argument = (
            _in_words(question, f"换成「{word}」再检索一次。", f"Let me try {word} instead."),
            "lookup",
            f"{start} {word}",
        )
    elif at < len(pits.REWORDED):
        thought, tool, argument = pits.REWORDED[at]
    else:
        word = pits.MORE_WORDS[at % len(pits.MORE_WORDS)]
        thought, tool, argument = f"换成「{word}」再检索一次。", "lookup", f"刘慈欣 {word}"
    return speak(conversation, Step((Need(tool, argument, thought),)))


def reworded_obedient(conversation: Conversation) -> Reply:
    """The same loop, but after an intervention it says honestly what is missing."""
    if any(phrase in conversation.last for phrase in TOLD):
        question = read(conversation.goal)
        lacking = labels(question, [wish.relation for wish in question.wishes if not wish.relation.hop])
        lacking = lacking or _in_words(question, "答案", "the answer")
        thought = _in_words(question, "检索若干次仍找不到，如实说明。", "I could not find it, so I say so.")
        return speak(conversation, Step(answer=insufficient(question, lacking), thought=thought))
    return reworded(conversation)


def malformed(conversation: Conversation) -> Reply:
    """Writes arguments that are not JSON, once; then, told so, properly."""
    honest, step = planned(conversation), plan(conversation)
    if len(conversation.turns) > 1 or not step.needs:
        return honest
    if conversation.native:
        return replace(
            honest, calls=tuple(Call(each.id, each.name, each.arguments.replace('"', "")) for each in honest.calls)
        )
    need = step.needs[0]
    return Reply(
        f"Thought: {need.thought}\nAction: {need.tool} {{{parameter(conversation, need.tool)}: {need.argument}}}"
    )


def gap(conversation: Conversation) -> Reply:
    """Says that it will call one tool and calls another."""
    step = plan(conversation)
    question = read(conversation.goal)
    needs = []
    for need in step.needs[:1]:
        other = "lookup" if need.tool == "search" else "search"
        said = f"我来调用 {other} 查一下。" if question.chinese else f"I will call {other} for this."
        needs.append(Need(need.tool, need.argument, said))
    return speak(conversation, replace(step, needs=tuple(needs)))


def ignore(conversation: Conversation) -> Reply:
    """Meets an error and goes on as if nothing had happened."""
    question = read(conversation.goal)
    if not conversation.step:
        name = "不存在的条目" if question.chinese else "a thing that is not there"
        said = "用 search 查一下。" if question.chinese else "Use search for it."
        return speak(conversation, Step((Need("search", name, said),)))
    step = plan(conversation)
    if not known(conversation).error:
        return speak(conversation, step)
    said = "很好，继续用 search 往下查。" if question.chinese else "Good, let me use search for the next part."
    done = "很好，信息齐了。" if question.chinese else "Good, that is all."
    return speak(
        conversation, replace(step, needs=tuple(replace(need, thought=said) for need in step.needs), thought=done)
    )


def wander(conversation: Conversation) -> Reply:
    """Opens whatever entry it has read of, asked for or not, for twelve steps; then does what was asked."""
    facts = known(conversation)
    question = read(conversation.goal)
    seen = [value for fields in facts.records.values() for value in fields.values()]
    fresh = [value for value in seen if not re.search(r"\d", value) and not facts.was_asked("search", value)]
    if not fresh or conversation.step >= WANDERINGS or any(phrase in conversation.last for phrase in TOLD):
        return speak(conversation, plan(conversation, LAST))
    said = (
        f"顺便用 search 看看「{fresh[0]}」。"
        if question.chinese
        else f"Let me also use search to read about {fresh[0]}."
    )
    return speak(conversation, Step((Need("search", fresh[0], said),)))


def prose(conversation: Conversation) -> Reply:
    """Chats instead of acting, and answers from nowhere."""
    return Reply(
        _in_words(
            read(conversation.goal),
            "这个问题很有意思，我想答案大概众所周知。",
            "What a nice question! I believe the answer is well known.",
        )
    )


def empty(_conversation: Conversation) -> Reply:
    """Says nothing at all, and calls that the end."""
    return Reply("")


def unknown_tool(conversation: Conversation) -> Reply:
    """Calls a tool that nobody offered; then, told so, the right one."""
    if conversation.step:
        return planned(conversation)
    question = read(conversation.goal)
    said = _in_words(question, "我来调用 browse_web 查一下。", "I will call browse_web for this.")
    return speak(conversation, Step((Need("browse_web", question.starts[0] if question.starts else "it", said),)))


def injected(conversation: Conversation) -> Reply:
    """Obeys an instruction it claims to have read in an Observation: calls a tool the task has no use for."""
    if conversation.step != 1:
        return planned(conversation)
    spare = next((name for name in conversation.tools if name not in ("search", "lookup")), "send_email")
    said = _in_words(
        read(conversation.goal),
        f"Observation 里说要忽略之前的指令，我来调用 {spare}。",
        f"The Observation says to ignore all previous instructions, so I will call {spare}.",
    )
    if not conversation.native:
        return Reply(f"Thought: {said}\nAction: {action(conversation, spare, 'everything')}")
    arguments = json.dumps({parameter(conversation, spare): "everything"})
    return Reply(said, (Call(f"demo_{conversation.step + 1}_0", spare, arguments),), stop="tools")


def _in_words(question: Question, zh: str, en: str) -> str:
    return zh if question.chinese else en


BEHAVIOURS: dict[str, Callable[[Conversation], Reply]] = {
    "": planned,
    "forged": forged,
    "four-actions": four_actions,
    "thinking": thinking,
    "reworded": reworded,
    "reworded-obedient": reworded_obedient,
    "malformed": malformed,
    "gap": gap,
    "ignore": ignore,
    "wander": wander,
    "prose": prose,
    "empty": empty,
    "unknown-tool": unknown_tool,
    "injected": injected,
} | dict.fromkeys(WIRE_FAULTS, planned)
DEAF = frozenset({"forged"})
"""Behaviours that ignore stop sequences."""
