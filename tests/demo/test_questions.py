"""Whole kinds of questions, made from the knowledge base itself, and the shipped examples."""

import json
from collections.abc import Iterator
from importlib.resources import files

import pytest

from orchestrator.demo.conversation import Call, Conversation, Turn
from orchestrator.demo.planner import Step, plan
from tests.demo.knowledge import ENTITIES, observe

MOST_STEPS = 10


def asked(goal: str) -> tuple[str, int]:
    """The answer to a goal and the steps it took, natively, without a server."""
    turns = [Turn("user", goal)]
    for count in range(1, MOST_STEPS):
        conversation = Conversation(
            "demo", "", tuple(turns), {"search": ("entity",), "lookup": ("keyword",)}, 9000, (), False
        )
        step = plan(conversation)
        if step.answer:
            return step.answer, count
        turns += list(performed(step))
    return "", MOST_STEPS


def performed(step: Step) -> Iterator[Turn]:
    calls = [Call(f"{index}", need.tool, json.dumps({"x": need.argument})) for index, need in enumerate(step.needs)]
    yield Turn("assistant", "", tuple(calls))
    yield Turn("user", results=tuple((call.id, observe(call.name, call.input["x"])) for call in calls))


def having(*names: str) -> list[str]:
    return [entity for entity, fields in ENTITIES.items() if set(names) <= set(fields)]


@pytest.mark.parametrize("book", having("Author"))
def test_the_region_of_every_author_and_its_population_are_found(book: str) -> None:
    region = ENTITIES[ENTITIES[ENTITIES[book]["Author"]]["Birthplace"]]["Region"]
    answer, steps = asked(
        f'In which region was the author of "{book}" born, and what is the population of that region?'
    )
    assert f"population of {region} is {ENTITIES[region]['Population']}" in answer
    assert steps == 5


@pytest.mark.parametrize("company", having("CEO", "Product"))
def test_the_university_of_every_ceo_is_found(company: str) -> None:
    university = ENTITIES[ENTITIES[company]["CEO"]]["University"]
    answer, steps = asked(f"Which university did the CEO of {company} attend, and how many students does it have?")
    assert university in answer
    assert ENTITIES[university]["Students"] in answer
    assert steps == 4


@pytest.mark.parametrize("invention", having("Inventor"))
def test_the_birthplace_of_every_inventor_is_found(invention: str) -> None:
    inventor = ENTITIES[ENTITIES[invention]["Inventor"]]
    answer, _ = asked(f"In what year was the inventor of the {invention} born, and in which town?")
    assert inventor["Birthplace"] in answer
    assert inventor["Year of birth"] in answer


@pytest.mark.parametrize("place", having("Region", "Population"))
def test_the_capital_of_every_towns_country_is_found(place: str) -> None:
    country = ENTITIES[ENTITIES[place]["Region"]]["Country"]
    answer, _ = asked(f"What is the capital of the country that {place} is in?")
    assert f"capital of {country} is {ENTITIES[country]['Capital']}" in answer


@pytest.mark.parametrize("river", having("Mouth"))
def test_length_and_mouth_of_every_river_are_found_in_two_steps(river: str) -> None:
    answer, steps = asked(f"How long is the {river}, and where is its mouth?")
    assert ENTITIES[river]["Length"] in answer
    assert ENTITIES[river]["Mouth"] in answer
    assert steps == 2


@pytest.mark.parametrize("entity", [*having("Author")[:4], *having("CEO")[:2], *having("Mouth")[:2]])
def test_what_no_entry_has_is_named_as_missing(entity: str) -> None:
    assert asked(f"When did {entity} get married?")[0].startswith("insufficient: missing spouse")


def test_the_shipped_examples_are_answered_or_honestly_not() -> None:
    lines = files("orchestrator.demo").joinpath("questions.jsonl").read_text("utf-8").splitlines()
    answers = {each["id"]: asked(each["question"])[0] for each in map(json.loads, lines)}
    honest = {id for id, answer in answers.items() if answer.startswith(("insufficient", "资料不足"))}
    assert all(answers.values())
    assert honest == {"unanswerable", "spouse"}
