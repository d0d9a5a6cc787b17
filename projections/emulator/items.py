"""Item operations: what each does to the storage, what it answers, what it costs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from projections.emulator import charges, patch, rids
from projections.emulator.catalog import Container
from projections.emulator.definitions import check_item_id, valid_ttl
from projections.emulator.errors import (
    CONDITION_FALSE,
    ServiceError,
    bad_request,
    conflict,
    key_mismatch,
    not_found,
    precondition_failed,
)
from projections.emulator.jsontext import MAX_ITEM_BYTES, from_storage, properties, to_json
from projections.emulator.keys import Key, key_of, same_values
from projections.emulator.query import QueryError, compile_query
from projections.emulator.storage import SEQUENCE_BITS, Item, Storage

SYSTEM_FIELDS = ("_rid", "_self", "_etag", "_attachments", "_ts", "_lsn")


@dataclass(frozen=True, slots=True)
class Preconditions:
    """If-Match and If-None-Match, from headers or from a batch operation."""

    if_match: str | None = None
    if_none_match: str | None = None

    def check_write(self, found: Item | None) -> None:
        """412 when the item is not in the state the client has seen."""
        if found is None:
            return
        if self.if_match is not None and self.if_match not in ("*", found.etag):
            raise precondition_failed(
                "Operation cannot be performed because one of the specified precondition is not met."
            )
        if self.if_none_match is not None and self.if_none_match in ("*", found.etag):
            raise precondition_failed(
                "Operation cannot be performed because one of the specified precondition is not met."
            )


NO_PRECONDITIONS = Preconditions()
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Answer:
    """What an item operation answers."""

    status: int
    body: bytes
    etag: str
    charge: float


def expired(item: Item, container: Container, now: int) -> bool:
    """Whether the TTL has run out; a container without one ignores that of its items."""
    if container.ttl is None:
        return False
    ttl = container.ttl if item.ttl is None else item.ttl
    return ttl >= 0 and item.ts + ttl * 1000 <= now


def milliseconds() -> int:
    """The clock that items are stamped with."""
    return time.time_ns() // 1_000_000


class Change:
    """One transaction on one container: all that it writes has one LSN."""

    def __init__(self, storage: Storage, container: Container) -> None:
        self.storage = storage
        self.container = container
        self.lsn = container.lsn + 1
        self.sequence = container.sequence
        self.now = milliseconds()
        self.writes = 0
        self.deleted = False

    # -- the operations --

    def read(self, key: Key, item_id: str, when: Preconditions = NO_PRECONDITIONS) -> Answer:
        """A point read; 304 when the client has the newest state."""
        found = self._existing(key, item_id)
        if when.if_none_match is not None and when.if_none_match == found.etag:
            return Answer(304, b"", found.etag, charges.POINT_READ)
        return Answer(200, found.body, found.etag, charges.point_read(len(found.body)))

    def create(self, key: Key | None, document: Any, when: Preconditions = NO_PRECONDITIONS) -> Answer:
        """A new item; 409 when the id is taken in its logical partition."""
        key, item_id = self._place(key, document)
        if self._find(key, item_id) is not None:
            raise conflict()
        return self._insert(key, item_id, document)

    def upsert(self, key: Key | None, document: Any, when: Preconditions = NO_PRECONDITIONS) -> Answer:
        """Creates or replaces."""
        key, item_id = self._place(key, document)
        found = self._find(key, item_id)
        when.check_write(found)
        if found is None:
            return self._insert(key, item_id, document)
        return self._update(key, found, item_id, document)

    def replace(self, key: Key | None, item_id: str, document: Any, when: Preconditions = NO_PRECONDITIONS) -> Answer:
        """Overwrites an item that exists."""
        key, new_id = self._place(key, document)
        found = self._existing(key, item_id)
        when.check_write(found)
        if new_id != item_id and self._find(key, new_id) is not None:
            raise conflict()
        return self._update(key, found, new_id, document)

    def patch(self, key: Key, item_id: str, body: Any, when: Preconditions = NO_PRECONDITIONS) -> Answer:
        """Applies patch operations, when the condition (if any) holds."""
        operations, condition = patch.parse(body)
        found = self._existing(key, item_id)
        when.check_write(found)
        document = from_storage(found.body)
        if condition is not None and not _holds(condition, document):
            raise precondition_failed("The patch condition does not hold for the item.", CONDITION_FALSE)
        changed = patch.apply(document, operations, self.container.key.paths)
        return self._update(key, found, item_id, changed)

    def delete(self, key: Key, item_id: str, when: Preconditions = NO_PRECONDITIONS) -> Answer:
        """Removes an item that exists."""
        found = self._existing(key, item_id)
        when.check_write(found)
        self.remove(found)
        return Answer(204, b"", "", charges.create(len(found.body), self._indexed(from_storage(found.body))))

    def delete_key(self, key: Key) -> int:
        """Removes every item of a logical partition."""
        items = list(self.storage.of_key(self.container.number, key.epk))
        for item in items:
            self.remove(item)
        return len(items)

    def remove(self, item: Item, expired_by_ttl: bool = False) -> None:
        """Takes an item out, its unique keys and, where kept, its trace in the history too."""
        self.writes += 1
        self.deleted = True
        self.storage.delete(item.row)
        if self.container.unique_keys:
            self._give_back(item)
        if self.container.keeps_history:
            self._record("delete", item.epk, item, None, expired_by_ttl)

    # -- their parts --

    def _place(self, key: Key | None, document: Any) -> tuple[Key, str]:
        """Where a document belongs; 400/1001 when the request says otherwise."""
        if not isinstance(document, dict):
            raise bad_request("The input content is invalid: an item has to be a JSON object.")
        item_id = check_item_id(document)
        if "ttl" in document and not valid_ttl(document["ttl"]):
            raise bad_request(
                f"The input ttl '{document['ttl']}' is invalid. Ensure to provide a nonzero positive integer, or -1."
            )
        definition = self.container.key
        if key is None:
            return key_of(definition, document), item_id
        if not key.values:
            own = key_of(definition, document)  # [] in a container with a system key: the item has none
            if own.values:
                raise key_mismatch()
            return own, item_id
        if not same_values(key.values, definition.values(document)):
            raise key_mismatch()
        return key, item_id

    def _find(self, key: Key, item_id: str) -> Item | None:
        """An item that is there; one whose TTL has run out is cleared away."""
        if not key.full:
            raise key_mismatch()
        found = self.storage.item(self.container.number, key.epk, item_id)
        if found is not None and expired(found, self.container, self.now):
            self.remove(found, expired_by_ttl=True)
            return None
        return found

    def _existing(self, key: Key, item_id: str) -> Item:
        found = self._find(key, item_id)
        if found is None:
            raise not_found(f"item {item_id}")
        return found

    def _insert(self, key: Key, item_id: str, document: dict[str, Any]) -> Answer:
        indexed = self._indexed(document)
        self.sequence += 1
        row = (self.container.number << SEQUENCE_BITS) + self.sequence
        item = self._stored(row, key, item_id, document)
        self.storage.insert(self.container.number, item)
        self._take(item, document)
        if self.container.keeps_history:
            self._record("create", key.epk, None, item)
        return Answer(201, item.body, item.etag, charges.create(len(item.body), indexed))

    def _update(self, key: Key, found: Item, item_id: str, document: dict[str, Any]) -> Answer:
        indexed = self._indexed(document)
        item = self._stored(found.row, key, item_id, document)
        if item_id != found.id:
            self.storage.rename(found.row, item_id)
        if self.container.unique_keys:
            self._give_back(found)
        self.storage.update(item)
        self._take(item, document)
        if self.container.keeps_history:
            self._record("replace", key.epk, found, item)
        return Answer(200, item.body, item.etag, charges.replace(len(item.body), indexed))

    def _stored(self, row: int, key: Key, item_id: str, document: dict[str, Any]) -> Item:
        """The item as it will lie in the storage, system properties at the end."""
        etag = f'"{self.container.number:08x}-{self.lsn >> 32 & 0xFFFF:04x}-{self.writes & 0xFFFF:04x}-'
        etag += f'{self.now // 1000 & 0xFFFF:04x}-{self.lsn & 0xFFFFFFFF:012x}"'
        self.writes += 1
        own = {name: value for name, value in document.items() if name not in SYSTEM_FIELDS}
        rid = rids.item(self.container.raw_rid, row & ((1 << SEQUENCE_BITS) - 1))
        system = (
            f',"_rid":"{rid}","_self":"{self.container.item_links}{rid}/","_etag":"\\"{etag[1:-1]}\\"",'
            f'"_attachments":"attachments/","_ts":{self.now // 1000}}}'
        )
        body = to_json(own)[:-1] + system.encode()
        if len(body) > MAX_ITEM_BYTES:
            raise ServiceError(413, "Request size is too large: an item may have 2 MB at most.")
        return Item(row, key.epk, item_id, self.lsn, self.now, document.get("ttl"), etag, body)

    def _indexed(self, document: dict[str, Any]) -> int:
        count = sum([properties(value, 1) for name, value in document.items() if name not in SYSTEM_FIELDS])
        return count if self.container.indexes else 0

    def _take(self, item: Item, document: dict[str, Any]) -> None:
        """Claims the unique keys; 409 when another item of the logical partition has them."""
        for value in self._unique_values(document):
            if not self.storage.claim(self.container.number, item.epk, value, item.row):
                raise conflict("Unique index constraint violation.")

    def _give_back(self, item: Item) -> None:
        for value in self._unique_values(from_storage(item.body)):
            self.storage.unclaim(self.container.number, item.epk, value)

    def _unique_values(self, document: dict[str, Any]) -> Iterator[str]:
        for number, paths in enumerate(self.container.unique_keys):
            yield json.dumps([number, [_value_at(document, path) for path in paths]], sort_keys=True)

    def _record(self, operation: str, epk: str, before: Item | None, after: Item | None, by_ttl: bool = False) -> None:
        """Adds to the all-versions feed."""
        metadata: dict[str, Any] = {"lsn": self.lsn, "crts": self.now // 1000, "operationType": operation}
        if before is not None:
            metadata["previousImageLSN"] = before.lsn
        entry = b'{"current":' + (after.body if after else b"{}")
        if before is not None and operation == "delete":
            metadata["id"] = before.id
            metadata["partitionKey"] = _key_fields(self.container, from_storage(before.body))
            if by_ttl:
                metadata["timeToLiveExpired"] = True
        entry += b',"metadata":' + to_json(metadata) + b"}"
        self.storage.record(self.container.number, self.lsn, epk, self.now, entry)


@contextmanager
def change(storage: Storage, container: Container) -> Iterator[Change]:
    """Runs operations as one transaction, and moves the container's counters when it holds."""
    one = Change(storage, container)
    with storage.transaction():
        yield one
        if one.deleted:
            storage.note_position(container.number, one.lsn, one.sequence)
    if one.writes:
        container.lsn = one.lsn
        container.sequence = one.sequence


