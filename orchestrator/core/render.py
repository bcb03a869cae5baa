"""A Run as a Prompt, in either protocol. The messages only ever grow at the end; what changes every step stands in the tail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from orchestrator.core import native, text
from orchestrator.core.decide import AskModel
from orchestrator.core.events import Anomaly, Malformed
from orchestrator.core.frame import framed, rule, unmarked
from orchestrator.core.prompt import Message, Prompt
from orchestrator.core.run import Note, Run, Step
from orchestrator.core.spec import AgentSpec, Language, ToolSpec
from orchestrator.core.summary import summary

_NOTES: dict[Language, dict[Note, str]] = {
    "en": {
        Note.STALLED: "The last Observations brought nothing new. Do not search for the same thing in other words: try something "
        "really different, or finish with what is known, and if that is not enough say so: {way_out}.",
        Note.EXTRA_ACTIONS: "Only the first Action of your reply was run; the others were dropped. Write one Action per reply.",
        Note.FORGED_OBSERVATION: "You wrote an Observation yourself; it was discarded. Only the host writes Observations.",
        Note.FINAL_AND_ACTION: "Your answer came with an Action that had not been run, so the answer was not accepted.",
        Note.EDITED: "Somebody changed the input before it ran: {tool} ran with {input}.",
    },
    "zh": {
        Note.STALLED: "最近的 Observation 没有带来新信息。不要换着说法再查同样的内容：换一种真正不同的做法，或者用已知信息作答；"
        "资料不足就如实说明：{way_out}。",
        Note.EXTRA_ACTIONS: "你的回复里只有第一个 Action 被执行，其余已丢弃。每次回复只写一个 Action。",
        Note.FORGED_OBSERVATION: "你自己写了 Observation，已被丢弃。Observation 只能由宿主写入。",
        Note.FINAL_AND_ACTION: "你的答案和一个尚未执行的 Action 同时出现，答案未被采纳。",
        Note.EDITED: "执行前有人修改了参数：{tool} 实际执行的参数是 {input}。",
    },
}

_PROBLEMS_ZH: dict[Anomaly, str] = {
    Anomaly.MALFORMED: "Action 的参数无法读取",
    Anomaly.UNKNOWN_TOOL: "没有写明要调用的工具",
    Anomaly.TRUNCATED: "回复在输出上限处被截断，没有执行或采纳任何内容；请写得更短",
    Anomaly.EMPTY: "回复中没有可见文字，也没有工具调用",
    Anomaly.EMPTY_FINAL: "答案是空的",
    Anomaly.NO_ACTION: "没有读到 Action",
    Anomaly.ACTION_IN_THINKING: "Action 写在思考内容里，未被执行",
    Anomaly.FINAL_AND_ACTION: "答案和 Action 同时出现，请只写其中一个",
    Anomaly.FORGED_OBSERVATION: "你自己写了 Observation；Observation 只能由宿主写入",
    Anomaly.UNPARSED_MARKUP: "工具调用写成了文字，没有执行",
    Anomaly.PAUSED: "本轮被服务方暂停，请从中断处继续",
}
_SPECIFIC = frozenset({Anomaly.MALFORMED, Anomaly.UNKNOWN_TOOL})
"""Problems whose detail says more than their name: which argument, which place."""

_FINISH: dict[Language, str] = {
    "en": "This is the last step: no more tools will be run. Finish now with what is known; if it is not enough, say so: {way_out}.",
    "zh": "这是最后一步，不会再执行任何工具。请用已知信息作答；资料不足就如实说明：{way_out}。",
}

_OUT: dict[Language, tuple[str, str, str]] = {
    "en": ("{tool} (expected back in about {seconds} s)", ", ", "Out of service now, do not call: {tools}."),
    "zh": ("{tool}（预计约 {seconds} 秒后恢复）", "、", "以下工具暂停服务，现在不要调用：{tools}。"),
}

_WAY_OUT = {
    ("text", "en"): "finish[insufficient: missing X]",
    ("text", "zh"): "finish[资料不足：缺少 X]",
    ("native", "en"): "answer “insufficient: missing X”",
    ("native", "zh"): "回答“资料不足：缺少 X”",
}


def system(agent: AgentSpec, tools: tuple[ToolSpec, ...], *, boundary: str = "", constrained: bool = False) -> str:
    """The system prompt: the same for every step of a run. What is of this run alone stands last: up to there it is the agent's,
    and a provider may keep it from run to run."""
    written = (
        native.system(agent, tools)
        if agent.protocol == "native"
        else text.system(agent, tools, constrained=constrained)
    )
    return "\n\n".join(filter(None, (agent.instructions, written, rule(boundary, agent.language))))


def question(run: Run) -> Message:
    """The first message: the goal."""
    return native.question(run.start.goal) if run.start.agent.protocol == "native" else text.question(run.start.goal)


def messages(run: Run, step: Step) -> tuple[Message, ...]:
    """What one closed step adds to the conversation, its Observations in their frames; nothing for a hidden one."""
    if step.hidden:
        return ()
    start = run.start
    told = unmarked(note(start.agent, step), start.boundary) if step.notes else ""
    frame = partial(framed, boundary=start.boundary)
    if start.agent.protocol == "native":
        return native.messages(step.turn, step.observations, told, frame)
    return text.messages(step.turn, step.observations, told, frame)


def note(agent: AgentSpec, step: Step) -> str:
    """The host's notes on a step in words; "" when there are none."""
    return "\n".join(_sentences(agent, step))


