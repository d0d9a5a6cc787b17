"""Reading a range by the planned hand-over: what is stored before what is read, and what if it is too late."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from projections.changes import is_version
from projections.errors import LostPositionError, NoVersionsError, TransientError
from projections.feed import Checkpoint, Checkpoints, Span, oldest
from projections.handover import KEEP_SECONDS, Reading
from projections.identity import Place
from projections.keys import Key
from projections.memory import MemoryStore
from projections.store import Container, Delete, Description, FeedRange, Upsert

SOURCE, STATE = Container("d", "orders"), Container("d", "state")
EVERYTHING = FeedRange("", "FF")
A = Key.of("a")
BEGAN = 1_700_000_000


class World:
    """A source of orders that keeps all versions for an hour, at a time that passes only here."""

    def __init__(self) -> None:
        self.now = BEGAN
        self.calls: list[str] = []
        self.fails: list[str] = []  # names of calls, the next of which fails
        self.store = MemoryStore(clock=lambda: self.now, before=self._before)

    async def _before(self, name: str, container: Container) -> None:
        self.calls.append(f"{name} {container.name}")
        if self.calls[-1] in self.fails:
            self.fails.remove(self.calls[-1])
            raise TransientError

    async def open(self, *, retention: int | None = 60) -> World:
        await self.store.create_container(Description(SOURCE, ("/k",), default_ttl=-1, retention=retention))
        await self.store.create_container(Description(STATE, ("/pk",)))
        return self

    async def put(self, *ids: str, **fields: Any) -> None:
        for id_ in ids:
            await self.store.write(SOURCE, A, [Upsert({"id": id_, "k": "a", **fields})])

    async def remove(self, id_: str) -> None:
        place = Place(id_, A)
        found = await self.store.read(SOURCE, [place])
        await self.store.write(SOURCE, A, [Delete(id_, found[place]["_etag"])])

    async def reading(self, *, all_versions: bool = True) -> Reading:
        """As a process that has just started has it."""
        checkpoints = Checkpoints(self.store, STATE, "p@1")
        [checkpoint] = await checkpoints.load([EVERYTHING])
        await checkpoints.begin([checkpoint])
        return Reading(self.store, SOURCE, checkpoints, checkpoint, all_versions=all_versions, now=lambda: self.now)

    async def stored(self) -> Checkpoint:
        [checkpoint] = await Checkpoints(self.store, STATE, "p@1").load([EVERYTHING])
        return checkpoint


async def told(reading: Reading, *, pages: int = 1000, size: int = 100) -> list[str]:
    """What comes, each page of it stored as done; at most so many pages."""
    found = []
    async for page in reading.pages(size):
        found += [_told(change) for change in page.items]
        reading.checkpoint.position = page.position
        await reading._checkpoints.save(reading.checkpoint)
        pages -= 1
        if not pages:
            break
    return found


def _told(change: Any) -> str:
    if not is_version(change):
        return str(change["id"])
    metadata = change["metadata"]
    return f"{metadata['operationType']} {change['current'].get('id') or metadata['id']}"


async def test_the_latest_versions_come_first_and_then_all_from_the_position_noted_before() -> None:
    world = await World().open()
    await world.put("1", "2", "3")
    reading = await world.reading()
    pages = reading.pages(1)
    assert _told((await anext(pages)).items[0]) == "1"
    await world.remove("1")
    await world.remove("3")
    await world.put("4")
    found = [_told(change) async for page in pages for change in page.items]
    assert found == ["2", "4", "delete 1", "delete 3", "create 4"]


async def test_a_position_is_on_record_before_anything_is_read() -> None:
    world = await World().open()
    await world.put("1")
    await told(await world.reading(), pages=1)
    reads = [call for call in world.calls if call in ("changes orders", "write state")]
    # the record of ranges; the note; the page with its position
    assert reads[-5:] == ["write state", "changes orders", "write state", "changes orders", "write state"]
    stored = await world.stored()
    assert stored.loading
    assert stored.versions
    assert (stored.versions.known, stored.versions.missed) == (BEGAN, ())


async def test_a_hand_over_goes_on_wherever_it_was_left() -> None:
    world = await World().open()
    await world.put("1", "2", "3")
    assert await told(await world.reading(), pages=2, size=1) == ["1", "2"]
    await world.remove("1")
    noted = (await world.stored()).versions
    found = await told(await world.reading(), size=1)
    assert found == ["3", "delete 1"]
    stored = await world.stored()
    assert noted
    assert not stored.loading
    assert await told(await world.reading()) == []
    await world.remove("2")
    assert await told(await world.reading()) == ["delete 2"]


async def test_a_note_that_may_have_been_stored_is_stored_again_as_it_was() -> None:
    world = await World().open()
    await world.put("1")
    reading = await world.reading()
    world.fails = ["write state"]
    with pytest.raises(TransientError):
        await told(reading)
    assert reading.checkpoint.versions is None  # nothing is read before it is on record
    noted = reading._noted
    await world.put("2")
    assert await told(reading, pages=1) == ["1", "2"]
    assert (await world.stored()).versions == noted


async def test_a_source_that_keeps_no_versions_is_refused() -> None:
    world = await World().open(retention=None)
    with pytest.raises(NoVersionsError, match="keeps no versions"):
        await told(await world.reading())


async def test_a_source_read_in_latest_versions_stores_nothing_of_this() -> None:
    world = await World().open()
    await world.put("1")
    await world.remove("1")
    await world.put("2")
    assert await told(await world.reading(all_versions=False)) == ["2"]
    assert (await world.stored()).versions is None


async def test_from_latest_versions_to_all_of_them_and_back(caplog: pytest.LogCaptureFixture) -> None:
    world = await World().open()
    await world.put("1", "2")
    assert await told(await world.reading(all_versions=False)) == ["1", "2"]
    await world.put("3")
    assert await told(await world.reading()) == ["3"]  # what was read before is not read again
    await world.remove("1")
    assert await told(await world.reading()) == ["delete 1"]
    with caplog.at_level(logging.WARNING):
        assert await told(await world.reading(all_versions=False)) == ["2", "3"]
    assert "read from the beginning" in caplog.text


async def test_a_position_that_is_too_old_means_a_new_hand_over_and_is_on_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = await World().open()
    await world.put("1", "2")
    await told(await world.reading())
    await world.remove("1")
    world.now += 2 * 3600
    await world.put("3")
    with caplog.at_level(logging.WARNING):
        assert await told(await world.reading()) == ["2", "3"]
    span = Span(BEGAN, BEGAN + 7200)
    [record] = [record for record in caplog.records if "deletes may have been missed" in record.message]
    assert (record.projection, record.span) == ("p@1", str(span))
    stored = await world.stored()
    assert stored.versions
    assert (stored.versions.missed, stored.loading) == ((span,), False)
    assert str(span) == "2023-11-14 22:13:20Z to 2023-11-15 00:13:20Z"
    await world.remove("2")
    assert await told(await world.reading()) == ["delete 2"]


async def test_every_lapse_is_on_record() -> None:
    world = await World().open()
    await world.put("1")
    for _ in range(2):
        await told(await world.reading())
        await world.put("1")
        world.now += 2 * 3600
    await told(await world.reading())
    versions = (await world.stored()).versions
    assert versions
    assert versions.missed == (Span(BEGAN, BEGAN + 7200), Span(BEGAN + 7200, BEGAN + 14400))


async def test_a_load_that_outlasts_the_retention_begins_anew() -> None:
    world = await World().open()
    await world.put("1", "2")
    await told(await world.reading(), pages=1, size=1)
    await world.remove("1")
    world.now += 2 * 3600
    await world.put("3")
    assert await told(await world.reading(), size=1) == ["2", "3", "2", "3"]


async def test_the_position_of_an_idle_range_is_stored_now_and_then() -> None:
    world = await World().open()
    await told(await world.reading())
    writes = world.calls.count("write state")
    reading = await world.reading()
    for _ in range(10):
        world.now += KEEP_SECONDS // 4
        async for _ in reading.pages(100):
            pass
    assert world.calls.count("write state") - writes == 1 + 2  # the record of ranges is there already
    stored = await world.stored()
    assert stored.versions
    assert stored.versions.known == BEGAN + KEEP_SECONDS * 2


async def test_a_position_of_the_latest_versions_is_never_too_old_in_silence() -> None:
    world = await World().open()
    reading = await world.reading(all_versions=False)
    with pytest.raises(LostPositionError):
        await reading._start_over(LostPositionError())


async def test_what_is_pending_while_the_hand_over_is_under_way() -> None:
    world = await World().open()
    await world.put("1")
    await told(await world.reading(), pages=1)
    stored = await world.stored()
    assert stored.loading
    assert await oldest(world.store, SOURCE, stored, world.now) is None
    await world.remove("1")  # only the feed of all versions tells of it
    assert await oldest(world.store, SOURCE, stored, world.now + 60) == 60.0
    await told(await world.reading())
    assert await oldest(world.store, SOURCE, await world.stored(), world.now) is None


async def test_what_is_pending_where_the_position_is_too_old() -> None:
    world = await World().open()
    await told(await world.reading())
    await world.put("1")
    world.now += 2 * 3600
    await world.put("2")
    assert await oldest(world.store, SOURCE, await world.stored(), world.now) == 7200.0
