"""Books and their authors under adversity: random histories of an Embed with its headers and fan-outs.

The copies are in entries of their own, or in place: in the books themselves.

Books refer to authors, alone and in lists. Workers of the books' feed and of the authors' feed are at it side by side,
two of each at times, with fan-outs that are carried out by anybody; calls fail before or after their effect, replicas
lag, workers are killed. What is checked at the end is a fresh rebuild from books and authors.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from projections.deadletters import DeadLetters
from projections.declare import SoftDelete, Source
from projections.embed import Embed, Header, Reference
from projections.embedding import EmbedWriter, HeaderWriter, InPlaceWriter
from projections.entries import Rules, State, document, wanted
from projections.errors import TransientError
from projections.fanout import FanOut, Jobs
from projections.identity import Identity, Place
from projections.keys import Key
from projections.memory import MemoryStore
from projections.outcomes import Result
from projections.plan import placement_from
from projections.references import HeaderState
from projections.states import fresh, present
from projections.store import Container, Delete, Description, Document, Upsert
from projections.version import Version
from projections.writer import Places, Writer
from tests.simulation.adversity import (
    CLIMATES,
    FAIR,
    PAUSES,
    START,
    Between,
    Found,
    Log,
    Trouble,
    Weather,
    content,
    logged,
)

BOOKS, AUTHORS, TARGET, REFS, STATE, LETTERS = (
    Container("db", name) for name in ("books", "authors", "library", "library-refs", "state", "letters")
)


def _rules(**fields: Any) -> Rules:
    authors = Source(container="authors", key="/id")
    embed = Embed(
        name="library",
        source=Source(container="books", key="/s"),
        deletes=SoftDelete("/deleted"),
        placement_buckets=1,
        references={
            "by": Reference(source=authors, id="/author", fields="n", deletes=SoftDelete("/deleted")),
            "all": Reference(source=authors, id="/authors/*", fields="n"),
        },
        **fields,
    )
    return Rules(embed, source_ttl=-1)


APART: Final = _rules(key="/k")
IN_PLACE: Final = _rules(in_place=True)


@dataclass(frozen=True)
class Change:
    lsn: int
    state: State
    write: int


@dataclass
class Feed:
    """What is new of one container, and how far two workers have read it."""

    container: Container
    changes: dict[Identity, Change] = field(default_factory=dict)
    position: int = 0
    pages: list[list[Change]] = field(default_factory=list)

    def page(self, since: int, size: int) -> list[Change]:
        pending = [change for change in self.changes.values() if change.lsn > since]
        page = sorted(pending, key=lambda change: change.lsn)[:size]
        self.pages.append(page)
        return page


class Hand:
    """One worker: a writer for the books, one for each reference, and what carries out fan-outs."""

    def __init__(self, town: Town) -> None:
        self.between = Between(town.store, town.log, town.chance)
        store: Any = self.between
        letters = DeadLetters(store, LETTERS, town.embed.full_name, clock=lambda: town.now)
        clocks: dict[str, Any] = {
            "now": lambda: town.now, "monotonic": lambda: asyncio.get_running_loop().time(),
        }  # fmt: skip
        target = BOOKS if town.embed.in_place else TARGET
        self.books = town.writer(store, town.rules, Places(BOOKS, target, STATE, REFS), letters, **clocks)
        self.headers: dict[str, HeaderWriter] = {}
        self.fan_outs: list[FanOut] = []
        for part in town.embed.parts:
            self._add(part, store, letters, clocks, town)

    def _add(self, part: Header, store: Any, letters: DeadLetters, clocks: dict[str, Any], town: Town) -> None:
        writer = town.header_writer(store, Rules(part, source_ttl=-1), Places(AUTHORS, REFS, STATE), letters, **clocks)
        writer.jobs = Jobs(store, STATE, part, lambda: town.now)
        self.headers[part.reference] = writer

        async def headers(notices: Sequence[State]) -> list[Result]:
            return await writer.apply(await present(store, AUTHORS, notices))

        async def books(notices: Sequence[State]) -> list[Result]:
            return await self.books.apply(await present(store, BOOKS, notices), renew=True)

        self.fan_outs.append(FanOut(store, REFS, part, writer.jobs, "_source", headers, books))

    async def fan_out(self) -> None:
        for fan_out in self.fan_outs:
            await fan_out.run()


class Town:
    """Books, authors, and what workers make of them."""

    def __init__(
        self, seed: int, writer: type[Writer] | None = None, header_writer: type[HeaderWriter] = HeaderWriter, *,
        in_place: bool = False,
    ) -> None:  # fmt: skip
        assert isinstance(APART.projection, Embed)
        assert isinstance(IN_PLACE.projection, Embed)
        self.rules = IN_PLACE if in_place else APART
        self.embed = IN_PLACE.projection if in_place else APART.projection
        self.chance = random.Random(seed)
        self.now = START
        self.log = Log()
        self.trouble = Trouble()
        self.tale: list[str] = []
        self.writer = writer or (InPlaceWriter if in_place else EmbedWriter)
        self.header_writer = header_writer
        self.climate = self.chance.choice(CLIMATES)
        self.books, self.authors = Feed(BOOKS), Feed(AUTHORS)
        self.hands: list[Hand] = []
        self._lsn = 0

    async def open(self) -> None:
        self.store = MemoryStore(clock=lambda: self.now)
        keys = {BOOKS: "/s", AUTHORS: "/id", TARGET: "/k", REFS: "/ref", STATE: "/pk", LETTERS: "/projection"}
        for container, key in keys.items():
            await self.store.create_container(Description(container, (key,), default_ttl=-1))
        self.hands = [Hand(self) for _ in range(2)]

    # the sources

    async def put_book(self) -> None:
        chance = self.chance
        book: Document = {"id": chance.choice("bbc"), "s": "s", "k": chance.choice("xxy"), "v": chance.randint(1, 2)}
        book["author"] = chance.choice(["a1", "a1", "a2", None])
        book["authors"] = chance.choice([[], ["a1"], ["a2", "a1"], ["a1", "a3"]])
        if chance.random() < 0.1:
            book["deleted"] = True
        await self._put(self.books, book, Key.of("s"))

    async def put_author(self) -> None:
        chance = self.chance
        author: Document = {"id": chance.choice(["a1", "a1", "a2", "a3"]), "n": chance.choice("AAB")}
        if chance.random() < 0.15:
            author["deleted"] = True
        await self._put(self.authors, author, Key.of(author["id"]))

    async def _put(self, feed: Feed, item: Document, key: Key) -> None:
        self.tale.append(f"put {item}")
        await logged(self.store, self.log, feed.container, key, [Upsert(item)])
        place = Place(item["id"], key)
        self._feed(feed, Identity(key, item["id"]), (await self.store.read(feed.container, [place]))[place])

    def _feed(self, feed: Feed, identity: Identity, item: Document) -> None:
        self._lsn += 1
        fed = item | {"_lsn": self._lsn}
        state = State(identity, Version.of(fed, from_feed=True), fed)
        feed.changes[identity] = Change(self._lsn, state, self.log.writes)

    async def hear(self, feed: Feed) -> None:
        """What workers have written to the books shows in their feed, too."""
        places = {Place(identity.id, identity.key): identity for identity in feed.changes}
        for place, item in (await self.store.read(feed.container, places)).items():
            known = feed.changes[places[place]].state
            if known.item is not None and known.version.etag != item["_etag"]:
                self._feed(feed, places[place], item)

    async def remove(self) -> None:
        """Something goes away; the feed says so."""
        feed = self.chance.choice((self.books, self.authors))
        if not feed.changes:
            return
        identity = self.chance.choice(list(feed.changes))
        place = Place(identity.id, identity.key)
        found = (await self.store.read(feed.container, [place])).get(place)
        if found is not None:
            self.tale.append(f"remove {identity}")
            await logged(self.store, self.log, feed.container, place.key, [Delete(place.id, found["_etag"])])
            self._lsn += 1
            version = Version(ts=int(self.now), lsn=self._lsn, deleted=True)  # the feed knows no etag of it
            feed.changes[identity] = Change(self._lsn, State(identity, version, None), self.log.writes)

    async def wait(self) -> None:
        self.now += self.chance.choice((0, 1, 1, 2))

    # the work

    def _weather(self, *, beside: bool) -> Weather:
        weather = Weather.of(self.climate, self.chance)
        self.trouble.lag |= weather.lag > 0
        self.tale.append(f"  {weather}{' beside others' if beside else ''}")
        return weather

    async def deliver(self, *, beside: bool = False) -> None:
        """A page of one feed, at one worker; the position moves when all of it is done."""
        feed, number = self.chance.choice((self.books, self.authors)), self.chance.randrange(2)
        await self.hear(feed)
        page = feed.page(feed.position, self.chance.randint(1, 3))
        if await self._at_work(number, feed, page, beside=beside) and page:
            feed.position = max(feed.position, page[-1].lsn)

    async def again(self) -> None:
        """A page that was read before, in the states that it had."""
        feed = self.chance.choice((self.books, self.authors))
        if feed.pages:
            await self._at_work(self.chance.randrange(2), feed, self.chance.choice(feed.pages), beside=False)

    async def fan_out(self, *, beside: bool = False) -> None:
        await self._at_work(self.chance.randrange(2), None, [], beside=beside)

    async def race(self) -> None:
        """Several of it all side by side."""
        self.tale.append("side by side:")
        at_once = [self._later(self.deliver(beside=True)) for _ in range(self.chance.randint(2, 3))]
        if self.chance.random() < 0.6:
            at_once.append(self._later(self.fan_out(beside=True)))
        if self.chance.random() < 0.8:
            at_once += [self._later(put()) for put in self.chance.choices((self.put_book, self.put_author), k=2)]
        await asyncio.gather(*at_once)

    async def _later(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.sleep(self.chance.choice((*PAUSES, 0.05)))
        await work

    async def _at_work(self, number: int, feed: Feed | None, page: list[Change], *, beside: bool) -> bool:
        """Whether the worker did it. One that is killed is followed by a new one; its fan-outs stay on record."""
        hand = self.hands[number]
        what = f"gets {[c.lsn for c in page]} of {feed.container.name}" if feed else "fans out"
        self.tale.append(f"worker {number} {what}")
        hand.between.weather, hand.between.calls = self._weather(beside=beside), 0
        for change in page:
            assert feed
            hand.between.saw(feed.container, change.write)
        task = asyncio.ensure_future(self._work(hand, feed, page))
        killed = asyncio.ensure_future(hand.between.died.wait())
        await asyncio.wait((task, killed), return_when=asyncio.FIRST_COMPLETED)
        killed.cancel()
        hand.between.weather = FAIR
        if not hand.between.died.is_set():
            done = task.result()
        else:
            self.tale.append(f"worker {number} is killed")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            done = False
            if self.hands[number] is hand:
                self.hands[number] = Hand(self)
        self.trouble.overtaken_and_killed |= beside and not done
        return done

    async def _work(self, hand: Hand, feed: Feed | None, page: list[Change]) -> bool:
        states = [change.state for change in page]
        for _ in range(self.chance.choice((1, 3, 6))):
            try:
                if feed is None:
                    await hand.fan_out()
                elif feed is self.books:
                    await hand.books.apply(states)
                else:
                    for writer in hand.headers.values():
                        await writer.apply(states)
                    if self.chance.random() < 0.8:
                        await hand.fan_out()
            except TransientError:
                continue
            return True
        return False

    # the end

    async def drain(self) -> None:
        """Faults are over: both feeds are read to their ends, and what fan-outs are on record are carried out."""
        hand = self.hands[0] = Hand(self)
        for feed in self.chance.sample([self.books, self.authors], 2):
            while page := await self._next(feed):
                feed.position = page[-1].lsn
                for writer in hand.headers.values() if feed is self.authors else (hand.books,):
                    await writer.apply([change.state for change in page])
        await hand.fan_out()

    async def _next(self, feed: Feed) -> list[Change]:
        await self.hear(feed)
        return feed.page(feed.position, 3)

    async def audit(self) -> list[Result]:
        hand = Hand(self)
        for writer in hand.headers.values():
            await writer.apply(await fresh(self.store, AUTHORS, list(self.authors.changes)), audit=True)
        await hand.fan_out()
        return await hand.books.apply(await fresh(self.store, BOOKS, list(self.books.changes)), audit=True)

    async def documents(self, container: Container) -> list[Document]:
        return [doc async for page in self.store.query(container, "SELECT * FROM c", {}) for doc in page]

    async def difference(self) -> str | None:
        """What a fresh rebuild would have otherwise."""
        headers: dict[str, HeaderState | None] = {}
        for part in self.embed.parts:
            for state in await fresh(self.store, AUTHORS, list(self.authors.changes)):
                [entry] = wanted(Rules(part), state, self.now).entries
                headers[str(entry.content["ref"])] = HeaderState(state.version, entry.content.get("copy"), "")
        own: dict[Place, Document] = {}
        for state in await fresh(self.store, BOOKS, list(self.books.changes)):
            want = wanted(self.rules, state, self.now, headers)
            if want.filling is not None:
                return f"{state.item} has still to get {want.filling}"
            for entry in want.entries:
                own[entry.place] = content(document(entry, state, "_source", self.now))
        found = {Place(doc["id"], Key.of(doc["k"])): content(doc) for doc in await self.documents(TARGET)}
        found |= {
            Place(doc["id"], Key.of(doc["ref"]), "refs"): content(doc)
            for doc in await self.documents(REFS)
            if doc["id"] != "header"
        }
        if found != own:
            return f"there is {found}, in a fresh rebuild {own}"
        listed = {
            place for doc in await self.documents(STATE) if "entries" in doc for place in placement_from(doc).entries
        }
        return None if listed == set(own) else f"the records list {listed}, not {set(own)}"


STEPS: Final = (
    (Town.put_book, 5), (Town.put_author, 5), (Town.remove, 2), (Town.wait, 1), (Town.deliver, 4), (Town.again, 2),
    (Town.fan_out, 2), (Town.race, 5),
)  # fmt: skip


async def history(seed: int, *, at_most: int | None = None, **writers: Any) -> Found:
    """One random history to its end, or its first steps. `writers`: as of a Town."""
    town = Town(seed, **writers)
    await town.open()
    steps, weights = zip(*STEPS, strict=True)
    for step in town.chance.choices(steps, weights, k=town.chance.randint(3, 20))[:at_most]:
        await step(town)
    await town.drain()
    wrong = None if town.trouble else await town.difference()
    if not wrong:
        await town.audit()
        wrong = await town.difference()
        wrong = wrong and f"after audit: {wrong}"
    outcomes = Counter(result.outcome.value for result in await town.audit())
    return Found(seed, wrong, town.climate, bool(town.trouble), len(town.books.changes), outcomes, tuple(town.tale))
