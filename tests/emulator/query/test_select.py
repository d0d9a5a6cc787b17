"""What a query gives: select lists, sources, joins, subqueries, DISTINCT, ORDER BY, windows."""

from __future__ import annotations

import pytest

from projections.emulator.query import QueryError, compile_query

FAMILIES = [
    {
        "id": "A",
        "city": "Oslo",
        "size": 3,
        "children": [
            {"name": "Ann", "age": 5, "pets": [{"kind": "cat"}, {"kind": "dog"}]},
            {"name": "Bo", "age": 9, "pets": []},
        ],
        "address": {"street": "Main", "no": 1},
    },
    {"id": "B", "city": "Rome", "size": 2, "children": [{"name": "Cy", "age": 7, "pets": [{"kind": "cat"}]}]},
    {"id": "C", "size": 1, "children": "none", "address": None},
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # select lists
        ("SELECT * FROM c WHERE c.id = 'C'", [FAMILIES[2]]),
        ("SELECT c.id, c.city FROM c", [{"id": "A", "city": "Oslo"}, {"id": "B", "city": "Rome"}, {"id": "C"}]),
        ("SELECT c.city FROM c", [{"city": "Oslo"}, {"city": "Rome"}, {}]),
        ("SELECT VALUE c.city FROM c", ["Oslo", "Rome"]),
        ("SELECT VALUE c.address FROM c", [{"street": "Main", "no": 1}, None]),
        (
            "SELECT TOP 1 c.size, 1, c.size + 1, c.id AS key, c.city town FROM c",
            [{"size": 3, "$1": 1, "$2": 4, "key": "A", "town": "Oslo"}],
        ),
        (
            "SELECT TOP 1 c.children[0].name, c.children[1], c['city'] FROM c",
            [{"name": "Ann", "$1": FAMILIES[0]["children"][1], "city": "Oslo"}],
        ),
        ("SELECT TOP 1 [c.id, c.size] FROM c", [{"$1": ["A", 3]}]),
        ("SELECT c FROM c WHERE c.id = 'B'", [{"c": FAMILIES[1]}]),
        ("SELECT VALUE {id: c.id, gone: c.gone} FROM c WHERE c.size < 3", [{"id": "B"}, {"id": "C"}]),
        # FROM
        ("SELECT VALUE street FROM c.address.street", ["Main"]),
        ("SELECT * FROM c.address", [{"street": "Main", "no": 1}, None]),
        ("SELECT VALUE a.no FROM c.address a", [1]),
        ("SELECT VALUE k.name FROM k IN c.children", ["Ann", "Bo", "Cy"]),
        ("SELECT VALUE k.name FROM k IN Families.children WHERE k.age > 5", ["Bo", "Cy"]),
        ("SELECT * FROM k IN c.children[0].pets", [{"kind": "cat"}, {"kind": "dog"}, {"kind": "cat"}]),
        ("SELECT VALUE s.n FROM (SELECT c.size AS n FROM c WHERE c.size > 1) AS s", [3, 2]),
        ("SELECT VALUE s FROM (SELECT DISTINCT VALUE k.age > 6 FROM k IN c.children) s", [False, True]),
        # JOIN
        (
            "SELECT c.id, k.name FROM c JOIN k IN c.children",
            [{"id": "A", "name": "Ann"}, {"id": "A", "name": "Bo"}, {"id": "B", "name": "Cy"}],
        ),
        (
            "SELECT VALUE k.name || ':' || p.kind FROM c JOIN k IN c.children JOIN p IN k.pets",
            ["Ann:cat", "Ann:dog", "Cy:cat"],
        ),
        (
            "SELECT VALUE a.name || b.name FROM c JOIN a IN c.children JOIN b IN c.children WHERE a.age < b.age",
            ["AnnBo"],
        ),
        ("SELECT VALUE k FROM c JOIN (SELECT VALUE k.name FROM k IN c.children WHERE k.age < 8) k", ["Ann", "Cy"]),
        ("SELECT VALUE c.id FROM c JOIN (SELECT VALUE 1 FROM k IN c.children)", ["A", "A", "B"]),
        ("SELECT VALUE u FROM c JOIN u IN (SELECT VALUE ['x', 'y']) WHERE c.id = 'A'", ["x", "y"]),
        ("SELECT VALUE c.id FROM c JOIN a IN c.address", []),
        ("SELECT VALUE c.id FROM c JOIN a.no", None),
        # subqueries
        ("SELECT VALUE (SELECT VALUE COUNT(1) FROM k IN c.children) FROM c", [2, 1, 0]),
        (
            "SELECT c.id, (SELECT VALUE MAX(k.age) FROM k IN c.children) AS oldest FROM c",
            [{"id": "A", "oldest": 9}, {"id": "B", "oldest": 7}, {"id": "C"}],
        ),
        ("SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE k FROM k IN c.children WHERE k.age = 7)", ["B"]),
        ("SELECT VALUE EXISTS(SELECT VALUE k FROM k IN c.children) FROM c", [True, True, False]),
        ("SELECT VALUE EXISTS(SELECT VALUE c.city) FROM c", [True, True, False]),
        ("SELECT VALUE ARRAY(SELECT VALUE k.name FROM k IN c.children WHERE k.age > 5) FROM c", [["Bo"], ["Cy"], []]),
        (
            "SELECT VALUE ARRAY(SELECT k.name, ARRAY(SELECT VALUE p.kind FROM p IN k.pets) AS pets "
            "FROM k IN c.children) FROM c WHERE c.id = 'A'",
            [[{"name": "Ann", "pets": ["cat", "dog"]}, {"name": "Bo", "pets": []}]],
        ),
        (
            "SELECT VALUE ARRAY(SELECT TOP 1 VALUE k.name FROM k IN c.children ORDER BY k.age DESC) FROM c",
            [["Bo"], ["Cy"], []],
        ),
        ("SELECT VALUE (SELECT c.size AS s).s FROM c", [3, 2, 1]),
        ("SELECT VALUE (SELECT VALUE c.gone) ?? 'none' FROM c WHERE c.id = 'A'", ["none"]),
        # no FROM
        ("SELECT 1 AS one, 'x' AS two", [{"one": 1, "two": "x"}]),
        ("SELECT VALUE undefined", []),
        # DISTINCT
        ("SELECT DISTINCT VALUE p.kind FROM c JOIN k IN c.children JOIN p IN k.pets", ["cat", "dog"]),
        ("SELECT DISTINCT p.kind FROM c JOIN k IN c.children JOIN p IN k.pets", [{"kind": "cat"}, {"kind": "dog"}]),
        ("SELECT DISTINCT c.gone FROM c", [{}]),
        ("SELECT DISTINCT TOP 1 VALUE p.kind FROM c JOIN k IN c.children JOIN p IN k.pets", ["cat"]),
        # ORDER BY, TOP, OFFSET
        ("SELECT VALUE c.id FROM c ORDER BY c.size", ["C", "B", "A"]),
        ("SELECT VALUE c.id FROM c ORDER BY c.city", ["C", "A", "B"]),
        ("SELECT VALUE c.id FROM c ORDER BY c.city DESC", ["B", "A", "C"]),
        ("SELECT VALUE c.id FROM c ORDER BY c.gone DESC, c.size ASC", ["C", "B", "A"]),
        ("SELECT VALUE k.name FROM c JOIN k IN c.children ORDER BY k.age DESC", ["Bo", "Cy", "Ann"]),
        ("SELECT TOP 2 VALUE c.id FROM c ORDER BY c.size", ["C", "B"]),
        ("SELECT TOP 0 VALUE c.id FROM c", []),
        ("SELECT TOP 9 VALUE c.id FROM c", ["A", "B", "C"]),
        ("SELECT TOP @n VALUE c.id FROM c", ["A", "B"]),
        ("SELECT VALUE c.id FROM c OFFSET 1 LIMIT 1", ["B"]),
        ("SELECT VALUE c.id FROM c ORDER BY c.size OFFSET @n LIMIT @n", ["A"]),
        ("SELECT VALUE c.id FROM c OFFSET 5 LIMIT 5", []),
    ],
)
def test_select(ask, text, expected):
    parameters = [{"name": "@n", "value": 2}]
    if expected is None:
        with pytest.raises(QueryError):
            ask(text, FAMILIES, parameters)
    else:
        assert ask(text, FAMILIES, parameters) == expected


