"""The demo model answers over the shipped knowledge bases, in both protocols, by reading what it is sent."""

import httpx
import pytest

from tests.demo.loop import JSON_SYSTEM, ask_native, ask_text, calls

TWO_HOPS = "《三体》的作者出生在哪个省？该省的人口是多少？"
UNANSWERABLE = "《球状闪电》这本书的作者是谁？他哪一年出生？"

ENGLISH = [
    (
        'In which region was the author of "The Salt Ledger" born, and what is the population of that region?',
        ["Caldreth", "2,371,000"],
    ),
    ("What is the population of the town where the inventor of the hydraulic heddle was born?", ["Ollerby", "38,600"]),
    ("Which university did the CEO of Kestrel Looms attend, and when was it founded?", ["Lanthorn Institute", "1898"]),
    ("What currency is used in the country where the author of A Quiet Meridian was born?", ["ost crown"]),
    ("What is the capital of the country that Quenby is in?", ["capital of Ostermark is Quenby"]),
    ("When was Ines Corvane born?", ["1931"]),
    ("Which is longer, the River Aske or the River Tolm?", ["412 km", "365 km"]),
]
CHINESE = [
    ("zeta-9 型号的研发者是谁？", ["蓝鲸实验室"]),
    ("苹果公司的 CEO 毕业于哪所大学？", ["奥本大学"]),
    ("请问山西省人口有多少？", ["3491"]),
    ("刘慈欣出生在哪个市？该市的人口是多少？", ["阳泉市", "131"]),
]


async def test_the_two_hop_question_takes_five_text_turns_and_one_learns_nothing(http: httpx.AsyncClient) -> None:
    replies = await ask_text(http, TWO_HOPS)
    assert [reply.split("Action: ")[1] for reply in replies[:4]] == [
        "search[三体]",
        "lookup[刘慈欣]",
        "search[刘慈欣]",
        "search[山西省]",
    ]
    assert len(replies) == 5
    assert "山西省" in replies[4]
    assert "3491" in replies[4]


async def test_the_two_hop_question_takes_three_native_calls_with_parallel_tools(http: httpx.AsyncClient) -> None:
    replies = await ask_native(http, TWO_HOPS)
    assert [calls(reply) for reply in replies] == [
        [("search", "三体"), ("search", "刘慈欣")],
        [("search", "山西省"), ("lookup", "山西 人口")],
        [],
    ]
    assert "3491" in replies[-1]["content"]


@pytest.mark.parametrize(("goal", "expected"), ENGLISH + CHINESE)
async def test_questions_over_several_hops_are_answered_in_both_protocols(
    http: httpx.AsyncClient, goal: str, expected: list[str]
) -> None:
    text = (await ask_text(http, goal))[-1]
    native = (await ask_native(http, goal))[-1]["content"]
    for part in expected:
        assert part in text
        assert part in native
    assert "finish[" in text


async def test_what_the_knowledge_base_lacks_is_said_honestly(http: httpx.AsyncClient) -> None:
    assert (await ask_text(http, UNANSWERABLE))[-1].endswith("finish[资料不足：缺少 出生年份]")
    assert (await ask_native(http, UNANSWERABLE))[-1]["content"].splitlines()[0] == "资料不足：缺少 出生年份"
    goal = "Who is the wife of the author of The Glass Ferryman?"
    assert (await ask_text(http, goal))[-1].endswith("finish[insufficient: missing spouse]")


async def test_an_error_code_is_taken_notice_of_in_the_next_turn(http: httpx.AsyncClient) -> None:
    replies = await ask_text(http, UNANSWERABLE)
    assert "NOT_FOUND" in replies[1]
    assert "NOT_FOUND" in replies[-1]


async def test_the_action_style_follows_the_system_prompt(http: httpx.AsyncClient) -> None:
    replies = await ask_text(http, "When was Ines Corvane born?", system=JSON_SYSTEM)
    assert replies[0].endswith('Action: search {"entity": "Ines Corvane"}')
    assert replies[-1].endswith("finish[The year of birth of Ines Corvane is 1931.]")


async def test_told_that_this_is_the_last_step_it_finishes_honestly(http: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": TWO_HOPS + "\n\n这是最后一步，不会再执行任何工具。"}]
    body = {"model": "demo", "max_tokens": 500, "system": "Action: search[x]", "messages": messages}
    reply = (await http.post("/v1/messages", json=body)).json()
    assert "finish[资料不足：缺少 作者、出生地、省份、人口]" in reply["content"][0]["text"]


@pytest.mark.parametrize(
    ("goal", "tool", "argument"),
    [
        ("What is (1.5 + 2) * 3?", "calculator", "(1.5 + 2) * 3"),
        ("What time is it in Asia/Shanghai?", "now", "Asia/Shanghai"),
        ("北京今天的天气怎么样？", "get_weather", "北京"),
        ("Read https://example.org/a?b=1 and tell me what it says.", "http_get", "https://example.org/a?b=1"),
    ],
)
async def test_an_errand_goes_to_the_tool_made_for_it(
    http: httpx.AsyncClient, goal: str, tool: str, argument: str
) -> None:
    tools = [{"name": tool, "input_schema": {"type": "object", "properties": {"p": {"type": "string"}}}}]
    body = {"model": "demo", "max_tokens": 500, "tools": tools, "messages": [{"role": "user", "content": goal}]}
    reply = (await http.post("/v1/messages", json=body)).json()
    assert reply["stop_reason"] == "tool_use"
    assert [(block["name"], block["input"]) for block in reply["content"] if block["type"] == "tool_use"] == [
        (tool, {"p": argument})
    ]
