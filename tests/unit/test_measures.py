"""Measures: what contributes, and that nothing is lost on the way to a total and back."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projections.errors import CatalogError, ItemError
from projections.measures import (
    MOST_TEXT,
    Avg,
    Count,
    Distinct,
    LostExtremeError,
    Max,
    Measure,
    Min,
    Sum,
    decimal_text,
    plain_number,
)

NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100),
)


def one(measure: Measure, *values: Any) -> Any:
    """What an item with these values, a row each, contributes."""
    return measure.contributed([{"v": value} for value in values])


# sums


@settings(max_examples=60, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=20), st.randoms())
def test_a_sum_is_exact_in_any_order(numbers: list[Any], chance: random.Random) -> None:
    measure, shuffled = Sum("/v"), chance.sample(numbers, len(numbers))
    state = None
    for number in shuffled:
        state = measure.changed(state, [], [one(measure, number)])
    assert Fraction(state) == sum(Fraction(repr(number)) for number in numbers)
    for number in numbers:
        state = measure.changed(state, [one(measure, number)], [])
    assert state == "0"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.1] * 10, "1"),
        ([0.1, 0.2], "0.3"),
        ([2**53, 1], "9007199254740993"),
        ([1e100, 5e-324, -1e100], f"0.{'0' * 323}5"),
        ([-0.0, 0], "0"),
        ([12.50, 7], "19.5"),
        ([1e22, 1], "10000000000000000000001"),
    ],
    ids=str,
)
def test_sums_as_text(values: list[Any], text: str) -> None:
    assert Sum("/v").changed(None, [], [one(Sum("/v"), value) for value in values]) == text
    assert one(Sum("/v"), *values) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("12.5", 12.5), ("3", 3), ("9007199254740993", 9007199254740992.0), ("-0.25", -0.25)],
)
def test_what_a_reader_sees_of_a_sum(text: str, number: float) -> None:
    shown = plain_number(text)
    assert (shown, type(shown)) == (number, type(number))


def test_nothing_and_null_contribute_nothing() -> None:
    for measure in (Sum("/v"), Avg("/v"), Min("/v"), Max("/v"), Distinct("/v")):
        assert measure.contributed([{}, {"v": None}]) is None
    assert Count().contributed([{}, {"v": None}]) == 2
    assert [m.shown(None) for m in (Count(), Sum("/v"), Avg("/v"), Min("/v"), Distinct("/v"))] == [0, 0, None, None, 0]


@pytest.mark.parametrize("value", [True, "7", {}, [], float("nan"), float("inf"), 10**101, 1e101], ids=repr)
@pytest.mark.parametrize("measure", [Sum("/v"), Avg("/v")], ids=lambda m: type(m).__name__)
def test_what_is_no_number_parks_the_item(measure: Measure, value: Any) -> None:
    with pytest.raises(ItemError, match="/v is") as caught:
        one(measure, value)
    assert caught.value.path == "/v"
    assert caught.value.hint


def test_the_mean() -> None:
    measure = Avg("/v")
    state = measure.changed(None, [], [one(measure, 1, None, 2), one(measure, 0.1)])
    assert state == {"sum": "3.1", "count": 3}
    assert measure.shown(state) == 3.1 / 3
    assert measure.changed(state, [one(measure, 1, 2), one(measure, 0.1)], []) is None


# extremes


def test_text_is_above_numbers() -> None:
    assert one(Max("/v"), 1, "a", 10**30) == "a"
    assert one(Min("/v"), "a", 7, 7.5) == 7


def test_equal_numbers_are_one() -> None:
    measure = Max("/v")
    state = measure.changed(None, [], [one(measure, 7), one(measure, 7.0), one(measure, 3)])
    assert state == {"value": 7, "sharing": 2}


def test_an_extreme_that_others_have_stays() -> None:
    measure = Max("/v")
    assert measure.changed({"value": 7, "sharing": 2}, [7], [5]) == {"value": 7, "sharing": 1}


def test_an_extreme_that_is_replaced_by_a_greater_one_need_not_be_looked_for() -> None:
    assert Max("/v").changed({"value": 7, "sharing": 1}, [7], [9, 9, 8]) == {"value": 9, "sharing": 2}
    assert Max("/v").changed({"value": 7, "sharing": 1}, [7], [7]) == {"value": 7, "sharing": 1}


@pytest.mark.parametrize(("measure", "new"), [(Max("/v"), 6), (Min("/v"), 8)], ids=["max", "min"])
def test_when_the_last_one_that_has_the_extreme_leaves_it_is_lost(measure: Measure, new: int) -> None:
    for added in ([], [new]):
        with pytest.raises(LostExtremeError):
            measure.changed({"value": 7, "sharing": 1}, [7], added)


@pytest.mark.parametrize("value", [True, {}, [], float("inf"), "x" * (MOST_TEXT + 1)], ids=lambda v: repr(v)[:10])
def test_what_has_no_place_in_the_order_parks_the_item(value: Any) -> None:
    with pytest.raises(ItemError, match="/v is"):
        one(Max("/v"), value)


# distinct values


def test_values_are_told_apart_by_type_and_value() -> None:
    assert len(one(Distinct("/v"), 1, "1", True, 1.0, "", False, 0, -0.0, 1e3, 1000)) == 7


@pytest.mark.parametrize("value", [{}, [1]], ids=repr)
def test_objects_and_arrays_are_no_values(value: Any) -> None:
    with pytest.raises(ItemError, match="/v is an"):
        one(Distinct("/v"), value)


def test_numbers_are_written_in_one_way() -> None:
    from decimal import Decimal

    texts = {decimal_text(Decimal(text)) for text in ("100", "1E+2", "100.00", "1.0e2")}
    assert texts == {"100"}


@pytest.mark.parametrize("path", ["", "/", "/a//b", 7, "/_lsn"], ids=repr)
def test_a_measure_needs_a_path(path: Any) -> None:
    with pytest.raises(CatalogError, match="Sum"):
        Sum(path)


def test_a_name_is_a_path() -> None:
    assert Sum("total").path == "/total"
