"""A catalog is checked when it is built; an error names the projection, the field and the remedy."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from projections.declare import Catalog, Index, SoftDelete, Source, Target, Throughput
from projections.errors import CatalogError
from projections.keys import Hierarchical, Path
from projections.where import field
from tests.support import ORDERS, index


class Order(BaseModel):
    id: str


def refused(build: Any, *words: str) -> CatalogError:
    """Building must fail with a message that has these words; no error goes without a hint."""
    with pytest.raises(CatalogError) as caught:
        build()
    for word in words:
        assert word in str(caught.value)
    assert caught.value.hint
    return caught.value


def test_the_defaults_are_the_safe_ones():
    projection = Index(name="by-status", source=ORDERS, key="/status")
    assert (projection.strict, projection.placement, projection.ttl, projection.parked) == (
        True, "tracked", "mirror", "remove",
    )  # fmt: skip
    assert (projection.missing, projection.null, projection.other) == ("skip", "skip", "deadletter")
    assert projection.target.default_ttl == -1
    assert projection.full_name == "by-status@1"
    assert projection.container == "by-status"


def test_a_version_has_a_container_and_a_name_of_its_own():
    assert index(version=2).full_name == "by-status@2"
    assert index(version=2).container == "by-status-v2"
    assert index(version=3, target=Target(container="orders-by-status")).container == "orders-by-status-v3"
    assert index(target=Target(container="orders-by-status")).container == "orders-by-status"


def test_fields_may_be_named_with_or_without_a_slash():
    assert index(include=["total", "/lines"]).include == ("/total", "/lines")
    assert index(exclude=["a/b"]).exclude == ("/a/b",)
    assert SoftDelete("deleted").path == "/deleted"


def test_keys_are_read_as_strategies():
    assert index(key="/a").key == Path("/a")
    assert index(key=("/a", "/b")).key == Hierarchical((Path("/a"), Path("/b")))


def test_a_declaration_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        index().version = 2


WRONG_INDEXES = [
    ({"key": 5}, "key", "give a path"),
    ({"key": "status"}, "key", 'write a path as "/field"'),
    ({"key": ()}, "key", "give a path"),
    ({"key": ("/a", "/b", "/c", "/d")}, "key", "one to three levels"),
    ({"key": ("/a", "/a")}, "key", "give each level its own path"),
    ({"key": "/id"}, "key", "use the path of another field"),
    ({"key": ("/id", "/shop")}, "key", "let it be the last level"),
    ({"key": "/ttl"}, "key", "use the path of another field"),
    ({"key": "/_ts"}, "key", "use the path of another field"),
    ({"key": "/_lsn"}, "key", "use the path of another field"),
    ({"exclude": ["status"]}, "exclude", "an entry cannot be without it"),
    ({"exclude": ['/"status"']}, "exclude", "an entry cannot be without it"),
    ({"key": "/a/b", "exclude": ["/a"]}, "exclude", "an entry cannot be without it"),
    ({"include": ["/a"], "exclude": ["/b"]}, "include", "not both"),
    ({"include": "/a"}, "include", "tuple"),
    ({"include": [""]}, "include", "give a field name or a path"),
    ({"include": ["/a//b"]}, "include", "write a path"),
    ({"where": True}, "where", "callable"),
    ({"model": 3}, "model", "BaseModel"),
    ({"missing": "drop"}, "missing", "'skip', 'keep' or 'deadletter'"),
    ({"null": "drop"}, "null", "'skip', 'keep' or 'deadletter'"),
    ({"other": "keep"}, "other", "'skip' or 'deadletter'"),
    ({"parked": "drop"}, "parked", "'remove' or 'keep'"),
    ({"ttl": 60}, "ttl", "'mirror' or 'ignore'"),
    ({"placement": "none"}, "placement", "'tracked' or 'append_only'"),
    ({"placement_buckets": 0}, "placement_buckets", "greater than or equal to 1"),
    ({"version": 0}, "version", "greater than or equal to 1"),
    ({"source": "orders"}, "source", "Source"),
    ({"target": "orders"}, "target", "Target"),
    ({"deletes": "/deleted"}, "deletes", "SoftDelete"),
    ({"colour": "red"}, "colour", "there is no such field; Index has name, source"),
]


@pytest.mark.parametrize(("fields", "name", "remedy"), WRONG_INDEXES, ids=[f"{w[0]}" for w in WRONG_INDEXES])
def test_a_wrong_index_is_refused(fields, name, remedy):
    error = refused(lambda: index(**fields), "by-status", name, remedy)
    assert error.projection == "by-status"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "x" * 101, 'a"b'])
def test_a_name_is_good_for_containers_and_addresses(name):
    refused(lambda: index(name=name), "name")


@pytest.mark.parametrize("left_out", ["name", "source", "key"])
def test_what_is_required_is_said(left_out):
    fields = {"name": "by-status", "source": ORDERS, "key": "/status"}
    del fields[left_out]
    refused(lambda: Index(**fields), f"{left_out}: is required")


def test_all_that_is_wrong_is_said_at_once():
    refused(lambda: index(missing="drop", colour="red"), "missing:", "colour:")


def test_a_predicate_of_fields_and_a_function_both_do_for_where():
    assert index(where=field("/a") == 1).where({"a": 1})
    assert index(where=lambda item: item["a"] == 1).where({"a": 1})
    assert index(model=Order).model is Order


def test_excluding_beside_the_key_is_fine():
    assert index(key="/a/b", exclude=["/a/c", "/ab"]).exclude == ("/a/c", "/ab")


def test_a_source_needs_a_container_and_a_key():
    refused(lambda: Source(container="", key="/a"), "container")
    refused(lambda: Source(container="orders"), "key: is required")
    refused(lambda: Source(container="orders", key="a"), "key", "write a path")
    assert Source(container="orders", key=("/a", "/b")).name == "orders"


def test_throughput_is_manual_or_autoscale():
    refused(lambda: Throughput(manual=400, autoscale=1000), "manual or autoscale, not both")
    refused(lambda: Throughput(manual=399), "manual")
    refused(lambda: Throughput(autoscale=999), "autoscale")
    assert Throughput() == Throughput(manual=None, autoscale=None)


def test_delete_markers_keep_their_types():
    marker = SoftDelete("/deleted", equals=[True, 1, "true", None, 1.5])
    assert [type(value) for value in marker.equals] == [bool, int, str, type(None), float]
    assert SoftDelete("/deleted").equals == (True,)
    refused(lambda: SoftDelete("/deleted", equals=[]), "equals")
    refused(lambda: SoftDelete("/deleted", equals=[{}]), "equals")
    refused(lambda: SoftDelete("deleted/"), "path", "write a path")


def catalog(*projections: Index, **fields: Any) -> Catalog:
    return Catalog(projections=projections, **fields)


def pair(*arrows: tuple[str, str]) -> list[Index]:
    """Projections that read one container and write another."""
    return [
        Index(name=f"p{number}", source=Source(container=source, key="/k"), key="/x", target=Target(container=target))
        for number, (source, target) in enumerate(arrows)
    ]


def test_a_catalog_finds_its_projections_by_name():
    both = catalog(index(), index(name="by-day", key="/day"))
    assert both["by-day"].key == Path("/day")
    assert [projection.name for projection in both] == ["by-status", "by-day"]
    refused(lambda: both["by-week"], "'by-week'")
    with pytest.raises(CatalogError) as caught:
        both["by-week"]
    assert "by-day, by-status" in str(caught.value.hint)


def test_two_projections_cannot_share_a_name():
    refused(lambda: catalog(index(), index(target=Target(container="x"))), "by-status@1", "its own name")


def test_two_versions_of_one_projection_can_stand_side_by_side():
    assert len(list(catalog(index(), index(version=2)))) == 2


def test_two_projections_cannot_share_a_target():
    shared = Target(container="both")
    refused(lambda: catalog(index(target=shared), index(name="b", target=shared)), "both", "its own target")


def test_the_default_database_and_the_same_one_by_name_are_one_place():
    one, other = index(target=Target(container="t", database="shop")), index(name="b", target=Target(container="t"))
    refused(lambda: catalog(one, other, database="shop"), "its own target")
    assert len(list(catalog(one, other, database="elsewhere"))) == 2


@pytest.mark.parametrize(
    "arrows",
    [[("a", "a")], [("a", "b"), ("b", "a")], [("a", "b"), ("b", "c"), ("c", "a")],
     [("b", "x"), ("a", "b"), ("b", "a")]],
    ids=["A->A", "A->B->A", "A->B->C->A", "beside a way out"],
)  # fmt: skip
def test_case_30_a_projection_that_feeds_itself_is_refused(arrows):
    refused(lambda: catalog(*pair(*arrows)), "projection p", "feeds its own source", "write to another container")


def test_a_loop_is_found_through_the_default_database():
    source = Source(container="orders", key="/k", database="shop")
    loop = Index(name="loop", source=source, key="/x", target=Target(container="orders"))
    refused(lambda: catalog(loop, database="shop"), "loop", "feeds its own source")


def test_the_same_name_in_another_database_is_no_loop():
    target = Target(container="orders", database="archive")
    assert catalog(index(target=target), database="shop")


def test_a_fan_is_no_loop():
    assert catalog(*pair(("a", "b"), ("a", "c"), ("a", "d")))


def test_entries_are_no_source():
    """Those that go away leave no trace in the feed of their container."""
    refused(
        lambda: catalog(*pair(("a", "b"), ("b", "c"))), "projection p1", "has the entries of p0", "read a as that does"
    )


@pytest.mark.parametrize("name", ["projections-state", "projections-deadletters", "projections-leases"])
def test_the_workers_own_containers_are_neither_source_nor_target(name):
    refused(lambda: catalog(*pair(("orders", name))), "p0", "own containers")
    refused(lambda: catalog(*pair((name, "entries"))), "p0", "own containers")


@pytest.mark.parametrize("reserved", ["_ts", "_etag", "_rid", "_self", "_lsn", "_attachments"])
def test_the_reserved_property_cannot_be_the_stores_own(reserved):
    refused(lambda: catalog(index(), reserved=reserved), "reserved", "choose another name")


@pytest.mark.parametrize("reserved", ["source", "_", "_1", "_a-b", ""])
def test_the_reserved_property_looks_like_one(reserved):
    refused(lambda: catalog(index(), reserved=reserved), "reserved")


def test_only_projections_go_in_a_catalog():
    refused(lambda: catalog("by-status"), "projections")  # type: ignore[arg-type]
