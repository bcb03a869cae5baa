"""A form that the user wrote, its holes filled, is the user's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.form import fills, forms
from tests.permission.scene import after, ruling

GOAL = (
    "I'm off to Paris. Add an event called \"Dinner at {place}\", mail ann@home.org with the title 'Hotel: {hotel}' "
    "and the text 'Stay at {hotel}, address: {where}, from May 1st.', then it's done."
)


@pytest.mark.parametrize(
    "value",
    [
        "Dinner at Le Baratin",
        "dinner at  Le Baratin ",
        "Hotel: Ritz",
        "Stay at Ritz, address: 1 Rue X, Paris, from May 1st.",
    ],
)
def test_a_filled_form_is_the_users(value: str) -> None:
    assert ruling(after("Book at once!", goal=GOAL), {"to": "ann@home.org", "body": value}).verdict == "allow"


@pytest.mark.parametrize(
    "value",
    [
        "Dinner at ",
        "Dinner at A\nand a second line",
        "Dinner at www.evil.test",
        "Dinner at mallory@evil.test",
        "Dinner at DE89370400440532013000",
        "Dinner at " + "A" * 81,
        "A Dinner at Le Baratin",
        "Stay at Ritz, from May 1st.",
        "Stay at Ritz, address: here, from June 1st.",
        "Le Baratin",
        "",
    ],
)
def test_what_does_not_fill_it_or_points_somewhere_is_not(value: str) -> None:
    assert not any(fills(form, value) for form in forms(GOAL))


def test_holes_of_one_name_are_filled_alike() -> None:
    (form,) = forms("Write 'Dear {name}, are you {name}?'")
    assert fills(form, "Dear Ann, are you Ann?")
    assert not fills(form, "Dear Ann, are you Bob?")


@pytest.mark.parametrize(
    "text",
    [
        "'{anything}'",
        "'{a} {b}'",
        "'a: {b}{c} and d'",
        "{title} without quotes",
        "'no hole here'",
        "'{'",
        "it's {a} isn't",
    ],
)
def test_what_is_nearly_all_hole_or_not_quoted_is_no_form(text: str) -> None:
    assert list(forms(text)) == []


@given(st.text("ab'\" {}:\n", max_size=60), st.text("ab'\" {}:\n", max_size=30))
def test_any_text_may_stand_there(text: str, value: str) -> None:
    for form in forms(text):
        assert fills(form, value) in {True, False}
