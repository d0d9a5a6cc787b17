"""Long, deep and hostile queries: answered or refused, in a time that does not grow out of hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from projections.emulator.query import QueryError, compile_query

GENEROUS = 8.0  # seconds of work, whatever else the machine does; the usual is a fraction of one


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def test_a_read_of_a_thousand_items_by_id_and_hierarchical_key():
    """What `read_items` sends for a container with two key levels."""
    count = 1000
    terms = (f"( c.id = @param_id{n} AND c.tenant = @param_pk{n}0 AND c.user = @param_pk{n}1 )" for n in range(count))
    text = f"SELECT * FROM c WHERE ( {' OR '.join(terms)} )"
    parameters = []
    for n in range(count):
        values = {f"@param_id{n}": f"i{n}", f"@param_pk{n}0": "t", f"@param_pk{n}1": n % 7}
        parameters += [{"name": name, "value": value} for name, value in values.items()]
    hits = [{"id": f"i{n}", "tenant": "t", "user": n % 7} for n in range(count)]
    misses = [document | {"user": 8} for document in hits]

    def read() -> tuple[Any, ...]:
        bound = compile_query(text).bind(parameters)
        return bound.points(), sum(map(bound.matches, hits)), sum(map(bound.matches, misses))

    (points, hit, missed), seconds = timed(read)
    assert (len(points), hit, missed) == (count, count, 0)
    assert points[8] == {("id",): "i8", ("tenant",): "t", ("user",): 1}
    assert seconds < GENEROUS


def test_a_list_of_a_thousand_ids():
    names = [f"@param_id{n}" for n in range(1000)]
    text = f"SELECT * FROM c WHERE c.pk = @pk AND c.id IN ({', '.join(names)})"
    documents = [{"id": str(n), "pk": "p"} for n in range(2000)]

    def read() -> tuple[Any, ...]:
        bound = compile_query(text).bind({name: str(n) for n, name in enumerate(names)} | {"@pk": "p"})
        return len(bound.points() or ()), len(list(bound.rows(documents)))

    result, seconds = timed(read)
    assert result == (1000, 1000)
    assert seconds < GENEROUS


def test_a_scan_of_a_hundred_thousand_documents():
    documents = [{"id": str(n), "n": n, "kind": f"k{n % 10}"} for n in range(100_000)]
    bound = compile_query("SELECT VALUE c.n FROM c WHERE c.kind = @kind AND c.n >= 50000").bind({"@kind": "k3"})
    rows, seconds = timed(lambda: list(bound.rows(documents)))
    assert len(rows) == 5000
    assert seconds < GENEROUS


@pytest.mark.parametrize(
    "text",
    [
        "SELECT VALUE " + "(" * 10_000 + "1" + ")" * 10_000,
        "SELECT VALUE " + "(" * 10_000,
        "SELECT VALUE " + "[" * 1000 + "]" * 1000,
        "SELECT VALUE " + "{a: " * 1000 + "1" + "}" * 1000,
        "SELECT VALUE " + "LOWER(" * 1000 + "'a'" + ")" * 1000,
        "SELECT VALUE " + "(SELECT VALUE " * 1000 + "1" + ")" * 1000,
        "SELECT VALUE " + "~ " * 5000 + "1 FROM c",
        "SELECT VALUE " + "c.x = " * 5000 + "1 FROM c",
        "SELECT VALUE " + "c.x ? " * 3000 + "1" + " : 2" * 3000 + " FROM c",
        "SELECT VALUE " + "c.x ? 1 : " * 3000 + "2 FROM c",
        "SELECT VALUE '" + "x" * 600_000 + "'",
    ],
)
def test_what_is_too_deep_or_too_long_is_refused(text):
    with pytest.raises(QueryError, match=r"nested|longer"):
        list(compile_query(text).bind().rows([{"x": 1}]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT VALUE " + "(" * 90 + "1" + ")" * 90, [1]),
        ("SELECT VALUE " + "NOT " * 5001 + "true", [False]),
        ("SELECT VALUE 'a'" + " || 'b'" * 5000, ["a" + "b" * 5000]),
        ("SELECT VALUE 0" + " + 1" * 5000, [5000]),
        ("SELECT VALUE " + "c.x AND " * 5000 + "true FROM c", [True]),
        ("SELECT VALUE " + "c.y OR " * 5000 + "c.x FROM c", [True]),
        ("SELECT VALUE " + "c.y ?? " * 5000 + "7 FROM c", [7]),
        ("SELECT VALUE c" + ".y" * 5000 + " ?? 'none' FROM c", ["none"]),
        ("SELECT VALUE [" + "1, " * 5000 + "1][5000]", [1]),
    ],
)
def test_what_is_only_long_is_answered(ask, text, expected):
    assert ask(text, [{"x": True}]) == expected


@pytest.mark.parametrize("pattern", ["%a" * 500 + "%b", "%" * 2000 + "b", "_%" * 500 + "b", "%a_" * 300 + "b"])
def test_like_does_not_run_away(ask, pattern):
    rows, seconds = timed(
        lambda: ask("SELECT VALUE @text LIKE @pattern", [{}], {"@text": "a" * 20_000, "@pattern": pattern})
    )
    assert rows == [False]
    assert seconds < GENEROUS


@pytest.mark.parametrize("pattern", [r"^(\w+)@(\w+)\.com$", "a*b", "a*a*b", r"\d{3}-\d{4}"])
def test_a_regular_expression_that_is_let_through_comes_to_an_end(pattern):
    for length in (10, 100, 1000, 10_000):
        bound = compile_query("SELECT VALUE RegexMatch(@text, @pattern)").bind(
            {"@text": "a" * length, "@pattern": pattern}
        )
        try:
            rows, seconds = timed(lambda bound=bound: list(bound.rows([{}])))
        except QueryError:
            continue
        assert rows == [False]
        assert seconds < GENEROUS


def test_bindings_of_one_query_do_not_mix():
    query = compile_query("SELECT VALUE c.n FROM c WHERE c.n = @n")
    one, two = query.bind({"@n": 1}), query.bind({"@n": 2})
    documents = [{"n": 1}, {"n": 2}]
    assert list(one.rows(documents)) == [1]
    assert list(two.rows(documents)) == [2]
    assert list(one.rows(documents)) == [1]
