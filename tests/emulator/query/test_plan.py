"""Plans: what they say, and that running the rewritten query range by range and merging gives the same answer."""

from __future__ import annotations

import pytest

from projections.emulator.query import QueryError, query_plan
from projections.emulator.query.parse import parse
from projections.emulator.query.render import render

FILTER = "{documentdb-formattableorderbyquery-filter}"
QUIET = {
    "distinctType": "None",
    "top": None,
    "offset": None,
    "limit": None,
    "orderBy": [],
    "orderByExpressions": [],
    "groupByExpressions": [],
    "groupByAliases": [],
    "aggregates": [],
    "groupByAliasToAggregateType": {},
    "rewrittenQuery": "",
    "hasSelectValue": False,
    "dCountInfo": None,
    "hasNonStreamingOrderBy": False,
}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT c.id FROM c WHERE c.n > 1", {}),
        ("SELECT TOP 3 * FROM c", {"top": 3}),
        ("SELECT TOP @n * FROM c", {"top": 7}),
        ("SELECT DISTINCT c.n FROM c", {"distinctType": "Unordered"}),
        (
            "Select top 10 value count(c.id) from c",
            {
                "top": 10,
                "aggregates": ["Count"],
                "hasSelectValue": True,
                "rewrittenQuery": 'SELECT VALUE [{"item": COUNT(c.id)}] FROM c',
            },
        ),
        (
            "SELECT VALUE AVG(c.n) FROM c WHERE c.n > 1 ORDER BY c.n",
            {
                "orderBy": ["Ascending"],
                "orderByExpressions": ["c.n"],
                "aggregates": ["Average"],
                "hasSelectValue": True,
                "rewrittenQuery": 'SELECT VALUE [{"item": {"sum": SUM(c.n), "count": COUNT(c.n)}}] FROM c '
                "WHERE c.n > 1",
            },
        ),
        (
            "Select * from c order by c._ts offset 5 limit 10",
            {
                "offset": 5,
                "limit": 10,
                "orderBy": ["Ascending"],
                "orderByExpressions": ["c._ts"],
                "rewrittenQuery": 'SELECT c._rid, [{"item": c._ts}] AS orderByItems, c AS payload FROM c '
                f"WHERE {FILTER} ORDER BY c._ts ASC OFFSET 0 LIMIT 15",
            },
        ),
        (
            "SELECT TOP 2 c.id, c.n * 2 FROM root c WHERE c.n = 1 OR c.n = 2 ORDER BY c['value'] DESC, c.n",
            {
                "top": 2,
                "orderBy": ["Descending", "Ascending"],
                "orderByExpressions": ['c["value"]', "c.n"],
                "rewrittenQuery": 'SELECT TOP 2 c._rid, [{"item": c["value"]}, {"item": c.n}] AS orderByItems, '
                '{"id": c.id, "$1": c.n * 2} AS payload FROM root AS c '
                f'WHERE ((c.n = 1) OR (c.n = 2)) AND {FILTER} ORDER BY c["value"] DESC, c.n ASC',
            },
        ),
        (
            "Select distinct value c.id from c order by c.id",
            {
                "distinctType": "Ordered",
                "orderBy": ["Ascending"],
                "orderByExpressions": ["c.id"],
                "hasSelectValue": True,
                "rewrittenQuery": 'SELECT c._rid, [{"item": c.id}] AS orderByItems, c.id AS payload FROM c '
                f"WHERE {FILTER} ORDER BY c.id ASC",
            },
        ),
        (
            "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k",
            {
                "groupByExpressions": ["c.k"],
                "groupByAliases": ["k", "n"],
                "groupByAliasToAggregateType": {"k": None, "n": "Count"},
                "rewrittenQuery": 'SELECT [{"item": c.k}] AS groupByItems, '
                '{"k": c.k, "n": {"item": COUNT(1)}} AS payload '
                "FROM c GROUP BY c.k",
            },
        ),
        (
            "SELECT * FROM c OFFSET 2 LIMIT 3",
            {"offset": 2, "limit": 3, "rewrittenQuery": "SELECT * FROM c OFFSET 0 LIMIT 5"},
        ),
    ],
)
def test_plan(text, said):
    plan = query_plan(text, [{"name": "@n", "value": 7}], ["/pk"])
    assert plan["partitionedQueryExecutionInfoVersion"] == 2
    assert plan["queryRanges"] == [{"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}]
    assert plan["queryInfo"] == QUIET | said


def test_rows_equal_in_part_of_their_order_are_not_ordered():
    info = query_plan('SELECT DISTINCT c["value"] FROM c ORDER BY c.pk')["queryInfo"]
    assert info["distinctType"] == "Unordered"


def test_a_missing_sort_value_is_an_empty_item(ask):
    rewritten = query_plan("SELECT c.id FROM c ORDER BY c.gone")["queryInfo"]["rewrittenQuery"]
    assert ask(rewritten, [{"id": "1", "_rid": "r"}]) == [{"_rid": "r", "orderByItems": [{}], "payload": {"id": "1"}}]


def test_the_filter_left_in_place_is_true_and_clients_may_put_another(ask):
    rewritten = query_plan("SELECT VALUE c.n FROM c WHERE c.n > 0 ORDER BY c.n")["queryInfo"]["rewrittenQuery"]
    documents = [{"n": n} for n in (2, 0, 1)]
    assert [row["payload"] for row in ask(rewritten, documents)] == [1, 2]
    assert [row["payload"] for row in ask(rewritten.replace(FILTER, "(c.n > 1)"), documents)] == [2]


@pytest.mark.parametrize(
    ("function", "merge", "expected"),
    [
        ("COUNT", sum, 4),
        ("SUM", sum, 10),
        ("MIN", min, 1),
        ("MAX", max, 4),
        ("AVG", lambda parts: sum(part["sum"] for part in parts) / sum(part["count"] for part in parts), 2.5),
    ],
)
def test_partial_aggregates_merge_to_the_whole(ask, function, merge, expected):
    text = f"SELECT VALUE {function}(c.n) FROM c"
    ranges = [[{"n": 1}, {"n": 4}], [{"n": 2}, {}, {"n": 3}]]
    rewritten = query_plan(text)["queryInfo"]["rewrittenQuery"]
    parts = [ask(rewritten, documents)[0][0]["item"] for documents in ranges]
    assert merge(parts) == expected
    assert ask(text, [document for documents in ranges for document in documents]) == [expected]


def test_the_partial_of_a_range_without_values_says_nothing(ask):
    assert ask(query_plan("SELECT VALUE MAX(c.n) FROM c")["queryInfo"]["rewrittenQuery"], []) == [[{}]]


@pytest.mark.parametrize("text", ["SELECT * FORM c", "SELECT TOP @n * FROM c", "SELECT VALUE 1 ORDER BY 1"])
def test_what_cannot_be_planned_is_refused(text):
    with pytest.raises(QueryError):
        query_plan(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM c",
        'SELECT DISTINCT TOP 2 c.a AS x, c["b c"].d[0] FROM root AS c JOIN t IN c.tags JOIN (SELECT VALUE 1) AS u',
        'SELECT VALUE {"a": [1, \'x\', null, true, undefined]} FROM t IN c.x["y"]',
        "SELECT VALUE 1 FROM c WHERE NOT c.a = 1 AND (c.b != 2 OR -c.x + 1 - 2 * 3 > @p) AND ~c.y & 1 = 0",
        "SELECT VALUE 1 FROM c WHERE c.a IN (1, 2) AND c.b NOT BETWEEN 1 AND 2 AND c.c LIKE 'x!%' ESCAPE '!'",
        "SELECT VALUE a ? b ? 1 : 2 : c ?? d ?? 3 FROM a JOIN a.b JOIN a.c JOIN a.d",
        "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k, LOWER(c.j) ORDER BY c.k DESC, c.j ASC OFFSET 1 LIMIT @n",
        "SELECT VALUE EXISTS(SELECT VALUE 1) AND ARRAY(SELECT VALUE t FROM t IN c.x)[0] = (SELECT VALUE 'é\"') FROM c",
    ],
)
def test_a_tree_written_out_reads_back_the_same(text):
    tree = parse(text)
    assert parse(render(tree)) == tree
