"""A shop on a platform that does all it is allowed to do, for random histories.

Several workers, each with a store of its own between it and the one in memory, project items of the same ids in several
partitions. Calls take their time, in a time that passes only here; they fail before or after their effect; a replica
lags behind what others wrote, while a worker always finds what it wrote or saw itself (the SDK's session token). Feed
pages are cut anywhere, come again, come late, are at two workers at once; ranges split; the clock stands still and goes
back; workers are killed. All of it follows from one seed.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from projections.deadletters import DeadLetters
from projections.declare import Index, SoftDelete, Source
from projections.entries import Rules, State, document, wanted
from projections.errors import ItemError, ThrottledError, TransientError
from projections.identity import Identity, Place
from projections.keys import UNDEFINED, Key, at, parse_path
from projections.memory import MemoryStore, _Data
from projections.outcomes import Outcome, Result
from projections.patience import PatientStore
from projections.plan import Placement, placement_from
from projections.states import fresh, present
from projections.store import Container, Delete, Description, Document, Operation, Rows, Upsert
from projections.version import Version
from projections.where import field as item_field
from projections.writer import Places, Writer
from tests.simulation.states import bare

SOURCE, TARGET, STATE, LETTERS = (Container("db", name) for name in ("source", "target", "state", "letters"))
START: Final = 1_700_000_000
KEYS: Final = (*"xyxyxyxyxyxyxy", 7, "7", 7.5, True, None, UNDEFINED, {}, "", 2**60)
TTLS: Final = (None, None, None, -1, 20, 45)
CLIMATES: Final = ("calm", "calm", "busy", "busy", "lagging", "deadly", "all")
"""What goes wrong beside workers that overtake each other: calls fail, replicas lag, workers are killed."""
SLOTS: Final = 8
PAUSES: Final = (0, 0, 0, 0.001, 0.01, 0.1, 1.0)
"""Before a call, in seconds: of a worker that pauses for the longest another one finishes meanwhile."""
UNSURE_SECONDS: Final = 30
"""Around its expiry an entry may outlive its item, or the other way round, by the time that a write took."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in which nobody waits: time jumps to the next thing that is due."""

    def __init__(self) -> None:
        super().__init__(_Jump(self))
        self.passed = 0.0

    def time(self) -> float:
        return self.passed


