"""What a changed declaration asks for; every field of every declaration is classified."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from projections.aggregate import Aggregate
from projections.buckets import TimeBucket
from projections.declare import Catalog, Custom, Projection, SoftDelete, Source, Target, Throughput
from projections.describing import DECLARATIONS, _bare, completed, described
from projections.embed import Embed, Header, Reference
from projections.keys import Path
from projections.measures import Count, Measure, Sum
from projections.provision import Layout
from projections.revision import NEEDS, Change, Need, compare, gravest
from projections.strategies import Concat, HashSuffix
from projections.where import field
from tests.support import ORDERS, index

CATALOGS = {"projections", "database", "state", "deadletters", "leases", "reserved"}


def definition(projection: Projection, **catalog: Any) -> dict[str, Any]:
    """As it comes back from the store."""
    layout = Layout(Catalog(projections=(projection,), **catalog), "shop")
    stored: dict[str, Any] = json.loads(json.dumps(described(layout, projection)))
    return stored


def changes(old: Projection, new: Projection) -> list[Change]:
    return list(compare(completed(definition(old)), definition(new)))


def needs(old: Projection, new: Projection) -> dict[str, Need]:
    return {change.field: change.need for change in changes(old, new)}


# completeness


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda one: one.__name__)
def test_every_declared_field_says_what_its_change_needs(declaration: Any) -> None:
    own = set(NEEDS[declaration.__name__]) - ({"reserved"} if issubclass(declaration, Projection) else set())
    assert own == set(declaration.model_fields), "add the field to revision.py: what does a change of it need?"


def test_every_kind_of_declaration_is_known() -> None:
    def kinds(one: type[Any]) -> set[type[Any]]:
        return {one, *(inner for below in one.__subclasses__() for inner in kinds(below))}

    ours = {one for one in kinds(Projection) if one.__module__.startswith("projections.")}
    abstract = {one for one in ours if one.__name__ in ("Projection", "Rowed")}
    assert ours - abstract - {Header} == {one for one in DECLARATIONS if issubclass(one, Projection)}


def test_a_part_follows_from_what_it_is_a_part_of() -> None:
    """So that it needs no definition of its own: the fields of an Embed, of its references, and nothing else."""
    assert set(Header.model_fields) == {*Projection.model_fields, "embed", "reference"}


def test_what_the_catalog_shares_is_as_it_was_when_this_was_thought_about() -> None:
    """`reserved` is part of every definition; another state container has no definitions at all."""
    assert set(Catalog.model_fields) == CATALOGS


# what is certain


def totals(**measures: Measure) -> Aggregate:
    return Aggregate(name="by-status", source=ORDERS, key="/status", measures=measures)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (index(), index(key="/region"), {"key": Need.VERSION}),
        (index(), index(key=("/status", "/region")), {"key": Need.VERSION}),
        (index(key=Concat("/a", "/b")), index(key=Concat("/b", "/a")), {"key": Need.VERSION}),
        (
            index(key=HashSuffix("/a", of="/b", count=4)), index(key=HashSuffix("/a", of="/b", count=8)),
            {"key": Need.VERSION},
        ),
        (index(), index(source=Source(container="orders", key="/id")), {"source.key": Need.VERSION}),
        (index(), index(source=Source(container="others", key="/shop")), {"source.container": Need.VERSION}),
        (index(each="/lines"), index(each="/parts"), {"each": Need.VERSION}),
        (index(each="/lines"), index(each="/lines", by="value"), {"by": Need.VERSION}),
        (index(), index(placement="append_only"), {"placement": Need.VERSION}),
        (index(), index(placement_buckets=32), {"placement_buckets": Need.VERSION}),
        (index(), index(target=Target(container="else")), {"target.container": Need.VERSION}),
        (index(), index(target=Target(unique_keys=(("/no",),))), {"target.unique_keys": Need.VERSION}),
        (index(), index(include=("total",)), {"include": Need.REPLAY}),
        (index(), index(exclude=("note",)), {"exclude": Need.REPLAY}),
        (index(), index(where=field("/total") > 5), {"where": Need.REPLAY}),
        (index(where=field("/total") > 5), index(where=field("/total") >= 5), {"where": Need.REPLAY}),
        (index(), index(missing="keep", null="keep", other="skip"),
         {"missing": Need.REPLAY, "null": Need.REPLAY, "other": Need.REPLAY}),
        (index(), index(deletes=SoftDelete("/deleted")), {"deletes": Need.REPLAY}),
        (index(deletes=SoftDelete("/d", equals=(True,))), index(deletes=SoftDelete("/d", equals=(1,))),
         {"deletes.equals": Need.REPLAY}),
        (index(), index(ttl="ignore", parked="keep"), {"ttl": Need.REPLAY, "parked": Need.REPLAY}),
        (index(), index(strict=False, ru_per_second=9, alarm_after=3, deadletter_payload=True),
         dict.fromkeys(("strict", "ru_per_second", "alarm_after", "deadletter_payload"), Need.NOTHING)),
        (index(), index(target=Target(throughput=Throughput(manual=500))), {"target.throughput.manual": Need.NOTHING}),
        (totals(n=Count()), totals(n=Count(), s=Sum("/t")), {"measures": Need.VERSION}),
        (index(), totals(n=Count()), {"kind": Need.VERSION}),
    ],
    ids=lambda one: getattr(one, "name", None) or "-".join(one),
)  # fmt: skip
def test_what_a_change_needs(old: Projection, new: Projection, expected: dict[str, Need]) -> None:
    assert {path: need for path, need in needs(old, new).items() if path in expected} == expected
    assert gravest(changes(old, new)) is max(expected.values(), key=list(Need).index)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (index(), index()),
        (index(key="/status"), index(key=Path("/status"))),
        (index(key="/status"), index(key=("/status",))),
        (index(), index(target=Target(container="by-status"))),
        (index(), index(source=Source(container="orders", key="/shop", database="shop"))),
        (
            index(where=(field("/a") == 1) & ~field("/b").exists()),
            index(where=(field("/a") == 1) & ~field("/b").exists()),
        ),
        (index(ru_per_second=5), index(ru_per_second=5.0)),
        (index(key=TimeBucket("/at", "day")), index(key=TimeBucket("/at", "day"))),
    ],
)
def test_what_is_the_same_is_no_change(old: Projection, new: Projection) -> None:
    assert changes(old, new) == []


def test_the_property_that_marks_entries_is_part_of_it() -> None:
    [change] = compare(definition(index()), definition(index(), reserved="_mark"))
    assert (change.field, change.need) == ("reserved", Need.VERSION)


def test_references_are_compared_one_by_one() -> None:
    def embed(**references: Reference) -> Embed:
        return Embed(name="e", source=ORDERS, key="/status", references=references)

    people = Source(container="people", key="/id")
    person = Reference(source=people, id="/personId", fields=("name",))
    more = Reference(source=people, id="/personId", fields=("name", "age"))
    hidden = Reference(source=people, id="/personId", fields=("name",), deletes=SoftDelete("/gone"))
    assert needs(embed(person=person), embed(person=more)) == {"references.person.fields": Need.VERSION}
    assert needs(embed(person=person), embed(person=hidden)) == {"references.person.deletes": Need.REPLAY}
    assert needs(embed(person=person), embed(person=person, boss=person)) == {"references.boss": Need.VERSION}


def test_a_field_that_there_was_not_then_is_as_its_default() -> None:
    new = definition(index(key=Concat("/a", "/b")))
    old = definition(index(key=Concat("/a", "/b")))
    for without in (old, old["target"], old["key"]):
        for name in ("alarm_after", "parked", "placement_buckets", "default_ttl", "separator"):
            without.pop(name, None)
    assert list(compare(completed(old), new)) == []
    assert [change.field for change in compare(completed(old), new | {"parked": "keep"})] == ["parked"]


# what is not certain


def dear(item: Mapping[str, Any]) -> bool:
    return bool(item.get("total", 0) > 5)


def made(source: str) -> Callable[..., Any]:
    """A function of which there is no source text, as in a shell."""
    space: dict[str, Any] = {}
    exec(source, space)
    found: Callable[..., Any] = space["f"]
    return found


class Order(BaseModel):
    total: int


class StrictOrder(Order):
    note: str = ""


def test_functions_and_models_that_may_have_changed_are_for_people_to_judge() -> None:
    old = definition(index(where=dear, model=Order))
    assert list(compare(old, definition(index(where=dear, model=Order)))) == []
    old["where"]["source"] = "of before"
    assert [(c.field, c.need) for c in compare(old, definition(index(where=dear, model=Order)))] == [
        ("where", Need.JUDGEMENT)
    ]
    assert needs(index(model=Order), index(model=StrictOrder)) == {"model": Need.JUDGEMENT}
    assert "dear" in str(next(compare(old, definition(index(where=dear, model=Order)))))


def test_a_function_in_place_of_none_or_of_a_predicate_is_a_certain_change() -> None:
    assert needs(index(), index(where=dear)) == {"where": Need.REPLAY}
    assert needs(index(where=field("/total") > 5), index(where=dear)) == {"where": Need.REPLAY}
    assert needs(index(model=Order), index()) == {"model": Need.REPLAY}


def test_a_function_without_source_text_is_known_by_its_name() -> None:
    one = Custom(name="c", source=ORDERS, key="/k", project=made("def f(item): return []"))
    assert changes(one, one) == []


def test_comments_and_layout_are_no_change() -> None:
    assert _bare("def f(a):\n    return a  # it\n") == _bare("def f( a ):\n    # that\n    return a")
    assert _bare("x, where=lambda item: item),") == _bare("    x, where=lambda item: item),\n")
