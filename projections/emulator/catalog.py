"""Databases, containers and offers: kept in memory for speed, written through to the storage."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from projections.emulator import definitions, offers, rids
from projections.emulator.errors import OWNER_NOT_FOUND, conflict, not_found
from projections.emulator.keys import KeyDefinition, split_path
from projections.emulator.partitions import Partitions, ranges_for
from projections.emulator.storage import Storage

DEFAULT_THROUGHPUT = 400  # what a container gets when neither it nor its database names one


@dataclass(slots=True)
class Database:
    """A database and its containers by name."""

    number: int
    name: str
    raw_rid: bytes
    body: dict[str, Any]
    containers: dict[str, Container] = field(default_factory=dict)

    @property
    def rid(self) -> str:
        """The short resource id."""
        return rids.encode(self.raw_rid)


@dataclass(slots=True)
class Container:
    """A container: its definition, its ranges, and the counters its items are numbered with."""

    number: int
    database: Database
    raw_rid: bytes
    body: dict[str, Any]
    partitions: Partitions
    lsn: int
    sequence: int
    # derived
    name: str = ""
    rid: str = ""
    item_links: str = ""
    content_path: str = ""
    key: KeyDefinition = field(init=False)
    ttl: int | None = None
    unique_keys: tuple[tuple[tuple[str, ...], ...], ...] = ()
    retention: int = 0  # milliseconds for which every version is kept
    indexes: bool = True

    def __post_init__(self) -> None:
        self.rid = rids.encode(self.raw_rid)
        self.item_links = f"dbs/{self.database.rid}/colls/{self.rid}/docs/"
        self.refresh()

    def refresh(self) -> None:
        """Takes over what the definition says."""
        body = self.body
        self.name = body["id"]
        self.content_path = quote(f"dbs/{self.database.name}/colls/{self.name}")
        self.key = KeyDefinition.of(body["partitionKey"])
        self.ttl = body.get("defaultTtl")
        policy = body.get("uniqueKeyPolicy") or {}
        self.unique_keys = tuple(
            tuple(split_path(path) for path in unique["paths"]) for unique in policy.get("uniqueKeys", ())
        )
        self.retention = (body.get("changeFeedPolicy") or {}).get("retentionDuration", 0) * 60_000
        self.indexes = bool(body["indexingPolicy"]["includedPaths"])

    @property
    def link(self) -> str:
        """The ``_self`` link."""
        return f"dbs/{self.database.rid}/colls/{self.rid}/"

    @property
    def keeps_history(self) -> bool:
        """Whether there is an all-versions feed."""
        return self.retention > 0


class Catalog:
    """All databases of the account."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.databases: dict[str, Database] = {}
        self.offers: dict[str, dict[str, Any]] = {}  # by rid
        self._offer_numbers: dict[str, int] = {}
        self._load()

    def _load(self) -> None:
        by_number: dict[int, Database] = {}
        for number, text in self.storage.databases():
            body = json.loads(text)
            database = Database(number, body["id"], rids.database(number), body)
            by_number[number] = self.databases[database.name] = database
        for number, owner, text, ranges, lsn, sequence in self.storage.containers():
            body, database = json.loads(text), by_number[owner]
            partitions = Partitions.from_json(KeyDefinition.of(body["partitionKey"]), json.loads(ranges))
            raw = rids.container(database.raw_rid, number)
            database.containers[body["id"]] = Container(number, database, raw, body, partitions, lsn, sequence)
        for number, text in self.storage.offers():
            body = json.loads(text)
            self.offers[body["id"]] = body
            self._offer_numbers[body["id"]] = number

    # -- look-up, by name or by rid --

    def database(self, name: str) -> Database:
        """404 when there is none."""
        found = self.databases.get(name)
        if found is None and rids.is_database_rid(name):
            found = next((one for one in self.databases.values() if one.rid == name), None)
        if found is None:
            raise not_found(f"database {name}")
        return found

    def container(self, database_name: str, name: str) -> Container:
        """404 when there is none; 404/1003 when not even the database is there."""
        try:
            database = self.database(database_name)
        except Exception:
            raise not_found(f"database {database_name}", OWNER_NOT_FOUND) from None
        found = database.containers.get(name)
        if found is None and rids.is_database_rid(database_name):
            found = next((one for one in database.containers.values() if one.rid == name), None)
        if found is None:
            raise not_found(f"container {name}")
        return found

    # -- databases --

    def create_database(self, sent: dict[str, Any], content: dict[str, Any] | None) -> Database:
        """A new database, with shared throughput when content is given."""
        name = definitions.check_name(sent.get("id"))
        if name in self.databases:
            raise conflict()
        with self.storage.transaction():
            number = self.storage.next_number("database")
            raw = rids.database(number)
            rid = rids.encode(raw)
            body: dict[str, Any] = {"id": name, "_rid": rid, "_self": f"dbs/{rid}/", "_etag": _etag(number, 0)}
            body |= {"_colls": "colls/", "_users": "users/", "_ts": int(time.time())}
            self.storage.put_database(number, json.dumps(body))
            if content is not None:
                self._put_offer(self._new_offer(f"dbs/{rid}/", rid, content))
        made = self.databases[name] = Database(number, name, raw, body)
        return made

    def delete_database(self, database: Database) -> None:
        """With all its containers."""
        with self.storage.transaction():
            for container in database.containers.values():
                self._drop_container(container)
            self.storage.drop_database(database.number)
            self._drop_offers_of(database.rid)
        del self.databases[database.name]

    # -- containers --

    def create_container(self, database: Database, sent: dict[str, Any], content: dict[str, Any] | None) -> Container:
        """A new container; its throughput decides the number of its ranges."""
        body = definitions.complete_container(sent)
        if body["id"] in database.containers:
            raise conflict()
        shared = self.offer_of(database.rid)
        if content is None and shared is None:
            content = offers.complete_content({"offerThroughput": DEFAULT_THROUGHPUT})
        with self.storage.transaction():
            number = self.storage.next_number("container")
            raw = rids.container(database.raw_rid, number)
            rid = rids.encode(raw)
            link = f"dbs/{database.rid}/colls/{rid}/"
            body |= {"_rid": rid, "_ts": int(time.time()), "_self": link, "_etag": _etag(number, 0), "_docs": "docs/"}
            body |= {"_sprocs": "sprocs/", "_triggers": "triggers/", "_udfs": "udfs/", "_conflicts": "conflicts/"}
            count = ranges_for(offers.maximum(content)) if content else 1
            partitions = Partitions.even(KeyDefinition.of(body["partitionKey"]), count)
            made = Container(number, database, raw, body, partitions, 0, 0)
            self.store_container(made)
            if content is not None:
                self._put_offer(self._new_offer(link, rid, content))
        database.containers[made.name] = made
        return made

    def replace_container(self, container: Container, sent: dict[str, Any]) -> None:
        """A new definition for the same items."""
        body = definitions.complete_container(sent)
        definitions.check_replacement(container.body, body)
        system = {name: value for name, value in container.body.items() if name.startswith("_")}
        container.body = body | system | {"_ts": int(time.time()), "_etag": _etag(container.number, time.time_ns())}
        kept = container.keeps_history
        container.refresh()
        self.store_container(container)
        if container.keeps_history and not kept:  # nothing is known of what was before
            self.storage.forget_up_to(container.number, container.lsn, time.time_ns() // 1_000_000)

    def delete_container(self, container: Container) -> None:
        """With all its items."""
        with self.storage.transaction():
            self._drop_container(container)
        del container.database.containers[container.name]

    def split(self, container: Container, range_id: str) -> tuple[str, str]:
        """Splits one range of a container; returns the ids of the children."""
        left, right = container.partitions.split(range_id)
        self.store_container(container)
        return left.id, right.id

    def store_container(self, container: Container) -> None:
        """Writes the definition, the ranges and the counters."""
        self.storage.put_container(
            container.number,
            container.database.number,
            json.dumps(container.body),
            json.dumps(container.partitions.to_json()),
            container.lsn,
            container.sequence,
        )

    def _drop_container(self, container: Container) -> None:
        self.storage.drop_container(container.number)
        self._drop_offers_of(container.rid)

    # -- offers --

    def offer_of(self, resource_rid: str) -> dict[str, Any] | None:
        """The offer of a database or container."""
        return next((one for one in self.offers.values() if one["offerResourceId"] == resource_rid), None)

    def replace_offer(self, rid: str, sent: dict[str, Any]) -> dict[str, Any]:
        """Changes the throughput; a raise past what the ranges can serve splits them at once."""
        offer = self._offer(rid)
        content = offers.complete_content(sent.get("content"))
        known = offer["content"]["offerMinimumThroughputParameters"]["maxThroughputEverProvisioned"]
        least = content["offerMinimumThroughputParameters"]
        least["maxThroughputEverProvisioned"] = max(known, least["maxThroughputEverProvisioned"])
        content["offerLastReplaceTimestamp"] = int(time.time())
        changed = offer | {"content": content, "_ts": int(time.time()), "_etag": _etag(1, time.time_ns())}
        with self.storage.transaction():
            self._put_offer(changed)
            for container in self.all_containers():
                if container.rid == offer["offerResourceId"]:
                    container.partitions.grow(ranges_for(offers.maximum(content)))
                    self.store_container(container)
        return changed

    def offer(self, rid: str) -> dict[str, Any]:
        """One offer by rid."""
        return self._offer(rid)

    def _offer(self, rid: str) -> dict[str, Any]:
        found = self.offers.get(rid)
        if found is None:
            raise not_found(f"offer {rid}")
        return found

    def _new_offer(self, resource: str, resource_rid: str, content: dict[str, Any]) -> dict[str, Any]:
        number = self.storage.next_number("offer")
        rid = rids.offer(number)
        self._offer_numbers[rid] = number
        return {
            "resource": resource,
            "offerType": "Invalid",
            "offerResourceId": resource_rid,
            "offerVersion": "V2",
            "content": content,
            "id": rid,
            "_rid": rid,
            "_self": f"offers/{rid}/",
            "_etag": _etag(number, 1),
            "_ts": int(time.time()),
        }

    def _put_offer(self, offer: dict[str, Any]) -> None:
        self.offers[offer["id"]] = offer
        self.storage.put_offer(self._offer_numbers[offer["id"]], json.dumps(offer))

    def _drop_offers_of(self, resource_rid: str) -> None:
        for rid in [rid for rid, one in self.offers.items() if one["offerResourceId"] == resource_rid]:
            del self.offers[rid]
            self.storage.drop_offer(self._offer_numbers.pop(rid))

    def all_containers(self) -> Iterable[Container]:
        """Every container of every database."""
        return (one for database in self.databases.values() for one in database.containers.values())


def _etag(number: int, change: int) -> str:
    return f'"{number & 0xFFFFFFFF:08x}-0000-0700-0000-{change & 0xFFFFFFFFFFFF:012x}"'
