"""Replay: everything applied anew, from positions of its own; beside live work; rehearsed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from projections.aggregate import Aggregate
from projections.declare import Catalog, Index, SoftDelete, Source
from projections.embed import Embed, Reference
from projections.errors import AskError, UnsafeError
from projections.keys import Key
from projections.measures import Count, Sum
from projections.outcomes import Outcome
from projections.rehearsal import Rehearsal
from projections.replay import Replay, Report, Selection
from projections.resumption import Resumption
from projections.store import Container, Delete, Document, Upsert
from projections.worker import Engine

ORDERS = Source(container="orders", key="/customer")
BY_STATE = Index(name="by-state", source=ORDERS, key="/state", deletes=SoftDelete("/deleted"), model=None)
TOTALS = Aggregate(name="totals", source=ORDERS, key="/state", measures={"n": Count(), "sum": Sum("/sum")})
CATALOG = Catalog(projections=(BY_STATE, TOTALS))


def order(n: int, **fields: Any) -> Document:
    return {"id": f"o{n}", "customer": f"c{n % 3}", "state": "open", "sum": n / 10, **fields}


@pytest.fixture
async def shop_(shop):
    opened = await shop(CATALOG)
    await opened.put(*(order(n) for n in range(30)))
    await opened.run()
    return opened


async def replayed(shop: Any, name: str = "by-state", *, restart: bool = False, stop: Any = lambda: False,
                   store: Any = None, **options: Any) -> Report:  # fmt: skip
    store = store or shop.store
    engine = await Engine.open(store, shop.layout, shop.catalog[name])
    return await Replay(store, shop.layout, engine, **options).run(restart=restart, stop=stop)


async def damage(shop: Any, name: str, change: Any) -> None:
    """Do something to every entry behind the worker's back."""
    target = shop.layout.target(shop.catalog[name])
    for entry in await shop.entries(name):
        await shop.store.write(target, Key.of(entry["state"]), [change(entry)])


async def test_it_brings_back_what_is_lost_and_puts_right_what_is_stale(shop_):
    await damage(shop_, "by-state", lambda entry: Delete(entry["id"], entry["_etag"]))
    report = await replayed(shop_)
    assert report.applied.outcomes == {"written": 30}
    assert (report.read, report.total, report.finished) == (30, 30, True)
    assert report.cost.request_units > 100
    await shop_.assert_converged()


async def test_what_is_right_is_only_read(shop_):
    before = await shop_.entries("by-state")
    report = await replayed(shop_)
    assert report.applied.outcomes == {"unchanged": 30}
    assert await shop_.entries("by-state") == before


async def test_it_goes_on_where_it_was_stopped(shop_):
    pages = 0

    def after_two() -> bool:
        nonlocal pages
        pages += 1
        return pages > 2

    first = await replayed(shop_, page_size=5, stop=after_two)
    assert not first.finished
    assert 0 < first.read < 30
    second = await replayed(shop_, page_size=5)
    assert (second.resumed, second.finished) == (True, True)
    assert first.read + second.read == 30
    assert second.applied.total == 30  # since it began
    third = await replayed(shop_)
    assert (third.resumed, third.read) == (False, 30)


async def test_an_unfinished_one_that_asked_for_something_else_is_not_taken_up(shop_):
    await replayed(shop_, stop=lambda: True)
    other = Selection(where=(("/state", "open"),))
    with pytest.raises(UnsafeError, match="from beginning is unfinished, and was asked for something else"):
        await replayed(shop_, selection=other)
    assert (await replayed(shop_, selection=other, restart=True)).finished


async def test_it_goes_on_from_where_the_last_one_ended(shop_):
    with pytest.raises(AskError, match="no replay has come to its end"):
        await replayed(shop_, begin="checkpoint")
    await replayed(shop_)
    await shop_.put(order(7, state="closed"), order(31))
    report = await replayed(shop_, begin="checkpoint")
    assert sorted(report.applied.outcomes.items()) == [("moved", 1), ("written", 1)]
    assert (await replayed(shop_, begin="checkpoint")).read == 0


async def test_it_begins_at_a_time_and_goes_on_from_one(shop_):
    [item, *_] = await shop_.all(Container(shop_.layout.database, "orders"))
    report = await replayed(shop_, begin=item["_ts"] + 3600)
    assert (report.read, report.finished) == (0, True)
    stopped = iter([False, True, True])
    first = await replayed(shop_, begin=item["_ts"] - 60, page_size=5, stop=lambda: next(stopped))
    assert (first.read, first.finished) == (5, False)
    second = await replayed(shop_, begin=item["_ts"] - 60, page_size=5)
    assert (second.resumed, second.finished) == (True, True)
    assert first.read + second.read >= 30  # some of a second may come again


