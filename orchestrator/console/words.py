"""What the pages say, in English and in Chinese: one table, so that no word is missing in either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Language = Literal["en", "zh"]

WORDS: Mapping[str, tuple[str, str]] = {
    "runs": ("Runs", "运行"),
    "health": ("Health", "健康指标"),
    "run": ("Run", "运行"),
    "started": ("Started", "开始时间"),
    "outcome": ("Outcome", "结果"),
    "state": ("State", "状态"),
    "steps": ("Steps", "步数"),
    "agent": ("Agent", "智能体"),
    "tenant": ("Tenant", "租户"),
    "question": ("Question", "问题"),
    "anomaly": ("Anomaly", "异常"),
    "tool": ("Tool", "工具"),
    "hours": ("Last hours", "最近小时数"),
    "filter": ("Filter", "筛选"),
    "any": ("any", "全部"),
    "next": ("Older", "更早"),
    "nothing": ("Nothing here.", "没有内容。"),
    "searched": ("Only the newest runs were looked through; go on with Older.", "只查找了最新的运行；点“更早”继续。"),
    "open": ("open", "进行中"),
    "waiting": ("waiting", "等待中"),
    "damaged": ("damaged trace", "轨迹已损坏"),
    "answer": ("Answer", "回答"),
    "missing": ("Missing", "缺少"),
    "waterfall": ("Waterfall", "时间轴"),
    "trace": ("Trace", "轨迹"),
    "step": ("Step", "步骤"),
    "reasoning": ("Reasoning", "内部推理"),
    "as_seen": ("as the model saw it", "模型所见"),
    "raw": ("raw", "原文"),
    "edited": ("Edited to", "已修改为"),
    "cleaned": ("cleaned", "已清洗"),
    "tried": ("tried before", "此前尝试"),
    "tokens_in": ("in", "输入"),
    "tokens_out": ("out", "输出"),
    "cached": ("cached", "缓存"),
    "cost": ("cost", "费用"),
    "seconds": ("s", "秒"),
    "said_match": ("named in the Thought", "与 Thought 一致"),
    "said_gap": ("Thought names another tool", "与 Thought 不一致"),
    "said_unstated": ("not named in the Thought", "Thought 未提及"),
    "noticed_propagated": ("error noticed", "模型注意到错误"),
    "noticed_ignored": ("error ignored", "模型忽略了错误"),
    "noticed_unstated": ("nothing said of the error", "模型未提及错误"),
    "waits_approval": ("waits for a person, until", "等待人工审批，截止"),
    "waits_tool": ("waits for its result, until", "等待工具结果，截止"),
    "approve": ("Approve", "批准"),
    "refuse": ("Refuse", "拒绝"),
    "edit": ("Run with this input instead", "以此输入执行"),
    "reason": ("Reason", "理由"),
    "cancel": ("Cancel the run", "取消运行"),
    "sign_in": ("Sign in", "登录"),
    "sign_out": ("Sign out", "退出"),
    "token": ("Token", "令牌"),
    "token_help": (
        "Paste a token of `orchestrator token create NAME`.",
        "粘贴由 `orchestrator token create NAME` 生成的令牌。",
    ),
    "problem": ("That did not work", "未能完成"),
    "back": ("Back to the list", "返回列表"),
    "gap": ("Thought-Action gap", "Thought-Action 不一致"),
    "errors": ("Error propagation", "错误信号传播率"),
    "bloat": ("Step bloat", "步骤膨胀"),
    "limit": ("limit", "阈值"),
    "samples": ("samples", "样本数"),
    "incomplete": ("Only the newest runs of each interval were looked at.", "每个时段只统计了最新的运行。"),
    "outcomes": ("Outcomes", "结果分布"),
    "keys": ("Keys: j k move, Enter open, / filter, u up", "快捷键：j k 移动，Enter 打开，/ 筛选，u 返回"),
    "language": ("中文", "English"),
}


def words(language: Language) -> Mapping[str, str]:
    """Every word in this language."""
    index = 1 if language == "zh" else 0
    return {name: both[index] for name, both in WORDS.items()}


def preferred(asked: str | None, kept: str | None, header: str) -> Language:
    """The language asked for, else the one kept in the cookie, else the browser's."""
    for each in (asked, kept):
        if each == "zh":
            return "zh"
        if each == "en":
            return "en"
    return "zh" if header.strip().lower().startswith("zh") else "en"
