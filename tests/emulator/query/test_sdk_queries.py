"""The queries that the Python client sends by itself, and those of its own test-suite."""

from __future__ import annotations

import pytest

DOCUMENTS = [
    {
        "id": str(n),
        "pk": f"pk-{n % 3}",
        "key": n + 1,
        "field": n,
        "value": n // 3,
        "amount": 10 * n,
        "spam": f"eggs{n}",
        "spam2": "eggs3" if n == 3 else n,
        "cnt": n,
        "number": 1.1 * n,
        "boolVar": n % 2 == 0,
        "name": "sample document",
        "resource": f"dbs/x/colls/{n}/",
        "tags": [{"name": "python", "n": n}] if n == 4 else [],
        "_ts": 100 - n,
    }
    for n in range(6)
]
PARAMETERS = {
    "@id": "2",
    "@n": 2,
    "@cnt": 3,
    "@pk": "pk-1",
    "@v": 1,
    "@link": "dbs/x/colls/5/",
    "@param_id0": "1",
    "@param_id1": "5",
    "@param_pk00": "pk-1",
    "@param_pk10": "pk-2",
    "@lookupVersion": "none",
}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        # the client's own
        ("SELECT * FROM root r WHERE r.resource=@link", "5"),
        ('SELECT * from root where root.resource = "dbs/x/colls/3/"', "3"),
        ("SELECT * FROM c WHERE c.id IN ( @param_id0, @param_id1 )", "15"),
        ("SELECT * FROM c WHERE c.pk = @pk AND c.id IN (@param_id0, @param_id1)", "1"),
        (
            "SELECT * FROM c WHERE ( ( c.id = @param_id0 AND c.pk = @param_pk00 ) "
            "OR ( c.id = @param_id1 AND c.pk = @param_pk10 ) )",
            "15",
        ),
        ("SELECT * FROM c WHERE ( ( c.id = @param_id0 AND IS_DEFINED(c.gone) = false ) )", "1"),
        ("SELECT * FROM c WHERE false", ""),
        # its suite's
        ("SELECT * FROM root r WHERE r.id=@id", "2"),
        ("SELECT * FROM root r WHERE r.id='4'", "4"),
        ('SELECT * FROM root r WHERE r.id="database non-existing"', ""),
        ("SELECT * FROM root r WHERE r.id != @id", "01345"),
        ("SELECT * FROM root r where r.cnt > @cnt order by r.spam", "45"),
        ("SELECT * FROM root r order by r.spam DESC", "543210"),
        ("SELECT * FROM root r order by r.spam2 DESC", "354210"),
        ("SELECT * FROM root r order by r.boolVar", "135024"),
        ("SELECT * FROM root r order by r.number", "012345"),
        ("SELECT top 2 * FROM root r order by r.spam", "01"),
        ("SELECT top @n * FROM root r", "01"),
        ("SELECT * FROM c WHERE c.attr1='' order by c.attr1", ""),
        ("SELECT * from c ORDER BY c._ts", "543210"),
        ("SELECT * FROM c WHERE c.pk = @pk ORDER BY c['value']", "14"),
        ("SELECT * FROM c WHERE c[\"value\"] >= @v AND c.id != '4'", "35"),
        ("SELECT * from c ORDER BY c.pk OFFSET 4 LIMIT 10", "25"),
        ("SELECT * from c ORDER BY c.pk OFFSET 100 LIMIT 1", ""),
        ("Select * from c where c.some_value='2'", ""),
        ("select * from c where c.pk='1' or c.pk='2'", ""),
        ('SELECT * FROM c WHERE ARRAY_CONTAINS(c.tags, {"name": "python"}, true)', "4"),
        ('SELECT * FROM c WHERE CONTAINS(c.name, "test")', ""),
        ('SELECT * FROM c WHERE ENDSWITH(c.name, "DOCUMENT", true)', "012345"),
        ("SELECT * FROM c WHERE c.cnt < GetCurrentTicks()", "012345"),
        ("SELECT * FROM c WHERE c.name < GetCurrentDateTime()", ""),
        ("SELECT * FROM root WHERE root.number % 2 = 0 ORDER BY root.cnt DESC", "0"),
    ],
)
def test_documents_found(ask, text, ids):
    assert "".join(row["id"] for row in ask(text, DOCUMENTS, PARAMETERS)) == ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT VALUE AVG(r.key) FROM r WHERE IS_NUMBER(r.key) ORDER BY r.key", [3.5]),
        ("SELECT VALUE AVG(r.pk) FROM r WHERE true", [None]),
        ("SELECT VALUE COUNT(r.key) FROM r WHERE true", [6]),
        ("SELECT VALUE SUM(r.key) FROM r WHERE true ORDER BY r.key", [21]),
        ("SELECT VALUE SUM(c.amount) FROM c WHERE IS_NUMBER(c.amount)", [150]),
        ('SELECT VALUE c["value"] > 0 FROM c WHERE IS_DEFINED(c["value"])', [False] * 3 + [True] * 3),
        ("Select top 10 value count(c.id) from c", [6]),
        ("Select value max(c.version) FROM c where c.isComplete = true and c.lookupVersion = @lookupVersion", [None]),
        ('SELECT DISTINCT c["value"] from c ORDER BY c.pk OFFSET 0 LIMIT 2', [{"value": 0}, {"value": 1}]),
        ("SELECT distinct c.name from c", [{"name": "sample document"}]),
        ("SELECT distinct c.gone from c", [{}]),
        ("SELECT distinct value c.gone from c", []),
        (
            "SELECT TOP 2 [root.cnt,root.boolVar] FROM root ORDER BY root.boolVar ASC,root.cnt DESC",
            [{"$1": [5, False]}, {"$1": [3, False]}],
        ),
        ("SELECT COUNT(1) + SUM(c) FROM c", [{}]),
        ("SELECT VALUE LOWER(c.spam) FROM c WHERE c.id = '1'", ["eggs1"]),
    ],
)
def test_values_computed(ask, text, expected):
    assert ask(text, DOCUMENTS, PARAMETERS) == expected