class _Jump(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everybody waits for ever")
        self._loop.passed += max(0.0, timeout)
        return []


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end, without waiting."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


@dataclass(frozen=True)
class Weather:
    """How bad it is at one worker."""

    fails: float = 0.0  # the share of calls that fail
    lost: float = 0.0  # ... and of those, that had their effect
    stalls: float = 0.0  # the share of calls that take seconds
    lag: int = 0  # how many writes a replica is behind
    dies_at: int | None = None  # the number of the call at which the worker is killed

    @staticmethod
    def of(climate: str, chance: random.Random) -> Weather:
        """As it may be in a climate."""
        bad = chance.random() < 0.5
        return Weather(
            fails=chance.choice((0.1, 0.3)) if bad and climate in ("busy", "all") else 0.0,
            lost=chance.choice((0.0, 0.5, 1.0)),
            stalls=chance.choice((0.0, 0.0, 0.1)),
            lag=chance.choice((1, 3)) if bad and climate in ("lagging", "all") else 0,
            dies_at=chance.randint(1, 20) if chance.random() < 0.3 and climate in ("deadly", "all") else None,
        )


FAIR: Final = Weather()


@dataclass
class Log:
    """All that was ever written, so that a read may be late."""

    writes: int = 0
    versions: dict[tuple[Container, Place], list[tuple[int, Document | None]]] = field(default_factory=dict)

    def add(self, container: Container, found: dict[Place, Document | None]) -> int:
        self.writes += 1
        for place, doc in found.items():
            self.versions.setdefault((container, place), []).append((self.writes, doc))
        return self.writes

    def at(self, container: Container, place: Place, horizon: int) -> Document | None:
        found = None
        for number, doc in self.versions.get((container, place), ()):
            if number > horizon:
                break
            found = doc
        return found


class Between:
    """What is between a worker and the store."""

    def __init__(self, store: MemoryStore, log: Log, chance: random.Random) -> None:
        self._store = store
        self._log = log
        self._chance = chance
        self.weather = FAIR
        self.calls = 0
        self.died = asyncio.Event()
        self._seen: dict[Container, int] = {}

    def saw(self, container: Container, number: int) -> None:
        """The session: what a worker has seen of a container it will not see older."""
        self._seen[container] = max(number, self._seen.get(container, 0))

    async def _begin(self) -> bool:
        """Take some time; whether this call is to be lost on the way back."""
        self.calls += 1
        if self.calls == self.weather.dies_at and self._chance.random() < 0.5:
            self.died.set()
        slow = self._chance.random() < self.weather.stalls
        await asyncio.sleep(self._chance.uniform(1, 8) if slow else self._chance.choice(PAUSES))
        await self._live()
        fails = self._chance.random() < self.weather.fails
        lost = fails and self._chance.random() < self.weather.lost
        if fails and not lost:
            self._fail()
        return lost

    async def _end(self, lost: bool) -> None:
        if self.weather.dies_at is not None and self.calls >= self.weather.dies_at:
            self.died.set()
        await self._live()
        if lost:
            self._fail()
        await asyncio.sleep(0)

    async def _live(self) -> None:
        if self.died.is_set():
            await asyncio.Event().wait()  # whoever started the worker cancels it

    def _fail(self) -> None:
        raise self._chance.choice((TransientError(), ThrottledError(retry_after=0.05)))

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        lost = await self._begin()
        found: dict[Place, Document] = {}
        for place in places:  # no snapshot: each place at a time of its own
            found |= await self._read(container, place)
            if len(places) > 1 and self._chance.random() < 0.2:
                await asyncio.sleep(0.001)
        await self._end(lost)
        return found

    async def _read(self, container: Container, place: Place) -> dict[Place, Document]:
        horizon = max(self._seen.get(container, 0), self._log.writes - self.weather.lag)
        if not self.weather.lag or horizon >= self._log.writes:
            return await self._store.read(container, [place])
        self.saw(container, horizon)
        doc = self._log.at(container, place, horizon)
        return {place: dict(doc)} if doc and self._store._live(self._store._containers[container], place) else {}

    async def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key | None = None, **more: Any
    ) -> AsyncIterator[Rows]:
        lost = await self._begin()
        store = self._store
        horizon = max(self._seen.get(container, 0), self._log.writes - self.weather.lag)
        if horizon < self._log.writes:
            self.saw(container, horizon)
            store = self._as_of(container, horizon)
        pages = [page async for page in store.query(container, text, parameters, key, **more)]
        await self._end(lost)
        for page in pages:
            yield page

    def _as_of(self, container: Container, horizon: int) -> MemoryStore:
        """A store as a replica that lags behind has it."""
        store, places = MemoryStore(clock=self._store._clock), [p for c, p in self._log.versions if c == container]
        held = {place: doc for place in places if (doc := self._log.at(container, place, horizon))}
        store._containers[container] = _Data(self._store._containers[container].description, held)
        return store

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        lost = await self._begin()
        etags = await logged(self._store, self._log, container, key, operations)
        self.saw(container, self._log.writes)
        await self._end(lost)
        return etags


async def logged(
    store: MemoryStore, log: Log, container: Container, key: Key, operations: Sequence[Operation]
) -> list[str | None]:
    """Write, and keep what was written for readers who lag."""
    etags = await store.write(container, key, operations)
    ids = [operation.id for operation in operations]
    held = store._containers[container].documents
    log.add(container, {Place(id_, key): held.get(Place(id_, key)) for id_ in ids})
    return etags


@dataclass(frozen=True)
class Change:
    """One change as the feed gives it: where it is, the state, and the number of the write it came from."""

    lsn: int
    state: State
    write: int


@dataclass
class Trouble:
    """What the product does not promise to get over without an audit."""

    lag: bool = False
    overtaken_and_killed: bool = False
    gave_up: bool = (
        False  # a call ended early: between a dead letter and its mark in the record, the item may be mended
    )

    def __bool__(self) -> bool:
        """Whether entries may be wrong; of a call that gave up only a dead letter may be left."""
        return self.lag or self.overtaken_and_killed


