"""Keys keep their types, their levels and their limits."""

from __future__ import annotations

import itertools
import math

import pytest

from projections.errors import CatalogError, ItemError
from projections.keys import (
    MAX_EXACT,
    MAX_KEY_BYTES,
    UNDEFINED,
    Hierarchical,
    Key,
    Path,
    at,
    fitting,
    order,
    parse_path,
    plain,
    problem,
    strategy,
)

DIFFERENT = [7, 8, 7.5, -7, 0, "7", "7.0", "", " ", "  ", "null", "true", True, False, None, UNDEFINED, 1, "1"]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(DIFFERENT, 2)), ids=repr)
def test_values_that_differ_in_type_or_value_are_different_keys(one, other):
    assert Key.of(one) != Key.of(other)


@pytest.mark.parametrize(("one", "other"), [(7, 7.0), (0, -0.0), (-3, -3.0), (2**53, float(2**53))])
def test_a_whole_number_is_one_key_however_it_is_written(one, other):
    assert Key.of(one) == Key.of(other)
    assert hash(Key.of(one)) == hash(Key.of(other))


@pytest.mark.parametrize("value", DIFFERENT, ids=repr)
def test_a_key_comes_back_from_its_stored_form_with_its_types(value):
    key = Key.of("t1", value)
    back = Key.from_list(key.to_list())
    assert back == key
    assert [(type(v), v) for v in back.values] == [(type(v), v) for v in ("t1", value)]


def test_the_stored_form_tells_null_from_missing():
    assert Key.of(None).to_list() == [None]
    assert Key.of(UNDEFINED).to_list() == [{}]


def test_undefined_reads_as_itself():
    assert repr(UNDEFINED) == "UNDEFINED"
    assert str(Key.of("a", UNDEFINED)) == '["a",{}]'


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb", "ключ-🙂", "日本", "e\u0301", "\u00e9", "a,b", '["a"]'])
def test_text_stays_as_it_is_code_point_for_code_point(text):
    assert Key.of(text).values == (text,)
    assert "\n" not in Key.of(text).text


def test_composed_and_decomposed_text_are_two_keys():
    assert Key.of("e\u0301") != Key.of("\u00e9")


def test_levels_do_not_run_together():
    keys = [Key.of("a", "b"), Key.of("a,b"), Key.of('a","b'), Key.of("a", "b", ""), Key.of("", "a", "b")]
    assert len(set(keys)) == len(keys)


CASE_19 = [
    {"tenant": "t1", "user": "u1", "session": "s1"},
    {"tenant": "t1", "user": None, "session": "s1"},
    {"tenant": "t1", "session": "s1"},
    {"tenant": "t1", "user": "", "session": "s1"},
    {"tenant": "t1", "user": "u1"},
    {"user": "u1", "session": "s1"},
]


def test_case_19_a_missing_level_stays_in_its_place():
    levels = Hierarchical((Path("/tenant"), Path("/user"), Path("/session")))
    keys = [Key.of(*levels.of(item)) for item in CASE_19]
    assert len(set(keys)) == 6
    assert all(len(key.values) == 3 for key in keys)
    assert keys[2].values == ("t1", UNDEFINED, "s1")
    assert keys[5].values == (UNDEFINED, "u1", "s1")


def test_case_13_a_number_key_and_its_text_are_asked_for_separately():
    path = Path("/accountNo")
    items = {"007": {"accountNo": 7}, "7": {"accountNo": "7"}, "8": {"accountNo": 7.5}}
    by_key = {Key.of(*path.of(item)): id_ for id_, item in items.items()}
    assert [by_key[path.ask(value)[0]] for value in (7, "7", 7.5)] == ["007", "7", "8"]


@pytest.mark.parametrize("value", ["", "  ", "x", False, True, 0, -1, 7.5, MAX_EXACT, -MAX_EXACT], ids=repr)
def test_case_14_empty_and_falsy_values_are_ordinary_keys(value):
    assert problem(value) is None


@pytest.mark.parametrize(
    ("value", "found"), [(UNDEFINED, "missing"), (None, "null"), ({}, "other"), ([], "other"), ({"a": 1}, "other")]
)
def test_case_14_what_cannot_simply_be_a_key_is_named(value, found):
    assert problem(value) == found


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 1e300, 10**400, math.inf, -math.inf, math.nan])
def test_case_15_a_number_that_would_run_into_its_neighbours_is_no_key(value):
    with pytest.raises(ItemError, match="2\\^53") as caught:
        problem(value)
    assert "text" in str(caught.value.hint)


