"""A store in this process, for tests: the same promises as the real one, and faults by script."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from projections.declare import Throughput
from projections.errors import (
    AskError,
    ConflictError,
    LostPositionError,
    MissingContainerError,
    NativeIndexError,
    NoVersionsError,
    TooLargeError,
)
from projections.identity import Place
from projections.keys import UNDEFINED, Key, at, order, parse_path
from projections.metering import charge
from projections.store import (
    Container,
    Create,
    Delete,
    Description,
    Document,
    FeedRange,
    Operation,
    Page,
    Patch,
    Replace,
    Rows,
    Start,
    WriteError,
    from_lsn,
    from_time,
)

MAX_DOCUMENT_BYTES = 2 * 1024 * 1024
OF_VERSIONS: Final = "versions "
"""What a position in the feed of all versions begins with."""
SORTED: Final = re.compile('SELECT \\* FROM c(?: ORDER BY c((?:\\["[^"]+"\\])+) (ASC|DESC))?')

EXTREMES: Final = re.compile(
    'SELECT TOP (\\d+) c\\.id, c\\["(\\w+)"\\]\\["(\\w+)"\\] AS extreme FROM c WHERE .* (ASC|DESC)'
)
EXPIRED: Final = re.compile(
    'SELECT TOP (\\d+) VALUE c\\["(\\w+)"\\] FROM c WHERE c\\["expires"\\] <= @now( AND STARTSWITH.*)?'
)


@dataclass
class _Data:
    description: Description
    documents: dict[Place, Document] = field(default_factory=dict)
    log: dict[Place, int] = field(default_factory=dict)  # the newest LSN of each document
    lsn: int = 0
    versions: list[Document] = field(default_factory=list)  # all that is told of, where they are kept
    forgotten: int = 0  # the LSN up to which they are told of no longer


class MemoryStore:
    """Containers of documents in dicts. `before` is awaited with the name of every call: a place to fail or to pause.

    `clock` gives the epoch second that `_ts` and expiry go by. `query_page`: how many documents are in a page of an
    answer; all when None.
    """

    def __init__(
        self,
        *,
        before: Callable[[str, Container], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.time,
        query_page: int | None = None,
    ) -> None:
        self._query_page = query_page
        self._unread: dict[str, tuple[list[Document], int]] = {}  # by position: an answer, and its first row not given
        self._containers: dict[Container, _Data] = {}
        self._before = before
        self._clock = clock
        self._etags = itertools.count(1)

    async def _call(self, name: str, container: Container) -> _Data:
        if self._before:
            await self._before(name, container)
        charge(1.0)
        if container not in self._containers:
            raise MissingContainerError(f"there is no container {container}")
        return self._containers[container]

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        data = await self._call("read", container)
        return {place: _copy(found) for place in places if (found := self._live(data, place)) is not None}

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        data = await self._call("write", container)
        assert 1 <= len(operations) <= 100, "a batch takes 1 to 100 operations (facts.md 36)"
        places = {Place(operation.id, key) for operation in operations}
        before = {place: (data.documents.get(place), data.log.get(place)) for place in places}
        told = len(data.versions)
        try:
            etags = [self._apply(data, key, operation, index) for index, operation in enumerate(operations)]
        except WriteError:
            for place, (document, lsn) in before.items():
                _restore(data.documents, place, document)
                _restore(data.log, place, lsn)
            del data.versions[told:]
            raise
        data.lsn += 1
        return etags

    def _apply(self, data: _Data, key: Key, operation: Operation, index: int) -> str | None:
        place = Place(operation.id, key)
        present = self._live(data, place)
        if isinstance(operation, Create) and present is not None:
            raise WriteError(index, ConflictError(f"{place.id} exists (409)"))
        if isinstance(operation, Replace | Patch | Delete):
            if present is None:
                raise WriteError(index, ConflictError(f"{place.id} is absent (404)"))
            if present["_etag"] != operation.etag:
                raise WriteError(index, ConflictError(f"{place.id} has changed (412)"))
        if isinstance(operation, Delete):
            self._remove(data, place)
            return None
        if isinstance(operation, Patch):
            kept = {name: value for name, value in (present or {}).items() if name not in operation.removed}
            return self._put(data, place, kept | dict(operation.values), index)
        return self._put(data, place, operation.document, index)

    def _remove(self, data: _Data, place: Place, **metadata: Any) -> None:
        self._tell(data, place, "delete", None, **metadata)
        del data.documents[place]
        data.log.pop(place, None)  # the latest-version feed has no deletes

    def _put(self, data: _Data, place: Place, document: Document, index: int) -> str:
        text = json.dumps(document)
        stored: Document = json.loads(text)
        found = Key.of(*(at(stored, parse_path(path)) for path in data.description.key_paths))
        assert found == place.key, f"the document's key {found} is not the partition's {place.key}"
        if len(text) > MAX_DOCUMENT_BYTES and len(json.dumps(stored, ensure_ascii=False).encode()) > MAX_DOCUMENT_BYTES:
            raise WriteError(index, TooLargeError())
        etag = f'"{next(self._etags):08x}"'
        stored |= {"_etag": etag, "_ts": int(self._clock())}
        self._tell(data, place, "create" if self._live(data, place) is None else "replace", stored)
        data.documents[place] = stored
        data.log[place] = data.lsn + 1
        return etag

    def _live(self, data: _Data, place: Place) -> Document | None:
        document = data.documents.get(place)
        if document is None or data.description.default_ttl is None:
            return document
        ttl = document.get("ttl", data.description.default_ttl)
        if isinstance(ttl, int) and 0 < ttl <= self._clock() - document["_ts"]:
            return None
        return document

    async def _documents(self, data: _Data, key: Key | None = None) -> list[tuple[Place, Document]]:
        asked = [place for place in data.documents if key is None or _under(place.key, key)]
        return [(place, _copy(found)) for place in asked if (found := self._live(data, place))]

    async def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key | None = None, *,
        after: str | None = None, page_size: int | None = None,
    ) -> AsyncIterator[Rows]:  # fmt: skip
        """Everything (by a field where asked so), how much there is, the lowest `first`. There is no query language."""
        data = await self._call("query", container)
        if after is not None:
            async for page in self._rows(container, *self._unread[after], page_size=page_size):
                yield page
            return
        found = [doc for _, doc in await self._documents(data, key)]
        match text:
            case _ if sort := SORTED.fullmatch(text):
                if sort[1]:
                    names = sort[1][2:-2].split('"]["')
                    found.sort(key=lambda document: order(at(document, names)), reverse=sort[2] == "DESC")
                async for page in self._rows(container, found, page_size=page_size):
                    yield page
            case text if text.startswith("SELECT TOP 200 * FROM c WHERE c.id > @after"):
                later = sorted((doc for doc in found if doc["id"] > parameters["@after"]), key=lambda doc: doc["id"])
                yield Rows([doc for doc in later if doc["id"] != "header"][:200])
            case _ if wanted := EXTREMES.fullmatch(text):
                rows = [(doc["id"], at(doc, wanted.group(2, 3))) for doc in found]
                rows = sorted((row for row in rows if row[1] is not UNDEFINED), key=lambda row: order(row[1]))
                rows = rows[::-1] if wanted[4] == "DESC" else rows
                yield Rows([{"id": id_, "extreme": value} for id_, value in rows[: int(wanted[1])]])
            case _ if wanted := EXPIRED.fullmatch(text):
                now, ref = parameters["@now"], parameters.get("@ref", "")
                late = [
                    doc[wanted[2]]
                    for doc in found
                    if doc.get("expires", now + 1) <= now and doc.get("ref", "").startswith(ref)
                ]
                yield Rows(late[: int(wanted[1])])
            case "SELECT * FROM c WHERE c.id = @id":
                yield Rows([doc for doc in found if doc["id"] == parameters["@id"]])
            case "SELECT VALUE COUNT(1) FROM c":
                yield Rows([len(found)])
            case "SELECT VALUE COUNT(1) FROM c WHERE c.source.key = @key OR NOT IS_NULL(c.rid)":
                yield Rows([sum(doc["source"]["key"] == parameters["@key"] or doc["rid"] is not None for doc in found)])
            case "SELECT TOP 1 VALUE c.first FROM c ORDER BY c.first":
                yield Rows(sorted(doc["first"] for doc in found)[:1])
            case _:
                raise AssertionError("not supported by the memory store")

    async def _rows(
        self, container: Container, found: list[Document], start: int = 0, *, page_size: int | None
    ) -> AsyncIterator[Rows]:
        """What was found, page by page, from a row on; each page but the first is a call."""
        size = page_size or self._query_page or len(found) or 1
        for begin in range(start, len(found) or 1, size):
            if begin > start:
                await self._call("query", container)
            end = begin + size
            position = str(len(self._unread)) if end < len(found) else None
            if position is not None:
                self._unread[position] = found, end
            yield Rows(found[begin:end], position)

    async def session(self, container: Container, key: Key) -> str:
        return f"0:-1#{(await self._call('session', container)).lsn}"

    async def behind(self, container: Container, feed_range: FeedRange, position: str | None, token: str) -> int:
        await self._call("behind", container)
        found = re.fullmatch(r"(?:0:-1#)?([0-9]+)", token)
        if found is None:
            raise AskError("this is no session token", hint="give what `session` says")
        return max(0, int(found[1]) - int(_plain(position or "0").removeprefix(OF_VERSIONS)))

    async def feed_ranges(self, container: Container) -> list[FeedRange]:
        await self._call("feed_ranges", container)
        return [FeedRange("", "FF")]

    def _tell(self, data: _Data, place: Place, operation: str, current: Document | None, **more: Any) -> None:
        """Keep a version for those who read all of them, as the service tells of it."""
        if data.description.retention is None:
            return
        metadata = {"lsn": data.lsn + 1, "crts": int(self._clock()), "operationType": operation, **more}
        if current is None:
            names = [path[1:] for path in data.description.key_paths]
            told = zip(names, place.key.values, strict=True)
            metadata |= {"id": place.id, "partitionKey": {n: v for n, v in told if v is not UNDEFINED}}
        data.versions.append({"current": current or {}, "metadata": metadata})

    async def _versions(self, container: Container, since: str | Start, page_size: int) -> AsyncIterator[Page]:
        data = await self._call("changes", container)
        retention = data.description.retention
        if retention is None:
            raise NoVersionsError(f"{container} keeps no versions")
        self._purge(data)
        position = data.lsn if isinstance(since, Start) else int(since.removeprefix(OF_VERSIONS))
        while True:
            self._forget(data, self._clock() - retention * 60)
            if position < data.forgotten:
                raise LostPositionError(f"{container} has told of more since than it still keeps")
            pending = [one for one in data.versions if one["metadata"]["lsn"] > position]
            pending = [one for one in pending if one["metadata"]["lsn"] <= pending[:page_size][-1]["metadata"]["lsn"]]
            position = pending[-1]["metadata"]["lsn"] if pending else position
            yield Page([_copy(one) for one in pending], f"{OF_VERSIONS}{position}")
            if not pending:
                return
            data = await self._call("changes", container)

    def _purge(self, data: _Data) -> None:
        """Expired documents go, and that is told (facts.md 15)."""
        expired = [place for place in data.documents if self._live(data, place) is None]
        for place in expired:
            self._remove(data, place, timeToLiveExpired=True)
        data.lsn += bool(expired)

    def _forget(self, data: _Data, before: float) -> None:
        old = [one["metadata"]["lsn"] for one in data.versions if one["metadata"]["crts"] < before]
        data.forgotten = max([data.forgotten, *old])
        data.versions = [one for one in data.versions if one["metadata"]["lsn"] > data.forgotten]

    async def changes(
        self, container: Container, feed_range: FeedRange, since: str | Start, page_size: int
    ) -> AsyncIterator[Page]:
        since = _plain(since) if isinstance(since, str) else since
        if since.all_versions if isinstance(since, Start) else since.startswith(OF_VERSIONS):
            async for page in self._versions(container, since, page_size):
                yield page
            return
        data = await self._call("changes", container)
        if (time := from_time(since)) is not None:
            async for page in self._since(data, time, page_size):
                yield page
            return
        position = (data.lsn if since.now else 0) if isinstance(since, Start) else int(since)
        while True:
            live = ((data.log[place], place) for place in data.documents if self._live(data, place) is not None)
            pending = sorted((change for change in live if change[0] > position), key=lambda change: change[0])
            pending = [change for change in pending if change[0] <= pending[:page_size][-1][0]]  # an LSN stays whole
            if not pending:
                yield Page((), str(position))
                return
            position = pending[-1][0]
            yield Page([_copy(data.documents[place]) | {"_lsn": lsn} for lsn, place in pending], str(position))
            data = await self._call("changes", container)

    async def _since(self, data: _Data, time: int, page_size: int) -> AsyncIterator[Page]:
        live = sorted((data.log[place], doc) for place, doc in await self._documents(data))
        found = [doc | {"_lsn": lsn} for lsn, doc in live if doc["_ts"] >= time]
        for start in range(0, len(found), page_size):
            time = found[start : start + page_size][-1]["_ts"]
            yield Page(found[start : start + page_size], f"@{time}")
        yield Page((), f"@{time}")

    async def describe(self, container: Container) -> Description | None:
        if self._before:
            await self._before("describe", container)
        data = self._containers.get(container)
        return data.description if data else None

    async def throughput(self, container: Container) -> Throughput | None:
        return (await self._call("throughput", container)).description.throughput

    async def containers(self, database: str) -> list[str]:
        return [container.name for container in self._containers if container.database == database]

    async def create_container(self, wanted: Description) -> bool:
        if wanted.container in self._containers:
            return False
        if wanted.native is not None:
            raise NativeIndexError("the memory store makes no native index")
        self._containers[wanted.container] = _Data(wanted)
        return True

    async def delete_container(self, container: Container) -> bool:
        if self._before:
            await self._before("delete_container", container)
        return self._containers.pop(container, None) is not None

    async def close(self) -> None:
        return None


def _copy(document: Document) -> Document:
    """Nobody who reads a document can change the stored one. Twice as fast as deepcopy."""
    copied: Document = json.loads(json.dumps(document))
    return copied


def _plain(position: str) -> str:
    """A position that names an LSN, as this store writes it."""
    lsn = from_lsn(position)
    return position if lsn is None else f"{OF_VERSIONS * lsn[1]}{lsn[0]}"


def _restore(values: dict[Place, Any], place: Place, value: Any) -> None:
    if value is None:
        values.pop(place, None)
    else:
        values[place] = value


def _under(key: Key, asked: Key) -> bool:
    return key == asked or Key.of(*key.values[: len(asked.values)]) == asked
