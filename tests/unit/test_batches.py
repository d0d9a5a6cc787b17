"""Many writes with few calls, none of them over the limits, none failing for another's sake."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from projections.batches import MAX_OPERATIONS, Write, write_all
from projections.errors import ConflictError, FatalError, TooLargeError, TransientError, UnauthorizedError
from projections.identity import Place
from projections.keys import Key
from projections.memory import MemoryStore
from projections.store import Container, Create, Delete, Description, Operation, Replace, Upsert, WriteError

TARGET = Container("shop", "entries")
REQUEST_BYTES = 2 * 1024 * 1024


class Recorder(MemoryStore):
    """Keeps the batches it is sent, and refuses what the service would refuse."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.batches: list[tuple[Key, list[Operation]]] = []
        self.under_way = self.most = 0
        self.fails: dict[Any, Exception] = {}  # by partition

    async def write(self, container: Container, key: Key, operations: Any) -> list[str | None]:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0)
            self.batches.append((key, list(operations)))
            assert len(operations) == 1 or sum(map(on_the_wire, operations)) <= REQUEST_BYTES
            if failure := self.fails.get(key.values[0]):
                raise failure
            return await super().write(container, key, operations)
        finally:
            self.under_way -= 1

    @property
    def sizes(self) -> list[int]:
        return [len(operations) for _, operations in self.batches]


def on_the_wire(operation: Operation) -> int:
    """Bytes of an operation as the SDK sends it: what is not ASCII is escaped, and there is wrapping."""
    wrapped = {"operationType": type(operation).__name__, "id": "i" * 97, "ifMatch": "e" * 40}
    return len(json.dumps({**wrapped, "resourceBody": getattr(operation, "document", None)}))


@pytest.fixture
async def store() -> Recorder:
    store = Recorder()
    await store.create_container(Description(TARGET, ("/k",)))
    return store


def create(id_: str, key: str = "x", **fields: Any) -> Write:
    return Write(Key.of(key), Create({"id": id_, "k": key, **fields}))


async def send(store: Recorder, *writes: Write, at_once: int = 8) -> list[Any]:
    return await write_all(store, TARGET, writes, asyncio.Semaphore(at_once))


async def ids(store: Recorder) -> list[str]:
    return sorted([doc["id"] async for page in store.query(TARGET, "SELECT * FROM c", {}) for doc in page])


async def test_nothing_to_write_is_no_call(store):
    assert await send(store) == []
    assert store.batches == []


async def test_writes_of_one_partition_share_a_batch(store):
    await send(store, create("1", "x"), create("2", "y"), create("3", "x"))
    assert sorted((key.values[0], len(operations)) for key, operations in store.batches) == [("x", 2), ("y", 1)]
    assert await ids(store) == ["1", "2", "3"]


async def test_case_22_a_hundred_and_one_puts_are_two_batches(store):
    writes = [create(f"{n:03}", v="v" * 200) for n in range(101)]
    etags = await send(store, *writes)
    assert sorted(store.sizes) == [1, MAX_OPERATIONS]
    assert len(set(etags)) == 101
    assert len(await ids(store)) == 101


@pytest.mark.parametrize(
    ("count", "text", "batches"),
    [(3, "x" * 900_000, 3), (250, "x" * 30_000, 5), (60, "漢" * 12_000, 3)],
    ids=["3 x 900 KB", "250 x 30 KB", "60 x 36 KB that is not ASCII"],
)
async def test_case_22_a_batch_stays_under_the_limit_in_bytes(store, count, text, batches):
    results = await send(store, *[create(f"{n:03}", v=text) for n in range(count)])
    assert all(isinstance(etag, str) for etag in results)
    assert sum(store.sizes) == count
    assert len(store.batches) == batches
    assert len(await ids(store)) == count


async def test_one_large_document_goes_alone_and_the_others_together(store):
    await send(store, create("a"), create("big", v="x" * 1_900_000), create("b"), create("c"))
    assert sorted(store.sizes) == [1, 1, 2]


async def test_results_come_in_the_order_of_the_writes(store):
    writes = [create(f"{n:03}", key="xyz"[n % 3]) for n in range(250)]
    etags = await send(store, *writes)
    for write, etag in zip(writes, etags, strict=True):
        place = Place(write.operation.id, write.key)
        assert (await store.read(TARGET, [place]))[place]["_etag"] == etag


