"""The one narrow door to storage. cosmos.py opens it on a real account, memory.py in this process.

Every method may raise TransientError (try again later) and FatalError (nothing can work until somebody mends it).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from projections.declare import Throughput
from projections.errors import ProjectionsError, StoreError
from projections.identity import Place
from projections.keys import Key

Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Container:
    """The address of a container."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}/{self.name}"


@dataclass(frozen=True, slots=True)
class FeedRange:
    """An independent slice of the feed: hashed keys from `low` up to, not including, `high`, in hex."""

    low: str
    high: str

    def __str__(self) -> str:
        return f"{self.low or '0'}-{self.high}"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a feed without a stored position begins: at its beginning, or (with `now`) after its present end.

    The feed of all versions and deletes has no beginning (facts.md 15). A position knows of which feed it is.
    """

    now: bool = False
    all_versions: bool = False


VERSIONS: Final = Start(now=True, all_versions=True)


_AT_LSN: Final = re.compile("#([0-9]+)( versions)?")


def at_lsn(lsn: int, *, all_versions: bool = False) -> str:
    """The position after an LSN: of a range that is (part of) one physical partition's, for each counts its own."""
    return f"#{lsn}{' versions' * all_versions}"


def from_lsn(since: str | Start) -> tuple[int, bool] | None:
    """The LSN that a position names, if it names one, and whether it is in the feed of all versions."""
    found = _AT_LSN.fullmatch(since) if isinstance(since, str) else None
    return (int(found[1]), found[2] is not None) if found else None


def from_time(since: str | Start) -> int | None:
    """The epoch second that a position names, if it is a time: "@1700000000"."""
    return int(since[1:]) if isinstance(since, str) and since.startswith("@") else None


@dataclass(frozen=True, slots=True)
class Page:
    """Changes in feed order, and the position after the last of them. The position is opaque text."""

    items: Sequence[Document]
    position: str


@dataclass(frozen=True, slots=True)
class _Put:
    document: Document

    @property
    def id(self) -> str:
        return str(self.document["id"])


@dataclass(frozen=True, slots=True)
class Create(_Put):
    pass


@dataclass(frozen=True, slots=True)
class Replace(_Put):
    etag: str


@dataclass(frozen=True, slots=True)
class Upsert(_Put):
    pass


@dataclass(frozen=True, slots=True)
class Delete:
    id: str
    etag: str


@dataclass(frozen=True, slots=True)
class Patch:
    """Set or take away properties at the top of a document, and leave the others as they are."""

    id: str
    etag: str
    values: Mapping[str, Any]  # by property
    removed: tuple[str, ...] = ()  # properties that are there

    @property
    def operations(self) -> list[dict[str, Any]]:
        """As the store takes them, ten at most."""
        values = [{"op": "set", "path": _pointer(name), "value": value} for name, value in self.values.items()]
        return values + [{"op": "remove", "path": _pointer(name)} for name in self.removed]


def _pointer(name: str) -> str:
    return f"/{name.replace('~', '~0').replace('/', '~1')}"


Operation: TypeAlias = Create | Replace | Upsert | Delete | Patch


@dataclass(frozen=True, slots=True)
class Native:
    """What makes a container a native global secondary index."""

    source: str  # the source container's name, in the same database
    definition: str
    status: str | None = None  # of its building, as the service says


@dataclass(frozen=True, slots=True)
class Description:
    """What a container is like."""

    container: Container
    key_paths: tuple[str, ...]
    default_ttl: int | None = None  # seconds; -1: only items that say so expire; None: expiry is off
    indexing: Mapping[str, Any] | None = None  # an indexing policy; None: the service's default
    unique_keys: tuple[tuple[str, ...], ...] = ()
    throughput: Throughput = field(default_factory=Throughput)  # to create it with; `throughput()` tells what it has
    key_kind: str | None = None  # Hash or MultiHash; None: as the number of paths makes it
    key_version: int = 2  # 1: only the first 101 bytes of a key count
    native: Native | None = None  # None: a container like any other
    retention: int | None = None  # minutes for which all versions are kept; None: as the account's backup has it
    rid: str | None = field(default=None, compare=False)  # the store's own name; another one when it is made anew


