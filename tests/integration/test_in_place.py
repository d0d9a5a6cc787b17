"""Copies in the items themselves: the source is the target, and nothing of the user's is lost."""

from __future__ import annotations

from typing import Any

import pytest

from projections.declare import Catalog, Index, SoftDelete, Source
from projections.embed import Embed, Reference
from projections.errors import AskError
from projections.identity import Place
from projections.keys import Key
from projections.lookup import Lookup
from projections.store import Container, Delete, Document, Operation, Upsert

BOOKS = Source(container="books", key="/id")
AUTHORS = Source(container="authors", key="/country")
PUBLISHERS = Source(container="publishers", key="/id")
AUTHOR = Reference(source=AUTHORS, id="/authorId", key="/authorCountry", fields=("name", "publisher"))
PUBLISHER = Reference(source=PUBLISHERS, id="/publisherId", fields="name")
LIBRARY = Embed(
    name="library", source=BOOKS, in_place=True, deletes=SoftDelete("/deleted"),
    references={"author": AUTHOR, "publishers": Reference(source=PUBLISHERS, id="/publisherIds/*", fields="name")},
)  # fmt: skip
WRITERS = Embed(name="writers", source=AUTHORS, in_place=True, references={"publisher": PUBLISHER})
TITLES = Index(name="titles", source=BOOKS, key="/title")
CATALOG = Catalog(projections=(LIBRARY, WRITERS, TITLES))
BOOK = {"id": "b1", "title": "T", "authorId": "a1", "authorCountry": "de", "pages": [{"n": 1.5}], "no": None}
ANN = {"id": "a1", "country": "de", "name": "Ann", "born": 1900}


class Library:
    """Books, authors and publishers on the emulator."""

    def __init__(self, shop: Any, store: Any) -> None:
        self.shop = shop
        self.store = store

    def container(self, source: Source) -> Container:
        return Container(self.shop.layout.database, source.container)

    async def put(self, source: Source, *items: Document) -> None:
        for item in items:
            await self.store.write(self.container(source), Key.of(*source.key.of(item)), [Upsert(item)])

    async def stored(self, source: Source, id_: str, key: str) -> Document:
        place = Place(id_, Key.of(key))
        return (await self.store.read(self.container(source), [place]))[place]

    async def book(self, id_: str = "b1") -> Document:
        return {name: value for name, value in (await self.stored(BOOKS, id_, id_)).items() if name[0] != "_"}

    async def run(self, store: Any = None) -> None:
        """Until all is caught up: what one projection writes into items, the feeds show to the others."""
        for _ in range(3):
            await self.shop.run(store)
        await self.shop.assert_converged()


@pytest.fixture
async def library(shop, store):
    return Library(await shop(CATALOG), store)


async def test_copies_go_into_the_items_and_nothing_else_is_changed(library):
    await library.put(AUTHORS, ANN)
    await library.put(BOOKS, BOOK)
    await library.run()
    assert await library.book() == {**BOOK, "author": {"id": "a1", "name": "Ann"}}


async def test_it_comes_to_rest(library):
    """The feed shows an item that has been filled once more, and nothing is left to do."""
    await library.put(AUTHORS, ANN)
    await library.put(BOOKS, BOOK)
    await library.run()
    before = await library.stored(BOOKS, "b1", "b1")
    await library.run()
    assert await library.stored(BOOKS, "b1", "b1") == before


async def test_a_change_reaches_items_and_whatever_else_is_made_of_them(library):
    await library.put(AUTHORS, ANN)
    await library.put(BOOKS, *({**BOOK, "id": f"b{n}"} for n in range(230)))
    await library.run()
    await library.put(AUTHORS, {**ANN, "name": "Anna"})
    await library.run()
    assert {doc["author"]["name"] for doc in await library.shop.all(library.container(BOOKS))} == {"Anna"}
    assert {doc["author"]["name"] for doc in await library.shop.entries("titles")} == {"Anna"}


async def test_two_levels_what_is_copied_has_copies_of_its_own(library):
    await library.put(PUBLISHERS, {"id": "p1", "name": "Press"})
    await library.put(AUTHORS, {**ANN, "publisherId": "p1"})
    await library.put(BOOKS, BOOK)
    await library.run()
    assert (await library.book())["author"] == {
        "id": "a1", "name": "Ann", "publisher": {"id": "p1", "name": "Press"},
    }  # fmt: skip
    await library.put(PUBLISHERS, {"id": "p1", "name": "Print"})
    await library.run()
    assert (await library.book())["author"]["publisher"]["name"] == "Print"


