"""COUNT, SUM, MIN, MAX, AVG and GROUP BY."""

from __future__ import annotations

import pytest

from projections.emulator.query import compile_query

SALES = [
    {"id": "1", "shop": "a", "kind": "x", "n": 1},
    {"id": "2", "shop": "b", "kind": "x", "n": 2},
    {"id": "3", "shop": "a", "kind": "y", "n": 4},
    {"id": "4", "shop": "a", "kind": "x"},
    {"id": "5", "n": 0.5},
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT VALUE COUNT(1) FROM c", [5]),
        ("SELECT VALUE COUNT(c.n) FROM c", [4]),
        ("SELECT VALUE COUNT(c) FROM c", [5]),
        ("SELECT VALUE SUM(c.n) FROM c", [7.5]),
        ("SELECT VALUE AVG(c.n) FROM c WHERE c.n >= 1", [7 / 3]),
        ("SELECT VALUE AVG(c.n) FROM c WHERE c.n > 1", [3]),
        ("SELECT VALUE MIN(c.n) FROM c", [0.5]),
        ("SELECT VALUE MAX(c.shop) FROM c", ["b"]),
        ("SELECT VALUE COUNTIF(c.n > 1) FROM c", [2]),
        ("SELECT VALUE MAX(c.n * 2) + COUNT(1) FROM c", [13]),
        ("SELECT VALUE {n: COUNT(1), most: MAX(c.n)} FROM c", [{"n": 5, "most": 4}]),
        ("SELECT COUNT(1) FROM c", [{"$1": 5}]),
        ("SELECT COUNT(1) + 5, SUM(c.n) AS total FROM c", [{"$1": 10, "total": 7.5}]),
        ("SELECT VALUE COUNT(1) FROM c JOIN t IN [c.shop]", None),
        ("SELECT VALUE SUM(c.n) FROM c ORDER BY c.shop", [7.5]),
        ("SELECT TOP 10 VALUE COUNT(1) FROM c", [5]),
        ("SELECT VALUE COUNT(1) FROM c OFFSET 1 LIMIT 1", []),
        # over nothing
        ("SELECT VALUE COUNT(1) FROM c WHERE false", [0]),
        ("SELECT VALUE MAX(c.n) FROM c WHERE false", [None]),
        ("SELECT VALUE SUM(c.n) FROM c WHERE false", [None]),
        ("SELECT VALUE AVG(c.gone) FROM c", [None]),
        ("SELECT MAX(c.gone) AS most, COUNT(1) AS n FROM c", [{"n": 5}]),
        # a value of another kind spoils a sum
        ("SELECT VALUE SUM(c.id) FROM c", [None]),
        ("SELECT VALUE AVG(c.shop) FROM c", [None]),
        # groups, in the order of their first row
        (
            "SELECT c.shop, COUNT(1) AS n FROM c GROUP BY c.shop",
            [{"shop": "a", "n": 3}, {"shop": "b", "n": 1}, {"n": 1}],
        ),
        ("SELECT c.shop FROM c GROUP BY c.shop", [{"shop": "a"}, {"shop": "b"}, {}]),
        ("SELECT VALUE c.shop FROM c GROUP BY c.shop", ["a", "b"]),
        (
            "SELECT c.shop, c.kind, SUM(c.n) AS s FROM c WHERE IS_DEFINED(c.shop) GROUP BY c.shop, c.kind",
            [
                {"shop": "a", "kind": "x", "s": 1},
                {"shop": "b", "kind": "x", "s": 2},
                {"shop": "a", "kind": "y", "s": 4},
            ],
        ),
        (
            "SELECT UPPER(c.shop) AS shop, AVG(c.n) AS a FROM c GROUP BY UPPER(c.shop)",
            [{"shop": "A", "a": 2.5}, {"shop": "B", "a": 2}, {"a": 0.5}],
        ),
        ("SELECT VALUE COUNT(1) FROM c GROUP BY c.n > 1", [2, 2, 1]),
        ("SELECT VALUE COUNT(1) FROM c WHERE false GROUP BY c.shop", []),
        (
            "SELECT c.shop, COUNT(1) AS n FROM c GROUP BY c.shop ORDER BY c.shop DESC OFFSET 0 LIMIT 1",
            [{"shop": "b", "n": 1}],
        ),
        (
            "SELECT c.shop, ARRAY(SELECT VALUE t FROM t IN c.tags) AS tags FROM c WHERE c.id = '2' GROUP BY c",
            [{"shop": "b", "tags": []}],
        ),
        # in a subquery an aggregate without a value is undefined
        ("SELECT VALUE (SELECT VALUE MAX(t) FROM t IN c.tags) FROM c", []),
        ("SELECT VALUE (SELECT VALUE SUM(c.n * t) FROM t IN c.tags) FROM c", []),
        ("SELECT VALUE SUM((SELECT VALUE COUNT(1) FROM t IN c.tags)) FROM c", [0]),
        ("SELECT VALUE SUM(s.n) FROM (SELECT c.shop, COUNT(1) AS n FROM c GROUP BY c.shop) AS s", [5]),
    ],
)
def test_aggregates(ask, text, expected):
    if expected is None:
        with pytest.raises(Exception, match="Syntax error"):
            ask(text, SALES)
    else:
        assert ask(text, SALES) == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [("COUNT", 6), ("MIN", None), ("MAX", "b"), ("SUM", None), ("AVG", None)],
)
def test_aggregates_over_all_kinds_of_values(ask, function, expected):
    documents = [{"v": value} for value in (2, None, "b", True, False, "a")] + [{}]
    assert ask(f"SELECT VALUE {function}(c.v) FROM c", documents) == [expected]


@pytest.mark.parametrize(
    ("text", "whole", "partial"),
    [
        ("SELECT VALUE MAX(c.n) FROM c", [None], []),
        ("SELECT VALUE SUM(c.n) FROM c ORDER BY c.n", [None], []),
        ("SELECT VALUE MIN(c.z) FROM c", [None], [None]),  # the least value is null
        ("SELECT VALUE COUNT(c.n) FROM c", [0], [0]),
        ("SELECT TOP 0 VALUE MAX(c.n) FROM c", [], []),
        ("SELECT VALUE MAX(c.n) FROM c OFFSET 1 LIMIT 1", [], []),
        ("SELECT VALUE MAX(c.n) FROM c GROUP BY c.z", [], []),
        ("SELECT MAX(c.n) FROM c", [{}], [{}]),
    ],
)
def test_an_aggregate_without_a_value_is_null_but_no_row_of_a_partial_answer(text, whole, partial):
    bound = compile_query(text).bind()
    assert list(bound.rows([{"z": None}])) == whole
    assert list(bound.rows([{"z": None}], partial=True)) == partial


def test_the_least_and_greatest_go_by_type_first(ask):
    documents = [{"v": value} for value in (100, True, "", -5)]
    assert ask("SELECT MIN(c.v) AS least, MAX(c.v) AS most FROM c", documents) == [{"least": True, "most": ""}]


def test_groups_tell_true_from_1_but_not_1_from_1_0(ask):
    documents = [{"v": value} for value in (1, True, 1.0, "1", None)] + [{}]
    assert ask("SELECT VALUE COUNT(1) FROM c GROUP BY c.v", documents) == [2, 1, 1, 1, 1]


def test_sums_of_whole_numbers_stay_exact(ask):
    assert ask("SELECT VALUE SUM(c.v) FROM c", [{"v": 2**53}, {"v": 1}]) == [2**53 + 1]