def tail(run: Run, ask: AskModel) -> str:
    """What stands last and is no history: the state summary, tools that are out for now, on the last step the request to finish."""
    agent = run.start.agent
    facts = summary(run.facts, run.start.limits.summary_chars, agent.language) if run.facts else ""
    known = framed(facts, run.start.boundary) if facts else ""
    if ask.finish:
        return "\n\n".join(filter(None, (known, _FINISH[agent.language].format(way_out=_way_out(agent)))))
    return "\n\n".join(filter(None, (known, _withdrawn(ask, agent.language)))) if ask.out else known


def prompt(run: Run, ask: AskModel) -> Prompt:
    """The whole prompt of the next turn, rebuilt from the run."""
    history = [question(run), *(message for step in run.steps for message in messages(run, step))]
    start = run.start
    offered = start.tools if start.agent.protocol == "native" else ()
    return Prompt(
        system(start.agent, start.tools, boundary=start.boundary),
        tuple(history),
        offered,
        tail(run, ask),
        max_tokens=ask.max_output,
    )


def _withdrawn(ask: AskModel, language: Language) -> str:
    one, comma, all_of_them = _OUT[language]
    named = comma.join(one.format(tool=tool, seconds=seconds) for tool, seconds in ask.out)
    return all_of_them.format(tools=named)


def _sentences(agent: AgentSpec, step: Step) -> Iterator[str]:
    for each in step.notes:
        if each is Note.MALFORMED:
            if isinstance(step.turn.intent, Malformed):
                yield _told(agent, step.turn.intent)
        elif each is Note.EDITED:
            for action in step.edited:
                given = json.dumps(action.input, ensure_ascii=False)
                yield _NOTES[agent.language][each].format(tool=action.tool, input=given)
        else:
            yield _NOTES[agent.language][each].format(way_out=_way_out(agent))


def _told(agent: AgentSpec, intent: Malformed) -> str:
    """What was wrong with the reply, in the agent's language, and in the text protocol how to write the next one."""
    said = " ".join(
        intent.detail.split()
    )  # it may quote a name that the model wrote: no line of it may begin like ours
    if agent.language == "zh" and (known := _PROBLEMS_ZH.get(intent.problem)) is not None:
        said = f"{known}：{said}" if intent.problem in _SPECIFIC else f"{known}。"
    return text.nudge(said, agent.language) if agent.protocol == "text" else said


def _way_out(agent: AgentSpec) -> str:
    return _WAY_OUT[agent.protocol, agent.language]
