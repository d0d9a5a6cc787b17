"""What every store promises of containers: what is asked for is what there is, and is told again."""

from __future__ import annotations

from typing import Any

import pytest

from projections.declare import Catalog, Index, Source, Target, Throughput
from projections.drift import differences
from projections.errors import MissingContainerError, NativeIndexError
from projections.identity import Place
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout, own
from projections.store import Container, Description, Native, Store, Upsert

POLICY = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": "/notes/*"}],
    "compositeIndexes": [[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]],
}


async def made(store: Store, database: str, *key_paths: str, **fields: Any) -> tuple[Description, Description]:
    """A container as wanted, and as described."""
    wanted = Description(Container(database, "made"), key_paths or ("/k",), **fields)
    assert await store.create_container(wanted)
    found = await store.describe(wanted.container)
    assert found is not None
    return wanted, found


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"default_ttl": -1},
        {"default_ttl": 60},
        {"indexing": POLICY},
        {"indexing": {"indexingMode": "none", "automatic": False}},
        {"indexing": {"includedPaths": [{"path": "/k/?"}], "excludedPaths": [{"path": "/*"}]}},
        {"unique_keys": (("/email",), ("/a", "/b/c"))},
    ],
    ids=str,
)
async def test_what_is_declared_is_what_there_is(store: Store, database: str, fields: dict[str, Any]) -> None:
    wanted, found = await made(store, database, **fields)
    assert list(differences(wanted, found)) == []
    assert found.default_ttl == fields.get("default_ttl")
    assert {frozenset(paths) for paths in found.unique_keys} == {frozenset(p) for p in fields.get("unique_keys", ())}
    if "indexing" in fields:
        assert found.indexing is not None
        expected = [one["path"] for one in fields["indexing"].get("excludedPaths", [])]
        assert set(expected) <= {one["path"] for one in found.indexing.get("excludedPaths", ())}


@pytest.mark.parametrize(
    ("key_paths", "kind"),
    [(("/k",), "Hash"), (("/a/b",), "Hash"), (("/a", "/b"), "MultiHash"), (("/a", "/b", "/c"), "MultiHash")],
)
async def test_keys_are_of_the_kind_that_their_number_asks_for(
    store: Store, database: str, key_paths: tuple[str, ...], kind: str
) -> None:
    _, found = await made(store, database, *key_paths)
    assert (found.key_paths, found.key_version) == (key_paths, 2)
    assert found.key_kind in (kind, None)
    assert found.native is None


@pytest.mark.parametrize("throughput", [Throughput(manual=600), Throughput(autoscale=4000)], ids=str)
async def test_throughput_is_what_was_asked_for(store: Store, database: str, throughput: Throughput) -> None:
    wanted, _ = await made(store, database, throughput=throughput)
    assert await store.throughput(wanted.container) == throughput


async def test_throughput_that_nobody_asked_for_is_told_too(store: Store, database: str) -> None:
    wanted, _ = await made(store, database)
    found = await store.throughput(wanted.container)
    # an account that has no other gives 400; none at all is serverless, or shared
    assert found in (Throughput(), Throughput(manual=400))


async def test_the_throughput_of_a_missing_container(store: Store, database: str) -> None:
    with pytest.raises(MissingContainerError):
        await store.throughput(Container(database, "nowhere"))


async def test_all_containers_of_a_catalog_are_made_as_declared(store: Store, database: str) -> None:
    target = Target(throughput=Throughput(autoscale=2000), indexing=POLICY, unique_keys=(("/no",),), default_ttl=-1)
    source = Source(container="orders", key="/customerId")
    catalog = Catalog(
        projections=(
            Index(name="by-no", source=source, key="/no", target=target),
            Index(name="by-place", source=source, key=("/country", "/city")),
        )
    )
    for wanted in own(Layout(catalog, database)):
        assert await store.create_container(wanted)
        found = await store.describe(wanted.container)
        assert found is not None
        assert list(differences(wanted, found, await store.throughput(wanted.container))) == []


async def test_a_native_index_is_refused_and_nothing_is_made_where_there_is_no_such_thing(
    store: Store, database: str
) -> None:
    await made(store, database)
    index = Container(database, "index")
    native = Native("made", "SELECT c.k, c.email FROM c")
    with pytest.raises(NativeIndexError) as raised:
        await store.create_container(
            Description(index, ("/email",), throughput=Throughput(autoscale=1000), native=native)
        )
    assert raised.value.hint or isinstance(store, MemoryStore)
    assert await store.describe(index) is None


async def test_a_container_goes_with_all_that_is_in_it(store: Store, database: str) -> None:
    wanted, _ = await made(store, database)
    await store.write(wanted.container, Key.of("a"), [Upsert({"id": "1", "k": "a"})])
    assert await store.delete_container(wanted.container)
    assert await store.describe(wanted.container) is None
    assert not await store.delete_container(wanted.container)
    with pytest.raises(MissingContainerError):
        await store.read(wanted.container, [Place("1", Key.of("a"))])


async def test_a_container_that_is_made_anew_is_empty(store: Store, database: str) -> None:
    wanted, _ = await made(store, database)
    await store.write(wanted.container, Key.of("a"), [Upsert({"id": "1", "k": "a"})])
    await store.delete_container(wanted.container)
    await store.create_container(wanted)
    assert await store.read(wanted.container, [Place("1", Key.of("a"))]) == {}
