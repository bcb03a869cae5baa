"""The relations a question can ask for, as data: which fields carry them, which words ask for them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """`hop`: the value names another entity. `place`: a hop that leads outward on the map, followed even when not asked for."""

    name: str
    fields: tuple[str, ...]
    words: re.Pattern[str]
    en: str
    zh: str
    hop: bool = False
    place: bool = False


def _relation(name: str, fields: str, words: str, labels: tuple[str, str], kind: str = "") -> Relation:
    pattern = re.compile(words, re.IGNORECASE)
    return Relation(name, tuple(fields.split("|")), pattern, *labels, hop=kind != "", place=kind == "place")


RELATIONS = (
    _relation("author", "作者|Author", r"作者|谁写|\bauthor|\bwrote\b|\bwritten\b|\bwriter\b", ("author", "作者"), "hop"),
    _relation("ceo", "CEO", r"CEO|首席执行官|chief executive|\bruns\b|\bhead of\b", ("CEO", "CEO"), "hop"),
    _relation("director", "Director", r"\bdirector|\bdirects\b", ("director", "馆长"), "hop"),
    _relation("inventor", "Inventor", r"\binvent(?:or|ed)\b|发明者", ("inventor", "发明者"), "hop"),
    _relation("climber", "First climbed by", r"\bclimber\b|who first climbed|climbed by|first person to climb", ("first climber", "首登者"), "hop"),
    _relation("developer", "研发者", r"研发|开发者|\bdevelop", ("developer", "研发者"), "hop"),
    _relation("university", "University|毕业院校", r"毕业|大学|院校|\buniversity|\bstud(?:y|ied)\b|\bgraduat", ("university", "毕业院校"), "hop"),
    _relation("crosses", "Crosses", r"which river does|\bcross(?:es)?\b|\bspans?\b", ("river crossed", "跨越的河"), "hop"),
    _relation("birthplace", "出生地|Birthplace", r"出生(?:在|地|于哪)|生于哪|哪里出生|\bbirthplace|\bwhere\b[^?]*\bborn|\b(?:town|city|region|country|place)\b[^?]*\bborn|\bborn\b[^?]*\b(?:where|(?:which|what) (?:town|city|region|country|place))", ("birthplace", "出生地"), "place"),
    _relation("headquarters", "Headquarters", r"总部|\bheadquarter|\bbased\b", ("headquarters", "总部"), "place"),
    _relation("location", "Location", r"\blocated\b|\bwhere is (?!its|their|the (?:mouth|source|head))|\bwhat town is\b|位于", ("location", "位置"), "place"),
    _relation("river", "River", r"\bon which river|\bwhich river (?:flows|runs)", ("river", "河流"), "hop"),
    _relation("province", "所属省份", r"省(?!会)", ("province", "省份"), "place"),
    _relation("region", "Region", r"\bregion", ("region", "地区"), "place"),
    _relation("country", "Country", r"\bcountry\b|国家", ("country", "国家"), "place"),
    _relation("capital", "省会|Capital", r"省会|首府|\bcapital", ("capital", "省会"), "hop"),
    _relation("population", "人口|Population", r"人口|多少人|\bpopulation|how many people|\binhabitants", ("population", "人口")),
    _relation("birth year", "出生年份|Year of birth", r"哪一?年(?:出生|生)|出生年份|什么时候出生|何时出生|\byear of birth|\b(?:when|what year|which year|how old)\b[^?]*\bborn", ("year of birth", "出生年份")),
    _relation("genre", "类型|Genre", r"类型|体裁|\bgenre|what kind of book", ("genre", "类型")),
    _relation("published", "首次发表|First published", r"发表|出版|\bpublish", ("year of publication", "首次发表")),
    _relation("founded", "Founded", r"\bfounded|成立", ("year of foundation", "成立年份")),
    _relation("students", "Students", r"\bstudents\b|多少学生", ("number of students", "学生数")),
    _relation("product", "Product", r"\bproduct|\bproduces?\b|\bmakes?\b", ("product", "产品")),
    _relation("height", "Height", r"\bhigh\b|\bheight|\btall\b|\bhigher\b", ("height", "高度")),
    _relation("length", "Length", r"\blong(?:er|est)?\b|\blength", ("length", "长度")),
    _relation("area", "Area", r"\barea\b|面积|how large", ("area", "面积")),
    _relation("depth", "Depth", r"\bdeep|\bdepth", ("depth", "深度")),
    _relation("language", "Language", r"\blanguage|\bspoken\b|语言", ("language", "语言")),
    _relation("currency", "Currency", r"\bcurrency|\bmoney\b|货币", ("currency", "货币")),
    _relation("occupation", "职业|Occupation", r"职业|\boccupation|\bprofession", ("occupation", "职业")),
    _relation("works", "代表作|Notable work", r"代表作|\bnotable work|best known", ("notable work", "代表作")),
    _relation("year", "Year of invention", r"\bwhen\b[^?]*\binvented|what year[^?]*\binvented|year of invention", ("year of invention", "发明年份")),
    _relation("first climbed", "First climbed", r"\bwhen\b[^?]*\bclimbed|what year[^?]*\bclimbed", ("year of the first climb", "首登年份")),
    _relation("built", "Built", r"\bbuilt\b", ("year of construction", "建成年份")),
    _relation("source", "Source", r"\bsource\b|\brise", ("source", "源头")),
    _relation("mouth", "Mouth", r"\bmouth\b|flow into", ("mouth", "河口")),
    _relation("abbreviation", "简称", r"简称", ("abbreviation", "简称")),
    _relation("alias", "别名", r"别名|\balias", ("alias", "别名")),
    _relation("death year", "逝世年份|Year of death", r"去世|逝世|\bdied\b|\bdeath", ("year of death", "逝世年份")),
    _relation("spouse", "配偶|Spouse", r"妻子|丈夫|配偶|\bmarried|\bwife\b|\bhusband|\bspouse", ("spouse", "配偶")),
    _relation("category", "类别", r"类别", ("category", "类别")),
)  # fmt: skip

BY_FIELD = {field: relation for relation in RELATIONS for field in relation.fields}

# What is written in a work's own entry as its author stands in the author's entry as a work.
INVERSE = {"works": "author"}
