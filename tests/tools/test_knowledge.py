"""The knowledge base has the article's entries word for word, and chains that can be walked."""

import pytest

from tests.tools.call import call, refused
from tools import knowledge


async def test_search_gives_all_fields_of_an_entity() -> None:
    assert await call(knowledge.search, entity="三体") == {
        "entity": "三体",
        "fields": {"作者": "刘慈欣", "类型": "长篇科幻小说", "首次发表": "2006 年《科幻世界》连载"},
    }


async def test_the_fictional_entry_can_only_be_known_from_the_tool() -> None:
    assert (await call(knowledge.search, entity="zeta-9"))["fields"]["研发者"] == "蓝鲸实验室"


@pytest.mark.parametrize("spelling", ["《三体》", " 三体 ", "「三体」"])
async def test_marks_around_a_name_do_not_matter(spelling: str) -> None:
    assert (await call(knowledge.search, entity=spelling))["entity"] == "三体"


async def test_case_and_spaces_in_a_name_do_not_matter() -> None:
    assert (await call(knowledge.search, entity="the  salt LEDGER"))["fields"]["Author"] == "Ines Corvane"


async def test_a_miss_says_so_in_the_language_of_the_question() -> None:
    error = await refused(knowledge.search, entity="球状闪电")
    assert (error.code, error.message) == ("NOT_FOUND", "没有找到「球状闪电」的条目")
    assert (await refused(knowledge.search, entity="Nowhere")).message == 'no entry for "Nowhere"'


async def test_lookup_names_entity_field_and_value_of_each_hit() -> None:
    assert await call(knowledge.lookup, keyword="刘慈欣") == {"hits": ["三体 / 作者: 刘慈欣"]}
    assert await call(knowledge.lookup, keyword="球状闪电") == {"hits": ["刘慈欣 / 代表作: 三体、球状闪电"]}


@pytest.mark.parametrize("keyword", ["刘慈欣 出生", "出生年份", "山西 人口", "", "  "])
async def test_a_lookup_that_finds_nothing_is_an_error(keyword: str) -> None:
    error = await refused(knowledge.lookup, keyword=keyword)
    assert error.code == "NOT_FOUND"
    assert keyword in error.message


async def test_too_many_hits_are_cut_and_counted() -> None:
    found = await call(knowledge.lookup, keyword="e")
    assert len(found["hits"]) == knowledge.MOST_HITS
    assert "more hits" in found["more"]


def test_every_link_of_the_gazetteer_leads_to_an_entry() -> None:
    links = {
        "Author",
        "Birthplace",
        "CEO",
        "University",
        "Location",
        "Inventor",
        "Region",
        "River",
        "Capital",
        "Country",
    }
    named = {value for fields in knowledge.entities().values() for name, value in fields.items() if name in links}
    assert named <= set(knowledge.entities())
    assert len(knowledge.entities()) >= 120


def test_every_field_is_declared_a_fact() -> None:
    facts = knowledge.search.spec.facts
    assert facts["作者"] == "/fields/作者"
    assert facts["Year of birth"] == "/fields/Year of birth"
    assert set(facts) == {name for fields in knowledge.entities().values() for name in fields}