def test_the_spatial_query_of_the_suite(ask):
    places = [
        {"id": "loc1", "Location": {"type": "Point", "coordinates": [20.0, 20.0]}},
        {"id": "loc2", "Location": {"type": "Point", "coordinates": [100.0, 100.0]}},
    ]
    point = "{type: 'Point', coordinates: [20.1, 20]}"
    rows = ask(f"SELECT * FROM root WHERE (ST_DISTANCE(root.Location, {point}) < 20000)", places)
    assert [row["id"] for row in rows] == ["loc1"]


def test_distinct_keeps_the_first_of_equal_rows(ask):
    payloads = [
        {"f1": 1, "f2": "value", "f3": 100000000000000000, "f4": [1, 2, "3"], "f5": {"f6": {"f7": 2}}},
        {"f2": "'value", "f4": [1.0, 2, "3"], "f5": {"f6": {"f7": 2.0}}, "f1": 1.0, "f3": 100000000000000000.00},
        {"f3": 100000000000000000.0, "f5": {"f6": {"f7": 2}}, "f2": "'value", "f1": 1, "f4": [1, 2.0, "3"]},
    ]
    assert ask("Select distinct value c.f1 from c", payloads) == [1]
    assert ask("Select distinct value c.f2 from c order by c.f2", payloads) == ["'value", "value"]
    assert ask("Select distinct value c.f4 from c", payloads) == [[1, 2, "3"]]
    assert ask("Select distinct value c.f5.f6 from c", payloads) == [{"f7": 2}]
    pairs = [{"f1": 1, "f2": "value"}, {"f1": 1, "f2": "'value"}]
    assert ask("Select distinct c.f1, c.f2 from c", payloads) == pairs
    assert ask("Select distinct c.f1, c.f2 from c order by c.f1", payloads) == pairs
