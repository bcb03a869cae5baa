from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.quick import quick


@dataclass(frozen=True, slots=True)
class Standard:
    name: str
    size: int = 0
    parts: list[int] = field(default_factory=list)
    kind: str = "standard"


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    name: str
    size: int = 0
    parts: list[int] = field(default_factory=list)
    kind: str = "standard"


@quick
@dataclass(frozen=True, slots=True)
class Checked:
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("size must be 0 or more")


VALUES = st.one_of(st.text(), st.integers(), st.lists(st.integers()))


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_a_quick_value_holds_what_the_standard_one_holds(values: list[object]) -> None:
    one, other = Quick(*values), Standard(*values)  # type: ignore[arg-type]
    assert [getattr(one, each.name) for each in fields(one)] == [getattr(other, each.name) for each in fields(other)]
    assert repr(one).replace("Quick", "Standard") == repr(other)


def test_a_quick_value_cannot_be_changed() -> None:
    value = Quick("a")
    with pytest.raises(FrozenInstanceError):
        value.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del value.name


def test_its_defaults_are_the_class_s_and_a_factory_makes_a_new_one_each_time() -> None:
    assert Quick("a") == Quick("a", 0, [], "standard")
    assert Quick("a").parts is not Quick("a").parts


def test_it_can_be_replaced_compared_and_hashed() -> None:
    assert replace(Quick("a"), size=3) == Quick("a", 3)
    assert Quick("a") != Quick("b")
    assert hash(Checked(3)) == hash(Checked(3))


def test_a_missing_or_an_unknown_field_is_a_type_error_that_names_it() -> None:
    with pytest.raises(TypeError, match="name"):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        Quick("a", colour="red")  # type: ignore[call-arg]


def test_its_signature_and_its_annotations_are_the_standard_ones() -> None:
    assert list(inspect.signature(Quick).parameters) == list(inspect.signature(Standard).parameters)
    assert get_type_hints(Quick.__init__) == get_type_hints(Standard.__init__)


def test_what_it_checks_after_it_is_made_is_still_checked() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        Checked(-1)


@dataclass(slots=True)
class Open:
    name: str


@dataclass(frozen=True)
class Unslotted:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: str


@pytest.mark.parametrize("cls", [Open, Unslotted, Named])
def test_another_kind_of_class_is_refused(cls: type) -> None:
    with pytest.raises(TypeError, match="quick"):
        quick(cls)