def test_distinct_takes_1_and_1_0_for_one_value_and_true_for_another(ask):
    documents = [
        {"v": value} for value in (1, 1.0, True, "1", [1], [1.0], [True], {"a": 1, "b": 2}, {"b": 2.0, "a": 1.0})
    ]
    rows = ask("SELECT DISTINCT VALUE c.v FROM c", documents)
    assert [repr(row) for row in rows] == ["1", "True", "'1'", "[1]", "[True]", "{'a': 1, 'b': 2}"]


def test_distinct_comes_before_the_window_and_after_the_order(ask):
    documents = [{"pk": n, "value": n // 3} for n in (9, 3, 0, 6, 1, 4, 7, 2, 5, 8)]
    text = 'SELECT DISTINCT c["value"] FROM c ORDER BY c.pk OFFSET {} LIMIT {}'
    assert ask(text.format(0, 2), documents) == [{"value": 0}, {"value": 1}]
    assert ask(text.format(2, 2), documents) == [{"value": 2}, {"value": 3}]
    assert ask(text.format(4, 3), documents) == []


def test_equal_keys_keep_the_order_of_the_documents_both_ways(ask):
    documents = [{"id": str(n), "k": n % 2} for n in range(6)]
    assert ask("SELECT VALUE c.id FROM c ORDER BY c.k", documents) == ["0", "2", "4", "1", "3", "5"]
    assert ask("SELECT VALUE c.id FROM c ORDER BY c.k DESC", documents) == ["1", "3", "5", "0", "2", "4"]


def test_a_scalar_subquery_of_two_rows_is_an_error(ask):
    with pytest.raises(QueryError, match="cardinality"):
        ask("SELECT VALUE (SELECT VALUE k FROM k IN c.children) FROM c", FAMILIES)


@pytest.mark.parametrize("value", [-1, 1.5, "1", None, True])
@pytest.mark.parametrize(
    "text", ["SELECT TOP @n * FROM c", "SELECT * FROM c OFFSET 0 LIMIT @n", "SELECT * FROM c OFFSET @n LIMIT 1"]
)
def test_a_window_needs_whole_numbers(text, value):
    with pytest.raises(QueryError, match="whole number"):
        compile_query(text).bind({"@n": value})


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("SELECT * FROM c", True),
        ("SELECT c.a FROM c JOIN t IN c.tags WHERE t = 1", True),
        ("SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.tags) FROM c", True),
        ("SELECT * FROM c ORDER BY c.a", False),
        ("SELECT TOP 1 * FROM c", False),
        ("SELECT * FROM c OFFSET 0 LIMIT 1", False),
        ("SELECT DISTINCT c.a FROM c", False),
        ("SELECT COUNT(1) FROM c", False),
        ("SELECT c.a FROM c GROUP BY c.a", False),
        ("SELECT VALUE s FROM (SELECT VALUE COUNT(1) FROM c) s", False),
        ("SELECT 1", False),
    ],
)
def test_plain_queries_can_be_paged_by_document(text, plain):
    assert compile_query(text).is_plain is plain


