"""Two levels: copies of entries that have copies themselves."""

from __future__ import annotations

from typing import Any

import pytest

from projections.declare import Catalog, Index, SoftDelete, Source, Target
from projections.embed import Embed, Reference
from projections.errors import CatalogError
from projections.keys import Key
from projections.store import Container, Document, Upsert
from projections.strategies import Concat

BOOKS = Source(container="books", key="/shelf")
AUTHORS = Source(container="authors", key=("/country", "/city"))
AGENCIES = Source(container="agencies", key="/id")
WRITERS = Embed(
    name="writers", source=AUTHORS, key=Concat("/country", "/id", path="/who"), deletes=SoftDelete("/dead"),
    references={"agency": Reference(source=AGENCIES, id="/agencyId", fields="name")},
)  # fmt: skip
BY = Reference(of=WRITERS, id="/authors/*/id", key=("/authors/*/country", "/authors/*/city"), fields=("name", "agency"))
LIBRARY = Embed(name="library", source=BOOKS, key="/isbn", references={"by": BY})
CATALOG = Catalog(projections=(LIBRARY, WRITERS))
ANN = {"id": "a1", "country": "de", "city": "Bonn", "name": "Ann", "agencyId": "x"}
BOOK = {"id": "b1", "shelf": "s", "isbn": "1", "authors": [{"id": "a1", "country": "de", "city": "Bonn"}]}


class Library:
    def __init__(self, shop: Any, store: Any) -> None:
        self.shop = shop
        self.store = store

    async def put(self, source: Source, *items: Document) -> None:
        for item in items:
            container = Container(self.shop.layout.database, source.container)
            await self.store.write(container, Key.of(*source.key.of(item)), [Upsert(item)])

    async def by(self) -> Any:
        await self.shop.run()
        await self.shop.assert_converged()
        [entry] = await self.shop.entries("library")
        return entry["by"]


@pytest.fixture
async def library(shop, store):
    return Library(await shop(CATALOG), store)


async def test_both_levels_are_copied_and_followed(library):
    await library.put(BOOKS, BOOK)
    await library.put(AUTHORS, ANN)
    await library.put(AGENCIES, {"id": "x", "name": "Pen"})
    assert await library.by() == [{"id": "a1", "name": "Ann", "agency": {"id": "x", "name": "Pen"}}]
    await library.put(AGENCIES, {"id": "x", "name": "Quill"})
    assert await library.by() == [{"id": "a1", "name": "Ann", "agency": {"id": "x", "name": "Quill"}}]
    await library.put(AUTHORS, {**ANN, "name": "Anna", "agencyId": None})
    assert await library.by() == [{"id": "a1", "name": "Anna"}]


async def test_an_entry_that_goes_away_takes_the_copies_of_it_along(library):
    """Its container's feed does not tell of it."""
    await library.put(BOOKS, BOOK)
    await library.put(AUTHORS, ANN)
    assert len(await library.by()) == 1
    await library.put(AUTHORS, {**ANN, "dead": True})
    assert await library.by() == []
    await library.put(AUTHORS, ANN)
    assert len(await library.by()) == 1


# declared


def refers(of: Any, **fields: Any) -> Reference:
    return Reference(**{"of": of, "id": "/a", "key": ("/b", "/c"), "fields": "n", **fields})


def writers(**fields: Any) -> Index:
    return Index(**{"name": "w", "source": AUTHORS, "key": Concat("/country", "/id", path="/who"), **fields})


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: refers(writers(), source=AUTHORS), "source or of, not both"),
        (lambda: refers(writers(key="/name")), "depends on /name of its item.* key w by these"),
        (lambda: refers(writers(each="/names")), "w has not one entry for each item"),
        (lambda: refers(writers(), key=None), "authors is keyed /country, /city"),
        (lambda: Catalog(projections=(LIBRARY,)), "it refers to writers; add that"),
        (
            lambda: Catalog(projections=(writers(), Embed(
                name="l", source=BOOKS, key="/isbn",
                references={"by": Reference(source=Source(container="w", key="/who"), id="/a", key="/k", fields="n")},
            ))),
            r"has the entries of w.* Reference\(of=",
        ),
        (
            lambda: Catalog(projections=(WRITERS, LIBRARY.model_copy(update={"target": Target(container="agencies")}))),
            "feeds its own source",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(declare, message):
    with pytest.raises(CatalogError, match=message):
        declare()
