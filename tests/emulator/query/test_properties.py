"""Rules that hold for any condition and any document; hypothesis makes them up."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from projections.emulator.query import UNDEFINED, compile_query
from projections.emulator.query.parse import parse
from projections.emulator.query.render import render
from projections.emulator.query.values import identity, sort_key

KEYS = ["id", "pk", "n"]
CONSTANTS = ["null", "true", "false", "1", "1.0", "0", "'a'", "'1'", "[1]", "{}", "undefined"]

scalars = st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, "", "a", "1"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
)
documents = st.lists(st.dictionaries(st.sampled_from(KEYS), values), max_size=6)

paths = st.sampled_from([f"c.{key}" for key in KEYS] + ["c.n.a", "c.n[0]"])
operands = paths | st.sampled_from(CONSTANTS)
comparisons = st.builds("{} {} {}".format, paths, st.sampled_from(["=", "=", "=", "!=", "<", ">="]), operands)
lists = st.builds(
    lambda path, items: f"{path} IN ({', '.join(items)})", paths, st.lists(operands, min_size=1, max_size=3)
)
tests = st.builds("{}({})".format, st.sampled_from(["IS_DEFINED", "IS_NUMBER", "IS_NULL"]), paths)
absences = st.builds("IS_DEFINED({}) = false".format, paths)
conditions = st.recursive(
    comparisons | lists | tests | absences | operands,
    lambda inner: (
        st.builds(
            lambda operator, terms: "(" + f" {operator} ".join(terms) + ")",
            st.sampled_from(["AND", "OR"]),
            st.lists(inner, min_size=2, max_size=4),
        )
        | st.builds("(NOT {})".format, inner)
    ),
    max_leaves=8,
)


def ids_where(condition, candidates):
    """The places of the documents that pass."""
    bound = compile_query(f"SELECT * FROM c WHERE {condition}").bind()
    return [place for place, document in enumerate(candidates) if bound.matches(document)]


@settings(deadline=None, max_examples=150)
@given(conditions, documents)
def test_where_keeps_exactly_what_select_value_calls_true(condition, candidates):
    wrapped = f"SELECT VALUE [{condition}][0] FROM c"  # as a value, so not compiled as a filter
    truths = [next(compile_query(wrapped).bind().rows([document]), None) is True for document in candidates]
    assert ids_where(condition, candidates) == [place for place, truth in enumerate(truths) if truth]


@settings(deadline=None, max_examples=150)
@given(conditions, documents)
def test_every_match_fits_a_point(condition, candidates):
    points = compile_query(f"SELECT * FROM c WHERE {condition}").bind().points()
    for place in ids_where(condition, candidates):
        assert points is None or any(fits(point, candidates[place]) for point in points)


def fits(point, document):
    """Whether the document has the point's value at each of its paths."""

    def at(path):
        value = document
        for key in path:
            value = value.get(key, UNDEFINED) if isinstance(value, dict) else UNDEFINED
        return value

    return all(identity(at(path)) == identity(value) for path, value in point.items())


@settings(deadline=None)
@given(conditions)
def test_a_condition_written_out_reads_back_the_same(condition):
    tree = parse(f"SELECT VALUE {condition} FROM c WHERE {condition}")
    assert parse(render(tree)) == tree


@given(st.lists(values, max_size=5))
def test_order_and_equality_agree(several):
    ordered = sorted(several, key=sort_key)
    for left in ordered:
        for right in ordered:
            assert (identity(left) == identity(right)) == (sort_key(left) == sort_key(right))


@settings(deadline=None)
@given(documents, st.sampled_from(["COUNT", "SUM", "MIN", "MAX"]))
def test_the_order_of_documents_does_not_matter_to_an_aggregate(candidates, function):
    bound = compile_query(f"SELECT {function}(c.n) AS a FROM c").bind()
    assert list(map(identity, bound.rows(candidates))) == list(map(identity, bound.rows(candidates[::-1])))