class Rows(list[Any]):
    """A page of a query's answer. Its position, where the store can go on after it: opaque text."""

    def __init__(self, rows: Iterable[Any] = (), position: str | None = None) -> None:
        super().__init__(rows)
        self.position = position


class WriteError(StoreError):
    """One operation of a write was refused, and with it the whole write."""

    def __init__(self, index: int, cause: ProjectionsError) -> None:
        super().__init__(cause.message, hint=cause.hint)
        self.index = index  # of the operation
        self.cause = cause  # a ConflictError or an ItemError


class Store(Protocol):
    """Documents by place, writes under conditions, and the change feed."""

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        """The documents at these places, as one bulk read; absent ones are left out. Not a snapshot."""

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        """Apply 1 to 100 operations of one logical partition, all or none; their new etags, None for a delete.

        Raises:
            WriteError: with a ConflictError when a condition failed or the document is absent (Replace, Patch, Delete)
                or present (Create); with an ItemError when the store will never take the document.
        """

    def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key | None = None, *,
        after: str | None = None, page_size: int | None = None,
    ) -> AsyncIterator[Rows]:  # fmt: skip
        """The pages of a query's answer; over all partitions when there is no key.

        A key with fewer values than the container has levels is a prefix: it asks for everything below. With `after`,
        the position of a page that the same query gave: only what comes after that page. A page has `page_size` rows
        at most; None leaves it to the store.
        """

    async def session(self, container: Container, key: Key) -> str:
        """A session token: how far a read of this logical partition has seen the container's writes."""

    async def behind(self, container: Container, feed_range: FeedRange, position: str | None, token: str) -> int:
        """How many LSNs a feed position is behind a session token, or an LSN; 0 where it has passed it.

        A session token names physical partitions: a position in other ones is not behind.

        Raises:
            AskError: this is no session token.
        """

    async def feed_ranges(self, container: Container) -> list[FeedRange]:
        """The present feed ranges, in order; together they cover the container."""

    def changes(
        self, container: Container, feed_range: FeedRange, since: str | Start, page_size: int
    ) -> AsyncIterator[Page]:
        """The feed of one range from a position, until it has nothing more.

        It has the latest version of each item; from `VERSIONS` on, and from positions that came of that, all versions
        and deletes: {"current", "previous", "metadata"} each, an item's own in order. The last page may be empty; its
        position is still worth keeping. A position stays valid when the range splits. From a time ("@" and an epoch
        second) there is what has changed since; its pages have times as positions, so that some changes come again.
        From an LSN (`at_lsn`) on there is what came after it.

        Raises:
            NoVersionsError: all versions were asked for, and are not kept.
            LostPositionError: what came after the position is told in full no longer.
        """

    async def describe(self, container: Container) -> Description | None:
        """What the container is like, or None where there is none."""

    async def throughput(self, container: Container) -> Throughput | None:
        """What the container has for its own: nothing where it is serverless, or its database's is shared.

        None where the account does not say, as to a managed identity.
        """

    async def containers(self, database: str) -> list[str]:
        """The names of the containers of a database; none where there is no such database."""

    async def create_container(self, wanted: Description) -> bool:
        """Create a container, and its database, where there is none; whether it did. Never changes an existing one.

        Raises:
            IdentityError: the credentials allow no such thing, wherever it is asked for.
            NativeIndexError: a native index was wanted, and the account makes none.
        """

    async def delete_container(self, container: Container) -> bool:
        """Delete a container with all that is in it; False where there is none.

        Raises:
            IdentityError: the credentials allow no such thing.
        """

    async def close(self) -> None:
        """Let go of connections. Safe to repeat."""
