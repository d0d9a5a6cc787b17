"""What every store promises (store.py)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from projections.errors import AskError, ConflictError, ItemError, MissingContainerError, NoVersionsError, TooLargeError
from projections.identity import Place
from projections.keys import UNDEFINED, Key, KeyValue
from projections.metering import measured
from projections.store import (
    VERSIONS,
    Container,
    Create,
    Delete,
    Description,
    FeedRange,
    Page,
    Patch,
    Replace,
    Start,
    Store,
    Upsert,
    WriteError,
    at_lsn,
)

A = Key.of("a")


async def refused(store: Store, container: Container, key: Key, *operations: Any) -> WriteError:
    with pytest.raises(WriteError) as raised:
        await store.write(container, key, operations)
    return raised.value


async def put(store: Store, container: Container, id_: str, key: Key = A, **fields: Any) -> str:
    [etag] = await store.write(container, key, [Upsert({"id": id_, "k": key.values[0], **fields})])
    assert etag
    return etag


async def pages(store: Store, container: Container, since: str | Start, size: int = 100) -> list[Page]:
    [feed_range] = await store.feed_ranges(container)
    return [page async for page in store.changes(container, feed_range, since, size)]


def ids(found: list[Page]) -> list[str]:
    return [item["id"] for page in found for item in page.items]


async def test_what_was_created_can_be_read(store: Store, container: Container) -> None:
    [etag] = await store.write(container, A, [Create({"id": "1", "k": "a", "n": 9007199254740993, "t": "日本 🙂"})])
    found = await store.read(container, [Place("1", A), Place("2", A)])
    assert list(found) == [Place("1", A)]
    document = found[Place("1", A)]
    assert (document["n"], document["t"], document["_etag"]) == (9007199254740993, "日本 🙂", etag)
    assert isinstance(document["_ts"], int)


async def test_an_id_is_unique_within_its_key_only(store: Store, container: Container) -> None:
    for key in ("a", "b"):
        await store.write(container, Key.of(key), [Create({"id": "1", "k": key, "mine": key})])
    found = await store.read(container, [Place("1", Key.of("a")), Place("1", Key.of("b"))])
    assert {place.key.values[0]: document["mine"] for place, document in found.items()} == {"a": "a", "b": "b"}


ODD_KEYS: list[KeyValue] = ["", " ", "x/y", 'q"', "日本", 7, "7", 7.5, -1, 0, True, False, None, UNDEFINED]


async def test_every_type_of_key_is_its_own(store: Store, container: Container) -> None:
    keys = [Key.of(value) for value in ODD_KEYS]
    for n, (key, value) in enumerate(zip(keys, ODD_KEYS, strict=True)):
        document = {"id": "same", "n": n} | ({} if value is UNDEFINED else {"k": value})
        await store.write(container, key, [Create(document)])
    found = await store.read(container, [Place("same", key) for key in keys])
    assert [found[Place("same", key)]["n"] for key in keys] == list(range(len(keys)))
    for key in keys:
        await store.write(container, key, [Delete("same", found[Place("same", key)]["_etag"])])
    assert await store.read(container, [Place("same", key) for key in keys]) == {}


@pytest.mark.parametrize("paths", [("/k",), ("/k", "/l")], ids=len)
async def test_half_characters_in_keys_do_no_harm(store: Store, database: str, paths: tuple[str, ...]) -> None:
    container = Container(database, "halves")
    await store.create_container(Description(container, paths))
    key, whole = Key.of(*["a\ud800"] * len(paths)), Key.of(*["a"] * len(paths))
    for of in (key, whole):
        fields = {path[1:]: value for path, value in zip(paths, of.values, strict=True)}
        await store.write(container, of, [Create({"id": "1", **fields}), Create({"id": "2", **fields})])
    places = [Place(id_, of) for of in (key, whole) for id_ in ("1", "2", "3")]
    found = await store.read(container, places)
    assert [(place.id, place.key) for place in found] == [(id_, of) for of in (key, whole) for id_ in ("1", "2")]
    assert len([d async for page in store.query(container, "SELECT * FROM c", {}, key) for d in page]) == 2
    await store.write(container, key, [Delete("1", found[Place("1", key)]["_etag"])])
    assert list(await store.read(container, places[:2])) == places[1:2]


LEVELS: list[tuple[KeyValue, KeyValue]] = [("u", "s"), (None, "s"), (UNDEFINED, "s"), ("", "s"), ("u", UNDEFINED)]


async def test_levels_of_a_hierarchical_key_do_not_shift(store: Store, database: str) -> None:
    container = Container(database, "levels")
    await store.create_container(Description(container, ("/t", "/u", "/s")))
    keys = [Key.of("t1", *levels) for levels in LEVELS]
    for n, key in enumerate(keys):
        fields = {name: v for name, v in zip("tus", key.values, strict=True) if v is not UNDEFINED}
        await store.write(container, key, [Create({"id": "same", "n": n, **fields})])
    found = await store.read(container, [Place("same", key) for key in keys])
    assert [found[Place("same", key)]["n"] for key in keys] == list(range(len(keys)))
    for key in keys:
        document = found[Place("same", key)]
        plain = {name: value for name, value in document.items() if not name.startswith("_")}
        await store.write(container, key, [Replace(plain | {"n": -1}, document["_etag"])])
    found = await store.read(container, [Place("same", key) for key in keys])
    assert [document["n"] for document in found.values()] == [-1] * len(keys)
    for key in keys:
        await store.write(container, key, [Delete("same", found[Place("same", key)]["_etag"])])


PATHS = [
    ("/a/b",), ("/order",), ("/a-b",), ("/a b",), ("/value", "/x/y"), ("/tenant", "/user"),
    ("/tenant", "/order", "/id"), ("/id",), ("/ключ",),
]  # fmt: skip


def laid(path: str, value: Any) -> dict[str, Any]:
    """A document with a value at a path."""
    name, _, rest = path[1:].partition("/")
    return {name: laid(f"/{rest}", value) if rest else value}


@pytest.mark.parametrize("paths", PATHS, ids=" ".join)
async def test_any_number_of_places_is_read_whatever_the_key_is_called(
    store: Store, database: str, paths: tuple[str, ...]
) -> None:
    container = Container(database, "named")
    await store.create_container(Description(container, paths))
    places = []
    for id_ in "123":
        for value in "xy":
            key = Key.of(*(id_ if path == "/id" else value for path in paths))
            places.append(Place(id_, key))
            document = {name: v for path, at_path in zip(paths, key.values, strict=True)
                        for name, v in laid(path, at_path).items()} | {"id": id_, "mine": value}  # fmt: skip
            await store.write(container, key, [Upsert(document)])
    of_one_key = [place for place in places if place.key == places[0].key]
    for asked in (places[:1], of_one_key, places[:2], places):
        found = await store.read(container, [*asked, Place("none", asked[0].key)])
        assert list(found) == list(dict.fromkeys(asked))
        assert all(document["id"] == place.id for place, document in found.items())


async def test_create_is_refused_where_something_is(store: Store, container: Container) -> None:
    await put(store, container, "1")
    error = await refused(store, container, A, Create({"id": "1", "k": "a"}))
    assert (error.index, type(error.cause)) == (0, ConflictError)


@pytest.mark.parametrize(
    "operation",
    [Replace({"id": "1", "k": "a"}, '"no such"'), Delete("1", '"no such"'), Patch("1", '"no such"', {"n": 1})],
)
async def test_a_write_over_something_else_is_refused(store: Store, container: Container, operation: Any) -> None:
    for present in (False, True):
        if present:
            await put(store, container, "1")
        error = await refused(store, container, A, operation)
        assert isinstance(error.cause, ConflictError)


async def test_a_batch_is_all_or_nothing_and_says_which_operation_failed(store: Store, container: Container) -> None:
    etag = await put(store, container, "1", n=1)
    operations = [Upsert({"id": "2", "k": "a"}), Replace({"id": "1", "k": "a", "n": 2}, '"old"'), Delete("1", etag)]
    for _ in range(2):  # the same operations again: nothing was taken out of them
        error = await refused(store, container, A, *operations)
        assert (error.index, type(error.cause)) == (1, ConflictError)
    found = await store.read(container, [Place("1", A), Place("2", A)])
    assert [document["n"] for document in found.values()] == [1]


async def test_the_feed_from_a_time_goes_on_from_a_time(store: Store, container: Container) -> None:
    for n in range(5):
        await put(store, container, str(n))
    found = await store.read(container, [Place("0", A), Place("4", A)])
    first, last = (document["_ts"] for document in found.values())
    ranges = await store.feed_ranges(container)

    async def changed(since: str) -> list[str]:
        pages = [page for one in ranges async for page in store.changes(container, one, since, 2)]
        assert all(int(page.position[1:]) >= int(since[1:]) - 1 for page in pages)
        return sorted(item["id"] for page in pages for item in page.items)

    assert await changed(f"@{first}") == ["0", "1", "2", "3", "4"]
    assert "4" in await changed(f"@{last}")
    assert await changed(f"@{last + 3600}") == []


async def test_a_patch_sets_and_takes_away_and_leaves_the_rest(store: Store, container: Container) -> None:
    for alone in (True, False):
        etag = await put(store, container, "1", kept={"a": [1, None]}, old="x", **{"a/b~c": 1})
        patch = Patch("1", etag, {"n": {"deep": True}, "a/b~c": 2}, ("old",))
        [written, *_] = await store.write(container, A, [patch, *([] if alone else [Upsert({"id": "2", "k": "a"})])])
        found = (await store.read(container, [Place("1", A)]))[Place("1", A)]
        assert found["_etag"] == written
        own = {name: value for name, value in found.items() if not name.startswith("_")}
        assert own == {"id": "1", "k": "a", "kept": {"a": [1, None]}, "n": {"deep": True}, "a/b~c": 2}


async def test_a_batch_gives_an_etag_for_each_write(store: Store, container: Container) -> None:
    etag = await put(store, container, "1")
    operations = [Create({"id": "2", "k": "a"}), Replace({"id": "1", "k": "a", "n": 2}, etag)]
    etags = await store.write(container, A, operations)
    found = await store.read(container, [Place("1", A), Place("2", A)])
    assert etags == [found[Place("2", A)]["_etag"], found[Place("1", A)]["_etag"]]
    assert await store.write(container, A, [Delete("2", str(etags[0])), Delete("1", str(etags[1]))]) == [None, None]


async def test_a_document_over_two_megabytes_is_refused_for_good(store: Store, container: Container) -> None:
    error = await refused(store, container, A, Create({"id": "1", "k": "a", "body": "x" * 2_100_000}))
    assert isinstance(error.cause, TooLargeError)
    assert isinstance(error.cause, ItemError)


async def test_a_missing_container_is_said_to_be_missing(store: Store, database: str) -> None:
    nowhere = Container(database, "nowhere")
    with pytest.raises(MissingContainerError):
        await store.read(nowhere, [Place("1", A)])
    with pytest.raises(MissingContainerError):
        await store.write(nowhere, A, [Upsert({"id": "1", "k": "a"})])
    assert await store.describe(nowhere) is None


async def test_a_container_is_created_once_and_described(store: Store, database: str) -> None:
    wanted = Description(Container(database, "c"), ("/t", "/u"), default_ttl=-1)
    assert [await store.create_container(wanted), await store.create_container(wanted)] == [True, False]
    found = await store.describe(wanted.container)
    assert found
    assert (found.key_paths, found.default_ttl) == (("/t", "/u"), -1)


async def test_the_containers_of_a_database_are_listed(store: Store, database: str) -> None:
    assert await store.containers(database) == []
    for name in ("one", "two"):
        await store.create_container(Description(Container(database, name), ("/k",)))
    assert sorted(await store.containers(database)) == ["one", "two"]


async def test_the_feed_gives_each_item_once_in_its_newest_version(store: Store, container: Container) -> None:
    for n in range(5):
        await put(store, container, str(n), n=n)
    await put(store, container, "1", n=11)
    found = await pages(store, container, Start(), size=2)
    assert ids(found) == ["0", "2", "3", "4", "1"]
    newest = [item for page in found for item in page.items][-1]
    assert (newest["n"], type(newest["_lsn"])) == (11, int)
    assert not found[-1].items


async def test_every_position_of_the_feed_can_be_resumed(store: Store, container: Container) -> None:
    for n in range(6):
        await put(store, container, str(n))
    found = await pages(store, container, Start(), size=2)
    for number, page in enumerate(found):
        assert ids(await pages(store, container, page.position)) == ids(found[number + 1 :])


async def test_a_read_to_the_end_leaves_a_position_that_gives_only_what_is_new(
    store: Store, container: Container
) -> None:
    await put(store, container, "1")
    [*_, last] = await pages(store, container, Start())
    assert ids(await pages(store, container, last.position)) == []
    await put(store, container, "2")
    assert ids(await pages(store, container, last.position)) == ["2"]


async def test_a_feed_from_now_leaves_out_what_was(store: Store, container: Container) -> None:
    await put(store, container, "1")
    [*_, last] = await pages(store, container, Start(now=True))
    await put(store, container, "2")
    assert ids(await pages(store, container, last.position)) == ["2"]


async def test_the_feed_of_an_empty_container_is_empty_and_resumable(store: Store, container: Container) -> None:
    [page] = await pages(store, container, Start())
    assert not page.items
    await put(store, container, "1")
    assert ids(await pages(store, container, page.position)) == ["1"]


async def test_feed_ranges_cover_everything(store: Store, container: Container) -> None:
    [feed_range] = await store.feed_ranges(container)
    assert feed_range == FeedRange("", "FF")


async def test_a_query_gives_a_partition_or_everything(store: Store, container: Container) -> None:
    await put(store, container, "1")
    await put(store, container, "2", Key.of("b"))
    everything = [d["id"] async for page in store.query(container, "SELECT * FROM c", {}) for d in page]
    assert sorted(everything) == ["1", "2"]
    assert [d["id"] async for page in store.query(container, "SELECT * FROM c", {}, A) for d in page] == ["1"]


BY_N = 'SELECT * FROM c ORDER BY c["n"] '


async def rows(store: Store, container: Container, key: Key, text: str, **given: Any) -> list[list[Any]]:
    return [[d["id"] for d in page] async for page in store.query(container, text, {}, key, **given)]


def flat(pages: list[list[Any]]) -> list[Any]:
    return [row for page in pages for row in page]


async def test_a_query_gives_pages_of_the_size_that_is_asked_for(store: Store, container: Container) -> None:
    for n in range(5):
        await put(store, container, str(n), n=n)
    assert [len(page) for page in await rows(store, container, A, "SELECT * FROM c", page_size=2)] == [2, 2, 1]
    assert flat(await rows(store, container, A, "SELECT * FROM c", page_size=1_000)) == list("01234")


async def test_a_query_goes_on_after_any_page(store: Store, container: Container) -> None:
    for n in range(5):
        await put(store, container, str(n), n=n)
    for text in ("SELECT * FROM c", BY_N + "DESC"):
        everything = await rows(store, container, A, text, page_size=2)
        pages = [page async for page in store.query(container, text, {}, A, page_size=2)]
        assert [page.position is None for page in pages] == [False, False, True]
        for number, page in enumerate(pages[:-1], start=1):
            found = await rows(store, container, A, text, page_size=2, after=page.position)
            assert found == everything[number:]


async def test_queries_side_by_side_keep_their_own_positions(store: Store, container: Container) -> None:
    keys = [Key.of(f"k{number}") for number in range(6)]
    for key in keys:
        for n in range(4):
            await put(store, container, f"{key.values[0]}-{n}", key, n=n)

    async def all_by_position(key: Key) -> list[Any]:
        found, after = [], None
        while True:
            page = await anext(aiter(store.query(container, "SELECT * FROM c", {}, key, page_size=1, after=after)))
            found += [document["id"] for document in page]
            after = page.position
            if after is None:
                return found

    for key, found in zip(keys, await asyncio.gather(*map(all_by_position, keys)), strict=True):
        assert found == [f"{key.values[0]}-{n}" for n in range(4)]


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
async def test_a_query_sorts_by_a_field_values_of_any_type(store: Store, container: Container, direction: str) -> None:
    values: list[Any] = [None, False, True, -7, 0, 7.5, "", "A", "a", "é", "漢"]
    for n, value in enumerate(values):
        await put(store, container, f"{n:02}", n=value)
    found = flat(await rows(store, container, A, BY_N + direction))
    assert found == sorted(found, reverse=direction == "DESC")
    assert len(found) == len(values)


async def test_a_prefix_gives_everything_below_it_and_goes_on_after_any_page(store: Store, database: str) -> None:
    container = Container(database, "levels")
    await store.create_container(Description(container, ("/t", "/u")))
    for t in "ab":
        for u in "123":
            await store.write(container, Key.of(t, u), [Create({"id": n, "t": t, "u": u}) for n in "xy"])
    everything = flat(await rows(store, container, A, "SELECT * FROM c", page_size=4))
    assert sorted(everything) == ["x"] * 3 + ["y"] * 3
    first = await anext(aiter(store.query(container, "SELECT * FROM c", {}, A, page_size=4)))
    assert first.position
    rest = flat(await rows(store, container, A, "SELECT * FROM c", page_size=4, after=first.position))
    assert sorted([document["id"] for document in first] + rest) == sorted(everything)


async def test_a_position_is_behind_a_session_until_it_has_passed_it(store: Store, container: Container) -> None:
    [whole] = await store.feed_ranges(container)
    await put(store, container, "1")
    [*_, old] = await pages(store, container, Start())
    before = await store.session(container, A)
    await put(store, container, "2")
    await put(store, container, "3")
    after = await store.session(container, A)
    [*_, new] = await pages(store, container, old.position)
    assert await store.behind(container, whole, old.position, before) == 0
    assert await store.behind(container, whole, old.position, after) == 2
    assert await store.behind(container, whole, new.position, after) == 0
    assert await store.behind(container, whole, None, after) == 3
    lsn = after.rpartition("#")[2]
    assert await store.behind(container, whole, old.position, lsn) == 2
    assert await store.behind(container, whole, at_lsn(int(lsn) - 1), after) == 1
    assert await store.session(container, Key.of("nothing there"))
    with pytest.raises(AskError, match="no session token"):
        await store.behind(container, whole, None, "yesterday")


async def test_a_feed_can_be_read_from_an_lsn_on_and_goes_on_from_there(store: Store, container: Container) -> None:
    for id_ in "12345":
        await put(store, container, id_)
    [page, *_] = await pages(store, container, Start())
    second = page.items[1]["_lsn"]
    [later, *_, last] = await pages(store, container, at_lsn(second), 2)
    assert [item["id"] for item in later.items] == ["3", "4"]
    await put(store, container, "6")
    [page, *_] = await pages(store, container, last.position)
    assert [item["id"] for item in page.items] == ["6"]


async def test_calls_are_counted_with_what_they_cost(store: Store, container: Container) -> None:
    await put(store, container, "0")
    with measured() as cost:
        await put(store, container, "1")
    assert cost.calls == 1
    assert cost.request_units > 0


# all versions and deletes


async def kept(store: Store, database: str, *paths: str) -> Container:
    """A container, keyed by /k, that tells of every version."""
    found = Container(database, "kept")
    await store.create_container(Description(found, paths or ("/k",), default_ttl=-1, retention=60))
    return found


def told(found: list[Page]) -> list[tuple[str, str]]:
    changes = [change for page in found for change in page.items]
    return [
        (one["metadata"]["operationType"], one["current"].get("id") or one["metadata"].get("id")) for one in changes
    ]


async def remove(store: Store, container: Container, id_: str, key: Key = A) -> None:
    found = await store.read(container, [Place(id_, key)])
    await store.write(container, key, [Delete(id_, found[Place(id_, key)]["_etag"])])


async def test_all_versions_are_told_from_now_on(store: Store, database: str) -> None:
    container = await kept(store, database)
    await put(store, container, "1")
    [start] = await pages(store, container, VERSIONS)
    assert not start.items
    await put(store, container, "1", n=1)
    await put(store, container, "2")
    await remove(store, container, "1")
    await put(store, container, "1", n=2)
    found = await pages(store, container, start.position)
    assert told(found) == [("replace", "1"), ("create", "2"), ("delete", "1"), ("create", "1")]
    changes = [change for page in found for change in page.items]
    assert [change["current"].get("n") for change in changes] == [1, None, None, 2]
    assert changes[2]["metadata"]["partitionKey"] == {"k": "a"}
    lsns = [change["metadata"]["lsn"] for change in changes]
    assert lsns == sorted({*lsns})
    assert all(change["metadata"]["crts"] > 0 for change in changes)


async def test_a_version_has_the_etag_that_its_write_gave(store: Store, database: str) -> None:
    container = await kept(store, database)
    [start] = await pages(store, container, VERSIONS)
    etags = [await put(store, container, "1", n=n) for n in range(3)]
    found = await pages(store, container, start.position)
    assert [change["current"]["_etag"] for page in found for change in page.items] == etags


async def test_every_position_among_all_versions_can_be_resumed(store: Store, database: str) -> None:
    container = await kept(store, database)
    [start] = await pages(store, container, VERSIONS)
    for n in range(7):
        await put(store, container, str(n))
    await remove(store, container, "3")
    found = await pages(store, container, start.position, size=3)
    everything = told(found)
    assert len(everything) == 8
    for number, page in enumerate(found):
        assert told(found[: number + 1]) + told(await pages(store, container, page.position)) == everything


async def test_a_transaction_that_failed_is_not_told_of(store: Store, database: str) -> None:
    container = await kept(store, database)
    [start] = await pages(store, container, VERSIONS)
    await refused(store, container, A, Upsert({"id": "1", "k": "a"}), Delete("2", "x"))
    assert told(await pages(store, container, start.position)) == []


async def test_what_expires_is_told_as_deleted(store: Store, database: str) -> None:
    container = await kept(store, database)
    [start] = await pages(store, container, VERSIONS)
    await put(store, container, "1", ttl=1)
    await asyncio.sleep(2.1)
    found = await pages(store, container, start.position)
    assert told(found) == [("create", "1"), ("delete", "1")]
    assert found[0].items[-1]["metadata"]["timeToLiveExpired"] is True


async def test_all_versions_of_a_container_that_keeps_none(store: Store, container: Container) -> None:
    with pytest.raises(NoVersionsError, match="keeps no") as raised:
        await pages(store, container, VERSIONS)
    assert raised.value.hint


async def test_a_container_says_how_long_it_keeps_versions(store: Store, container: Container, database: str) -> None:
    found = await store.describe(await kept(store, database))
    plain = await store.describe(container)
    assert found
    assert plain
    assert (found.retention, plain.retention) == (60, None)


async def test_a_position_among_all_versions_is_behind_a_session_until_it_has_passed_it(
    store: Store, database: str
) -> None:
    container = await kept(store, database)
    [feed_range] = await store.feed_ranges(container)
    [start] = await pages(store, container, VERSIONS)
    await put(store, container, "1")
    await remove(store, container, "1")
    session = await store.session(container, A)
    [*_, end] = await pages(store, container, start.position)
    assert await store.behind(container, feed_range, start.position, session) == 2
    assert await store.behind(container, feed_range, end.position, session) == 0
