"""Lookups over the store in memory: keys, prefixes, source items, freshness, cost."""

from __future__ import annotations

from typing import Any

import pytest

from projections.declare import Catalog, Index, Source
from projections.errors import MissingContainerError
from projections.keys import Key
from projections.lookup import AskError, Lookup
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.store import Delete, Upsert
from projections.where import field
from projections.worker import Worker

SOURCE = Source(container="orders", key="/shop")
BY_STATUS = Index(name="by-status", source=SOURCE, key="/status", include=("total",), where=field("/total") > 0)
BY_PLACE = Index(name="by-place", source=SOURCE, key=("/country", "/city"))
LAYOUT = Layout(Catalog(projections=(BY_STATUS, BY_PLACE)), "db")


async def projected(*items: dict[str, Any]) -> MemoryStore:
    store = MemoryStore()
    await initialise(store, LAYOUT)
    await put(store, *items)
    await Worker(store, LAYOUT, list(LAYOUT.catalog)).run(until_caught_up=True)
    return store


async def put(store: MemoryStore, *items: dict[str, Any]) -> None:
    for item in items:
        await store.write(LAYOUT.source(BY_STATUS), Key.of(item["shop"]), [Upsert(item)])


def order(n: int, **fields: Any) -> dict[str, Any]:
    return {"id": str(n), "shop": "s", "status": "open", "total": n, "country": "DE", "city": "Bonn"} | fields


def totals(entries: list[dict[str, Any]]) -> list[int]:
    return sorted(entry["total"] for entry in entries)


async def test_the_entries_under_a_key_and_what_they_cost() -> None:
    store = await projected(order(1), order(2), order(3, status="paid"))
    found = await Lookup(store, LAYOUT, BY_STATUS).entries("open")
    assert totals(found.entries) == [1, 2]
    assert (found.calls, found.request_units, found.items, found.dropped) == (1, 1.0, None, 0)


async def test_keys_keep_their_type() -> None:
    store = await projected(order(1, status=7), order(2, status="7"), order(3, status=True))
    lookup = Lookup(store, LAYOUT, BY_STATUS)
    assert totals((await lookup.entries(7)).entries) == [1]
    assert totals((await lookup.entries("7")).entries) == [2]
    assert totals((await lookup.entries(True)).entries) == [3]
    assert (await lookup.entries(1)).entries == []


async def test_a_hierarchical_key_can_be_asked_from_the_left() -> None:
    store = await projected(order(1), order(2, city="Ulm"), order(3, country="FR", city="Nice"))
    lookup = Lookup(store, LAYOUT, BY_PLACE)
    assert totals((await lookup.entries("DE")).entries) == [1, 2]
    assert totals((await lookup.entries("DE", "Ulm")).entries) == [2]
    assert (await lookup.entries("Ulm")).entries == []


@pytest.mark.parametrize(("projection", "values"), [(BY_STATUS, ("a", "b")), (BY_STATUS, ()), (BY_PLACE, ("a",) * 3)])
async def test_values_that_make_no_key_are_refused(projection: Index, values: tuple[str, ...]) -> None:
    store = await projected()
    with pytest.raises(AskError) as caught:
        await Lookup(store, LAYOUT, projection).entries(*values)
    assert caught.value.projection == projection.name
    assert projection.key.paths[0] in str(caught.value.hint)


async def test_entries_lead_to_their_items() -> None:
    store = await projected(order(1, note="mine"), order(2, note="yours"))
    found = await Lookup(store, LAYOUT, BY_STATUS).entries("open", source=True)
    assert found.items is not None
    by_entry = {entry["total"]: item for entry, item in zip(found.entries, found.items, strict=True)}
    assert {total: item and item["note"] for total, item in by_entry.items()} == {1: "mine", 2: "yours"}


async def test_an_item_that_is_gone_is_none() -> None:
    store = await projected(order(1))
    source = LAYOUT.source(BY_STATUS)
    [item] = [d async for page in store.query(source, "SELECT * FROM c", {}) for d in page]
    await store.write(source, Key.of("s"), [Delete("1", item["_etag"])])
    lookup = Lookup(store, LAYOUT, BY_STATUS)
    assert (await lookup.entries("open", source=True)).items == [None]
    fresh = await lookup.entries("open", fresh=True)
    assert (fresh.entries, fresh.dropped) == ([], 1)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, True),
        ({"note": "a field the projection does not use"}, True),
        ({"total": 9}, False),  # other content
        ({"status": "paid"}, False),  # another key
        ({"total": 0}, False),  # left out by a rule
        ({"status": {"odd": True}}, False),  # cannot be projected
    ],
)
async def test_fresh_drops_what_no_longer_follows_from_the_item(change: dict[str, Any], kept: bool) -> None:
    store = await projected(order(1))
    await put(store, order(1) | change)
    found = await Lookup(store, LAYOUT, BY_STATUS).entries("open", fresh=True)
    assert (len(found.entries), found.dropped) == ((1, 0) if kept else (0, 1))


async def test_a_document_that_is_no_entry_has_no_item_and_is_not_fresh() -> None:
    store = await projected(order(1))
    await store.write(LAYOUT.target(BY_STATUS), Key.of("open"), [Upsert({"id": "x", "status": "open", "total": 5})])
    lookup = Lookup(store, LAYOUT, BY_STATUS)
    assert totals((await lookup.entries("open")).entries) == [1, 5]
    assert totals((await lookup.entries("open", fresh=True)).entries) == [1]


async def test_a_target_that_does_not_exist_is_said_to_be_missing() -> None:
    with pytest.raises(MissingContainerError):
        await Lookup(MemoryStore(), LAYOUT, BY_STATUS).entries("open")