def purge_expired(storage: Storage, container: Container) -> None:
    """Turns expired items into deletes, as the service does in the background."""
    if container.ttl is None:
        return
    gone = storage.run_out(container.number, container.ttl, milliseconds())
    if not gone:
        return
    with change(storage, container) as one:
        for item in gone:
            one.remove(item, expired_by_ttl=True)


def tidy(storage: Storage, container: Container) -> None:
    """Clears away what has expired, and versions that are older than the retention."""
    purge_expired(storage, container)
    if container.keeps_history:
        with storage.transaction():
            storage.forget(container.number, milliseconds() - container.retention)


def _holds(condition: str, document: dict[str, Any]) -> bool:
    try:
        return compile_query(condition).bind([]).matches(document)
    except QueryError as error:
        raise bad_request(f"The patch condition is not valid: {error}") from None


def _value_at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return None
        document = document[name]
    if isinstance(document, float) and document.is_integer():
        return int(document)
    return document


def _key_fields(container: Container, document: dict[str, Any]) -> dict[str, Any]:
    """The partition key of a deleted item, by its paths; a level that the item does not have is left out."""
    fields: dict[str, Any] = {}
    for path in container.key.paths:
        value: Any = document
        for name in path:
            value = value.get(name, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is not _ABSENT:
            fields["/".join(path)] = value
    return fields