async def test_a_copy_goes_with_its_reference_and_with_what_it_is_a_copy_of(library):
    await library.put(PUBLISHERS, {"id": "p1", "name": "One"}, {"id": "p2", "name": "Two"})
    await library.put(AUTHORS, ANN)
    await library.put(BOOKS, {**BOOK, "publisherIds": ["p2", "p1"]}, {**BOOK, "id": "b2", "publisherIds": []})
    await library.run()
    found = await library.book()
    assert found["publishers"] == [{"id": "p2", "name": "Two"}, {"id": "p1", "name": "One"}]
    await library.put(BOOKS, {**found, "authorId": None, "publisherIds": []})
    await library.run()
    assert await library.book() == {**BOOK, "authorId": None, "publisherIds": []}
    assert (await library.book("b2"))["author"]["name"] == "Ann"
    author = await library.stored(AUTHORS, "a1", "de")
    await library.store.write(library.container(AUTHORS), Key.of("de"), [Delete("a1", author["_etag"])])
    await library.shop.run()  # the feed does not tell; whoever looks at the author next sees it
    await library.put(AUTHORS, {**ANN, "id": "a2"})
    await library.put(BOOKS, {**BOOK, "id": "b2", "authorId": "a2"})
    await library.shop.run()
    assert (await library.book("b2"))["author"]["id"] == "a2"


class Meddling:
    """A store in which a user writes an item right before a worker does."""

    def __init__(self, store: Any, meddle: Any) -> None:
        self._store = store
        self._meddle = meddle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, container: Container, key: Key, operations: list[Operation]) -> Any:
        if container.name == "books" and self._meddle:
            meddle, self._meddle = self._meddle, None
            await meddle()
        return await self._store.write(container, key, operations)


async def test_what_a_user_writes_at_the_same_time_stays(library):
    await library.put(AUTHORS, ANN, {**ANN, "id": "a2", "name": "Bob"})
    await library.put(BOOKS, BOOK)
    changed = {**BOOK, "title": "New", "authorId": "a2"}
    await library.run(Meddling(library.store, lambda: library.put(BOOKS, changed)))
    assert await library.book() == {**changed, "author": {"id": "a2", "name": "Bob"}}


async def test_an_item_that_is_deleted_at_the_same_time_stays_deleted(library):
    await library.put(AUTHORS, ANN)
    await library.put(BOOKS, BOOK)

    async def remove() -> None:
        found = await library.stored(BOOKS, "b1", "b1")
        await library.store.write(library.container(BOOKS), Key.of("b1"), [Delete("b1", found["_etag"])])

    await library.shop.run(Meddling(library.store, remove))
    assert await library.shop.all(library.container(BOOKS)) == []
    refs = await library.shop.all(library.shop.layout.refs(LIBRARY))
    assert [doc["id"] for doc in refs] == ["header"]


@pytest.mark.parametrize("own", ["Ann", {"id": "a1", "mine": 1}, {"name": "Ann"}, [{"id": "a1"}], 1, True])
async def test_a_property_that_is_no_copy_is_not_overwritten(library, own):
    await library.put(AUTHORS, ANN)
    await library.put(BOOKS, {**BOOK, "author": own})
    await library.run()
    assert await library.book() == {**BOOK, "author": own}
    [letter] = await library.shop.parked("library")
    assert "/author" in str(letter.path)


@pytest.mark.parametrize("own", [None, {"id": "a1", "name": "out of date"}, {}])
async def test_what_might_be_a_copy_is_put_right(library, own):
    await library.put(AUTHORS, ANN)
    await library.put(BOOKS, {**BOOK, "author": own})
    await library.run()
    assert (await library.book())["author"] == {"id": "a1", "name": "Ann"}


async def test_a_deleted_item_is_left_as_it_is(library):
    """Writing to it would have its time to live start again."""
    await library.put(AUTHORS, ANN)
    await library.put(BOOKS, BOOK)
    await library.run()
    deleted = {**await library.book(), "deleted": True}
    await library.put(BOOKS, deleted)
    await library.run()
    await library.put(AUTHORS, {**ANN, "name": "Anna"})
    await library.run()
    assert await library.book() == deleted


async def test_there_are_no_entries_to_look_up(library):
    with pytest.raises(AskError, match="copies are in the items themselves"):
        await Lookup(library.store, library.shop.layout, LIBRARY).entries("b1")
