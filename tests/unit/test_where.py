"""Predicates compare by type and value, and combine."""

from __future__ import annotations

import itertools

import pytest

from projections.errors import CatalogError
from projections.where import Predicate, field, kind, same

DISTINCT = [0, 1, 2, "", "0", "1", "true", "null", True, False, None]


@pytest.mark.parametrize(("one", "other"), list(itertools.product(DISTINCT, DISTINCT)), ids=repr)
def test_equal_means_equal_in_type_and_value(one, other):
    alike = DISTINCT.index(one) == DISTINCT.index(other) if type(one) is type(other) else False
    assert (field("/f") == one)({"f": other}) is alike
    assert (field("/f") != one)({"f": other}) is not alike
    assert field("/f").is_in(one)({"f": other}) is alike


def test_a_whole_number_equals_itself_written_as_a_decimal():
    assert (field("/f") == 1)({"f": 1.0})
    assert not (field("/f") == 1)({"f": True})


def test_a_missing_field_equals_nothing_and_differs_from_everything():
    for value in DISTINCT:
        assert not (field("/f") == value)({})
        assert (field("/f") != value)({})


@pytest.mark.parametrize(
    ("found", "answers"),
    [
        (4, (True, True, False, False)),
        (5, (False, True, False, True)),
        (5.0, (False, True, False, True)),
        (6, (False, False, True, True)),
    ],
)
def test_numbers_are_ordered(found, answers):
    f = field("/f")
    assert tuple(p({"f": found}) for p in (f < 5, f <= 5, f > 5, f >= 5)) == answers


def test_text_is_ordered_by_code_point():
    assert (field("/f") < "b")({"f": "a"})
    assert (field("/f") < "a")({"f": "B"})
    assert not (field("/f") >= "10")({"f": "1"})


@pytest.mark.parametrize("found", ["9", True, None, [9], {"n": 9}])
def test_an_order_between_types_does_not_exist(found):
    f = field("/f")
    assert not any(p({"f": found}) for p in (f < 5, f <= 5, f > 5, f >= 5))
    assert not any(p({}) for p in (f < 5, f <= 5, f > 5, f >= 5))


def test_true_and_null_have_no_order():
    assert not (field("/f") <= True)({"f": True})
    assert not (field("/f") >= None)({"f": None})


def test_a_field_exists_with_null_but_not_when_missing():
    assert field("/f").exists()({"f": None})
    assert not field("/f").exists()({})
    assert not field("/f/g").exists()({"f": None})


def test_a_nested_field_is_reached_by_its_path():
    assert (field("/a/b") == 1)({"a": {"b": 1}})
    assert not (field("/a/b") == 1)({"a/b": 1, "a": [1]})


def test_is_in_names_several_values():
    predicate = field("/f").is_in("open", 1)
    assert [predicate({"f": v}) for v in ("open", 1, "1", True, "held")] == [True, True, False, False, False]
    assert not field("/f").is_in()({"f": None})


@pytest.mark.parametrize(("a", "b"), list(itertools.product((True, False), repeat=2)))
def test_predicates_combine(a, b):
    one, other = field("/a") == True, field("/b") == True  # noqa: E712
    item = {"a": a, "b": b}
    assert (one & other)(item) is (a and b)
    assert (one | other)(item) is (a or b)
    assert (~one)(item) is (not a)
    assert (~(one & other))(item) is (~one | ~other)(item)


def test_combined_predicates_nest():
    predicate = (field("/s") == "open") & (field("/n") >= 3) | ~field("/s").exists()
    items = [{"s": "open", "n": 3}, {"s": "open", "n": 2}, {}, {"s": None, "n": 9}]
    assert [predicate(item) for item in items] == [True, False, True, False]


def test_a_field_is_given_by_its_path():
    with pytest.raises(CatalogError, match="'status' is not a path"):
        field("status")


def test_a_predicate_that_says_nothing_cannot_be_asked():
    with pytest.raises(NotImplementedError):
        Predicate()({})


def test_kinds_are_those_of_json():
    values = [None, True, 1, 1.5, "", {}, []]
    assert [kind(v) for v in values] == ["null", "bool", "number", "number", "string", "object", "array"]


def test_objects_and_arrays_can_be_the_same_too():
    assert same({"a": [1]}, {"a": [1]})
    assert not same([], {})


@pytest.mark.parametrize(
    "write",
    [
        lambda: field("/a") == 1 and field("/b") == 2,
        lambda: not (field("/a") == 1),  # noqa: SIM201
        lambda: 1 < field("/a") < 5,
        lambda: (field("/a") == 1) or (field("/b") == 2),
    ],
)
def test_words_of_python_that_would_drop_a_part_are_refused(write):
    with pytest.raises(TypeError, match="combine with"):
        write()
