"""Lookups over the store in memory: keys, prefixes, source items, freshness, cost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from projections.buckets import Span, TimeBucket
from projections.cli.reading import parse_keys
from projections.declare import Catalog, Index, Source
from projections.errors import AskError, MissingContainerError, StoreError
from projections.identity import Place
from projections.keys import Key, at
from projections.keys import order as rank
from projections.lookup import Found, Lookup
from projections.memory import MemoryStore
from projections.merging import PARALLEL
from projections.provision import Layout, initialise
from projections.store import Container, Delete, Rows, Upsert
from projections.strategies import HashSuffix, RandomSuffix
from projections.where import field
from projections.worker import Worker

SOURCE = Source(container="orders", key="/shop")
BY_STATUS = Index(name="by-status", source=SOURCE, key="/status", include=("total",), where=field("/total") > 0)
BY_PLACE = Index(name="by-place", source=SOURCE, key=("/country", "/city"))
SPREAD = Index(name="spread", source=SOURCE, key=RandomSuffix("/status", count=5))
HASHED = Index(name="hashed", source=SOURCE, key=HashSuffix("/status", of="/total", count=5))
DAYS = Index(name="days", source=SOURCE, key=("/country", TimeBucket("/at", "day"), "/id"))
LAYOUT = Layout(Catalog(projections=(BY_STATUS, BY_PLACE, SPREAD, HASHED, DAYS)), "db")


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
    assert "entries(" in str(caught.value.hint)


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


# several keys in one lookup

MANY = [order(n, total=n % 7 if n % 5 else f"t{n % 3}", at=f"2026-11-{n % 4 + 1:02}", note=n) for n in range(60)]
del MANY[11]["total"]
MANY[12]["total"] = None


async def by_pages(lookup: Lookup, *values: Any, **options: Any) -> list[Found]:
    """Every page, each asked for with the token of the one before."""
    found = [await lookup.entries(*values, **options)]
    while found[-1].token is not None:
        found.append(await lookup.entries(*values, token=found[-1].token, **options))
    return found


def notes(*found: Found) -> list[int]:
    return [entry["note"] for one in found for entry in one.entries]


@pytest.mark.parametrize("projection", [SPREAD, HASHED], ids=lambda p: p.name)
@pytest.mark.parametrize("size", [1, 3, 7, 59, 60, 61, 1_000])
async def test_pages_over_all_suffixes_give_each_entry_once(projection: Index, size: int) -> None:
    lookup = Lookup(await projected(*MANY), LAYOUT, projection)
    pages = await by_pages(lookup, "open", page_size=size)
    expected = sorted(notes(await lookup.entries("open")))
    assert sorted(notes(*pages)) == expected
    assert len(expected) == 60 - (projection is HASHED) * 2  # two have no total
    assert all(len(page.entries) == size for page in pages[:-1])
    streamed = [page async for page in lookup.pages("open", page_size=size)]
    assert sorted(notes(*streamed)) == expected


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("size", [1, 4, 25, 60, None])
async def test_an_order_holds_over_all_suffixes_and_pages(size: int | None, descending: bool) -> None:
    lookup = Lookup(await projected(*MANY), LAYOUT, SPREAD)
    pages = await by_pages(lookup, "open", order_by="/total", descending=descending, page_size=size)
    found = [entry for page in pages for entry in page.entries]
    ranks = [rank(at(entry, ["total"])) for entry in found]
    assert ranks == sorted(ranks, reverse=descending)
    assert sorted(notes(*pages)) == list(range(60))
    streamed = [page async for page in lookup.pages("open", order_by="/total", descending=descending, page_size=4)]
    assert [entry["id"] for page in streamed for entry in page.entries] == [entry["id"] for entry in found]


async def test_a_token_is_taken_with_another_page_size() -> None:
    lookup = Lookup(await projected(*MANY), LAYOUT, SPREAD)
    for sizes in ((30, 1), (1, 30), (7, 13)):
        for order_by in (None, "/total"):
            first = await lookup.entries("open", order_by=order_by, page_size=sizes[0])
            second = await lookup.entries("open", order_by=order_by, page_size=sizes[1], token=first.token)
            rest = await lookup.entries("open", order_by=order_by, token=second.token)
            assert sorted(notes(first, second, rest)) == list(range(60))


@pytest.mark.parametrize("token", ["", "x", "eJw", "AAAA", "日本"])
async def test_a_token_that_is_none_is_refused(token: str) -> None:
    lookup = Lookup(await projected(*MANY[:5]), LAYOUT, SPREAD)
    if token:
        with pytest.raises(AskError, match="token"):
            await lookup.entries("open", token=token)


async def test_a_token_of_another_lookup_is_refused() -> None:
    lookup = Lookup(await projected(*MANY), LAYOUT, SPREAD)
    token = (await lookup.entries("open", page_size=5)).token
    for values, options in ((("paid",), {}), (("open",), {"order_by": "/total"})):
        with pytest.raises(AskError, match="token is not of this lookup") as caught:
            await lookup.entries(*values, token=token, **options)
        assert caught.value.projection == "spread"


async def test_what_goes_away_between_pages_hides_nothing_else() -> None:
    store = await projected(*MANY)
    lookup = Lookup(store, LAYOUT, SPREAD)
    first = await lookup.entries("open", order_by="/note", page_size=20)
    target = LAYOUT.target(SPREAD)
    for entry in first.entries[-5:]:
        place = Place(entry["id"], Key.of(entry["partitionKey"]))
        await store.write(target, place.key, [Delete(place.id, entry["_etag"])])
    rest = await lookup.entries("open", order_by="/note", token=first.token)
    assert set(notes(rest)) >= set(range(20, 60))


async def test_a_page_has_at_least_one_entry() -> None:
    with pytest.raises(AskError, match="page_size"):
        await Lookup(await projected(), LAYOUT, SPREAD).entries("open", page_size=0)


async def test_an_order_needs_a_path() -> None:
    with pytest.raises(AskError, match="order_by"):
        await Lookup(await projected(), LAYOUT, SPREAD).entries("open", order_by="total")


async def test_a_read_of_what_the_fields_determine_is_one_call() -> None:
    lookup = Lookup(await projected(*MANY), LAYOUT, HASHED)
    found = await lookup.entries("open", 3)
    assert found.calls == 1
    expected = [item["note"] for item in MANY if item.get("total") == 3]
    assert [entry["note"] for entry in found.entries if entry["total"] == 3] == expected  # others share the partition
    assert notes(await lookup.entries({"/status": "open", "/total": 3})) == notes(found)
    assert (await lookup.entries("open")).calls == 5


async def test_pages_over_suffixes_lead_to_items_and_say_what_they_cost() -> None:
    store = await projected(*MANY)
    await put(store, order(1, status="paid"))
    pages = [page async for page in Lookup(store, LAYOUT, SPREAD).pages("open", source=True, fresh=True, page_size=25)]
    assert sum(len(page.entries) for page in pages) == 59
    assert sum(page.dropped for page in pages) == 1
    assert all(item and item["note"] == entry["note"] for page in pages
               for entry, item in zip(page.entries, page.items or (), strict=True))  # fmt: skip
    assert all(page.calls >= 2 and page.request_units for page in pages)


class Busy(MemoryStore):
    """Counts what is under way, and the rows that have been given."""

    under_way = most = rows = 0

    async def query(self, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        try:
            async for page in super().query(*args, **options):
                self.rows += len(page)
                yield page
        finally:
            self.under_way -= 1


WIDE = Index(name="wide", source=SOURCE, key=RandomSuffix("/status", count=40))


@pytest.mark.parametrize("order_by", [None, "/n"])
async def test_reads_are_bounded_at_a_time_and_in_what_they_hold(order_by: str | None) -> None:
    store, layout = Busy(), Layout(Catalog(projections=(WIDE,)), "db")
    await initialise(store, layout)
    for n in range(1_600):
        key = Key.of(f"open_{n % 40}")
        await store.write(layout.target(WIDE), key, [Upsert({"id": str(n), "partitionKey": key.values[0], "n": n})])
    given = 0
    async for page in Lookup(store, layout, WIDE).pages("open", order_by=order_by, page_size=100):
        given += len(page.entries)
        assert store.rows - given <= 40 * 10
        assert store.most == PARALLEL
    assert given == 1_600


async def test_levels_are_read_from_the_left_spans_and_ids_included() -> None:
    lookup = Lookup(await projected(*MANY), LAYOUT, DAYS)
    everything = await lookup.entries("DE")
    assert sorted(notes(everything)) == list(range(60))
    two = await lookup.entries("DE", Span("2026-11-02", "2026-11-04"))
    assert sorted(notes(two)) == [n for n in range(60) if n % 4 in (1, 2)]
    entry = everything.entries[0]
    one = await lookup.entries("DE", entry["at"], entry["id"])
    assert (notes(one), one.calls) == ([entry["note"]], 1)


async def test_a_level_left_open_says_how_many_partitions_there_are() -> None:
    lookup = Lookup(await projected(), LAYOUT, DAYS)
    for values in (("DE", ..., "x"), ({"/at": "2026-11-02"},)):
        with pytest.raises(AskError, match=r"every physical partition .* at present there is 1") as caught:
            await lookup.entries(*values)
        assert caught.value.projection == "days"


class Unsorted(MemoryStore):
    """Two physical partitions below a prefix: each is sorted, and one comes after the other."""

    async def query(self, container: Container, text: str, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        yield Rows([{"id": "1", "total": 2}], "more") if options["after"] is None else Rows([{"id": "2", "total": 1}])


async def test_an_order_that_the_store_does_not_keep_is_not_passed_on() -> None:
    with pytest.raises(StoreError, match="several physical partitions"):
        await Lookup(Unsorted(), LAYOUT, BY_PLACE).entries("DE", order_by="/total")


def test_keys_are_typed_in_order_or_by_name() -> None:
    assert parse_keys(DAYS, ["DE", "..."]) == ["DE", ...]
    assert parse_keys(DAYS, ["/country=DE", "/at=2026-11"]) == [{"/country": "DE", "/at": "2026-11"}]
    assert parse_keys(DAYS, ["/country=7"]) == [{"/country": 7}]
    assert parse_keys(DAYS, ["/nowhere=7"]) == ["/nowhere=7"]
    with pytest.raises(AskError, match="named"):
        parse_keys(DAYS, ["DE", "/at=2026-11"])