def test_a_plain_query_reads_no_further_than_asked():
    read = []

    def documents():
        for n in range(100):
            read.append(n)
            yield {"n": n}

    rows = compile_query("SELECT VALUE c.n FROM c WHERE c.n % 2 = 1").bind().rows(documents())
    assert [next(rows), next(rows)] == [1, 3]
    assert read == [0, 1, 2, 3]


def test_what_a_query_tells_about_itself():
    query = compile_query("SELECT DISTINCT TOP 5 VALUE c.a FROM c ORDER BY c.a")
    assert (query.is_value, query.has_distinct, query.has_order_by, query.has_top) == (True, True, True, True)
    assert (query.has_aggregate, query.has_group_by, query.has_offset_limit, query.has_join) == (
        False,
        False,
        False,
        False,
    )
    bound = compile_query("SELECT * FROM c OFFSET @o LIMIT 3").bind({"@o": 2})
    assert (bound.top, bound.offset, bound.limit) == (None, 2, 3)


def test_the_same_text_is_compiled_once():
    assert compile_query("SELECT * FROM c") is compile_query("SELECT * FROM c")


def test_documents_come_back_untouched(ask):
    document = {"id": "1", "n": 2**60 + 1, "f": 1.0, "deep": {"list": [1]}}
    (row,) = ask("SELECT * FROM c", [document])
    assert row is document
    assert repr(row["n"]) == "1152921504606846977"
