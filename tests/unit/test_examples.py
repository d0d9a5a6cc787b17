"""The shipped catalogs, each kind and strategy in them, on data of their shape: always as a fresh rebuild would be."""

from __future__ import annotations

import random
from collections import defaultdict
from decimal import Decimal
from typing import Any

import pytest

from projections.declare import Catalog, Source
from projections.example import books, flights, shop
from projections.example.data import orders
from projections.keys import Key
from projections.lookup import Lookup
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.store import Container, Document, Upsert
from projections.worker import Worker
from tests.converged import assert_converged, documents


class World:
    """One catalog on a store in memory."""

    def __init__(self, catalog: Catalog) -> None:
        self.store = MemoryStore()
        self.layout = Layout(catalog, "db")

    async def put(self, source: Source, *items: Document) -> None:
        for item in items:
            await self.store.write(Container("db", source.container), Key.of(*source.key.of(item)), [Upsert(item)])

    async def run(self) -> None:
        """Until caught up; then everything is checked."""
        await Worker(self.store, self.layout, list(self.layout.catalog)).run(until_caught_up=True)
        await assert_converged(self.store, self.layout)

    async def again(self) -> None:
        """The whole feed once more: no position is known."""
        state = self.store._containers[self.layout.state].documents
        positions = [place for place, doc in state.items() if "position" in doc]
        assert len(positions) == len(self.layout.catalog.parts)
        for place in positions:
            del state[place]
        await self.run()

    async def entries(self, name: str) -> list[Document]:
        return await documents(self.store, self.layout.target(self.layout.catalog[name]))

    async def look_up(self, name: str, *values: Any) -> list[Document]:
        return (await Lookup(self.store, self.layout, self.layout.catalog[name]).entries(*values)).entries


async def opened(catalog: Catalog) -> World:
    world = World(catalog)
    await initialise(world.store, world.layout)
    return world


# the shop

ORDERS = list(orders(120))
CUSTOMERS = [{"id": id_, "name": f"Name {id_}", "city": "Bonn"} for id_ in sorted({o["customerId"] for o in ORDERS})]


@pytest.fixture
async def shopping() -> World:
    world = await opened(shop.catalog)
    await world.put(shop.customers, *CUSTOMERS)
    await world.put(shop.orders, *ORDERS)
    await world.run()
    return world


def spent(found: list[Document]) -> dict[tuple[str, str], Decimal]:
    """What each customer spends in each month, straight from the orders."""
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for order in found:
        sums[order["customerId"], order["createdAt"][:7]] += Decimal(repr(order["total"]))
    return dict(sums)


async def totals(world: World) -> dict[tuple[str, str], Decimal]:
    found = [doc for doc in await world.entries("spent-by-month") if doc["id"] == "total"]
    return {(doc["customerId"], doc["month"]): Decimal(str(doc["spent"])) for doc in found}


async def test_totals_are_those_of_the_orders_to_the_last_digit(shopping: World) -> None:
    assert await totals(shopping) == spent(ORDERS)


async def test_totals_stand_when_everything_comes_again_and_orders_go_and_come_back(shopping: World) -> None:
    await shopping.again()
    await shopping.again()
    gone = ORDERS[::3]
    await shopping.put(shop.orders, *({**order, "deleted": True} for order in gone))
    await shopping.run()
    assert await totals(shopping) == spent([order for order in ORDERS if order not in gone])
    await shopping.put(shop.orders, *gone)
    await shopping.run()
    assert await totals(shopping) == spent(ORDERS)


async def test_lines_of_a_product(shopping: World) -> None:
    expected = sum(line["product"] == "desk lamp" for order in ORDERS for line in order["lines"])
    assert len(await shopping.look_up("lines-by-product", "desk lamp")) == expected


async def test_what_is_sold_of_a_product_over_all_shards(shopping: World) -> None:
    lines = [(o["customerId"], line) for o in ORDERS for line in o["lines"] if line["product"] == "notebook"]
    [total] = await shopping.look_up("sold-by-product", "notebook")
    assert total["quantity"] == sum(line["quantity"] for _, line in lines)
    assert total["customers"] == len({customer for customer, _ in lines})


async def test_open_orders_over_all_suffixes(shopping: World) -> None:
    found = {entry["orderId"] for entry in await shopping.look_up("open-orders", "open")}
    assert found == {order["orderId"] for order in ORDERS if order["status"] == "open"}


