"""What WHERE pins, so that a server can look documents up instead of reading all of them."""

from __future__ import annotations

import pytest

from projections.emulator.query import UNDEFINED, compile_query

ID, PK, DEEP = ("id",), ("pk",), ("a", "b")
PARAMETERS = {"@id": "1", "@pk": "p", "@n": 5, "@list": ["x"]}


@pytest.mark.parametrize(
    ("where", "points"),
    [
        ("c.id = '1'", [{ID: "1"}]),
        ("'1' = c.id", [{ID: "1"}]),
        ("c.id = @id", [{ID: "1"}]),
        ('c["id"] = @id', [{ID: "1"}]),
        ("c.a.b = 2", [{DEEP: 2}]),
        ("c.pk = null", [{PK: None}]),
        ("c.pk = true", [{PK: True}]),
        ("c.id = @id AND c.pk = @pk", [{ID: "1", PK: "p"}]),
        ("(c.id = @id) AND ((c.pk = @pk))", [{ID: "1", PK: "p"}]),
        ("c.id = '1' OR c.id = '2'", [{ID: "1"}, {ID: "2"}]),
        ("c.id IN ('1', '2', '1')", [{ID: "1"}, {ID: "2"}]),
        ("c.pk = @pk AND c.id IN ('1', @n)", [{PK: "p", ID: "1"}, {PK: "p", ID: 5}]),
        (
            "( ( c.id = '1' AND c.pk = 'a' ) OR ( c.id = '2' AND c.pk = 'b' ) )",
            [{ID: "1", PK: "a"}, {ID: "2", PK: "b"}],
        ),
        (
            "((c.id = '1' OR c.id = '2') AND c.pk = 'a') OR c.id = '3'",
            [{ID: "1", PK: "a"}, {ID: "2", PK: "a"}, {ID: "3"}],
        ),
        # absent keys
        ("IS_DEFINED(c.pk) = false", [{PK: UNDEFINED}]),
        ("NOT IS_DEFINED(c.pk)", [{PK: UNDEFINED}]),
        ("( c.id = '1' AND IS_DEFINED(c.pk) = false )", [{ID: "1", PK: UNDEFINED}]),
        # further conditions narrow less, never more
        ("c.id = '1' AND c.n > 3", [{ID: "1"}]),
        ("c.n > 3 AND CONTAINS(c.x, 'y') AND c.id = '1'", [{ID: "1"}]),
        ("c.id = '1' AND c.pk != 'z'", [{ID: "1"}]),
        ("c.id = '1' AND (c.n = 1 OR c.n > 5)", [{ID: "1"}]),
        # contradictions fit nothing
        ("c.id = '1' AND c.id = '2'", []),
        ("c.id = '1' AND c.id IN ('1', '2')", [{ID: "1"}]),
        ("c.pk = 1 AND c.pk = true", []),
        ("c.pk = 1 AND c.pk = 1.0", [{PK: 1}]),
        # nothing is pinned
        ("c.n > 3", None),
        ("c.id = '1' OR c.n > 3", None),
        ("NOT (c.id = '1')", None),
        ("c.id != '1'", None),
        ("c.id = c.pk", None),
        ("c.id = LOWER('A')", None),
        ("c.id IN ('1', c.pk)", None),
        ("c.id NOT IN ('1')", None),
        ("c.list[0] = 1", None),
        ("c.id = @list", None),
        ("c.id = undefined", None),
        ("IS_DEFINED(c.pk) = true", None),
        ("IS_DEFINED(c.pk)", None),
        ("c.id LIKE '1'", None),
        ("true", None),
    ],
)
def test_points(where, points):
    bound = compile_query(f"SELECT * FROM c WHERE {where}").bind(PARAMETERS)
    assert bound.points() == points


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("SELECT * FROM c", None),
        ("SELECT * FROM root r WHERE r.id = '1'", [{ID: "1"}]),
        ("SELECT * FROM root WHERE root.id = '1'", [{ID: "1"}]),
        ("FROM c WHERE c.id = '1'", [{ID: "1"}]),
        ("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.id = '1' AND t = 'x'", [{ID: "1"}]),
        ("SELECT VALUE t FROM c JOIN t IN c.tags WHERE t.id = '1'", None),
        # here the name is not the document
        ("SELECT * FROM c IN c.tags WHERE c.id = '1'", None),
        ("SELECT * FROM c.child WHERE child.id = '1'", None),
        ("SELECT * FROM (SELECT VALUE c.child FROM c) c WHERE c.id = '1'", None),
        ("SELECT 1", None),
    ],
)
def test_points_are_about_the_document(text, points):
    assert compile_query(text).bind().points() == points


def test_true_and_1_stay_two_values():
    (point,) = compile_query("SELECT * FROM c WHERE c.pk = true").bind().points()
    assert point[PK] is True


def test_too_many_combinations_narrow_by_the_shorter_list():
    ids, keys = (", ".join(str(n) for n in range(count)) for count in (300, 200))
    points = compile_query(f"SELECT * FROM c WHERE c.id IN ({ids}) AND c.pk IN ({keys})").bind().points()
    assert points == [{PK: n} for n in range(200)]