def test_case_15_the_same_digits_as_text_are_a_key():
    assert problem("9007199254740993") is None


@pytest.mark.parametrize("text", ["x" * MAX_KEY_BYTES, "漢" * (MAX_KEY_BYTES // 3)])
def test_a_key_of_just_the_limit_is_taken(text):
    assert problem(text) is None


@pytest.mark.parametrize("text", ["x" * (MAX_KEY_BYTES + 1), "漢" * (MAX_KEY_BYTES // 3 + 1), "\ud800" * 700])
def test_the_limit_of_a_key_counts_bytes_not_characters(text):
    with pytest.raises(ItemError, match=str(MAX_KEY_BYTES)):
        problem(text)


def test_a_lone_surrogate_does_not_break_the_count():
    assert problem("\ud800" * 600) is None  # 1,800 bytes


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (("a",), {"b": {"c": None}, "l": [1]}),
        (("a", "b"), {"c": None}),
        (("a", "b", "c"), None),
        (("a", "b", "c", "d"), UNDEFINED),
        (("a", "x"), UNDEFINED),
        (("a", "l", "0"), UNDEFINED),
        (("A",), UNDEFINED),
    ],
)
def test_the_value_at_a_path_is_looked_up_exactly(path, found):
    assert at({"a": {"b": {"c": None}, "l": [1]}}, path) == found


def test_a_path_is_read_by_its_parts():
    assert parse_path("/a/b") == ("a", "b")
    assert parse_path('/"with space"/b') == ("with space", "b")


@pytest.mark.parametrize("text", ["", "a", "a/b", "/", "//", "/a//b", "/a/"])
def test_what_is_no_path_is_refused_with_the_right_form(text):
    with pytest.raises(CatalogError, match="not a path") as caught:
        parse_path(text)
    assert '"/field"' in str(caught.value.hint)


def test_a_key_is_declared_as_a_path_a_tuple_of_paths_or_a_strategy():
    assert strategy("/a") == strategy(["/a"]) == strategy(Path("/a")) == Path("/a")
    assert strategy(("/a", Path("/b/c"))) == Hierarchical((Path("/a"), Path("/b/c")))
    assert strategy(("/a", "/b/c")).paths == ("/a", "/b/c")
    assert strategy(("/a", "/b/c")).inputs == strategy(("/a", "/b/c")).copied == ("/a", "/b/c")


@pytest.mark.parametrize("declared", [None, 7, (), [], {"a": 1}, ("/a", 7), b"/a"], ids=repr)
def test_anything_else_is_no_key(declared):
    with pytest.raises(CatalogError, match="is not a key"):
        strategy(declared)


def test_a_hierarchical_key_has_at_most_three_levels_each_its_own():
    with pytest.raises(CatalogError, match="4 levels"):
        strategy(("/a", "/b", "/c", "/d"))
    with pytest.raises(CatalogError, match="twice"):
        strategy(("/a", "/a"))


def test_reading_asks_for_the_levels_from_the_left():
    assert strategy(("/a", "/b", "/c")).ask("x", 1) == [Key.of("x", 1)]
    assert Path("/a").ask(None) == [Key.of(None)]


def test_values_of_all_types_have_an_order():
    values = [UNDEFINED, None, False, True, -1.5, 0, 7, "", "A", "a", "é", "漢", "🙂"]
    mixed = values[::2] + values[1::2]
    assert sorted(mixed, key=order) == values
    assert order([1]) == order({"a": 1}) > order("z")


def test_a_container_of_items_is_keyed_by_paths_alone():
    assert plain("/a") == Path("/a")
    assert plain(("/a", "/id")) == Hierarchical((Path("/a"), Path("/id")))
    assert plain(("/a", "/id")).of({"id": "1", "a": 2}) == (2, "1")


def test_the_length_of_a_key_counts_over_all_its_levels():
    assert fitting(Key.of("a" * 1_024, "b" * 1_024))
    with pytest.raises(ItemError, match="2049 bytes"):
        fitting(Key.of("a" * 1_024, "b" * 1_025))
