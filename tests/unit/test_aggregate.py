"""Aggregates: what may be declared, what an item contributes, and what the target has to be like."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from projections.aggregate import Aggregate
from projections.declare import Catalog, SoftDelete, Target
from projections.drift import differences
from projections.entries import Rules, Wanted, document, wanted
from projections.errors import CatalogError, ItemError
from projections.gsi.obstacles import obstacles
from projections.keys import Key
from projections.measures import MOST_TEXT, MOST_VALUES, Avg, Count, Distinct, Max, Min, Sum
from projections.provision import Layout, expiry_problems, target
from projections.store import Container, Description
from projections.strategies import Concat, HashSuffix, RandomSuffix, TimeBucket
from projections.totals import NOTHING, Change, Total, changed, combined, lost, moved
from projections.where import field
from tests.support import NOW, ORDERS, item, state


def aggregate(**fields: Any) -> Aggregate:
    return Aggregate(**{"name": "a", "source": ORDERS, "key": "/status", "measures": {"orders": Count()}, **fields})


def contributed(projection: Aggregate, **fields: Any) -> dict[tuple[Any, ...], Any]:
    """What an order contributes, by key."""
    return {e.place.key.values: e.content["contribution"] for e in made(projection, **fields).entries}


def made(projection: Aggregate, now: float = NOW, **fields: Any) -> Wanted:
    return wanted(Rules(projection, source_ttl=-1), state(item(**fields)), now)


# declared


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"measures": {}}, "measures"),
        ({"measures": {"n": "/total"}}, "measures"),
        ({"measures": {"status": Count()}}, "the key is kept at /status"),
        ({"measures": {"partitionKey": Count()}, "key": Concat("/a", "/b")}, "the key is kept at /partitionKey"),
        ({"measures": {"id": Count()}}, "cannot be called 'id'"),
        ({"measures": {"contribution": Count()}}, "cannot be called"),
        ({"measures": {"_n": Count()}}, "cannot be called"),
        ({"measures": {"a b": Count()}}, "cannot be called"),
        ({"measures": {f"n{n}": Count() for n in range(33)}}, "measures"),
        ({"key": "/contribution/x"}, "/contribution has another use"),
        ({"key": ("/status", "/id")}, "every item would be a group of its own"),
        ({"placement": "append_only"}, "use tracked"),
        ({"target": Target(unique_keys=(("/x",),))}, "no value is unique"),
        ({"each": "/lines/*"}, "name the arrays"),
        ({"include": ("total",)}, "there is no such field"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        aggregate(**fields)


DISTINCT = {"customers": Distinct("/customer")}


@pytest.mark.parametrize(
    "key",
    [RandomSuffix("/status", 4), HashSuffix("/status", "/order", 4), (HashSuffix("/status", ("/order",), 4), "/x")],
    ids=["random", "hash", "levels"],
)
def test_values_that_several_shards_may_have_are_not_counted(key: Any) -> None:
    with pytest.raises(CatalogError, match=r'once in every shard that has it; .* of="/customer"'):
        aggregate(key=key, measures=DISTINCT)


@pytest.mark.parametrize(
    "key",
    [
        HashSuffix("/status", "/customer", 4),
        HashSuffix("/status", ("/customer", "/status"), 4),
        (HashSuffix("/status", ("/customer", "/x"), 4), "/x"),
        (RandomSuffix("/status", 4, path="/s"), "/x"),
    ],
    ids=["own", "and the base", "and another level", "nothing to count"],
)
def test_values_that_only_one_shard_has_are_counted(key: Any) -> None:
    counts = not (isinstance(key, tuple) and isinstance(key[0], RandomSuffix))
    assert aggregate(key=key, measures=DISTINCT if counts else {"n": Count()}).shards


# contributions


def test_an_item_contributes_to_its_group() -> None:
    measures = {"orders": Count(), "revenue": Sum("/total"), "most": Max("/total"), "mean": Avg("/total")}
    assert contributed(aggregate(measures=measures), total=12.5) == {
        ("open",): {"orders": 1, "revenue": "12.5", "most": 12.5, "mean": {"sum": "12.5", "count": 1}}
    }
    assert contributed(aggregate(measures=measures)) == {("open",): {"orders": 1}}


def test_the_elements_of_one_group_are_one_contribution() -> None:
    projection = aggregate(each="/lines", key="/lines/sku", measures={"count": Count(), "sold": Sum("/lines/n")})
    lines = [{"sku": "a", "n": 1}, {"sku": "b", "n": 0.1}, {"sku": "a", "n": 2}, {"n": 9}]
    found = contributed(projection, lines=lines)
    assert found == {("a",): {"count": 2, "sold": "3"}, ("b",): {"count": 1, "sold": "0.1"}}
    assert made(projection, lines=lines).notes == ("element skipped: missing key",)
    assert made(projection, lines=[]).skip == "no elements"


def test_where_is_asked_of_every_element() -> None:
    projection = aggregate(each="/lines", key="/shop", where=field("/lines/n") > 1)
    assert contributed(projection, lines=[{"n": 1}, {"n": 2}, {"n": 3}]) == {("s1",): {"orders": 2}}
    assert made(projection, lines=[{"n": 1}]).skip == "where"


def test_rules_are_those_of_every_projection() -> None:
    class Order(BaseModel):
        total: int

    assert made(aggregate(deletes=SoftDelete("/deleted")), deleted=True).skip == "deleted"
    assert made(aggregate(where=field("/total") > 1), total=1).skip == "where"
    assert made(aggregate(), status=None).skip == "null key"
    with pytest.raises(ItemError, match="does not fit Order"):
        made(aggregate(model=Order), total="x")
    with pytest.raises(ItemError, match="marks entries"):
        made(aggregate(), _source=1)


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("/ship/city", {"ship": {"city": "x"}}),
        (TimeBucket("/at", "month", path="/month"), {"month": "2026-11"}),
        (("/shop", TimeBucket("/at", "month", path="/month")), {"shop": "s1", "month": "2026-11"}),
    ],
    ids=["nested", "computed", "levels"],
)
def test_a_contribution_holds_its_key_and_nothing_else_of_the_item(key: Any, content: dict[str, Any]) -> None:
    [entry] = made(aggregate(key=key), ship={"city": "x", "zip": 1}, at="2026-11-30").entries
    assert entry.content == content | {"contribution": {"orders": 1}}


def test_a_contribution_does_not_expire_by_itself() -> None:
    [entry] = made(aggregate(), ttl=500).entries
    stored = document(entry, state(item()), "_source", NOW)
    assert stored["expires"] == NOW - 100 + 500
    assert "ttl" not in stored
    assert "expires" not in made(aggregate(ttl="ignore"), ttl=500).entries[0].content
    assert made(aggregate(), now=NOW + 400, ttl=500).skip == "expired"


def test_too_many_values_of_one_item_park_it() -> None:
    projection = aggregate(each="/tags", key="/shop", measures={"kinds": Distinct("/tags")})
    assert len(contributed(projection, tags=list(range(MOST_VALUES)) * 2)[("s1",)]["kinds"]) == MOST_VALUES
    with pytest.raises(ItemError, match="49 distinct values of one item in one group; 48 are the limit"):
        made(projection, tags=list(range(MOST_VALUES + 1)))


# totals

MEASURES = {"n": Count(), "most": Max("/v"), "least": Min("/v"), "kinds": Distinct("/v")}


def test_the_last_contribution_takes_the_total_along() -> None:
    total = changed(MEASURES, NOTHING, [Change(None, {"n": 1})], {}, {})
    assert total == Total(1, {"n": 1, "most": None, "least": None, "kinds": 0})
    assert changed(MEASURES, total, [Change({"n": 1}, None)], {}, {}) is None


def test_values_come_with_the_first_contribution_and_go_with_the_last() -> None:
    both = [Change({"n": 1, "kinds": ["a", "b"]}, {"n": 1, "kinds": ["b", "c"]}), Change(None, {"kinds": ["c"]})]
    assert moved(MEASURES, both) == {("kinds", "a"): -1, ("kinds", "c"): 2}
    total = changed(MEASURES, Total(2, {"n": 2, "kinds": 2}), both, {("kinds", "a"): 1}, {})
    assert total
    assert total.states["kinds"] == 2
    total = changed(MEASURES, Total(2, {"n": 2, "kinds": 3}), both, {("kinds", "a"): 2, ("kinds", "c"): 1}, {})
    assert total
    assert total.states["kinds"] == 3


def test_what_is_lost_is_looked_for() -> None:
    total = Total(3, {"n": 3, "most": {"value": 9, "sharing": 1}, "least": {"value": 1, "sharing": 2}})
    leaving = [Change({"most": 9, "least": 1}, None)]
    assert lost(MEASURES, total, leaving) == ["most"]
    after = changed(MEASURES, total, leaving, {}, {"most": [7, 7, 2]})
    assert after
    assert after.states["most"] == {"value": 7, "sharing": 2}
    assert after.states["least"] == {"value": 1, "sharing": 1}


def test_shards_together() -> None:
    one = Total(2, {"n": 2, "most": {"value": 9, "sharing": 1}, "kinds": 2})
    other = Total(1, {"n": 1, "least": {"value": "a", "sharing": 1}, "kinds": 1})
    total = combined(MEASURES, [one, other])
    assert (total.contributions, total.states["n"], total.states["kinds"]) == (3, 3, 3)
    shown = total.to_stored(MEASURES, "_source", {})
    assert (shown["most"], shown["least"]) == (9, "a")


# the target


def described(projection: Aggregate) -> Description:
    return target(Layout(Catalog(projections=(projection,)), "db"), projection)


def test_only_what_is_asked_for_is_indexed() -> None:
    found = described(aggregate(key=("/shop", "/ship/zip-code"), measures={"n": Count(), "most": Max("/total")}))
    assert found.indexing
    assert [one["path"] for one in found.indexing["includedPaths"]] == [
        "/shop/?", '/ship/"zip-code"/?', "/n/?", "/most/?", "/expires/?", "/contribution/most/?",
    ]  # fmt: skip
    assert not list(differences(found, found))
    own = {"indexingMode": "consistent", "includedPaths": [{"path": "/*"}]}
    assert described(aggregate(target=Target(indexing=own))).indexing == own


def test_expiry_may_be_off_in_the_target_but_must_not_touch_contributions() -> None:
    source = Description(Container("db", "orders"), ("/shop",), default_ttl=-1)
    found = described(aggregate())
    assert not list(expiry_problems(replace(found, default_ttl=None), aggregate(), source))
    assert not list(expiry_problems(found, aggregate(), source))
    [problem] = expiry_problems(replace(found, default_ttl=60), aggregate(), source)
    assert "after 60 s" in problem.message


def test_no_native_index_does_it() -> None:
    [obstacle] = obstacles(aggregate())
    assert obstacle.feature == "Aggregate"


def test_keys_are_typed() -> None:
    assert [e.place.key for e in made(aggregate(), status=7.0).entries] == [Key.of(7)]


def test_the_example_in_the_readme_is_one() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(from projections import Aggregate.*?)```", readme, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    order = {"customerId": "c1", "createdAt": "2026-11-30", "total": 0.1, "lines": [{"product": "a", "quantity": 2}]}
    by_month, sold = ([e.place.key.values for e in made(names[n], **order).entries] for n in ("by_month", "sold"))
    assert (by_month, sold) == ([("c1", "2026-11")], [("a",)])
    section = readme[readme.index("### Aggregates") : readme.index("### Keys")]
    for measure in (Avg, Count, Distinct, Max, Min, Sum):
        assert f"`{measure.__name__}(" in section
    assert f"{MOST_VALUES} of one item" in section
    assert f"up to {MOST_TEXT} characters" in section
