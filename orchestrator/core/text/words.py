"""The words that models use: labels in their languages, tags and tokens of each dialect. Data only."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a mark in a reply announces. CALL opens a call in tags or tokens; END ends the message (a token of the template).

    UNSAID opens what is not said: a comment, a plan, escaped reasoning; or it is a label that is struck out.
    """

    THOUGHT = "thought"
    ACTION = "action"
    INPUT = "input"
    OBSERVATION = "observation"
    FINAL = "final"
    QUESTION = "question"
    CALL = "call"
    END = "end"
    UNSAID = "unsaid"


# A blank in a label stands for one blank, underscore, hyphen or nothing. English, Chinese, Japanese, Korean, Spanish, Portuguese,
# French, German, Italian, Russian.
LABELS: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.THOUGHT: (
        "thought", "thoughts", "thought process", "thinking", "reasoning",
        "思考", "思考过程", "思考過程", "想法", "思路", "考え", "생각", "사고",
        "pensamiento", "pensamento", "pensée", "gedanke", "pensiero", "мысль",
    ),
    Kind.ACTION: (
        "action",
        "动作", "行动", "動作", "行動", "アクション", "행동", "액션", "동작",
        "acción", "ação", "aktion", "azione", "действие",
    ),
    Kind.INPUT: (
        "action input", "action inputs", "tool input", "action argument", "action arguments",
        "行动输入", "动作输入", "行動輸入", "動作輸入", "操作输入", "行动参数", "动作参数",
        "アクション入力", "行動入力", "행동 입력", "액션 입력", "동작 입력",
        "entrada de acción", "entrada da ação", "entrée de l'action", "aktionseingabe", "ввод действия",
    ),
    Kind.OBSERVATION: (
        "observation", "observations", "observation result", "obs",
        "tool result", "tool results", "tool output", "tool response", "function result",
        "观察", "观察结果", "观察到", "观测", "观测结果", "观察内容", "觀察", "觀察結果", "觀測", "觀測結果",
        "工具结果", "工具返回", "工具返回结果", "工具输出", "工具响应", "环境反馈", "环境返回",
        "工具执行结果", "工具调用结果", "执行结果", "调用结果", "返回结果", "函数返回", "函数结果", "函数返回结果",
        "工具結果", "工具輸出", "執行結果", "返回結果", "実行結果", "실행 결과",
        "観察", "観察結果", "観測", "観測結果", "オブザベーション", "オブザーベーション", "ツール結果", "ツール出力",
        "관찰", "관찰 결과", "관측", "관측 결과", "도구 결과", "도구 출력",
        "observación", "observação", "beobachtung", "osservazione", "наблюдение",
    ),
    Kind.FINAL: (
        "final answer", "answer", "final response",
        "最终答案", "最終答案", "最终回答", "最終回答", "最终答复", "答案", "答え", "最終的な答え", "최종 답변", "최종 답", "답변",
        "respuesta final", "resposta final", "réponse finale", "endgültige antwort", "risposta finale", "окончательный ответ",
    ),
    Kind.QUESTION: (
        "question", "new question", "next question", "user question", "user", "human",
        "问题", "問題", "新问题", "下一个问题", "用户", "用戶", "用户问题", "質問", "질문", "사용자",
        "pregunta", "pergunta", "frage", "domanda", "вопрос",
    ),
}  # fmt: skip

# Patterns: the names of tags of reasoning, of those that may stand inside reasoning, and an angle bracket, plain or as an entity.
REASONING: Final = (
    r"think|thinking|reasoning|(?:thinking|thought)_process|seed:think|思考(?:过程|過程)?|推理(?:过程|過程)?"
)
ASIDE: Final = r"scratchpad|reflection|in(?:ner|ternal)_(?:monologue|thoughts?)"
PLAN: Final = r"plan(?:ning)?"
LESS: Final = r"(?:<|&(?:lt|#60|#x3c);)"
GREATER: Final = r"(?:>|&(?:gt|#62|#x3e);)"