async def test_a_customer_who_moves_moves_on_every_order(shopping: World) -> None:
    customer = CUSTOMERS[0]
    await shopping.put(shop.customers, {**customer, "city": "Köln"})
    await shopping.run()
    cities = {(e["customerId"], e["customer"]["city"]) for e in await shopping.entries("orders-with-customer")}
    assert cities == {(one["id"], "Köln" if one is customer else "Bonn") for one in CUSTOMERS}


async def test_products_bought_together(shopping: World) -> None:
    pairs = [pair for order in ORDERS for pair in shop.pairs(order)]
    assert len(await shopping.entries("bought-together")) == len(pairs) > 50


# books


async def test_the_library() -> None:
    world = await opened(books.catalog)
    await world.put(books.authors, {"id": "a1", "name": "Ann"}, {"id": "a2", "name": "Bob"})
    await world.put(books.publishers, {"id": "p1", "name": "Press", "city": "Bonn"})
    for n in range(20):
        authors = [["a1"], ["a2", "a1"], []][n % 3]
        await world.put(books.books, {
            "id": f"b{n}", "shelf": "s", "isbn": str(n), "title": f"T{n}", "authorIds": authors, "publisherId": "p1",
            "tags": ["new", "new", f"tag{n % 2}"],
        })  # fmt: skip
    await world.run()
    assert len(await world.look_up("books-by-author", "a1")) == 14
    assert len(await world.look_up("books-by-tag", "new")) == 20
    await world.put(books.authors, {"id": "a1", "name": "Anna"})
    await world.put(books.books, {"id": "b0", "shelf": "s", "isbn": "0", "authorIds": ["a2"], "tags": None})
    await world.run()
    [entry] = await world.look_up("library", "1")
    assert entry["authors"] == [{"id": "a2", "name": "Bob"}, {"id": "a1", "name": "Anna"}]
    assert len(await world.look_up("books-by-author", "a1")) == 13


# flights


def made(count: int) -> list[Document]:
    chance = random.Random(7)
    return [
        {
            "id": f"f{n}", "flight": n, "carrier": chance.choice(["UA", "AA", "9E"]),
            "date": (date := f"2013-0{n % 3 + 1}-0{n % 9 + 1}"), "scheduled": f"{date}T10:00:00Z",
            "origin": chance.choice(["EWR", "LGA"]), "dest": chance.choice(["IAH", "MIA"]),
            "tailnum": chance.choice(["N1", "N2", "N3", None]),
            "arr_delay": chance.choice([None, chance.randint(-30, 400)]),
        }
        for n in range(count)
    ]  # fmt: skip


async def test_flights() -> None:
    world, every = await opened(flights.catalog), made(150)
    await world.put(flights.airlines, {"id": "UA", "name": "United"}, {"id": "AA", "name": "American"})
    await world.put(flights.planes, {"id": "N1", "manufacturer": "AIRBUS", "model": "A320", "seats": 180})
    await world.put(flights.flights, *every)
    await world.run()

    united = [f for f in every if f["carrier"] == "UA" and f["scheduled"].startswith("2013-01")]
    [total] = await world.look_up("delays", "UA", "2013-01")
    known = [f["arr_delay"] for f in united if f["arr_delay"] is not None]
    assert (total["flights"], total["minutes"], total["worst"]) == (len(united), sum(known), max(known))
    assert total["planes"] == len({f["tailnum"] for f in united if f["tailnum"]})
    assert len(await world.look_up("flights-by-plane", "N1")) == sum(f["tailnum"] == "N1" for f in every)
    route = [f for f in every if (f["origin"], f["dest"]) == ("EWR", "MIA")]
    assert len(await world.look_up("flights-by-route", "EWR", "MIA")) == len(route)
    day = [f for f in every if f["origin"] == "LGA" and f["scheduled"].startswith("2013-02-02")]
    assert len(await world.look_up("flights-by-origin-and-day", "LGA", "2013-02-02")) == len(day)

    await world.put(flights.airlines, {"id": "UA", "name": "United Air Lines"})
    await world.put(flights.flights, {**every[0], "carrier": "UA", "id": "new"})
    await world.run()
    names = {e["airline"]["name"] for e in await world.entries("flights-with-names") if e["carrier"] == "UA"}
    assert names == {"United Air Lines"}
