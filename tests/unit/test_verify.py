"""Verify: what it tells, what it costs, and that nothing that goes wrong meanwhile does harm."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from projections.aggregate import Aggregate
from projections.audit import Audit
from projections.declare import Catalog, Index, Projection, Source
from projections.errors import AskError, ProjectionsError, TransientError, UnsafeError
from projections.keys import Key
from projections.measures import Count, Max
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.store import Container, Delete, FeedRange, Upsert
from projections.verification import Report, Scope
from projections.verify import BusyError, Verify
from projections.worker import Engine, Worker
from tests.converged import assert_converged, documents
from tests.corruption import ENTRIES, LETTERS, RECORDS, Damage, cycled, told
from tests.host.virtual import in_virtual_time

ORDERS = Source(container="orders", key="/shop")
BY_STATUS = Index(name="by-status", source=ORDERS, key="/status")
COUNTED = Aggregate(name="counted", source=ORDERS, key="/status", measures={"orders": Count(), "largest": Max("/no")})


def laid_out(projection: Projection) -> Layout:
    return Layout(Catalog(projections=(projection,)), "db")


class KilledError(BaseException):
    """The process dies here."""


class World:
    """A source and what a projection keeps of it."""

    def __init__(self, projection: Projection = BY_STATUS, **options: Any) -> None:
        self.projection = projection
        self.layout = laid_out(projection)
        self.calls = 0
        self.dies_at: int | None = None
        self.before: Callable[[str, Container], Awaitable[None]] | None = None
        self.store = MemoryStore(before=self._before, query_page=50, **options)
        self.source = self.layout.source(projection)
        self.target = self.layout.target(projection)

    async def _before(self, name: str, container: Container) -> None:
        self.calls += 1
        if self.calls == self.dies_at:
            raise KilledError
        if self.before:
            await self.before(name, container)

    async def put(self, *numbers: int, **fields: Any) -> None:
        for n in numbers:
            made = {"id": str(n), "shop": f"s{n % 3}", "status": {} if n % 10 == 9 else f"x{n % 4}", "no": n, **fields}
            await self.store.write(self.source, Key.of(made["shop"]), [Upsert(made)])

    async def run(self) -> None:
        await Worker(self.store, self.layout, [self.projection]).run(until_caught_up=True)

    async def filled(self, count: int = 40) -> World:
        await initialise(self.store, self.layout)
        await self.put(*range(count))
        await self.run()
        return self

    async def verify(self, *, restart: bool = False, **options: Any) -> Report:
        given = {"rests": (), "examples": 10_000} | options
        stop = given.pop("stop", lambda: False)
        return await (await Verify.open(self.store, self.layout, self.projection, **given)).run(
            restart=restart, stop=stop
        )

    async def damage(self, *kinds: str) -> Any:
        return await (await Damage(self.store, self.layout, self.projection).load()).do(*kinds)

    async def remove(self, n: int) -> None:
        [item] = [d for d in await documents(self.store, self.source) if d["id"] == str(n)]
        await self.store.write(self.source, Key.of(item["shop"]), [Delete(item["id"], item["_etag"])])


async def test_equal_sides_cost_one_reading() -> None:
    w = await World().filled(1_500)
    report = await w.verify()
    assert (report.clean, report.examined, report.entries, report.looked_at) == (True, 1_500, 1_350, 0)
    pages = 2 + 2 + 16 * 2 + 3  # of the source, the target, the records, the letters
    assert report.calls <= pages + 15
    assert report.calls / report.examined <= 0.03


async def test_what_the_projection_has_not_come_to_is_pending() -> None:
    w = await World().filled()
    await w.put(100, 101)
    await w.put(1, status="paid")
    report = await w.verify()
    assert report.clean
    assert report.pending >= 3
    await w.run()
    report = await w.verify()
    assert (report.clean, report.pending) == (True, 0)


@in_virtual_time
async def test_what_is_in_flight_is_no_difference() -> None:
    """A worker is at work on many changes all the while."""
    w = await World().filled(60)
    worker = Worker(w.store, w.layout, [BY_STATUS], poll_seconds=(0.05, 0.05))
    working = asyncio.create_task(worker.run())
    chance = random.Random(5)

    async def change() -> None:
        while not worker._stopping.is_set():
            await w.put(chance.randrange(80), status=f"y{chance.randrange(9)}")
            await asyncio.sleep(0.02)

    changing = asyncio.create_task(change())

    async def slow(name: str, container: Container) -> None:
        await asyncio.sleep(0.003)

    w.before = slow
    for _ in range(10):
        report = await w.verify(rests=(0.5, 1.5, 4.0), page_size=20)
        assert report.clean, told(report)
    worker.stop()
    await asyncio.gather(working, changing)


@in_virtual_time
async def test_a_failed_reading_of_the_source_removes_nothing() -> None:
    w = await World().filled()
    before = await documents(w.store, w.target)
    await w.damage("altered")

    async def fail(name: str, container: Container) -> None:
        if container == w.source and name == "changes" and w.calls > calls + 5:
            raise UnsafeError("no")

    calls = w.calls
    w.before = fail
    with pytest.raises(ProjectionsError):
        await w.verify(repair=True)
    w.before = None
    assert len(await documents(w.store, w.target)) == len(before)


@in_virtual_time
async def test_an_empty_source_is_refused_unless_it_is_meant() -> None:
    w = await World().filled(12)
    for n in range(12):
        await w.remove(n)
    with pytest.raises(UnsafeError, match="empty") as refused:
        await w.verify(repair=True)
    assert "--empty-source" in str(refused.value.hint)
    assert len(await documents(w.store, w.target)) == 11
    report = await w.verify()
    assert report.differences["orphan"] == 11
    report = await w.verify(repair=True, empty_source=True)
    assert (report.left.total(), await documents(w.store, w.target)) == (0, [])


async def test_dropped_letters_are_no_difference() -> None:
    w = await World().filled()
    for letter in await documents(w.store, w.layout.deadletters):
        key = Key.of(letter["projection"])
        await w.store.write(w.layout.deadletters, key, [Delete(letter["id"], letter["_etag"])])
    assert (await w.verify()).clean


@in_virtual_time
async def test_examples_are_few_and_counts_whole() -> None:
    w = await World().filled()
    await w.damage(*["deleted"] * 5, *["altered"] * 4)
    report = await w.verify(examples=2)
    assert report.differences == {"missing": 5, "wrong content": 4}
    assert len(report.examples) == 4


# scopes


@in_virtual_time
async def test_a_range_and_a_sample_are_looked_at_item_by_item() -> None:
    w = await World().filled()
    expected = await w.damage("deleted", "altered", "doubled")
    for scope in (Scope(feed_range=FeedRange("", "FF")), Scope(sample=100)):
        report = await w.verify(scope=scope)
        assert set(told(report)) == set(expected)  # the memory store has no ranges: it gives everything for each


@in_virtual_time
async def test_since_the_audit() -> None:
    w = await World().filled()
    with pytest.raises(AskError, match="no audit"):
        await w.verify(scope=Scope(since_audit=True))
    engine = await Engine.open(w.store, w.layout, w.projection)
    await Audit(w.store, w.layout, engine, behind=-10).run()
    await w.damage("deleted")
    report = await w.verify(scope=Scope(since_audit=True))
    assert (report.clean, report.examined) == (True, 0)
    await w.put(200, 201)
    await w.run()
    damage = await Damage(w.store, w.layout, w.projection).load()
    report = await w.verify(scope=Scope(since_audit=True))
    assert (report.clean, report.examined) == (True, 2)
    [entry] = [one for one in damage._entries if one["_source"]["id"] == "200"]
    await damage.take_away(w.target, damage.place(entry))
    report = await w.verify(scope=Scope(since_audit=True), repair=True)
    assert (report.differences, report.left) == ({"missing": 1}, {})


# cut off


INDEXED = ("deleted", "altered", "claimed", "moved", "copied", "orphaned", "forgetful", "strayed", *LETTERS)
ADDED_UP = ("altered", "deleted", "doubled", "miscounted", "untotalled")


@pytest.mark.parametrize(
    ("projection", "kinds"),
    [(BY_STATUS, INDEXED), (COUNTED, ADDED_UP)],
    ids=["index", "aggregate"],
)
@pytest.mark.parametrize("repair", [False, True], ids=["verify", "repair"])
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_killed_at_any_call_it_goes_on(projection: Projection, kinds: tuple[str, ...], repair: bool, step: int) -> None:
    _killed(projection.model_copy(update={"placement_buckets": 1}), kinds, repair, step)


@in_virtual_time
async def _killed(projection: Projection, kinds: tuple[str, ...], repair: bool, step: int) -> None:
    w = await World(projection).filled(24)
    expected = await w.damage(*kinds)
    before = copy.deepcopy(w.store._containers)
    died, n = True, 0
    while died:
        n += step
        w.store._containers = copy.deepcopy(before)
        w.calls, w.dies_at = 0, n
        try:
            report = await w.verify(repair=repair, save_seconds=0, page_size=20)
            died = False
        except KilledError:
            w.dies_at = None
            report = await w.verify(repair=repair, save_seconds=0, page_size=20)
        if not repair:
            assert told(report) == expected, n
            continue
        assert not report.left, n
        w.dies_at = None
        assert (await w.verify()).clean, n
        await assert_converged(w.store, w.layout)
    assert n > 30


async def test_stopped_it_goes_on_where_it_was() -> None:
    w = await World().filled(200)
    stops = iter([False, False, True])
    first = await w.verify(page_size=20, stop=lambda: next(stops))
    assert not first.complete
    assert 0 < first.entries < 180
    rest = await w.verify(page_size=20)
    assert (rest.complete, rest.clean, rest.examined, rest.entries) == (True, True, 200, 180)
    assert rest.calls > first.calls  # what it all has cost
    stored = [d["id"] for d in await documents(w.store, w.layout.state) if d["pk"] == "by-status@1"]
    assert "verified" in stored
    assert "verify" not in stored


async def test_a_verify_of_another_kind_begins_anew() -> None:
    w = await World().filled(100)
    await w.verify(page_size=20, stop=lambda: True)
    report = await w.verify(page_size=20, repair=True)
    assert report.examined == 100
    await w.verify(page_size=20, stop=lambda: True)
    report = await w.verify(page_size=20, restart=True)
    assert (report.examined, report.entries) == (100, 90)


async def test_two_at_once_do_not_mix() -> None:
    w = await World().filled(100)
    await w.verify(page_size=20, stop=lambda: True)
    first = await Verify.open(w.store, w.layout, BY_STATUS, page_size=20, save_seconds=0)
    second = await Verify.open(w.store, w.layout, BY_STATUS, page_size=20, save_seconds=0)
    results = await asyncio.gather(first.run(), second.run(), return_exceptions=True)
    assert any(isinstance(result, BusyError) for result in results) or all(r.clean for r in results)  # type: ignore[union-attr]


async def test_a_busy_feed_is_read_on_from_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    w = await World().filled(100)
    failed = []

    async def fail(name: str, container: Container) -> None:
        if name == "changes" and len(failed) < 4 and w.calls % 3 == 0:
            failed.append(name)
            raise TransientError("busy")

    async def no_rest(_: float) -> None:
        return None

    monkeypatch.setattr("projections.sides.asyncio.sleep", no_rest)
    w.before = fail
    report = await w.verify(page_size=10)
    assert (len(failed), report.clean, report.examined, report.entries) == (4, True, 100, 90)


# many


@pytest.mark.slow
@pytest.mark.timeout(600)
@in_virtual_time
async def test_a_thousand_differences_are_each_named_and_repaired() -> None:
    w = await World().filled(1_500)
    kinds = tuple(kind for kind in ENTRIES + RECORDS + ("lettered",) if kind != "foreign")
    expected = await w.damage(*cycled(kinds, 1_000))
    report = await w.verify(repair=True)
    assert told(report) == expected
    assert report.differences.total() >= 1_000
    assert not report.left
    await assert_converged(w.store, w.layout)
    assert (await w.verify()).clean
