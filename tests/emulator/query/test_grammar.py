"""How queries are written: names, literals, clauses, and what is refused with which words."""

from __future__ import annotations

import pytest

from projections.emulator.query import QueryError, compile_query

DOCUMENT = {
    "id": "1",
    "a": {"b": [{"x y": 7}]},
    "value": 5,
    "index": "i",
    "orderly": "o",
    "nullable": "n",
    "ascent": "s",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT VALUE c.id FROM c", ["1"]),
        ("select value c.id from c", ["1"]),
        ("SeLeCt VaLuE c.id FrOm c", ["1"]),
        ("SELECT VALUE root.id FROM root", ["1"]),
        ("SELECT VALUE r.id FROM root r", ["1"]),
        ("SELECT VALUE r.id FROM root AS r", ["1"]),
        ('SELECT VALUE c["id"] FROM c', ["1"]),
        ("SELECT VALUE c['id'] FROM c", ["1"]),
        ('SELECT VALUE c.a.b[0]["x y"] FROM c', [7]),
        ('SELECT VALUE c["a"].b[1 - 1]["x y"] FROM c', [7]),
        ('SELECT VALUE c["value"] FROM c', [5]),
        # a name may begin with a keyword
        (
            "SELECT c.index, c.orderly, c.nullable, c.ascent FROM c",
            [{"index": "i", "orderly": "o", "nullable": "n", "ascent": "s"}],
        ),
        ("SELECT VALUE c . a . b[0]['x y'] FROM c", [7]),
        ("SELECT VALUE (c.a).b[0]['x y'] FROM c", [7]),
        ("SELECT VALUE d[0]['x y'] FROM c.a.b d", [7]),
        ("SELECT VALUE c.id -- the key\nFROM c", ["1"]),
        ("SELECT VALUE\n\tc.id\r\nFROM c", ["1"]),
        ("SELECT VALUE 1", [1]),
        ('SELECT VALUE {a: 1, \'b\': [1, "x"], "c d": {}}', [{"a": 1, "b": [1, "x"], "c d": {}}]),
        ("SELECT VALUE []", [[]]),
    ],
)
def test_the_ways_to_write_a_query(ask, text, expected):
    assert ask(text, [DOCUMENT]) == expected


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("'it''s'", None),  # a quote is escaped by a backslash, not doubled
        (r"'it\'s'", "it's"),
        (r'"say \"hi\""', 'say "hi"'),
        (r"'\u00e9\n\t\\\/'", "é\n\t\\/"),
        (r"'\ud83d\ude00'", "😀"),
        ("'日本'", "日本"),
        ("'-- no comment'", "-- no comment"),
        ("1", 1),
        ("-1.5e3", -1500),
        (".5", 0.5),
        ("1E2", 100),
        ("9007199254740993", 9007199254740993),  # past 2^53, still exact
        ("true", True),
        ("False", False),
        ("null", None),
    ],
)
def test_literals(ask, literal, expected):
    if expected is None and literal != "null":
        with pytest.raises(QueryError):
            ask(f"SELECT VALUE {literal}")
    else:
        (value,) = ask(f"SELECT VALUE {literal}")
        assert (value, type(value)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "unexpected end"),
        ("SELECT", "unexpected end"),
        ("SELECT * FROM c WHERE", "unexpected end"),
        ("SELECT * FORM c", "near 'FORM' at line 1, column 10"),
        ("SELECT *\nFROM c\nWHERE c.x ==  1", "line 3"),
        ("SELECT # FROM c", "invalid character '#'"),
        ("SELECT * FROM c; SELECT 1", "invalid character ';'"),
        ("SELECT VALUE 'abc", "invalid character"),
        (r"SELECT VALUE '\q'", r"invalid escape '\q'"),
        ("SELECT VALUE 1e999", "out of range"),
        ("SELECT VALUE " + "9" * 5000, "out of range"),
        ("SELECT c.value FROM c", "reserved word"),
        ("SELECT c.x AS order FROM c", "reserved word"),
        ("SELECT * FROM c WHERE c.x IN 3", "IN needs a list"),
        ("SELECT VALUE (1, 2)", "may only follow IN"),
        ("SELECT VALUE 1 ? 2", "':' expected"),
        ("SELECT VALUE 1 : 2", "near ':'"),
        ("SELECT TOP -1 * FROM c", "near '-'"),
        ("SELECT TOP 1.5 * FROM c", "whole number"),
        ("SELECT * FROM c OFFSET 1", "unexpected end"),
        ("SELECT VALUE d.x FROM c", "'d' could not be resolved"),
        ("SELECT VALUE root.x FROM root r", "'root' could not be resolved"),
        ("SELECT * FROM c WHERE EXISTS(SELECT VALUE 1 FROM t IN d.tags)", "'d' could not be resolved"),
        ("SELECT * FROM c JOIN t IN c.tags", "single input set"),
        ("SELECT *", "single input set"),
        ("SELECT c.a, c.b.a FROM c", "'a' is selected twice"),
        ("SELECT VALUE NOSUCH(1)", "'NOSUCH' is not a recognized"),
        ("SELECT VALUE LOWER()", "LOWER takes 1 arguments, not 0"),
        ("SELECT VALUE CONTAINS('a')", "2 to 3"),
        ("SELECT VALUE ST_WITHIN(c.a, c.b) FROM c", "not supported (ST_WITHIN)"),
        ("SELECT VALUE VectorDistance(c.a, [1]) FROM c", "Vector search is not supported"),
        ("SELECT * FROM c WHERE FullTextContains(c.a, 'x')", "Full-text search is not supported"),
        ("SELECT VALUE udf.tax(1)", "not udf.tax"),
        ("SELECT VALUE c.order.x FROM c", "near 'order'"),
        ("SELECT VALUE t FROM t IN c.from.x", "near 'from'"),
        ("SELECT * FROM c WHERE COUNT(1) > 1", "COUNT may only stand in SELECT"),
        ("SELECT VALUE SUM(COUNT(1)) FROM c", "COUNT may only stand in SELECT"),
        ("INSERT INTO c VALUES (1)", "near 'INSERT'"),
    ],
)
def test_what_is_not_a_query_is_refused_and_named(text, complaint):
    with pytest.raises(QueryError) as caught:
        compile_query(text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("FROM c WHERE c.n = 1", True),
        ("from c where c.n = 2", False),
        ("from root where root.n = 1", True),
        ("FROM c", True),
        ("FROM c JOIN t IN c.tags WHERE t = 'b'", True),
        ("FROM c JOIN t IN c.tags WHERE t = 'z'", False),
        ("SELECT * FROM c WHERE c.n = 1", True),
    ],
)
def test_a_condition_needs_no_select(condition, expected):
    assert compile_query(condition).bind().matches({"n": 1, "tags": ["a", "b"]}) is expected


def test_parameters_are_a_list_or_a_mapping(ask):
    text = "SELECT VALUE c.n + @more FROM c WHERE c.id = @id"
    documents = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
    assert ask(text, documents, {"@id": "b", "@more": 10}) == [12]
    assert ask(text, documents, [{"name": "@id", "value": "a"}, {"name": "@more", "value": 5}]) == [6]


@pytest.mark.parametrize("parameters", [None, [], {}, [{"name": "@other", "value": 1}], [{"value": 1}], ["@n"]])
def test_a_parameter_without_a_value_is_refused(parameters):
    with pytest.raises(QueryError):
        compile_query("SELECT VALUE @n").bind(parameters)


def test_an_unused_parameter_is_ignored(ask):
    assert ask("SELECT VALUE 1", [{}], {"@n": 1}) == [1]
