"""Types, equality, order and three-valued logic."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

UNDEFINED_ROW: list = []  # SELECT VALUE of something undefined gives no row


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 = 1.0", [True]),
        ("1 = 2", [False]),
        ("1 != 1.0", [False]),
        ("'a' = 'a'", [True]),
        ("null = null", [True]),
        ("null != null", [False]),
        ("true = true", [True]),
        ("true = false", [False]),
        # booleans are not numbers
        ("true = 1", UNDEFINED_ROW),
        ("false = 0", UNDEFINED_ROW),
        ("[true] = [1]", [False]),
        ("{a: 1} = {a: true}", [False]),
        # across types there is no answer, also to !=
        ("1 = '1'", UNDEFINED_ROW),
        ("1 != '1'", UNDEFINED_ROW),
        ("null = 0", UNDEFINED_ROW),
        ("null != 0", UNDEFINED_ROW),
        ("1 < '2'", UNDEFINED_ROW),
        ("'a' >= null", UNDEFINED_ROW),
        ("[] = {}", UNDEFINED_ROW),
        ("c.missing = c.missing", UNDEFINED_ROW),
        ("undefined = undefined", UNDEFINED_ROW),
        ("c.missing != 1", UNDEFINED_ROW),
        # deep
        ("[1, {a: [2]}] = [1.0, {a: [2.0]}]", [True]),
        ("{a: 1, b: 2} = {b: 2, a: 1}", [True]),
        ("{a: 1} = {a: 1, b: 2}", [False]),
        ("[1, 2] = [2, 1]", [False]),
        ("[1] != [2]", [True]),
        ("[1] < [2]", UNDEFINED_ROW),
        ("{a: 1} < {a: 2}", UNDEFINED_ROW),
        # order
        ("1 < 1.5", [True]),
        ("2 <= 2.0", [True]),
        ("false < true", [True]),
        ("null <= null", [True]),
        ("null < null", [False]),
        ("'B' < 'a'", [True]),  # by code point
        ("'z' < 'é'", [True]),
        ("'Z' > 'a'", [False]),
        ("10 > 9", [True]),
        ("'10' > '9'", [False]),
    ],
)
def test_comparisons(ask, expression, expected):
    assert ask(f"SELECT VALUE {expression} FROM c") == expected


TRUTHS = {"T": "true", "F": "false", "U": "c.missing"}
ANSWERS = {"T": [True], "F": [False], "U": []}


@pytest.mark.parametrize("table", ["TT=T", "TF=F", "TU=U", "FT=F", "FF=F", "FU=F", "UT=U", "UF=F", "UU=U"])
def test_and(ask, table):
    left, right, expected = TRUTHS[table[0]], TRUTHS[table[1]], ANSWERS[table[3]]
    assert ask(f"SELECT VALUE {left} AND {right} FROM c") == expected


@pytest.mark.parametrize("table", ["TT=T", "TF=T", "TU=T", "FT=T", "FF=F", "FU=U", "UT=T", "UF=U", "UU=U"])
def test_or(ask, table):
    left, right, expected = TRUTHS[table[0]], TRUTHS[table[1]], ANSWERS[table[3]]
    assert ask(f"SELECT VALUE {left} OR {right} FROM c") == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("NOT true", [False]),
        ("NOT c.missing", []),
        ("NOT 1", []),
        ("NOT NOT 1", []),
        ("NOT NOT NOT true", [False]),
        ("1 AND true", []),
        ("1 OR true", [True]),
        ("'x' OR false", []),
    ],
)
def test_only_booleans_are_truths(ask, expression, expected):
    assert ask(f"SELECT VALUE {expression} FROM c") == expected


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("c.v = 1", "n"),
        ("NOT (c.v = 1)", "m"),  # only another number is known to differ
        ("c.v != 1", "m"),
        ("c.v = null", "z"),
        ("IS_NULL(c.v)", "z"),
        ("NOT IS_DEFINED(c.v)", "u"),
        ("IS_DEFINED(c.v) = false", "u"),
        ("c.v", "t"),
        ("c.v = true", "t"),
        ("c.v IN (1, '1', null)", "nsz"),
        ("c.v IN (true)", "t"),
        ("NOT c.v IN (1)", "m"),
        ("c.v NOT IN (1)", "m"),
        ("c.v IN (c.v)", "nmstza"),
        ("c.v BETWEEN 0 AND 1", "n"),
        ("c.v BETWEEN '0' AND '2'", "s"),
        ("c.v NOT BETWEEN 0 AND 1", "m"),
        ("c.v > 0", "nm"),
        ("c.v = [1]", "a"),
        ("c.v IN ([1], [2])", "a"),
        ("c.v = 1 OR c.v = '1'", "ns"),
        ("(c.v = 1 AND c.id = 'n') OR (c.v = true AND c.id = 't') OR (c.v = null AND c.id = 'n')", "nt"),
        ("(c.v = 1 AND c.id = 'n') OR c.v > 1", "nm"),
        ("c.v = undefined", ""),
        ("c.v = undefined OR c.id = 'n'", "n"),
        ("true", "nmstzau"),
        ("1", ""),
        ("null", ""),
    ],
)
def test_a_filter_keeps_what_is_true(ask, where, ids):
    values = {"n": 1, "m": 2, "s": "1", "t": True, "z": None, "a": [1]}
    documents = [{"id": key, "v": value} for key, value in values.items()] + [{"id": "u"}]
    assert "".join(ask(f"SELECT VALUE c.id FROM c WHERE {where}", documents)) == ids


IN_ORDER = [
    None,
    False,
    True,
    -1,
    0,
    0.5,
    1,
    10**20,
    "",
    "A",
    "a",
    "z",
    "é",
    "日",
    "😀",
    [],
    [1],
    ["a"],
    {},
    {"a": 1},
    {"b": 0},
]


def test_sorting_goes_by_type_then_value(ask):
    documents = [{"v": value} for value in reversed(IN_ORDER)] + [{}]
    ascending = [json.dumps(row) for row in ask("SELECT c.v FROM c ORDER BY c.v", documents)]
    assert ascending == ["{}"] + [json.dumps({"v": value}) for value in IN_ORDER]
    descending = [json.dumps(row) for row in ask("SELECT c.v FROM c ORDER BY c.v DESC", documents)]
    assert descending == ascending[::-1]


@pytest.mark.parametrize(
    ("low", "high"), [pair for pair in pairwise(IN_ORDER[3:15]) if type(pair[0]) is not str or pair[1]]
)
def test_sorting_agrees_with_less_than(ask, low, high):
    same_type = isinstance(low, str) == isinstance(high, str)
    assert ask("SELECT VALUE @low < @high", [{}], {"@low": low, "@high": high}) == ([True] if same_type else [])
