"""Every key strategy on the emulator, through the real SDK: what is read by a key is exactly what a scan finds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from projections.batches import Write, write_all
from projections.buckets import Span, TimeBucket
from projections.declare import Catalog, Index, Source, Target, Throughput
from projections.errors import AskError
from projections.keys import Key
from projections.lookup import Found, Lookup
from projections.store import Upsert
from projections.strategies import Concat, HashSuffix, RandomSuffix

ITEMS = Source(container="orders", key="/tenant")
START = datetime(2026, 10, 1, tzinfo=UTC)
STATES: list[Any] = ["open", "o_p", "o~p", 7, "7", True, "ключ"]

OpenShop = Callable[[Catalog], Any]


def projection(name: str, key: Any, **fields: Any) -> Index:
    """Its target has three physical partitions."""
    target = Target(throughput=Throughput(manual=30_000))
    return Index(
        name=name, source=ITEMS, key=key, target=target, include=("n", "state", "at", "order", "tenant"), **fields
    )


KEYS: dict[str, Any] = {
    "path": "/state",
    "concat": Concat("/tenant", "/state"),
    "bucket": TimeBucket("/at", "day"),
    "random": RandomSuffix("/state", count=8),
    "random-day": RandomSuffix(Concat("/tenant", TimeBucket("/at", "month")), count=4),
    "hash": HashSuffix("/state", of="/order", count=8),
    "levels": ("/tenant", TimeBucket("/at", "month"), "/id"),
    "levels-random": ("/tenant", RandomSuffix("/state", count=3)),
}
TRACKED = Catalog(projections=tuple(projection(name, key) for name, key in KEYS.items()))


def plainly(name: str) -> Catalog:
    """One projection that takes as few calls as can be."""
    return Catalog(projections=(projection(name, KEYS[name], placement="append_only", strict=False),))


def item(n: int) -> dict[str, Any]:
    at = START + timedelta(minutes=n * 61 % (60 * 24 * 60))
    return {
        "id": f"i{n}", "tenant": f"t{n % 5}", "state": STATES[n % 7], "at": at.isoformat(), "order": f"o_{n}", "n": n,
        "rank": n * 7919 % 1000,
    }  # fmt: skip


async def filled(shop: OpenShop, catalog: Catalog, count: int) -> tuple[Any, list[dict[str, Any]]]:
    """A shop that has projected so many items."""
    s = await shop(catalog)
    items = [item(n) for n in range(count)]
    writes = [Write(Key.of(one["tenant"]), Upsert(one)) for one in items]
    await write_all(s.store, s.layout.source(catalog.projections[0]), writes, asyncio.Semaphore(8))
    await s.run()
    return s, items


def numbers(*found: Found) -> list[int]:
    return sorted(entry["n"] for one in found for entry in one.entries)


def those(items: list[dict[str, Any]], is_one: Callable[[dict[str, Any]], bool]) -> list[int]:
    return sorted(one["n"] for one in items if is_one(one))


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def questions(name: str) -> Iterator[tuple[tuple[Any, ...], Callable[[dict[str, Any]], bool]]]:
    """What to ask a projection for, and what a scan would look for."""
    november = lambda one: one["at"].startswith("2026-11")  # noqa: E731
    match name:
        case "path" | "random" | "hash":
            for state in STATES:
                yield (state,), lambda one, state=state: same(one["state"], state)
            yield ("no such",), lambda _: False
        case "concat":
            for state in STATES:
                yield ("t1", state), lambda one, state=state: one["tenant"] == "t1" and same(one["state"], state)
        case "bucket":
            yield ("2026-11-05",), lambda one: one["at"].startswith("2026-11-05")
            yield (Span("2026-10-30", "2026-11-02"),), lambda one: "2026-10-30" <= one["at"] < "2026-11-02"
            yield ("2026-11",), november
        case "random-day":
            yield ("t2", "2026-11"), lambda one: one["tenant"] == "t2" and november(one)
            yield ("t2", "2026-10..2026-12"), lambda one: one["tenant"] == "t2"
        case "levels":
            yield ("t3",), lambda one: one["tenant"] == "t3"
            yield ("t3", "2026-11"), lambda one: one["tenant"] == "t3" and november(one)
            yield ({"/tenant": "t3", "/at": "2026-11"},), lambda one: one["tenant"] == "t3" and november(one)
        case "levels-random":
            yield ("t4",), lambda one: one["tenant"] == "t4"
            for state in STATES:
                yield ("t4", state), lambda one, state=state: one["tenant"] == "t4" and same(one["state"], state)


async def assert_reads_are_what_a_scan_finds(s: Any, items: list[dict[str, Any]], name: str) -> None:
    lookup = Lookup(s.store, s.layout, s.catalog[name])
    scanned = await s.entries(name)
    assert sorted(entry["n"] for entry in scanned) == [one["n"] for one in items]
    for values, is_one in questions(name):
        found = await lookup.entries(*values)
        assert numbers(found) == those(scanned, is_one) == those(items, is_one), (name, values)
        pages = [page async for page in lookup.pages(*values, page_size=97)]
        assert numbers(*pages) == numbers(found), (name, values)


@pytest.mark.parametrize("name", KEYS)
async def test_reads_are_what_a_scan_finds(shop: OpenShop, name: str) -> None:
    s, items = await filled(shop, plainly(name), 2_000)
    assert len(await s.store.feed_ranges(s.layout.target(s.catalog[name]))) == 3
    await assert_reads_are_what_a_scan_finds(s, items, name)
    if name in PAGED:
        await assert_pages(s, name, PAGED[name])


PAGED: dict[str, tuple[Any, ...]] = {
    "random": ("open",), "levels": ("t3",), "levels-random": ("t3", 7), "bucket": ("2026-10-25..2026-11-05",),
}  # fmt: skip


async def test_an_item_whose_inputs_change_moves_and_reads_follow_it(shop: OpenShop) -> None:
    s, items = await filled(shop, TRACKED, 40)
    await s.assert_converged()
    await assert_known_suffix(s)
    await s.put(items[5] | {"state": "closed", "at": "2025-01-01T00:00:00+14:00"})
    await s.run()
    await s.assert_converged()
    for name, old, new in (
        ("concat", ("t0", items[5]["state"]), ("t0", "closed")),
        ("bucket", ("2026-10-01",), ("2024-12-31",)),
        ("random", (items[5]["state"],), ("closed",)),
        ("hash", (items[5]["state"],), ("closed", "o_5")),
        ("levels", ("t0", "2026-10"), ("t0", "2024-12")),
        ("levels-random", ("t0", items[5]["state"]), ("t0", "closed")),
    ):
        lookup = Lookup(s.store, s.layout, s.catalog[name])
        assert numbers(await lookup.entries(*new)) == [5], name
        assert 5 not in numbers(await lookup.entries(*old)), name


async def assert_pages(s: Any, name: str, values: tuple[Any, ...]) -> None:
    """With a token for each page, sorted or not."""
    lookup = Lookup(s.store, s.layout, s.catalog[name])
    expected = numbers(await lookup.entries(*values))
    for options in ({}, {"order_by": "/n"}, {"order_by": "/n", "descending": True}):
        pages = [await lookup.entries(*values, page_size=40, **options)]
        while pages[-1].token is not None:
            assert len(pages[-1].entries) == 40
            pages.append(await lookup.entries(*values, page_size=40, token=pages[-1].token, **options))
        found = [entry["n"] for page in pages for entry in page.entries]
        assert sorted(found) == expected, options
        if options:
            assert found == sorted(found, reverse="descending" in options), options


async def assert_known_suffix(s: Any) -> None:
    """Whoever knows the fields that are hashed reads one partition; others read all, side by side."""
    lookup = Lookup(s.store, s.layout, s.catalog["hash"])
    one, everything = await lookup.entries("open", "o_14"), await lookup.entries("open")
    assert (one.calls, everything.calls) == (1, 8)
    assert 14 in numbers(one)
    assert set(numbers(one)) <= set(numbers(everything))
    with pytest.raises(AskError, match="at present there are 3"):
        await Lookup(s.store, s.layout, s.catalog["levels"]).entries({"/at": "2026-11"})


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", ["random", "hash", "levels"])
async def test_reads_of_a_hundred_thousand_are_what_a_scan_finds(shop: OpenShop, name: str) -> None:
    s, items = await filled(shop, plainly(name), 100_000)
    await assert_reads_are_what_a_scan_finds(s, items, name)
    lookup, values = Lookup(s.store, s.layout, s.catalog[name]), ("t3",) if name == "levels" else ("open",)
    found = [entry["n"] async for page in lookup.pages(*values, order_by="/n", page_size=500) for entry in page.entries]
    assert found == numbers(await lookup.entries(*values))
