"""Entries with copies of the items that theirs refer to."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from projections.declare import Catalog, SoftDelete, Source
from projections.embed import Embed, Reference
from projections.keys import Key
from projections.lookup import Lookup
from projections.store import Container, Delete, Document, Upsert

BOOKS = Source(container="books", key="/shelf")
AUTHORS = Source(container="authors", key="/id")
PUBLISHERS = Source(container="publishers", key=("/country", "/city"))
CATALOG = Catalog(
    projections=(
        Embed(
            name="library",
            source=BOOKS,
            key="/isbn",
            references={
                "authors": Reference(source=AUTHORS, id="/authorIds/*", fields=("name",)),
                "publisher": Reference(
                    source=PUBLISHERS, id="/publisherId", key=("/country", "/city"), fields=("name", "/seat/street"),
                    deletes=SoftDelete("/closed"),
                ),
            },
        ),
    )
)  # fmt: skip
EXCERPT = CATALOG["library"].model_copy(update={"name": "excerpt", "include": ("/title", "/isbn")})
BOOK = {
    "id": "b1", "shelf": "s1", "isbn": "1-2", "title": "Ours", "authorIds": ["a1", "a2"],
    "publisherId": "p1", "country": "de", "city": "Bonn",
}  # fmt: skip
PUBLISHER = {"id": "p1", "country": "de", "city": "Bonn", "name": "Press", "seat": {"street": "Weg", "no": 3}}


class Library:
    def __init__(self, shop: Any) -> None:
        self.shop = shop

    async def put(self, source: Source, *items: Document) -> None:
        container = Container(self.shop.layout.database, source.container)
        for item in items:
            await self.shop.store.write(container, Key.of(*source.key.of(item)), [Upsert(item)])

    async def remove(self, source: Source, item: Document) -> None:
        container = Container(self.shop.layout.database, source.container)
        [found] = [d for d in await self.shop.all(container) if d["id"] == item["id"]]
        await self.shop.store.write(container, Key.of(*source.key.of(item)), [Delete(item["id"], found["_etag"])])

    async def author(self, id_: str, name: str, **fields: Any) -> None:
        await self.put(AUTHORS, {"id": id_, "name": name, "born": 1900, **fields})

    async def time_is_up(self, id_: str) -> None:
        """What the header of an author says is past."""
        refs = self.shop.layout.refs(CATALOG["library"])
        [header] = [
            d for d in await self.shop.all(refs) if d["id"] == "header" and d["ref"].startswith(f"authors|{id_}~")
        ]
        own = {name: value for name, value in header.items() if name not in ("_etag", "_ts", "_rid", "_self")}
        assert time.time() + 500 < header["expires"] < time.time() + 700
        await self.shop.store.write(refs, Key.of(header["ref"]), [Upsert({**own, "expires": int(time.time()) - 1})])

    async def entry(self) -> Document:
        [found] = await self.shop.entries("library")
        return {name: value for name, value in found.items() if not name.startswith("_") and name != "id"}

    async def run(self, **options: Any) -> None:
        await self.shop.run(**options)
        await self.shop.assert_converged()


@pytest.fixture
async def library(shop):
    return Library(await shop(CATALOG))


async def test_an_entry_has_copies_of_what_its_item_refers_to(library):
    await library.author("a1", "Ann")
    await library.author("a2", "Bob")
    await library.put(PUBLISHERS, PUBLISHER)
    await library.put(BOOKS, BOOK)
    await library.run()
    assert await library.entry() == {
        **{name: value for name, value in BOOK.items() if name != "id"},
        "authors": [{"id": "a1", "name": "Ann"}, {"id": "a2", "name": "Bob"}],
        "publisher": {"id": "p1", "name": "Press", "seat": {"street": "Weg"}},
    }


async def test_a_change_of_what_is_referred_to_reaches_every_entry(library):
    await library.author("a1", "Ann")
    await library.put(BOOKS, *({**BOOK, "id": f"b{n}", "isbn": str(n)} for n in range(450)))
    await library.run()
    await library.author("a1", "Anna")
    await library.run()
    names = [[author["name"] for author in entry["authors"]] for entry in await library.shop.entries("library")]
    assert names == [["Anna"]] * 450


async def test_a_reference_that_arrives_later_is_filled_in(library):
    await library.put(BOOKS, BOOK)
    await library.run()
    entry = await library.entry()
    assert entry["authors"] == []
    assert "publisher" not in entry
    await library.author("a2", "Bob")
    await library.run()
    assert (await library.entry())["authors"] == [{"id": "a2", "name": "Bob"}]
    await library.author("a1", "Ann")
    await library.run()
    assert (await library.entry())["authors"] == [{"id": "a1", "name": "Ann"}, {"id": "a2", "name": "Bob"}]


async def test_a_change_of_reference_leaves_nothing_behind(library):
    await library.author("a1", "Ann")
    await library.author("a3", "Cid")
    await library.put(BOOKS, BOOK)
    await library.run()
    await library.put(BOOKS, {**BOOK, "authorIds": ["a3"], "publisherId": None})
    await library.run()
    assert (await library.entry())["authors"] == [{"id": "a3", "name": "Cid"}]
    await library.author("a1", "nobody asks")
    await library.run()


async def test_what_is_referred_to_goes_away_and_comes_back(library):
    await library.put(PUBLISHERS, PUBLISHER)
    await library.put(BOOKS, BOOK)
    await library.run()
    await library.put(PUBLISHERS, {**PUBLISHER, "closed": True})
    await library.run()
    assert "publisher" not in await library.entry()
    await library.put(PUBLISHERS, {**PUBLISHER, "name": "New Press"})
    await library.run()
    assert (await library.entry())["publisher"]["name"] == "New Press"


async def test_an_entry_is_fresh_while_its_item_and_its_copies_say_the_same(shop, store):
    library = Library(await shop(Catalog(projections=(EXCERPT,))))
    lookup = Lookup(store, library.shop.layout, EXCERPT)

    async def fresh() -> int:
        return len((await lookup.entries("1-2", fresh=True)).entries)

    await library.author("a1", "Ann")
    await library.put(BOOKS, BOOK)
    await library.run()
    assert await fresh() == 1
    await library.put(BOOKS, {**BOOK, "price": 1})  # not in the entry
    assert await fresh() == 1
    await library.put(BOOKS, {**BOOK, "authorIds": []})
    assert await fresh() == 0


async def test_what_is_referred_to_expires(library):
    for id_, name in (("a1", "Ann"), ("a2", "Bob")):
        await library.author(id_, name, ttl=600)
    await library.put(BOOKS, BOOK)
    await library.run()
    assert [author["name"] for author in (await library.entry())["authors"]] == ["Ann", "Bob"]
    await library.remove(AUTHORS, {"id": "a1"})  # as the store does, some day
    await library.time_is_up("a1")
    await library.run()
    assert [author["name"] for author in (await library.entry())["authors"]] == ["Bob"]


async def test_what_is_referred_to_got_a_longer_time(library):
    await library.author("a1", "Ann", ttl=600)
    await library.put(BOOKS, BOOK)
    await library.run()
    await library.time_is_up("a1")
    await library.run()
    assert [author["name"] for author in (await library.entry())["authors"]] == ["Ann"]


async def test_a_later_expiry_of_what_is_referred_to_is_no_new_copy(library):
    """The header says when it expires; entries have nothing to do with it."""
    await library.author("a1", "Ann", ttl=60)
    await library.put(BOOKS, BOOK)
    await library.run()
    [before] = await library.shop.entries("library")
    await library.author("a1", "Ann", ttl=3600)
    await library.shop.run()
    jobs = [doc for doc in await library.shop.all(library.shop.layout.state) if doc["pk"].endswith("|fanout")]
    assert jobs == []
    assert await library.shop.entries("library") == [before]


async def test_a_change_of_fields_that_are_not_copied_writes_nothing(library):
    await library.author("a1", "Ann")
    await library.put(BOOKS, BOOK)
    await library.run()
    [before] = await library.shop.entries("library")
    await library.author("a1", "Ann", born=1901)
    await library.run()
    assert await library.shop.entries("library") == [before]


async def test_an_item_that_goes_takes_its_back_references_along(library):
    await library.put(BOOKS, BOOK)
    await library.run()
    await library.put(BOOKS, {**BOOK, "isbn": None})
    await library.run()
    assert await library.shop.entries("library") == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"authorIds": "a1"}, "/authorIds is no list"),
        ({"authorIds": ["a1", 7]}, "/authorIds/.* is no text"),
        ({"country": {}}, "/country is no scalar"),
        ({"publisher": "mine"}, "under which copies are kept"),
    ],
)
async def test_an_item_whose_references_make_no_sense_is_parked(library, fields, reason):
    await library.put(BOOKS, {**BOOK, **fields})
    await library.run()
    [letter] = await library.shop.parked("library")
    assert re.search(reason, letter.reason)