FINISH: Final = frozenset(
    {
        "finish",
        "final answer",
        "final_answer",
        "finalanswer",
        "final-answer",
        "完成",
        "结束",
        "結束",
        "最终答案",
        "最終答案",
    }
)
NOTHING: Final = frozenset(
    {"n/a", "na", "none", "null", "nil", "no action", "none needed", "no action needed", "no tool", "no tool needed", "nothing",
     "无", "無", "没有", "不需要", "无需", "无需行动", "なし", "없음", "-", "—"}
)  # fmt: skip
ANSWER_KEYS: Final = frozenset(
    {"answer", "final_answer", "final answer", "result", "output", "response", "text", "input", "content", "答案"}
)

# Tags and tokens, matched anywhere on a line outside quotes and inline code.
TAGS: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.THOUGHT: ("<thought>", "[[ ## next_thought ## ]]", "[[ ## thought ## ]]"),
    Kind.CALL: (
        "<tool_call>", "<tool_calls>", "<function_call>", "<function_calls>", "<functioncall>", "<invoke name=", "<function=", "<action>", "<|python_tag|>", "[TOOL_CALLS]", "<toolcall>", "<|tool_call>",
        "<|tool_call|>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜DSML｜function_calls>", "<｜DSML｜invoke name=",
        "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "✿FUNCTION✿", "[[ ## next_tool_name ## ]]",
        "<|tool▁calls▁begin|>", "<|tool▁call▁begin|>", "<|tool_calls_begin|>", "<|START_ACTION|>", "<|action_start|>", "<|python_start|>",
        "[Calling tool:", "<minimax:tool_call>", "<longcat_tool_call>", "<|channel|>commentary to=", "<seed:tool_call>",
    ),
    Kind.OBSERVATION: (
        "<tool_response>", "<tool_responses>", "<tool_result>", "<tool_results>", "<tool_output>", "<tool_outputs>",
        "<function_response>", "<function_result>", "<function_results>", "<observation>",
        "<action_result>", "[TOOL_RESULTS]", "[TOOL_RESULT]", "[/TOOL_CALLS]", "<|observation|>", "<|tool_response>",
        "<|tool_response|>", "<|tool_result|>", "<|tool_results|>", "<|tool|>", "<|ipython|>", "<｜tool▁outputs▁begin｜>",
        "<｜tool▁output▁begin｜>", "<|tool▁outputs▁begin|>", "<|tool_outputs_begin|>", "<|START_TOOL_RESULT|>", "<|im_start|>environment", "<｜DSML｜function_results>", "<|tool_outputs_section_begin|>", "<|tool_output_begin|>",
        "<|start_header_id|>ipython", "<|start_header_id|>tool", "<|im_start|>tool", "<|im_system|>tool", "<|start|>functions.",
        "<|start|>tool", "<start_function_response>", "✿RESULT✿", "[[ ## observation", "[[ ## tool_result",
    ),
    Kind.FINAL: ("<final_answer>", "<answer>", "<final>"),
    Kind.END: (
        "<|im_end|>", "<|im_start|>", "<|eot_id|>", "<|eom_id|>", "<|start_header_id|>", "<|endoftext|>", "<|end_of_text|>",
        "<|end|>", "<|return|>", "<|call|>", "<|start|>", "<end_of_turn>", "<start_of_turn>", "<｜end▁of▁sentence｜>",
        "<｜User｜>", "<｜Assistant｜>", "<|user|>", "<|assistant|>", "<|system|>", "[INST]", "</s>", "✿RETURN✿", "<turn|>",
        "<|turn>", "<|END_RESPONSE|>", "<|END_TEXT|>", "<|end_of_solution|>", "<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>", "<|im_user|>", "<|im_assistant|>", "[[ ## completed ## ]]",
    ),
}  # fmt: skip
