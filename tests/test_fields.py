"""Declaration, check, description and reading of settings."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import pytest

from hf_bam.fields import check_fields, describe, from_fields, setting, wanted


@dataclass(frozen=True)
class Base:
    """Settings with a section.

    Attributes:
        name: described in the docstring,
            over two lines.
    """

    name: str = "a"


@dataclass(frozen=True)
class Example(Base):
    rate: float = setting(0.5, above=0, most=1)
    """Share of something."""
    count: int = setting(3, least=1)
    limit: int | None = setting(None, least=1)
    kind: str = setting("x", choices=("x", "y"))
    flag: bool = False
    table: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("name", 3, "text"),
        ("rate", 0, "a number above 0, 1 at most"),
        ("rate", 1.5, "a number above 0, 1 at most"),
        ("rate", float("nan"), "a number above 0, 1 at most"),
        ("rate", True, "a number above 0, 1 at most"),
        ("rate", 10**400, "a number above 0, 1 at most"),
        ("count", 2**63, "a whole number, 1 or above"),
        ("count", {"a": [[[[[[[[[[[1] * 10**6]]]]]]]]]]}, "a whole number, 1 or above"),
        ("count", 0, "a whole number, 1 or above"),
        ("count", 2.0, "a whole number, 1 or above"),
        ("limit", "all", "a whole number, 1 or above, or none"),
        ("kind", "z", "one of 'x', 'y'"),
        ("kind", ["x"], "one of 'x', 'y'"),
        ("flag", "false", "true or false"),
        ("table", [], "a mapping"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_it(name, value, expected):
    with pytest.raises(ValueError, match=rf"Example\.{name}=.* is not valid; it must be {expected}"):
        Example(**{name: value})


def test_values_are_kept_in_the_type_of_the_field():
    found = Example(rate=1, limit="none")
    assert (found.rate, type(found.rate), found.limit) == (1.0, float, None)


def test_choices_may_be_a_registry_that_grows():
    registry = {"a": 1}

    @dataclass(frozen=True)
    class Chosen:
        kind: str = setting("a", choices=registry)

        def __post_init__(self) -> None:
            check_fields(self, "Settings")

    with pytest.raises(ValueError, match=r"Settings\.kind='b' is not valid; it must be one of 'a'"):
        Chosen("b")
    registry["b"] = 2
    assert Chosen("b").kind == "b"
    (item,) = dataclasses.fields(Chosen)
    assert wanted(item) == "one of 'a', 'b'"


def test_descriptions_come_from_strings_and_docstrings_of_all_bases():
    assert describe(Example) == {"name": "described in the docstring, over two lines.", "rate": "Share of something."}


def test_unknown_names_are_an_error_that_lists_the_fields():
    assert from_fields(Example, {"count": 4}) == Example(count=4)
    with pytest.raises(ValueError, match=r"'rates' is not a field of Example; the fields are name, rate, count"):
        from_fields(Example, {"rates": 1})
