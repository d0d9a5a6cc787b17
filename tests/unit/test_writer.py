"""What a call that was cut off has left is known to the next one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from projections.deadletters import DeadLetters
from projections.entries import Rules, State
from projections.errors import TransientError
from projections.identity import Identity
from projections.keys import Key
from projections.memory import MemoryStore
from projections.outcomes import Outcome
from projections.store import Container, Description, Document, Upsert
from projections.version import Version
from projections.writer import Places, UnfinishedError, Writer, _stored
from tests.support import index

SOURCE, TARGET, STATE, LETTERS = (Container("db", name) for name in ("orders", "p", "state", "letters"))
PLACE = Key.of("s1")


async def test_a_letter_of_a_call_that_was_cut_off_goes_when_the_item_has_been_mended() -> None:
    failing = Failing("write")
    store = await opened(failing)
    writer = writer_of(store)

    bad = await changed(store, {"id": "o1", "shop": "s1", "status": {}})
    failing.add(STATE)  # the letter is written, the placement record is not
    with pytest.raises(UnfinishedError):
        await writer.apply([bad])
    assert len(await documents(store, LETTERS)) == 1
    failing.clear()
    mended = await changed(store, {"id": "o1", "shop": "s1", "status": "open"})
    [result] = await writer.apply([mended])

    assert result.outcome is Outcome.WRITTEN
    assert await documents(store, LETTERS) == []


async def test_a_letter_that_could_not_be_taken_away_goes_the_next_time() -> None:
    failing = Failing("write")
    store = await opened(failing)
    writer = writer_of(store)
    bad = await changed(store, {"id": "o1", "shop": "s1", "status": {}})
    failing.add(STATE)
    with pytest.raises(UnfinishedError):
        await writer.apply([bad])
    failing.clear()
    mended = await changed(store, {"id": "o1", "shop": "s1", "status": "open"})
    failing.add(LETTERS)
    with pytest.raises(UnfinishedError):
        await writer.apply([mended])
    failing.clear()
    await writer.apply([mended])

    assert await documents(store, LETTERS) == []


async def test_a_look_at_the_source_that_a_call_owes_is_taken_by_the_next() -> None:
    """Else what it wrote of a state that is no longer would count as in place."""
    failing = Failing("read")
    store = await opened(failing)
    writer = writer_of(store)
    outdated = await changed(store, {"id": "o1", "shop": "s1", "status": "open"})
    failing.add(SOURCE)
    with pytest.raises(UnfinishedError):
        await writer.apply([outdated])
    failing.clear()
    await changed(store, {"id": "o1", "shop": "s1", "status": "paid"})
    await writer.apply([outdated])

    assert [entry["status"] for entry in await documents(store, TARGET)] == ["paid"]


async def test_that_look_is_owed_also_by_a_call_that_had_started_again() -> None:
    """It found its state outdated after it had written, and failed before it could mend that."""
    calls = Counter[Container]()

    async def before(name: str, container: Container) -> None:
        calls[container] += name == "read"
        if (container, name, calls[SOURCE]) == (SOURCE, "read", 1):  # the look at the source, which has moved on
            await changed(store, {"id": "o1", "shop": "s1", "status": "paid"})
        if container == STATE and calls[STATE] == 2:  # the next round
            raise TransientError("busy")

    store = await opened(None)
    writer = writer_of(store)
    outdated = await changed(store, {"id": "o1", "shop": "s1", "status": "open"})
    store._before = before
    with pytest.raises(UnfinishedError):
        await writer.apply([outdated])
    store._before = None
    await writer.apply([outdated])

    assert [entry["status"] for entry in await documents(store, TARGET)] == ["paid"]


def test_what_an_entry_was_made_from_is_read_with_it() -> None:
    header = Version('"h"', 7)
    mark = {"etag": '"e"', "ts": 9, "hash": "h", "inputs": {"by|a": header.to_stored()}}
    document = {"id": "x", "_etag": "t", "_source": mark}
    stored = _stored(document, mark)
    assert stored.inputs == {"by|a": header}
    assert stored.document is document


class Failing(set[Container]):
    """The containers that are too busy for calls of one kind."""

    def __init__(self, call: str) -> None:
        super().__init__()
        self._call = call

    async def __call__(self, name: str, container: Container) -> None:
        if container in self and name == self._call:
            raise TransientError("busy")


async def opened(before: Any) -> MemoryStore:
    store = MemoryStore(before=before)
    for container, path in ((SOURCE, "/shop"), (TARGET, "/status"), (STATE, "/pk")):
        await store.create_container(Description(container, (path,)))
    await store.create_container(DeadLetters.description(LETTERS))
    return store


def writer_of(store: MemoryStore) -> Writer:
    return Writer(store, Rules(index()), Places(SOURCE, TARGET, STATE), DeadLetters(store, LETTERS, "by-status@1"))


async def changed(store: MemoryStore, item: Document) -> State:
    await store.write(SOURCE, PLACE, [Upsert(item)])
    [stored] = await documents(store, SOURCE)
    return State(Identity(PLACE, "o1"), Version.of(stored, from_feed=False), stored)


async def documents(store: MemoryStore, container: Container) -> list[Document]:
    return [document async for page in store.query(container, "SELECT * FROM c", {}) for document in page]