async def test_the_order_within_a_partition_is_kept_in_a_batch(store):
    await send(store, *[create(f"{n:03}") for n in range(150)])
    for _, operations in store.batches:
        sent = [operation.id for operation in operations]
        assert sent == sorted(sent)


async def test_a_delete_has_no_etag(store):
    (etag,) = await send(store, create("1"))
    assert await send(store, Write(Key.of("x"), Delete("1", etag))) == [None]
    assert await ids(store) == []


async def test_a_refused_write_is_named_and_the_others_are_done(store):
    etags = await send(store, create("1"), create("2"), create("3"))
    results = await send(
        store,
        Write(Key.of("x"), Replace({"id": "1", "k": "x", "v": 2}, etags[0])),
        Write(Key.of("x"), Replace({"id": "2", "k": "x", "v": 2}, "outdated")),
        create("3"),
        Write(Key.of("x"), Delete("absent", "any")),
        create("4"),
    )
    assert [type(result) for result in results] == [str, ConflictError, ConflictError, ConflictError, str]
    assert [str(result)[-4:-1] for result in results[1:4]] == ["412", "409", "404"]
    assert await ids(store) == ["1", "2", "3", "4"]


async def test_all_may_be_refused(store):
    await send(store, create("1"), create("2"))
    results = await send(store, create("1"), create("2"))
    assert [type(result) for result in results] == [ConflictError, ConflictError]
    assert store.sizes == [2, 2, 1]


async def test_a_document_that_is_too_large_is_named_and_the_others_are_done(store):
    results = await send(store, create("a"), create("big", v="x" * REQUEST_BYTES), create("b"))
    assert [type(result) for result in results] == [str, TooLargeError, str]
    assert await ids(store) == ["a", "b"]


async def test_a_batch_that_is_too_large_together_is_halved():
    class Narrow(Recorder):
        async def write(self, container: Container, key: Key, operations: Any) -> list[str | None]:
            if len(operations) > 3:
                raise WriteError(0, TooLargeError())
            return await super().write(container, key, operations)

    store = Narrow()
    await store.create_container(Description(TARGET, ("/k",)))
    results = await send(store, *[create(str(n)) for n in range(10)])
    assert all(isinstance(etag, str) for etag in results)
    assert len(await ids(store)) == 10
    assert max(store.sizes) <= 3


async def test_conditions_are_sent_again_with_the_rest(store):
    """facts.md 21: the SDK takes them out of the list it was given."""

    class Greedy(Recorder):
        async def write(self, container: Container, key: Key, operations: Any) -> list[str | None]:
            sent = list(operations)
            operations.clear()
            return await super().write(container, key, sent)

    greedy = Greedy()
    await greedy.create_container(Description(TARGET, ("/k",)))
    await send(greedy, create("1"))
    results = await send(greedy, create("1"), create("2"), Write(Key.of("x"), Replace({"id": "1", "k": "x"}, "old")))
    assert [type(result) for result in results] == [ConflictError, str, ConflictError]


async def test_calls_under_way_are_bounded(store):
    await send(store, *[create("1", f"k{n}") for n in range(40)], at_once=3)
    assert store.most == 3


async def test_a_transient_failure_ends_the_call_after_the_others_are_done(store):
    store.fails["b"] = TransientError(retry_after=3)
    with pytest.raises(TransientError) as caught:
        await send(store, create("1", "a"), create("2", "b"), create("3", "c"))
    assert caught.value.retry_after == 3
    assert await ids(store) == ["1", "3"]


async def test_of_several_failures_the_gravest_is_told(store):
    store.fails |= {"a": TransientError(), "b": UnauthorizedError(), "c": TransientError()}
    with pytest.raises(FatalError):
        await send(store, create("1", "a"), create("2", "b"), create("3", "c"))


async def test_an_upsert_needs_no_condition(store):
    for _ in range(2):
        (etag,) = await send(store, Write(Key.of("x"), Upsert({"id": "1", "k": "x"})))
        assert isinstance(etag, str)
