"""The two writers of an Embed: what comes before what, and a worker that dies at any of its calls."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from typing import Any

import pytest
from rich.console import Console

from projections.batches import Write
from projections.cli.health import status_table
from projections.declare import Catalog, Index, SoftDelete, Source, Target
from projections.embed import Embed, Header, Reference
from projections.embedding import HeaderWriter
from projections.errors import CatalogError, TransientError
from projections.fanout import SIDE_BY_SIDE, Job
from projections.functions import TriggeredWorker
from projections.identity import Identity
from projections.keys import Key
from projections.memory import MemoryStore
from projections.plan import Rearrange
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.status import Health, Status, status
from projections.store import Container, Document, Upsert
from projections.strategies import Concat
from projections.triggers import triggers
from projections.worker import Engine, Worker
from projections.writer import Attempt, Writer
from tests.converged import assert_converged, documents
from tests.host.virtual import in_virtual_time
from tests.integration.conftest import KilledError, MortalStore

BOOKS, AUTHORS = Source(container="books", key="/s"), Source(container="authors", key="/id")


def library(**fields: Any) -> Embed:
    references = {"by": Reference(source=AUTHORS, id="/authors/*", fields="n")}
    return Embed(**{"name": "library", "source": BOOKS, "key": "/k", "references": references, **fields})


LAYOUT = Layout(Catalog(projections=(library(),)), "db")
IN_PLACE = Embed(
    name="library", source=BOOKS, in_place=True,
    references={"by": Reference(source=AUTHORS, id="/authors/*", fields="n")},
)  # fmt: skip
IN_PLACE_LAYOUT = Layout(Catalog(projections=(IN_PLACE,)), "db")
WRITERS = Index(name="writers", source=AUTHORS, key=Concat("/id", path="/who"), deletes=SoftDelete("/dead"))
OF_ENTRIES = library(references={"by": Reference(of=WRITERS, id="/authors/*", fields="n")})
OF_ENTRIES_LAYOUT = Layout(Catalog(projections=(OF_ENTRIES, WRITERS)), "db")


async def put(store: MemoryStore, name: str, item: Document) -> None:
    key = Key.of(item["s"] if name == "books" else item["id"])
    await store.write(Container("db", name), key, [Upsert(item)])


async def run(store: Any, layout: Layout = LAYOUT) -> None:
    await Worker(store, layout, list(layout.catalog)).run(until_caught_up=True)


async def opened(layout: Layout = LAYOUT, **options: Any) -> MemoryStore:
    store = MemoryStore(**options)
    await initialise(store, layout)
    await put(store, "authors", {"id": "a1", "n": "Ann"})
    for number in range(3):
        await put(store, "books", {"id": f"b{number}", "s": "s", "k": "x", "authors": ["a1", "a2"]})
    return store


async def rename(store: MemoryStore, *, dead: bool = False) -> None:
    await put(store, "authors", {"id": "a1", "n": "Anna", "dead": dead})
    await put(store, "authors", {"id": "a2", "n": "Bob"})
    await put(store, "books", {"id": "b0", "s": "s", "k": "y", "authors": ["a1"]})


async def wrong_after_a_death(*, after: bool, layout: Layout = LAYOUT, dead: bool = False) -> str | None:
    """What is wrong when a worker has died at one of its calls and another one has finished the work."""
    for dies_at in range(1, 200):
        store = await opened(layout)
        await run(store, layout)
        await rename(store, dead=dead)
        mortal = MortalStore(store, dies_at, after=after)  # type: ignore[arg-type]
        with contextlib.suppress(KilledError):
            await run(mortal, layout)
        if not mortal.died:
            assert dies_at > 15
            return None
        await run(store, layout)
        try:
            await assert_converged(store, layout)
        except AssertionError as error:
            return f"killed at {dies_at}: {error}"
    raise AssertionError("it never comes to an end")


@pytest.mark.parametrize("layout", [LAYOUT, IN_PLACE_LAYOUT], ids=["apart", "in place"])
@pytest.mark.parametrize("after", [False, True])
@in_virtual_time
async def test_a_worker_that_dies_at_any_call_is_followed_by_one_that_finishes(after, layout):
    assert await wrong_after_a_death(after=after, layout=layout) is None


class Late(HeaderWriter):
    """Has the fan-out on record only when the header is written."""

    async def _write_entries(self, writes: list[tuple[Attempt, Write]]) -> None:
        await Writer._write_entries(self, writes)
        await self.jobs.begin([attempt.identity for attempt, _ in writes])


@in_virtual_time
async def test_a_fan_out_that_is_on_record_too_late_can_be_lost(monkeypatch):
    monkeypatch.setattr("projections.worker.HeaderWriter", Late)
    assert "other" in str(await wrong_after_a_death(after=True))


@pytest.mark.parametrize("after", [False, True])
@in_virtual_time
async def test_copies_of_an_entry_go_with_it_whenever_a_worker_dies(after):
    assert await wrong_after_a_death(after=after, layout=OF_ENTRIES_LAYOUT, dead=True) is None


class Forgetting(Writer):
    """Tells that entries have gone when the record has forgotten where they were."""

    async def _rearrange(self, decided: list[tuple[Attempt, Rearrange]]) -> None:
        told, self.on_left = self.on_left, None
        await super()._rearrange(decided)
        self.on_left = told
        await self._left([place for attempt, d in decided if not attempt.failed for place in d.first.entries])


@in_virtual_time
async def test_an_entry_that_is_forgotten_before_others_know_leaves_its_copies(monkeypatch):
    monkeypatch.setattr("projections.worker.Writer", Forgetting)
    assert await wrong_after_a_death(after=True, layout=OF_ENTRIES_LAYOUT, dead=True)


async def order_of_writes() -> list[str]:
    written: list[str] = []

    async def before(name: str, container: Container) -> None:
        if name == "write":
            written.append(container.name)

    store = await opened(before=before)
    written.clear()
    await run(store)
    return [name for name in written if name != "projections-state"]


async def test_back_references_come_before_the_entries_that_they_stand_for():
    """Else a fan-out in between finds nothing to do."""
    *before, last = await order_of_writes()
    assert (set(before), last) == ({"library-refs"}, "library")


async def test_a_first_build_does_not_go_over_its_entries_twice():
    """The fan-outs of new headers are done before anything refers to them."""
    read: list[str] = []

    async def before(name: str, container: Container) -> None:
        if name == "read":
            read.append(container.name)

    store = await opened(before=before)
    read.clear()
    await run(store)
    assert read.count("books") == 1  # the look at the source after writing; a fan-out would read its items
    assert read.count("library") == 1


async def test_fan_outs_of_many_new_headers_share_their_calls():
    """A first build has one for each referenced item: one after the other they would hold the entries up for hours."""
    under_way: list[str] = []
    most, reads = 0, 0

    async def before(name: str, container: Container) -> None:
        nonlocal most, reads
        reads += (name, container.name) == ("read", "authors")
        if (name, container.name) == ("query", "library-refs"):
            under_way.append(name)
            most = max(most, len(under_way))
            await asyncio.sleep(0)
            under_way.pop()

    store = await opened(before=before)
    for number in range(4 * SIDE_BY_SIDE):
        await put(store, "authors", {"id": f"new{number}", "n": "New"})
    await run(store)
    assert most == SIDE_BY_SIDE
    assert reads < 3 * SIDE_BY_SIDE
    await assert_converged(store, LAYOUT)


async def test_a_fan_out_that_fails_keeps_none_of_the_others_from_their_end():
    failing = False

    async def before(name: str, container: Container) -> None:
        nonlocal failing
        if failing and (name, container.name) == ("query", "library-refs"):
            failing = False
            raise TransientError("busy")

    store = await opened(before=before)
    await put(store, "authors", {"id": "a2", "n": "Bob"})
    await run(store)
    [projection] = LAYOUT.catalog.projections
    [header] = projection.parts
    headers, entries = [await Engine.open(store, LAYOUT, one) for one in (header, projection)]
    fan_out, jobs = headers.fan_out(store, LAYOUT, entries), headers.jobs
    assert jobs
    await jobs.begin([Identity(Key.of(id_), id_) for id_ in ("a1", "a2")])
    failing = True
    with pytest.raises(TransientError):
        await fan_out.run()
    assert len(await jobs.pending()) == 1
    assert await fan_out.run() == 3
    assert await jobs.pending() == []


# declared


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"references": {}}, "references"),
        ({"references": {"_x": Reference(source=AUTHORS, id="/a", fields="n")}}, "cannot be kept under '_x'"),
        ({"references": {"k": Reference(source=AUTHORS, id="/a", fields="n")}}, "k is where the key is kept"),
        ({"references": {"a": Reference(source=AUTHORS, id="/a", fields="n")}}, "the item itself has /a"),
        ({"include": ("x",), "exclude": ("y",)}, "not both"),
        ({"placement": "append_only"}, "use tracked"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(fields, message):
    with pytest.raises(CatalogError, match=message):
        library(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": BOOKS}, "books is keyed /s; give the paths"),
        ({"source": BOOKS, "key": ("/s", "/t")}, "a path for each"),
        ({"id": "/a/*/b/*"}, "at most one list"),
        ({"fields": ()}, "fields"),
    ],
    ids=str,
)
def test_a_reference_that_cannot_be_is_refused(fields, message):
    with pytest.raises(CatalogError, match=message):
        Reference(**{"source": AUTHORS, "id": "/a", "fields": "n", **fields})


def test_an_embed_that_feeds_what_it_refers_to_is_refused():
    with pytest.raises(CatalogError, match="feeds its own source"):
        Catalog(projections=(library(target=Target(container="authors")),))


# in place


def filling(source: str, name: str, fields: Any, of: str, id_: str = "/ref") -> Embed:
    """Copies fields of items in one container into items of another one."""
    reference = Reference(source=Source(container=of, key="/id"), id=id_, fields=fields)
    return Embed(name=f"{source}-{name}", source=Source(container=source, key="/s"), in_place=True,
                 references={name: reference})  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"key": "/k"}, "key: with in_place"),
        ({"include": ("x",)}, "include: with in_place"),
        ({"target": Target(container="t")}, "target: with in_place"),
        ({"references": {f"r{n}": Reference(source=AUTHORS, id="/a", fields="n") for n in range(11)}}, "10 at most"),
        ({"references": {"a": Reference(source=AUTHORS, id="/a/id", fields="n")}}, "the item itself has /a"),
    ],
)
def test_in_place_items_stay_where_and_what_they_are(fields, message):
    with pytest.raises(CatalogError, match=message):
        Embed(**{"name": "p", "source": BOOKS, "in_place": True, "references": IN_PLACE.references, **fields})


@pytest.mark.parametrize(
    "projections",
    [
        [filling("a", "x", "x", of="a")],
        [filling("a", "x", "y", of="b"), filling("b", "y", "x", of="a")],
        [filling("a", "x", "y", of="b", id_="/y"), filling("a", "y", "z", of="c", id_="/x/id")],
        [filling("a", "x", "/n/deep", of="b"), library(source=Source(container="a", key="/s"),
                                                       target=Target(container="b"))],
    ],
    ids=["of itself", "of each other", "by each other", "of entries made from it"],
)  # fmt: skip
def test_copies_that_change_what_they_are_copied_from_are_refused(projections):
    with pytest.raises(CatalogError, match=r"never come to rest|feeds its own source"):
        Catalog(projections=tuple(projections))


@pytest.mark.parametrize(
    "projections",
    [
        [filling("a", "boss", "name", of="a")],
        [filling("a", "x", "y", of="b"), filling("b", "y", "z", of="a")],
        [filling("a", "x", ("y", "z"), of="b"), filling("b", "w", "y", of="a")],
        [filling("a", "x", "y", of="b"), filling("a", "z", "y", of="c", id_="/x/id")],
    ],
    ids=["of items beside it", "two levels", "of other fields", "by way of a copy"],
)
def test_copies_of_copies_are_not(projections):
    Catalog(projections=tuple(projections))


def test_two_that_copy_into_the_same_property_are_refused():
    both = filling("a", "x", "y", of="b"), filling("a", "x", "z", of="c")
    with pytest.raises(CatalogError, match="same property, db/a: /x"):
        Catalog(database="db", projections=(both[0], both[1].model_copy(update={"name": "other"})))


def test_entries_of_another_projection_are_not_filled():
    entries = library(target=Target(container="a"))
    with pytest.raises(CatalogError, match="two projections write to the container a"):
        Catalog(projections=(entries, filling("a", "x", "y", of="b")))


async def test_in_place_what_is_filled_costs_only_reads_when_it_shows_again():
    written: list[str] = []

    async def before(name: str, container: Container) -> None:
        if name == "write" and container.name != "projections-state":
            written.append(container.name)

    store = await opened(IN_PLACE_LAYOUT, before=before)
    await run(store, IN_PLACE_LAYOUT)
    assert written.count("books") == 1 + 3  # three items put, and all three filled in one batch
    written.clear()
    await run(store, IN_PLACE_LAYOUT)
    assert written == []


async def test_status_tells_of_fan_outs_under_way():
    store = await opened()
    await run(store)
    [header] = LAYOUT.catalog.projections[0].parts
    assert isinstance(header, Header)
    identity = Identity(Key.of("a1"), "a1")
    begun = Job(identity, "b~0", 400, 58_000, int(time.time()) - 60)
    partition = f"{header.full_name}|fanout"
    await store.write(LAYOUT.state, Key.of(partition), [Upsert(begun.to_stored(partition))])
    found = await status(store, LAYOUT, header)
    assert found.health is Health.BEHIND
    assert str(found.fan_outs) == "1 fan-out under way, 400 of 58,000 entries"
    assert found.fan_outs
    assert 55 < found.fan_outs.oldest < 90
    assert found.to_json()["fanOuts"]["jobs"] == 1
    assert "58,000" in rendered([found])
    await run(store)  # whoever comes carries it out
    assert (await status(store, LAYOUT, header)).fan_outs is None


def rendered(found: list[Status]) -> str:
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(status_table(found))
    return console.export_text()


# in the Functions app


class App:
    """The worker of an app with one Embed, on a store in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> None:
        monkeypatch.setattr(Settings, "load_catalog", lambda _: LAYOUT.catalog)
        self.store = store
        self.worker = TriggeredWorker(Settings("http://nowhere/", "…", database="db"), 600.0, self._open)
        [self.embed] = LAYOUT.catalog
        [self.header] = self.embed.parts

    async def _open(self, _: Settings) -> MemoryStore:
        return self.store

    async def notices(self, name: str) -> list[Document]:
        return [{**doc, "_rid": "r=="} for doc in await documents(self.store, Container("db", name))]


