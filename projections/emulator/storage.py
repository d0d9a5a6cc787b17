"""The SQLite file (or memory) that holds everything, and the few statements that reads and writes take.

Items of all containers are in one table. Its row id is ``container << 40 | sequence``, so a container's items lie
together in the order of their creation, which is the order queries answer in. Documents are kept as the JSON text
that goes to clients, system properties included: a read passes it through.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SEQUENCE_BITS = 40
LAST_SEQUENCE = (1 << SEQUENCE_BITS) - 1
FILE_NAME = "emulator.sqlite"

# stored; change with a version
_SCHEMA = """
CREATE TABLE IF NOT EXISTS databases (number INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS containers (
    number INTEGER PRIMARY KEY, database INTEGER NOT NULL, body TEXT NOT NULL, ranges TEXT NOT NULL,
    lsn INTEGER NOT NULL, sequence INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offers (number INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS items (
    row INTEGER PRIMARY KEY, container INTEGER NOT NULL, epk TEXT NOT NULL, id TEXT NOT NULL, lsn INTEGER NOT NULL,
    ts INTEGER NOT NULL, ttl INTEGER, etag TEXT NOT NULL, body BLOB NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS items_by_key ON items (container, epk, id);
CREATE INDEX IF NOT EXISTS items_by_lsn ON items (container, lsn);
CREATE TABLE IF NOT EXISTS unique_keys (
    container INTEGER NOT NULL, epk TEXT NOT NULL, value TEXT NOT NULL, row INTEGER NOT NULL,
    PRIMARY KEY (container, epk, value)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history (
    number INTEGER PRIMARY KEY, container INTEGER NOT NULL, lsn INTEGER NOT NULL, epk TEXT NOT NULL,
    ts INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS history_by_lsn ON history (container, lsn);
PRAGMA user_version = 1;
"""

_COLUMNS = "row, epk, id, lsn, ts, ttl, etag, body"
_BY_KEY = f"SELECT {_COLUMNS} FROM items WHERE container = ? AND epk = ? AND id = ?"
_INSERT = "INSERT INTO items (row, container, epk, id, lsn, ts, ttl, etag, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE = "UPDATE items SET lsn = ?, ts = ?, ttl = ?, etag = ?, body = ? WHERE row = ?"
_IN_ORDER = f"SELECT {_COLUMNS} FROM items WHERE row > ? AND row < ? AND epk >= ? AND epk < ? ORDER BY row"
_OF_KEY = (
    f"SELECT {_COLUMNS} FROM items INDEXED BY items_by_key WHERE container = ? AND epk = ? AND row > ? ORDER BY row"
)
_BY_ID = f"SELECT {_COLUMNS} FROM items INDEXED BY items_by_key WHERE container = ? AND id IN (%s)"
_CHANGES = (
    f"SELECT {_COLUMNS} FROM items WHERE container = ? AND lsn > ? AND epk >= ? AND epk < ? AND ts >= ? "
    "ORDER BY lsn, row"
)


_RUN_OUT = (
    f"SELECT {_COLUMNS} FROM items INDEXED BY items_by_lsn "
    "WHERE container = ? AND COALESCE(ttl, ?) >= 0 AND ts + COALESCE(ttl, ?) * 1000 <= ?"
)


class Item(NamedTuple):
    """A stored item."""

    row: int
    epk: str
    id: str
    lsn: int
    ts: int  # milliseconds, so that a TTL is exact; ``_ts`` in the body has whole seconds
    ttl: int | None  # the item's own
    etag: str
    body: bytes


class Storage:
    """One SQLite connection, used from one thread."""

    def __init__(self, path: Path | None) -> None:
        target = ":memory:" if path is None else str(path)
        self._sql = sqlite3.connect(target, isolation_level=None, cached_statements=512, timeout=1)
        if path is not None:
            # WAL with NORMAL: what was acknowledged survives a killed process (not a power cut), without an
            # fsync for each write.
            self._sql.execute("PRAGMA journal_mode = WAL")
            self._sql.execute("PRAGMA synchronous = NORMAL")
            # The counters live in this process: a second one on the same file would give numbers out twice.
            self._sql.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._sql.execute("PRAGMA temp_store = MEMORY")
        self._sql.execute("PRAGMA cache_size = -65536")
        self._sql.executescript(_SCHEMA)

    def close(self) -> None:
        """Closes the connection; the WAL is folded into the file."""
        self._sql.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self._sql.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._sql.execute("ROLLBACK")
            raise
        self._sql.execute("COMMIT")

    # -- items --

    def item(self, container: int, epk: str, item_id: str) -> Item | None:
        """One item by its place."""
        found = self._sql.execute(_BY_KEY, (container, epk, item_id)).fetchone()
        return None if found is None else Item._make(found)

    def id_at(self, container: int, sequence: int) -> str | None:
        """The id of the item with this number."""
        if sequence >= 1 << SEQUENCE_BITS:
            return None
        row = (container << SEQUENCE_BITS) + sequence
        found = self._sql.execute("SELECT id FROM items WHERE row = ?", (row,)).fetchone()
        return None if found is None else str(found[0])

    def insert(self, container: int, item: Item) -> None:
        """A new item."""
        self._sql.execute(
            _INSERT, (item.row, container, item.epk, item.id, item.lsn, item.ts, item.ttl, item.etag, item.body)
        )

    def update(self, item: Item) -> None:
        """The same item (by row) in a newer state."""
        self._sql.execute(_UPDATE, (item.lsn, item.ts, item.ttl, item.etag, item.body, item.row))

    def rename(self, row: int, item_id: str) -> None:
        """Gives an item another id."""
        self._sql.execute("UPDATE items SET id = ? WHERE row = ?", (item_id, row))

    def delete(self, row: int) -> None:
        """Removes an item."""
        self._sql.execute("DELETE FROM items WHERE row = ?", (row,))

    def in_order(self, container: int, minimum: str, maximum: str, after: int = 0) -> Iterator[Item]:
        """The items of an EPK range by age, beginning behind a sequence number."""
        first = container << SEQUENCE_BITS
        rows = self._sql.execute(_IN_ORDER, (first + after, (container + 1) << SEQUENCE_BITS, minimum, maximum))
        return map(Item._make, rows)

    def of_key(self, container: int, epk: str, after: int = 0) -> Iterator[Item]:
        """The items of one logical partition by age."""
        rows = self._sql.execute(_OF_KEY, (container, epk, (container << SEQUENCE_BITS) + after))
        return map(Item._make, rows)

    def by_ids(self, container: int, ids: list[str]) -> list[Item]:
        """The items with these ids, of any partition key."""
        found: list[Item] = []
        for at in range(0, len(ids), 500):
            part = ids[at : at + 500]
            rows = self._sql.execute(_BY_ID % ",".join("?" * len(part)), (container, *part))
            found.extend(map(Item._make, rows))
        return found

    def changes(self, container: int, after: int, minimum: str, maximum: str, since: int) -> Iterator[Item]:
        """The items of an EPK range by the time of their last change."""
        return map(Item._make, self._sql.execute(_CHANGES, (container, after, minimum, maximum, since)))

    def run_out(self, container: int, ttl: int, now: int) -> list[Item]:
        """The items whose TTL, or else that of the container, has run out."""
        return [Item._make(row) for row in self._sql.execute(_RUN_OUT, (container, ttl, ttl, now))]

    def count(self, container: int) -> tuple[int, int]:
        """Number and bytes of a container's items."""
        first = container << SEQUENCE_BITS
        last = (container + 1) << SEQUENCE_BITS
        found = self._sql.execute(
            "SELECT COUNT(*), COALESCE(SUM(LENGTH(body)), 0) FROM items WHERE row > ? AND row < ?", (first, last)
        ).fetchone()
        return int(found[0]), int(found[1])

    def count_in(self, container: int, minimum: str, maximum: str) -> int:
        """Number of items in an EPK range."""
        found = self._sql.execute(
            "SELECT COUNT(*) FROM items WHERE container = ? AND epk >= ? AND epk < ?", (container, minimum, maximum)
        ).fetchone()
        return int(found[0])

    # -- unique keys --

    def claim(self, container: int, epk: str, value: str, row: int) -> bool:
        """Takes a unique key; False when another item has it."""
        taken = self._sql.execute(
            "INSERT OR IGNORE INTO unique_keys (container, epk, value, row) VALUES (?, ?, ?, ?)",
            (container, epk, value, row),
        )
        return taken.rowcount == 1

    def unclaim(self, container: int, epk: str, value: str) -> None:
        """Gives a unique key back."""
        self._sql.execute(
            "DELETE FROM unique_keys WHERE container = ? AND epk = ? AND value = ?", (container, epk, value)
        )

    # -- history of containers with a change feed policy --

    def record(self, container: int, lsn: int, epk: str, ts: int, body: bytes) -> None:
        """Adds one change to the all-versions feed."""
        self._sql.execute(
            "INSERT INTO history (container, lsn, epk, ts, body) VALUES (?, ?, ?, ?, ?)",
            (container, lsn, epk, ts, body),
        )

    def recorded(self, container: int, after: int, minimum: str, maximum: str) -> Iterator[tuple[int, bytes]]:
        """The all-versions feed of an EPK range: LSN and change."""
        rows: Iterator[tuple[int, bytes]] = self._sql.execute(
            "SELECT lsn, body FROM history WHERE container = ? AND lsn > ? AND epk >= ? AND epk < ? "
            "AND body <> x'' ORDER BY lsn, number",
            (container, after, minimum, maximum),
        )
        return rows

    def forget(self, container: int, before: int) -> None:
        """Drops the changes from before a millisecond; the last of them leaves an empty body, to tell how far."""
        last = self._sql.execute(
            "SELECT MAX(lsn) FROM history WHERE container = ? AND ts < ?", (container, before)
        ).fetchone()[0]
        if last is not None and last > self.forgotten(container):
            self.forget_up_to(container, last, before)

    def forget_up_to(self, container: int, lsn: int, ts: int) -> None:
        """Drops the changes up to an LSN."""
        self._sql.execute("DELETE FROM history WHERE container = ? AND lsn <= ?", (container, lsn))
        self.record(container, lsn, "", ts, b"")

    def forgotten(self, container: int) -> int:
        """The LSN up to which changes are no longer known; 0 when all are."""
        found = self._sql.execute(
            "SELECT lsn FROM history WHERE container = ? AND body = x'' ORDER BY lsn LIMIT 1", (container,)
        ).fetchone()
        return 0 if found is None else int(found[0])

    # -- the catalog --

    def databases(self) -> list[tuple[int, str]]:
        """Every stored database."""
        return self._sql.execute("SELECT number, body FROM databases ORDER BY number").fetchall()

    def put_database(self, number: int, body: str) -> None:
        """Creates or overwrites a database."""
        self._sql.execute("INSERT OR REPLACE INTO databases VALUES (?, ?)", (number, body))

    def drop_database(self, number: int) -> None:
        """Removes a database; its containers are dropped one by one before."""
        self._sql.execute("DELETE FROM databases WHERE number = ?", (number,))

    def containers(self) -> list[tuple[int, int, str, str, int, int]]:
        """Every stored container, with the highest LSN and sequence it has given out."""
        return self._sql.execute(
            "SELECT number, database, body, ranges,"
            " MAX(lsn, COALESCE((SELECT MAX(lsn) FROM items WHERE container = number), 0)),"
            " MAX(sequence, COALESCE((SELECT MAX(row) FROM items WHERE row > number << 40"
            " AND row < (number + 1) << 40), 0) & ((1 << 40) - 1))"
            " FROM containers ORDER BY number"
        ).fetchall()

    def put_container(self, number: int, database: int, body: str, ranges: str, lsn: int, sequence: int) -> None:
        """Creates or overwrites a container."""
        self._sql.execute(
            "INSERT OR REPLACE INTO containers VALUES (?, ?, ?, ?, ?, ?)",
            (number, database, body, ranges, lsn, sequence),
        )

    def note_position(self, number: int, lsn: int, sequence: int) -> None:
        """Keeps the counters where no item is left to tell them: after a delete."""
        self._sql.execute("UPDATE containers SET lsn = ?, sequence = ? WHERE number = ?", (lsn, sequence, number))

    def drop_container(self, number: int) -> None:
        """Removes a container with all that is in it."""
        first, last = number << SEQUENCE_BITS, (number + 1) << SEQUENCE_BITS
        self._sql.execute("DELETE FROM containers WHERE number = ?", (number,))
        self._sql.execute("DELETE FROM items WHERE row > ? AND row < ?", (first, last))
        self._sql.execute("DELETE FROM unique_keys WHERE container = ?", (number,))
        self._sql.execute("DELETE FROM history WHERE container = ?", (number,))

    def offers(self) -> list[tuple[int, str]]:
        """Every stored offer."""
        return self._sql.execute("SELECT number, body FROM offers ORDER BY number").fetchall()

    def put_offer(self, number: int, body: str) -> None:
        """Creates or overwrites an offer."""
        self._sql.execute("INSERT OR REPLACE INTO offers VALUES (?, ?)", (number, body))

    def drop_offer(self, number: int) -> None:
        """Removes an offer."""
        self._sql.execute("DELETE FROM offers WHERE number = ?", (number,))

    def next_number(self, name: str) -> int:
        """Counts up; a number is never given twice, so neither is a rid."""
        self._sql.execute(
            "INSERT INTO numbers VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = value + 1", (name,)
        )
        found = self._sql.execute("SELECT value FROM numbers WHERE name = ?", (name,)).fetchone()
        return int(found[0])
