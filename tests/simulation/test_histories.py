"""Random histories of many items, delivered in any way: the target ends up as a fresh rebuild would have it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from projections.deadletters import DeadLetters
from projections.declare import Index, SoftDelete, Source
from projections.entries import Rules, State, document, wanted
from projections.errors import ItemError, TransientError
from projections.identity import Identity, Place
from projections.keys import UNDEFINED, Key
from projections.memory import MemoryStore
from projections.outcomes import Outcome, Result
from projections.plan import Placement, placement_from
from projections.states import fresh
from projections.store import Container, Delete, Description, Upsert
from projections.version import Version
from projections.writer import Places, Writer

SOURCE, TARGET, STATE, LETTERS = (Container("db", name) for name in ("source", "target", "state", "letters"))
PROJECTION = Index(
    name="p",
    source=Source(container="source", key="/shop"),
    key="/k",
    null="keep",
    deletes=SoftDelete("/deleted"),
    placement_buckets=2,
)
RULES = Rules(PROJECTION)


@dataclass(frozen=True)
class Put:
    """The source gets a state of an item, some seconds after the last change."""

    id: str
    shop: str
    k: Any
    v: int
    deleted: Any
    seconds: int

    @property
    def content(self) -> dict[str, Any]:
        values = {"id": self.id, "shop": self.shop, "k": self.k, "v": self.v, "deleted": self.deleted}
        return {name: value for name, value in values.items() if value is not UNDEFINED}


@dataclass(frozen=True)
class Remove:
    """An item goes away, if it is there; the feed says so (`told`) or not."""

    id: str
    shop: str
    told: bool


@dataclass(frozen=True)
class Deliver:
    """Pages of the feed, one for each writer at work: each starts so many changes back and has so many."""

    pages: tuple[tuple[int, int], ...]
    fails: frozenset[int]  # numbers of calls that the store refuses
    seed: int  # of the pauses before calls


IDS, SHOPS = st.sampled_from("ab"), st.sampled_from(["s1", "s2"])
KEYS = st.sampled_from(["x", "y", 7, "7", True, None, UNDEFINED, {}, 2**60])
PUTS = st.builds(
    Put, IDS, SHOPS, KEYS, st.integers(1, 2), st.sampled_from([UNDEFINED, UNDEFINED, True, "true"]), st.integers(-1, 2)
)
REMOVES = st.builds(Remove, IDS, SHOPS, st.booleans())
PAGES = st.tuples(st.integers(1, 8), st.integers(1, 8))
FAILS = st.frozensets(st.integers(0, 25), max_size=4)
SEEDS = st.integers(0, 2**16)
ONE_AT_A_TIME = st.builds(Deliver, st.tuples(PAGES), FAILS, SEEDS)
SIDE_BY_SIDE = st.builds(Deliver, st.tuples(PAGES, PAGES), st.just(frozenset()), SEEDS)
KILLED = st.builds(Deliver, st.tuples(PAGES, PAGES), FAILS, SEEDS)


def steps(*deliveries: st.SearchStrategy[Deliver]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(PUTS, PUTS, REMOVES, *deliveries), min_size=1, max_size=25)


@dataclass
class Shop:
    """A source with its feed, and what two writers make of it."""

    again: bool = True  # a page that failed is applied again
    time: int = 1_700_000_000
    set_back: bool = False  # the time has been
    feed: list[State] = field(default_factory=list)
    seen: set[Identity] = field(default_factory=set)
    fails: frozenset[int] = frozenset()
    pauses: random.Random = field(default_factory=random.Random)
    calls: int = 0

    async def open(self) -> None:
        self.store = MemoryStore(before=self.before, clock=lambda: self.time)
        for container, key in ((SOURCE, "/shop"), (TARGET, "/k"), (STATE, "/pk"), (LETTERS, "/projection")):
            await self.store.create_container(Description(container, (key,)))
        letters = DeadLetters(self.store, LETTERS, PROJECTION.full_name, clock=lambda: self.time)
        self.writer = Writer(
            self.store, RULES, Places(SOURCE, TARGET, STATE), letters,
            now=lambda: self.time, monotonic=lambda: 0.0, sleep=lambda seconds: asyncio.sleep(0),
        )  # fmt: skip

    async def before(self, name: str, container: Container) -> None:
        for _ in range(self.pauses.choice((0, 0, 1, 2, 40))):  # 40: long enough for the other one to finish
            await asyncio.sleep(0)
        self.calls += 1
        if self.calls - 1 in self.fails:
            raise TransientError

    async def do(self, step: Put | Remove | Deliver) -> None:
        if isinstance(step, Put):
            await self.put(step)
        elif isinstance(step, Remove):
            await self.remove(step)
        else:
            self.calls, self.fails, self.pauses = 0, step.fails, random.Random(step.seed)
            await asyncio.gather(*(self.apply(self.page(*page)) for page in step.pages))
            self.fails = frozenset()

    async def put(self, step: Put) -> None:
        self.time += step.seconds
        self.set_back |= step.seconds < 0
        place = Place(step.id, Key.of(step.shop))
        await self.store.write(SOURCE, place.key, [Upsert(step.content)])
        item = (await self.store.read(SOURCE, [place]))[place] | {"_lsn": len(self.feed) + 1}
        self.tell(State(Identity(place.key, place.id), Version.of(item, from_feed=True), item))

    async def remove(self, step: Remove) -> None:
        place = Place(step.id, Key.of(step.shop))
        found = (await self.store.read(SOURCE, [place])).get(place)
        if found:
            await self.store.write(SOURCE, place.key, [Delete(place.id, found["_etag"])])
            if step.told:
                version = Version.of(found, from_feed=False).gone()
                self.tell(State(Identity(place.key, place.id), version, None))

    def tell(self, state: State) -> None:
        self.feed.append(state)
        self.seen.add(state.identity)

    def page(self, back: int, size: int) -> list[State]:
        """A part of the feed, with the newest state of each item in it."""
        part = self.feed[-back:][:size]
        return list({state.identity: state for state in part}.values())

    async def apply(self, page: list[State]) -> None:
        for _ in range(len(self.fails) if self.again else 0):
            with contextlib.suppress(TransientError):
                await self.writer.apply(page)
                return
        with contextlib.nullcontext() if self.again else contextlib.suppress(TransientError):
            await self.writer.apply(page)

    async def drain(self) -> list[Result]:
        """Apply the present state of every item that was ever seen."""
        return await self.writer.apply(await self.present())

    async def present(self) -> list[State]:
        return await fresh(self.store, SOURCE, sorted(self.seen, key=str))

    async def documents(self, container: Container) -> list[dict[str, Any]]:
        return [doc async for page in self.store.query(container, "SELECT * FROM c", {}) for doc in page]

    async def entries(self) -> dict[Place, dict[str, Any]]:
        return {Place(doc["id"], Key.of(doc.get("k", UNDEFINED))): bare(doc) for doc in await self.documents(TARGET)}

    async def placements(self) -> dict[Identity, Placement]:
        records = map(placement_from, await self.documents(STATE))
        return {record.identity: record for record in records}

    async def letters(self) -> set[Identity]:
        return {Identity.from_stored(doc["source"]) for doc in await self.documents(LETTERS)}


def bare(doc: dict[str, Any]) -> dict[str, Any]:
    """A document without marks: what readers come for."""
    return {name: value for name, value in doc.items() if not name.startswith("_")}


def rebuilt(states: list[State], now: float) -> tuple[dict[Identity, dict[Place, Any]], set[Identity]]:
    """The entries that each item should own, and the items that cannot be projected."""
    entries: dict[Identity, dict[Place, Any]] = {}
    parked = set()
    for state in states:
        entries[state.identity] = {}
        try:
            for entry in wanted(RULES, state, now).entries:
                entries[state.identity][entry.place] = bare(document(entry, state, RULES.reserved, now))
        except ItemError:
            parked.add(state.identity)
    return entries, parked


async def is_as_rebuilt(shop: Shop) -> None:
    entries, parked = rebuilt(await shop.present(), shop.time)
    assert await shop.entries() == {place: doc for own in entries.values() for place, doc in own.items()}
    placements = await shop.placements()
    for identity, own in entries.items():
        placement = placements.get(identity)
        assert set(placement.entries if placement else ()) == set(own)
        assert (placement.parked if placement else False) is (identity in parked)
    assert await shop.letters() >= parked


def adds_up(results: list[Result], shop: Shop, entries: dict[Identity, Any], parked: set[Identity]) -> None:
    """Reflected, skipped and parked items are all there are. With a clock set back some have looked older before the
    source confirmed them, and count as stale."""
    assert [result.identity for result in results] == list(entries)
    for result in results:
        own = Outcome.UNCHANGED if entries[result.identity] else Outcome.SKIPPED
        expected = Outcome.PARKED if result.identity in parked else own
        assert result.outcome is expected or (result.outcome is Outcome.STALE and shop.set_back)
        assert result.reason or expected is Outcome.UNCHANGED


async def converges(history: list[Any]) -> Shop:
    shop = Shop()
    await shop.open()
    for step in history:
        await shop.do(step)
    await shop.drain()
    await is_as_rebuilt(shop)
    results = await shop.drain()
    await is_as_rebuilt(shop)
    adds_up(results, shop, *rebuilt(await shop.present(), shop.time))
    return shop


@settings(max_examples=80, deadline=None)
@given(steps(ONE_AT_A_TIME, ONE_AT_A_TIME))
def test_pages_in_any_order_and_with_failures(history):
    async def run() -> None:
        shop = await converges(history)
        assert await shop.letters() == rebuilt(await shop.present(), shop.time)[1]

    asyncio.run(run())


@settings(max_examples=80, deadline=None)
@given(steps(ONE_AT_A_TIME, SIDE_BY_SIDE, SIDE_BY_SIDE))
def test_two_writers_side_by_side(history):
    asyncio.run(converges(history))


async def leaves_nothing_hidden(history: list[Any]) -> None:
    """A writer that was killed may leave an entry behind, but only where audit looks."""
    shop = Shop(again=False)
    await shop.open()
    for step in history:
        await shop.do(step)
    await shop.drain()
    entries, _ = rebuilt(await shop.present(), shop.time)
    placements = await shop.placements()
    known = {place for own in entries.values() for place in own}
    for placement in placements.values():
        known |= {*placement.entries, *(place for place, _ in placement.former)}
    assert set(await shop.entries()) <= known


@settings(max_examples=60, deadline=None)
@given(steps(KILLED, KILLED))
def test_what_a_killed_writer_leaves_is_where_audit_looks(history):
    asyncio.run(leaves_nothing_hidden(history))