async def test_a_reference_has_a_trigger_and_leases_of_its_own():
    found = {trigger.function: trigger for trigger in triggers(LAYOUT)}
    assert set(found) == {"library-1", "library-by-1"}
    assert found["library-by-1"].binding["container_name"] == "authors"
    assert found["library-by-1"].lease_prefix == "library.by-1-"


async def test_the_call_that_is_told_of_a_referenced_item_brings_the_entries_up_to_date(monkeypatch):
    app = App(monkeypatch, await opened())
    await app.worker.apply(app.embed, await app.notices("books"))
    assert [entry["by"] for entry in await documents(app.store, Container("db", "library"))] == [[]] * 3
    await app.worker.apply(app.header, await app.notices("authors"))
    await assert_converged(app.store, LAYOUT)


async def test_a_fan_out_that_a_call_has_left_is_carried_out_by_the_drain_timer(monkeypatch):
    app = App(monkeypatch, await opened())
    await app.worker.apply(app.embed, await app.notices("books"))
    monkeypatch.setattr(TriggeredWorker, "_fan_out", _nothing)
    await app.worker.apply(app.header, await app.notices("authors"))
    monkeypatch.undo()
    await app.worker.drain()
    await assert_converged(app.store, LAYOUT)


async def _nothing(*_: Any) -> None:
    return None
