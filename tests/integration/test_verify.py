"""Verify on the emulator: each kind of damage to each kind of projection is named, and nothing else; then repaired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from projections.aggregate import Aggregate
from projections.declare import Catalog, Custom, Index, Projection, Source
from projections.embed import Embed, Reference
from projections.errors import FatalError
from projections.keys import Key
from projections.measures import Avg, Count, Distinct, Max, Min, Sum
from projections.provision import initialise
from projections.store import Container, Document, FeedRange, Start, Upsert
from projections.verification import Report, Scope
from projections.verify import Verify
from tests.corruption import BACK_REFERENCES, ENTRIES, LETTERS, RECORDS, TOTALS, Damage, cycled, told

OpenShop = Callable[[Catalog], Any]

ORDERS = Source(container="orders", key="/customerId")
AUTHORS = Source(container="authors", key="/id")
BOOKS = Source(container="books", key="/shelf")

BY_STATUS = Index(name="by-status", source=ORDERS, key="/status")
LINES = Index(name="lines", source=ORDERS, each="/lines", by="/lines/sku", key="/lines/sku")
ADDED = Index(name="added", source=ORDERS, key=("/customerId", "/status", "/id"), placement="append_only")
KEPT = Index(name="kept", source=ORDERS, key="/status", parked="keep")
PAIRS = Custom(
    name="pairs", source=ORDERS, key="/pair", by="value",
    project=lambda item: [{"pair": f"{line['sku']}{item['status']}"} for line in item["lines"]],
)  # fmt: skip
MEASURES = {
    "orders": Count(), "revenue": Sum("/total"), "largest": Max("/total"), "first": Min("/no"), "mean": Avg("/total"),
    "kinds": Distinct("/no"),
}  # fmt: skip
SPENT = Aggregate(name="spent", source=ORDERS, key=("/customerId", "/status"), measures=MEASURES)
LIBRARY = Embed(
    name="library", source=BOOKS, key="/isbn",
    references={"authors": Reference(source=AUTHORS, id="/authorIds/*", fields=("name",))},
)  # fmt: skip
IN_PLACE = Embed(
    name="filled", source=BOOKS, in_place=True,
    references={"author": Reference(source=AUTHORS, id="/first", fields=("name",))},
)  # fmt: skip


def order(n: int) -> Document:
    status: Any = {"odd": True} if n % 20 == 19 else f"s{n % 5}"
    made = {"id": str(n), "customerId": f"c{n % 7}", "status": status, "total": n * 1.5, "no": n % 11, "big": 1e20 * n}
    return (
        made
        | {"lines": [{"sku": f"{n}-{i}", "n": i} for i in range(1 + n % 3)]}
        | ({"ttl": 9_000} if n % 9 == 8 else {})
    )


def book(n: int) -> Document:
    isbn: Any = {} if n % 20 == 19 else f"i{n}"
    authors = [f"a{n % 6}", f"a{n % 4}"]
    return {"id": str(n), "shelf": f"s{n % 5}", "isbn": isbn, "authorIds": authors, "first": authors[0]}


async def filled(s: Any, projection: Projection, count: int = 120) -> None:
    if isinstance(projection, Embed):
        authors = Container(s.layout.database, "authors")
        for n in range(6):
            await s.store.write(authors, Key.of(f"a{n}"), [Upsert({"id": f"a{n}", "name": f"Ann {n}"})])
        await s.put(*map(book, range(count)))
    else:
        await s.put(*map(order, range(count)))
    for _ in range(2):
        await s.run()
    await s.assert_converged()


async def verified(s: Any, projection: Projection, **options: Any) -> Report:
    verify = await Verify.open(s.store, s.layout, projection, rests=(), examples=10_000, **options)
    return await verify.run()


CASES: list[tuple[Projection, Sequence[str]]] = [
    (BY_STATUS, ENTRIES + RECORDS + LETTERS),
    (LINES, ENTRIES + RECORDS + LETTERS[:1]),
    (PAIRS, ENTRIES + RECORDS + LETTERS[:1]),
    (ADDED, ENTRIES + LETTERS),
    (KEPT, ENTRIES + RECORDS + LETTERS),
    (LIBRARY, ENTRIES + RECORDS + LETTERS + BACK_REFERENCES),
    (SPENT, ENTRIES + RECORDS + LETTERS + TOTALS),
]


@pytest.mark.parametrize(("projection", "kinds"), CASES, ids=[projection.name for projection, _ in CASES])
async def test_damage_is_named_and_repaired(shop: OpenShop, projection: Projection, kinds: Sequence[str]) -> None:
    s = await shop(Catalog(projections=(projection,)))
    await filled(s, projection)
    assert told(await verified(s, projection)) == {}
    damage = await Damage(s.store, s.layout, projection).load()
    expected = await damage.do(*cycled(kinds, 2 * len(kinds)))
    report = await verified(s, projection)
    assert (told(report), report.pending) == (expected, 0)
    repaired = await verified(s, projection, repair=True)
    assert told(repaired) == expected
    foreign = {fault: count for fault, count in repaired.differences.items() if fault == "foreign"}
    assert repaired.left == foreign
    again = await verified(s, projection)
    assert again.differences == foreign
    for one in again.examples:
        assert one.place
        await damage.take_away(damage.target, one.place)
    await s.assert_converged()
    assert (await verified(s, projection)).clean


async def test_headers_are_verified_like_entries_and_the_copies_of_them_follow(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(LIBRARY,)))
    await filled(s, LIBRARY)
    [header] = LIBRARY.parts
    damage = await Damage(s.store, s.layout, header).load()
    expected = await damage.do("altered", "deleted", "moved", "doubled", "orphaned")
    assert told(await verified(s, header)) == expected
    assert not (await verified(s, header, repair=True)).left
    assert (await verified(s, header)).clean
    assert (await verified(s, LIBRARY, repair=True)).left == {}
    await s.run()
    assert (await verified(s, LIBRARY)).clean


async def test_copies_in_place(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(IN_PLACE,)))
    await filled(s, IN_PLACE, 60)
    assert (await verified(s, IN_PLACE)).clean
    books = s.layout.source(IN_PLACE)
    damage = Damage(s.store, s.layout, IN_PLACE)
    items = await s.all(books)
    for item in items[:3]:
        await damage.put(books, Key.of(item["shelf"]), item | {"author": {"id": "a0", "name": "nobody"}})
    report = await verified(s, IN_PLACE)
    assert (report.differences, report.pending) == ({}, 3)  # the feed has not been read as far
    checkpoints = [d for d in await s.all(s.layout.state) if d["pk"] == "filled@1" and d["id"].startswith("range ")]
    for found in checkpoints:  # as if a host had read past them, and lost the batch
        [position] = [
            page.position async for page in s.store.changes(books, FeedRange(*found["range"]), Start(now=True), 1)
        ]
        await damage.put(s.layout.state, Key.of("filled@1"), found | {"position": position})
    report = await verified(s, IN_PLACE, repair=True)
    assert (report.differences, report.left) == ({"wrong content": 3}, {})
    assert {book["author"]["name"][:3] for book in await s.all(books)} == {"Ann"}
    await s.assert_converged()


async def test_equal_sides_cost_little(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_STATUS,)))
    await s.put(
        *({"id": str(n), "customerId": f"c{n % 50}", "status": f"s{n % 40}", "text": "x" * 600} for n in range(1_000))
    )
    await s.run()
    report = await verified(s, BY_STATUS)
    assert (report.clean, report.examined, report.entries) == (True, 1_000, 1_000)
    assert report.request_units / report.examined <= 2.2
    assert report.calls / report.examined <= 0.03


async def test_a_sample_reads_less(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_STATUS,)))
    await s.put(*({"id": str(n), "customerId": f"c{n}", "status": f"s{n}"} for n in range(300)))
    await s.run()
    report = await verified(s, BY_STATUS, scope=Scope(sample=25))
    assert report.clean
    assert 30 < report.examined < 120
    halves = [FeedRange("", "20"), FeedRange("20", "FF")]
    reports = [await verified(s, BY_STATUS, scope=Scope(feed_range=half)) for half in halves]
    assert sum(one.examined for one in reports) == 300
    assert sum(one.entries for one in reports) == 300
    assert all(one.clean for one in reports)
    damage = await Damage(s.store, s.layout, BY_STATUS).load()
    expected = await damage.do("deleted", "altered", "doubled")
    reports = [await verified(s, BY_STATUS, scope=Scope(feed_range=half)) for half in halves]
    assert told(reports[0]) + told(reports[1]) == expected


async def test_a_source_that_was_created_anew_is_no_reason_to_remove_anything(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_STATUS,)))
    await filled(s, BY_STATUS, 30)
    source = s.layout.source(BY_STATUS)
    database = s.store._client.get_database_client(source.database)
    await database.delete_container(source.name)
    await initialise(s.store, s.layout)
    await s.put({"id": "new", "customerId": "c", "status": "s0"})
    before = await s.entries("by-status")
    with pytest.raises(FatalError, match="created anew"):
        await verified(s, BY_STATUS, repair=True, empty_source=True)
    assert await s.entries("by-status") == before