async def test_it_applies_what_is_selected(shop_):
    await damage(shop_, "by-state", lambda entry: Delete(entry["id"], entry["_etag"]))
    by_key = await replayed(shop_, selection=Selection(keys=(Key.of("c1"),)))
    assert by_key.applied.outcomes == {"written": 10}
    narrower = Selection(keys=(Key.of("c2"), Key.of("c1")), where=(("/sum", 0.5),))
    assert (await replayed(shop_, selection=narrower)).applied.outcomes == {"written": 1}
    where = await replayed(shop_, selection=Selection(where=(("/state", "open"), ("/id", "o0"))))
    assert (where.applied.outcomes, where.read) == ({"written": 1}, 30)
    assert len(await shop_.entries("by-state")) == 12


async def test_it_applies_what_is_parked(shop_):
    await shop_.put(order(1, state={}), order(2, state=[]))
    await shop_.run()
    assert len(await shop_.parked("by-state")) == 2
    await shop_.put(order(1))
    report = await replayed(shop_, selection=Selection(parked=True))
    assert sorted(report.applied.outcomes.items()) == [("parked", 1), ("written", 1)]
    assert len(await shop_.parked("by-state")) == 1


async def test_totals_are_what_they_were(shop_):
    before = await shop_.entries("totals")
    for _ in range(2):
        assert (await replayed(shop_, "totals")).applied.outcomes == {"unchanged": 30}
    assert await shop_.entries("totals") == before


# rehearsed


async def rehearsed(shop: Any, name: str = "by-state") -> tuple[Report, list[tuple[str, str]]]:
    """What it comes to, and what would be written."""
    told: list[tuple[str, str]] = []
    rehearsal = Rehearsal(shop.store, lambda c, key, op, before: told.append((c.name, type(op).__name__)))
    engine = await Engine.open(rehearsal, shop.layout, shop.catalog[name])
    report = await Replay(rehearsal, shop.layout, engine, rehearsal=rehearsal, page_size=7).run()
    assert (rehearsal.request_units > 0) == bool(told)
    return report, told


async def everything(shop: Any) -> str:
    """All that is stored."""
    names = await shop.store.containers(shop.layout.database)
    found = {name: await shop.all(Container(shop.layout.database, name)) for name in names}
    return json.dumps(found, sort_keys=True)


@pytest.mark.parametrize("name", ["by-state", "totals"])
async def test_a_rehearsal_says_what_will_be_and_writes_nothing(shop_, name):
    await shop_.put(*(order(n, state="closed") for n in range(4)), order(5, state={}), order(6, sum=77), order(40))
    await shop_.put(order(8, deleted=True))
    before = await everything(shop_)
    foreseen, told = await rehearsed(shop_, name)
    assert await everything(shop_) == before
    real = await replayed(shop_, name)
    assert real.applied == foreseen.applied
    assert real.applied.outcomes[Outcome.MOVED] == 4
    assert told
    again = {container for container, _ in (await rehearsed(shop_, name))[1]}
    assert again <= {"projections-deadletters"}  # another attempt at what is parked


async def test_a_rehearsal_of_headers_begins_no_fan_out(shop):
    books, authors = Source(container="books", key="/id"), Source(container="authors", key="/id")
    by = Reference(source=authors, id="/author", fields="name")
    library = await shop(Catalog(projections=(Embed(name="l", source=books, key="/isbn", references={"by": by}),)))
    await library.put({"id": "b", "isbn": "1", "author": "a"})
    await library.store.write(
        Container(library.layout.database, "authors"), Key.of("a"), [Upsert({"id": "a", "name": "A"})]
    )
    before = await everything(library)
    assert (await rehearsed(library, "l.by"))[0].applied.outcomes == {"written": 1}
    assert await everything(library) == before


async def test_its_record_says_what_it_was_asked_for(shop_):
    resumption = Resumption(shop_.store, shop_.layout.state, BY_STATE.full_name)
    assert await resumption.record() is None
    await replayed(shop_, selection=Selection(where=(("/state", "open"),)), now=lambda: 7.9)
    record = await resumption.record()
    assert record
    assert (record["from"], record["began"], record["finished"]) == ("beginning", 7, 7)
    assert record["selection"] == {"keys": [], "where": [["/state", "open"]], "parked": False}