class Shop:
    """A source with its feed, and what workers make of it."""

    def __init__(self, seed: int, writer: type[Writer] = Writer) -> None:
        self.chance = random.Random(seed)
        self.now = START
        self.set_back = False
        self.trouble = Trouble()
        self.tale: list[str] = []
        self.log = Log()
        self.results: list[Result] = []
        self._writer = writer
        self._lsn = 0
        self._feed: dict[Identity, Change] = {}
        self._deletes: dict[Identity, Change] = {}
        self._positions: dict[range, int] = {range(SLOTS): 0}
        self._pages: list[list[Change]] = []  # such as were read, to come again
        self.seen: dict[Identity, None] = {}
        self.rules = self._declared()
        self.climate = self.chance.choice(CLIMATES)
        self._workers: list[tuple[Between, Writer]] = []

    def _declared(self) -> Rules:
        chance = self.chance
        return Rules(
            Index(
                name="p",
                source=Source(container="source", key="/shop"),
                key="/k",
                null=chance.choice(("keep", "skip", "deadletter")),
                missing=chance.choice(("keep", "skip", "deadletter")),
                where=chance.choice((None, None, item_field("/v") < 3)),
                deletes=SoftDelete("/deleted"),
                placement_buckets=chance.choice((1, 2)),
            ),
            source_ttl=-1,
        )

    async def open(self) -> None:
        self.store = MemoryStore(clock=lambda: self.now)
        keys = {SOURCE: ("/shop",), TARGET: self.rules.projection.key.paths, STATE: ("/pk",), LETTERS: ("/projection",)}
        for container, paths in keys.items():
            await self.store.create_container(Description(container, paths, default_ttl=-1))
        self._workers = [self._worker() for _ in range(2)]

    def _worker(self) -> tuple[Between, Writer]:
        between = Between(self.store, self.log, self.chance)
        patient = self.chance.random() < 0.5
        store: Any = PatientStore(between, 3.0) if patient else between  # type: ignore[arg-type]
        return between, self._writer_on(store)

    def _writer_on(self, store: Any) -> Writer:
        letters = DeadLetters(store, LETTERS, self.rules.projection.full_name, clock=lambda: self.now)
        return self._writer(
            store, self.rules, Places(SOURCE, TARGET, STATE), letters,
            now=lambda: self.now, monotonic=lambda: asyncio.get_running_loop().time(),
        )  # fmt: skip

    # the source

    async def put(self) -> None:
        chance = self.chance
        shop = chance.choice(("s1", "s2", "s3")[: chance.choice((1, 1, 2, 3))])
        item: dict[str, Any] = {"id": chance.choice("aab"), "shop": shop}
        values = {
            "k": chance.choice(KEYS), "v": chance.randint(1, 3), "ttl": chance.choice(TTLS),
            "deleted": chance.choice((UNDEFINED, UNDEFINED, UNDEFINED, True, "true")),
        }  # fmt: skip
        item |= {n: v for n, v in values.items() if v is not UNDEFINED and not (n == "ttl" and v is None)}
        self.tale.append(f"put {item}")
        await self._put(item)

    async def _put(self, item: Document) -> None:
        place = Place(item["id"], Key.of(item["shop"]))
        await logged(self.store, self.log, SOURCE, place.key, [Upsert(item)])
        self._lsn += 1
        found = (await self.store.read(SOURCE, [place])).get(place)
        assert found is not None
        fed = found | {"_lsn": self._lsn}
        state = State(Identity(place.key, place.id), Version.of(fed, from_feed=True), fed)
        self._feed[state.identity] = Change(self._lsn, state, self.log.writes)
        self.seen[state.identity] = None

    async def remove(self) -> None:
        """An item goes away; a feed with deletes says so."""
        if self.seen:
            await self._remove(self.chance.choice(list(self.seen)))

    async def _remove(self, identity: Identity) -> None:
        place = Place(identity.id, identity.key)
        found = (await self.store.read(SOURCE, [place])).get(place)
        if found is None:
            return
        self.tale.append(f"remove {identity}")
        await logged(self.store, self.log, SOURCE, place.key, [Delete(place.id, found["_etag"])])
        self._lsn += 1
        version = Version(ts=int(self.now), lsn=self._lsn, deleted=True)  # the feed knows no etag of it
        self._feed[identity] = Change(self._lsn, State(identity, version, None), self.log.writes)

    async def move(self) -> None:
        """An item's own partition changes: it is put under the new one and removed from the old one."""
        found = self._store_items()
        if found:
            item = dict(self.chance.choice(found))
            old = Identity(Key.of(item["shop"]), item["id"])
            item["shop"] = self.chance.choice(("s1", "s2", "s3"))
            self.tale.append(f"move {old} to {item['shop']}")
            await self._put({name: value for name, value in item.items() if not name.startswith("_")})
            if Key.of(item["shop"]) != old.key:
                await self._remove(old)

    def _store_items(self) -> list[Document]:
        data = self.store._containers[SOURCE]
        return [doc for place, doc in data.documents.items() if self.store._live(data, place)]

    async def wait(self) -> None:
        seconds = self.chance.choice((0, 1, 1, 2, 10, 30, -1, -5))
        self.tale.append(f"{seconds} s pass")
        self.now += seconds
        self.set_back |= seconds < 0

    async def split(self) -> None:
        """A range splits; its children go on from its position."""
        wide = [slots for slots in self._positions if len(slots) > 1]
        if wide:
            slots = self.chance.choice(wide)
            position, middle = self._positions.pop(slots), (slots.start + slots.stop) // 2
            self._positions |= {range(slots.start, middle): position, range(middle, slots.stop): position}
            self.tale.append(f"{slots} splits")

    # the feed

    def _at(self, slots: range) -> int:
        """The position of a range that may have split meanwhile."""
        return min(
            self._positions[own] for own in self._positions if own.start >= slots.start and own.stop <= slots.stop
        )

    def _page(self, slots: range, since: int, size: int) -> list[Change]:
        changes = [c for identity, c in self._feed.items() if identity.bucket(SLOTS) in slots and c.lsn > since]
        page = sorted(changes, key=lambda change: change.lsn)[:size]
        self._pages.append(page)
        return page

    def _weather(self, *, beside: bool) -> Weather:
        weather = Weather.of(self.climate, self.chance)
        self.trouble.lag |= weather.lag > 0
        self.tale.append(f"  {weather}{' beside another one' if beside else ''}")
        return weather

    async def deliver(self) -> None:
        """A page of one range, at one worker; the position moves when all of it is done."""
        slots = self.chance.choice(list(self._positions))
        await self._deliver(slots, self.chance.randrange(2), beside=False)

    async def _deliver(self, slots: range, number: int, *, beside: bool) -> None:
        page = self._page(slots, self._at(slots), self.chance.randint(1, 5))
        self.tale.append(f"worker {number} gets {[c.lsn for c in page]} of {slots}")
        if page and await self._apply(number, page, beside=beside) and self.chance.random() < 0.9:
            for covered in [own for own in self._positions if own.start >= slots.start and own.stop <= slots.stop]:
                self._positions[covered] = max(self._positions[covered], page[-1].lsn)

    async def again(self) -> None:
        """A page that was read before, in the states that it had."""
        if self._pages:
            page = self.chance.choice(self._pages)
            self.tale.append(f"again {[c.lsn for c in page]}")
            done = await self._apply(self.chance.randrange(2), page, beside=False)
            self.trouble.overtaken_and_killed |= not done  # who gives up for good on a state of old is as good as dead

    async def race(self) -> None:
        """The lease of a range moves while a page is at its old owner. There may be a replay; the source may go on."""
        slots = self.chance.choice(list(self._positions))
        self.tale.append("side by side:")
        at_once = [self._deliver(slots, 0, beside=True), self._later(slots)]
        if self.chance.random() < 0.3 and self._pages:
            at_once.append(self._apply(None, self.chance.choice(self._pages), beside=True))
        if self.chance.random() < 0.8:
            at_once.append(self._meanwhile())
        if self.chance.random() < 0.2:
            at_once.append(self._audited(list(self.seen)))
        await asyncio.gather(*at_once)

    async def _later(self, slots: range) -> None:
        """The new owner reads its pages after a while, and goes on to the end."""
        await asyncio.sleep(self.chance.choice(PAUSES))
        for _ in range(self.chance.randint(1, 3)):
            await self._deliver(slots, 1, beside=True)

    async def _meanwhile(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            await asyncio.sleep(self.chance.choice((0.001, 0.02, 0.1, 0.5, 1.5)))
            await self.chance.choice((self.put, self.put, self.put, self.remove, self.move, self.split))()

    # the work

    async def _apply(self, number: int | None, page: list[Change], *, beside: bool) -> bool:
        """Let a worker apply a page; whether it did. One that is killed is followed by a new one."""
        between, writer = self._workers[number] if number is not None else self._worker()
        between.weather, between.calls = self._weather(beside=beside), 0
        for change in page:
            between.saw(SOURCE, change.write)
        states = list({change.state.identity: change.state for change in page}.values())
        task = asyncio.ensure_future(self._work(between, writer, states))
        killed = asyncio.ensure_future(between.died.wait())
        await asyncio.wait((task, killed), return_when=asyncio.FIRST_COMPLETED)
        killed.cancel()
        between.weather = FAIR
        if between.died.is_set():
            self.tale.append(f"worker {number} is killed")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            done = False
            if number is not None:
                self._workers[number] = self._worker()
        else:
            done = task.result()
        self.trouble.gave_up |= not done
        if not done and (beside or number is None):
            self.trouble.overtaken_and_killed = True
        return done

    async def _work(self, between: Between, writer: Writer, states: list[State]) -> bool:
        notices = self.chance.random() < 0.3  # the trigger: items are read again
        for _ in range(self.chance.choice((1, 3, 6))):
            try:
                given = await present(between, SOURCE, states) if notices else states  # type: ignore[arg-type]
                self.results += await writer.apply(given)
            except TransientError:
                continue
            return True
        return False

    async def _audited(self, identities: list[Identity]) -> list[Result]:
        writer = self._writer_on(Between(self.store, self.log, self.chance))
        found: list[Result] = []
        for n in range(0, len(identities), 3):
            states = await fresh(self.store, SOURCE, identities[n : n + 3])
            found += await writer.apply(states, audit=True)
        return found

    # the end

    async def drain(self) -> None:
        """Faults are over: every range is read to its end, and those that went away in silence are looked at."""
        between, writer = self._workers[0]
        between.weather = FAIR
        for slots, position in self._positions.items():
            while page := self._page(slots, position, 3):
                for change in page:
                    between.saw(SOURCE, change.write)
                await writer.apply([change.state for change in page])
                position = self._positions[slots] = page[-1].lsn

    async def audit(self) -> list[Result]:
        return await self._audited(list(self.seen))

    async def present(self) -> list[State]:
        return await fresh(self.store, SOURCE, list(self.seen))

    async def documents(self, container: Container) -> list[Document]:
        return [doc async for page in self.store.query(container, "SELECT * FROM c", {}) for doc in page]


STEPS: Final[tuple[tuple[Callable[[Shop], Coroutine[Any, Any, None]], int], ...]] = (
    (Shop.put, 8), (Shop.remove, 2), (Shop.move, 2), (Shop.wait, 3), (Shop.split, 1), (Shop.deliver, 5),
    (Shop.again, 2), (Shop.race, 5),
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What one history came to."""

    seed: int
    wrong: str | None
    climate: str
    audited_first: bool
    items: int
    outcomes: Counter[str]  # of an audit at the end: reflected, left out by a rule, parked
    tale: tuple[str, ...]

    def __str__(self) -> str:
        return "\n   ".join([f"{self.wrong} after", *self.tale])


async def history(
    seed: int, writer: type[Writer] = Writer, *, at_most: int | None = None, kind: type[Shop] = Shop
) -> Found:
    """One random history to its end, or its first steps."""
    shop = kind(seed, writer)
    await shop.open()
    steps, weights = zip(*STEPS, strict=True)
    for step in shop.chance.choices(steps, weights, k=shop.chance.randint(3, 25))[:at_most]:
        await step(shop)
    await shop.drain()
    wrong = None if shop.trouble else await difference(shop, more_letters=shop.trouble.gave_up)
    if not wrong:
        await shop.audit()
        wrong = await difference(shop, audited=True)
        wrong = wrong and f"after audit: {wrong}"
    results = await shop.audit()
    wrong = wrong or counts(results, *expected(shop, await shop.present()))
    outcomes = Counter(result.outcome.value for result in results)
    return Found(seed, wrong, shop.climate, bool(shop.trouble), len(shop.seen), outcomes, tuple(shop.tale))


def expected(shop: Shop, states: list[State]) -> tuple[dict[Identity, dict[Place, Any] | None], set[Identity]]:
    """The entries that each item should own (None: about to expire, or just expired), and the items to be parked."""
    entries: dict[Identity, dict[Place, Any] | None] = {}
    parked = set()
    for state in states:
        own: dict[Place, Any] = {}
        change = shop._feed[state.identity].state.item
        ttl = (change or {}).get("ttl", -1)
        if change and ttl > 0 and abs(change["_ts"] + ttl - shop.now) <= UNSURE_SECONDS:
            entries[state.identity] = None
            continue
        try:
            for entry in wanted(shop.rules, state, shop.now).entries:
                own[entry.place] = content(document(entry, state, shop.rules.reserved, shop.now))
        except ItemError:
            parked.add(state.identity)
        entries[state.identity] = own
    return entries, parked


def content(doc: Document) -> Document:
    """What readers come for; the remaining time counts from the write."""
    return {name: value for name, value in bare(doc).items() if name != "ttl"}


async def difference(shop: Shop, *, more_letters: bool = False, audited: bool = False) -> str | None:
    """What a fresh rebuild would have otherwise. `more_letters`: of items that are mended, too, until an audit."""
    states = await shop.present()
    entries, parked = expected(shop, states)
    unsure = {(identity.id, identity.key.to_list()[0]) for identity, own in entries.items() if own is None}
    paths = [parse_path(path) for path in shop.rules.projection.key.paths]
    fresh_ = {place: doc for own in entries.values() for place, doc in (own or {}).items()}
    found = {
        Place(doc["id"], Key.of(*(at(doc, path) for path in paths))): content(doc)
        for doc in await shop.documents(TARGET)
        if (doc[shop.rules.reserved]["id"], doc[shop.rules.reserved]["key"][0]) not in unsure
    }
    if found != fresh_:
        return f"the target holds {found}, a fresh rebuild {fresh_}"
    records: dict[Identity, Placement] = {
        record.identity: record for record in map(placement_from, await shop.documents(STATE))
    }
    for identity, own in entries.items():
        record = records.get(identity)
        gone = own == {} and shop._feed[identity].state.item is not None  # it may have expired in silence
        if own is not None and not gone and set(record.entries if record else ()) != set(own):
            return f"the record of {identity} lists {record}, not {own}"
    letters = {Identity.from_stored(doc["source"]) for doc in await shop.documents(LETTERS)}
    sure = {identity for identity, own in entries.items() if own is not None}
    if not audited:  # what expires in silence takes no dead letter along
        sure -= {state.identity for state in states if state.gone and shop._feed[state.identity].state.item is not None}
    if not letters >= parked & sure or (letters & sure != parked & sure and not more_letters):
        return f"there are dead letters of {letters}, not of {parked}"
    return None


def counts(
    results: list[Result], entries: dict[Identity, dict[Place, Any] | None], parked: set[Identity]
) -> str | None:
    """Reflected + left out by a rule + parked = items."""
    if [result.identity for result in results] != list(entries):
        return f"{len(results)} results for {len(entries)} items"
    for result in results:
        own = entries[result.identity]
        right = Outcome.PARKED if result.identity in parked else Outcome.UNCHANGED if own else Outcome.SKIPPED
        if own is not None and result.outcome is not right:
            return f"{result} where {right} was expected"
        if result.outcome in (Outcome.SKIPPED, Outcome.PARKED) and not result.reason:
            return f"{result} without a reason"
    return None
