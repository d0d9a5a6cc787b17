"""Native definitions: what they are read as, what is refused, and which declarations one could stand in for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections import Custom, Index, SoftDelete, Source, Target, Throughput, field, gsi
from projections.declare import Projection
from projections.entries import Rules, State, wanted
from projections.errors import CatalogError
from projections.gsi.language import parse, render
from projections.gsi.obstacles import NEUTRAL, OBSTACLES
from projections.gsi.tradeoffs import GAINS, losses
from projections.identity import Identity
from projections.keys import UNDEFINED, Key
from projections.version import Version

SOURCE = Source(container="orders", key="/customerId")


def declared(**fields: Any) -> Index:
    return Index(**{"name": "by-email", "source": SOURCE, "key": "/email", **fields})


# reading and writing


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("SELECT * FROM c", None),
        ("select  *\nfrom  c", None),
        ("SELECT c.customerId, c.b.c FROM c", ("/customerId", "/b/c")),
        ("SELECT o.id,o.email FROM o", ("/id", "/email")),
        ('SELECT c["order"], c["first name"].x FROM c', ("/order", "/first name/x")),
        ("SELECT c.orders, c.inner, c.offset FROM c", ("/orders", "/inner", "/offset")),
    ],
)
def test_a_definition_is_read(text: str, paths: tuple[str, ...] | None) -> None:
    assert parse(text) == paths


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT c.a FROM c WHERE c.a = 1", "no WHERE"),
        ("SELECT c.a AS b FROM c", "renames nothing"),
        ("SELECT c.a b FROM c", "renames nothing"),
        ("SELECT VALUE c.a FROM c", "no SELECT VALUE"),
        ("SELECT COUNT(1) FROM c", "no functions"),
        ("SELECT LOWER(c.a) FROM c", "no functions"),
        ("SELECT udf.f(c.a) FROM c", "no functions"),
        ("SELECT ARRAY(SELECT 1) FROM c", "no functions and no subqueries"),
        ("SELECT c.a FROM (SELECT * FROM c)", "no functions and no subqueries"),
        ("SELECT c.a FROM c GROUP BY c.a", "no GROUP BY"),
        ("SELECT c.a FROM c ORDER BY c.a", "no ORDER BY"),
        ("SELECT c.a FROM c OFFSET 1 LIMIT 2", "no OFFSET LIMIT"),
        ("SELECT DISTINCT c.a FROM c", "no DISTINCT"),
        ("SELECT TOP 3 c.a FROM c", "no TOP"),
        ("SELECT c.a FROM c JOIN t IN c.tags", "take arrays apart"),
        ("SELECT t.a FROM t IN c.tags", "take arrays apart"),
        ("SELECT c.tags[0] FROM c", "no elements of arrays"),
        ("SELECT 1 FROM c", "no constants"),
        ('SELECT "x" FROM c', "no constants"),
        ("SELECT c.a || c.b FROM c", "no expressions"),
        ("SELECT {'a': c.a} FROM c", "no expressions"),
        ("SELECT @p FROM c", "no expressions"),
        ("SELECT c.a FROM c.items", "not a part of them"),
        ("SELECT x.a FROM c", "is of x"),
        ("SELECT c.order FROM c", '["order"]'),
        ("SELECT c FROM c", "near FROM"),
        ("SELECT c.a", "too early"),
        ("", "too early"),
        ("DELETE FROM c", "begins with SELECT"),
        ("SELECT c.é FROM c", "column 10"),
        ("SELECT c.a.x, c.b.x FROM c", "both come out as x"),
        ("SELECT c.customer.id FROM c", "gives itself"),
        ("SELECT c._ts FROM c", "store's own"),
        ('SELECT c["a/b"] FROM c', "cannot be written as a path"),
    ],
)
def test_what_the_service_refuses_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(CatalogError) as raised:
        parse(text)
    assert says in raised.value.message
    assert raised.value.hint


NAMES = st.text(st.characters(exclude_characters='/"', exclude_categories=("Cs",)), min_size=1, max_size=8).filter(
    lambda name: name not in ("id", "_id") and not name.startswith("_")
)


@given(st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=4, unique_by=lambda names: names[-1]))
def test_every_path_can_be_written_and_is_read_again(names: list[list[str]]) -> None:
    paths = tuple("/" + "/".join(each) for each in names)
    assert parse(render(paths)) == paths


# an Index from a definition, and back


def test_an_index_from_a_definition_and_back() -> None:
    text = "SELECT c.id, c.customerId, c.ship.city FROM c"
    made = gsi.index(text, name="by-city", source=SOURCE, key="/city")
    assert (made.include, made.key.paths) == (("/id", "/customerId", "/ship/city"), ("/ship/city",))
    assert gsi.definition(made) == text
    assert gsi.native_key(made) == ("/city",)
    everything = gsi.index("SELECT * FROM c", name="all", source=SOURCE, key=("/ship/city", "/email"), version=2)
    assert (everything.include, everything.version) == (None, 2)
    assert gsi.definition(everything) == "SELECT * FROM c"
    assert gsi.native_key(everything) == ("/ship/city", "/email")


def test_the_key_is_selected_even_where_it_is_not_included() -> None:
    assert gsi.definition(declared(include=("total",))) == "SELECT c.total, c.email FROM c"


def test_a_key_that_is_not_selected_is_refused() -> None:
    with pytest.raises(CatalogError, match="the key /email is not selected"):
        gsi.index("SELECT c.id FROM c", name="x", source=SOURCE, key="/email")


def state(**fields: Any) -> State:
    item = {"id": "1", "customerId": "c", "_etag": "e", "_ts": 1} | fields
    return State(Identity(Key.of("c"), "1"), Version.of(item, from_feed=False), item)


@pytest.mark.parametrize(("fields", "key"), [({"email": None}, None), ({}, UNDEFINED), ({"email": "a@b"}, "a@b")])
def test_items_without_the_key_have_entries_as_they_would_natively(fields: dict[str, Any], key: Any) -> None:
    made = gsi.index("SELECT c.id, c.email FROM c", name="x", source=SOURCE, key="/email")
    [entry] = wanted(Rules(made), state(**fields), 2.0).entries
    assert entry.place.key == Key.of(key)
    if key is None or key is UNDEFINED:
        assert wanted(Rules(declared()), state(**fields), 2.0).entries == ()
    skipping = gsi.index("SELECT * FROM c", name="x", source=SOURCE, key="/email", missing="skip", null="skip")
    assert len(wanted(Rules(skipping), state(**fields), 2.0).entries) == (key == "a@b")


# what stands against it


@pytest.mark.parametrize(
    ("fields", "feature"),
    [
        ({"where": field("/total") > 5}, "where"),
        ({"model": Source}, "model"),
        ({"exclude": ("notes",)}, "exclude"),
        ({"deletes": SoftDelete("/deleted")}, "deletes"),
        ({"ttl": "ignore"}, "ttl"),
        ({"each": "/lines"}, "each"),
        ({"target": Target(throughput=Throughput(manual=400))}, "target.throughput"),
        ({"target": Target(unique_keys=(("/no",),))}, "target.unique_keys"),
        ({"target": Target(database="elsewhere")}, "target.database"),
        ({"include": ("/a/x", "/b/x")}, "include"),
        ({"include": ("/customer/id",)}, "include"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_feature_that_a_native_index_lacks_is_named(fields: dict[str, Any], feature: str) -> None:
    [found] = gsi.obstacles(declared(**fields))
    assert found.feature == feature
    assert found.reason
    assert found.without
    with pytest.raises(CatalogError, match=f"{feature}: ") as raised:
        gsi.definition(declared(**fields))
    assert "gsi explain by-email" in str(raised.value.hint)


def test_all_of_them_are_named() -> None:
    found = gsi.obstacles(declared(where=field("/a") == 1, exclude=("b",), target=Target(unique_keys=(("/no",),))))
    assert [one.feature for one in found] == ["where", "exclude", "target.unique_keys"]


@pytest.mark.parametrize(
    "fields",
    [{}, {"key": ("/country", "/email")}, {"version": 3}, {"target": Target(throughput=Throughput(autoscale=4000))},
     {"missing": "deadletter"}, {"placement": "append_only", "strict": False}],
    ids=str,
)  # fmt: skip
def test_what_a_native_index_can_do(fields: dict[str, Any]) -> None:
    assert gsi.obstacles(declared(**fields)) == ()


def test_the_database_that_is_named_nowhere_is_the_catalogs() -> None:
    named = declared(source=Source(container="orders", key="/customerId", database="shop"))
    assert gsi.obstacles(named, "shop") == ()
    assert [one.feature for one in gsi.obstacles(named, "other")] == ["target.database"]


def test_other_kinds_of_projection_are_no_native_index() -> None:
    custom = Custom(name="x", source=SOURCE, key="/k", project=lambda item: [item])
    [found] = gsi.obstacles(custom)
    assert found.feature == "Custom"


def test_every_field_of_a_declaration_is_an_obstacle_or_none() -> None:
    """A field that is added has to be put on one side or the other."""
    fields = set(Index.model_fields) | set(Projection.model_fields)
    assert fields - OBSTACLES.keys() - NEUTRAL == set()
    assert set(OBSTACLES) <= fields
    assert OBSTACLES.keys().isdisjoint(NEUTRAL)


# trade-offs


def texts(projection: Index) -> str:
    return "\n".join(point.text for point in losses(projection))


def test_every_point_says_where_it_is_from() -> None:
    for point in (*GAINS, *losses(declared()), *losses(declared(include=("total", "/ship/city")))):
        assert point.source.startswith("https://")


def test_rules_for_items_without_the_key_would_be_lost() -> None:
    assert "missing='skip' and null='skip' would be gone" in texts(declared())
    assert "null='deadletter' would be gone" in texts(declared(missing="keep", null="deadletter"))
    assert "would be gone" not in texts(declared(missing="keep", null="keep"))


def test_what_entries_would_look_like() -> None:
    assert "is its _id" in texts(declared())
    assert 'include "id"' in texts(declared(include=("total",)))
    assert 'include "id"' not in texts(declared(include=("id", "total")))
    assert "/ship/city would come out flat" in texts(declared(include=("/ship/city",)))
