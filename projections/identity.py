"""Who is who: the identity of an item, the place of an entry, and ids that cannot collide."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from projections.keys import Key, Plain, Undefined, parse_path

READABLE: Final = 64
"""How many characters of the source id an entry id shows."""


@dataclass(frozen=True)
class Identity:
    """One item in a source: an id is unique only within its partition key."""

    key: Key
    id: str

    @staticmethod
    def of(item: Mapping[str, Any], key: Plain) -> Identity:
        """The identity of an item as its source knows it."""
        return Identity(Key.of(*key.of(item)), item["id"])

    @staticmethod
    def from_stored(stored: Mapping[str, Any]) -> Identity:
        return Identity(Key.from_list(stored["key"]), stored["id"])

    def to_stored(self) -> dict[str, Any]:
        # stored; change with a version
        return {"id": self.id, "key": self.key.to_list()}

    def told(self, key: Plain) -> dict[str, Any]:
        """What of an item its identity tells: the id, and the values of its partition key."""
        item: dict[str, Any] = {"id": self.id}
        for names, value in zip(map(parse_path, key.paths), self.key.values, strict=True):
            inner = item
            for name in names[:-1]:
                inner = inner.setdefault(name, {})
            if not isinstance(value, Undefined):
                inner[names[-1]] = value
        return item

    @cached_property
    def digest(self) -> bytes:
        # stored; change with a version: entry ids and placement buckets come from it.
        # SHA-256 of the key as canonical JSON, a line feed, the id; all UTF-8. The JSON holds no bare line feed.
        return hashlib.sha256(f"{self.key.text}\n{self.id}".encode("utf-8", "surrogatepass")).digest()

    @cached_property
    def entry_id(self) -> str:
        """The id of the entry made from this item: a stable, valid Cosmos id of at most 97 characters.

        It starts with the source id as far as that is plain text, for people; what tells it from any other item's is
        the digest of the whole identity (160 bits).
        """
        # stored; change with a version
        return _entry_id(self.readable, self.digest)

    @cached_property
    def readable(self) -> str:
        """What an entry id shows of the source id."""
        # stored; change with a version
        return re.sub(r"[^A-Za-z0-9_.-]", "_", self.id[:READABLE])

    def bucket(self, buckets: int) -> int:
        """The placement bucket: the first four bytes of the digest, big-endian, modulo the number of buckets."""
        # stored; change with a version
        return int.from_bytes(self.digest[:4], "big") % buckets

    def __str__(self) -> str:
        return f"{self.id!r} of {self.key}"


@dataclass(frozen=True)
class Element:
    """One of the elements of an item that have entries of their own. `text` tells it from the others."""

    identity: Identity
    text: str

    @cached_property
    def digest(self) -> bytes:
        # stored; change with a version. SHA-256 of the identity's digest and the text, UTF-8.
        return hashlib.sha256(self.identity.digest + self.text.encode("utf-8", "surrogatepass")).digest()

    @property
    def entry_id(self) -> str:
        """As of an item that has a single entry, from the digest of the element."""
        return _entry_id(self.identity.readable, self.digest)


def _entry_id(readable: str, digest: bytes) -> str:
    # stored; change with a version
    return f"{readable}~{base64.b32encode(digest[:20]).decode().lower()}"


@dataclass(frozen=True)
class Place:
    """Where one entry is: its id, its key, and in which container: the target, or the refs of an Embed."""

    id: str
    key: Key
    container: Literal["target", "refs"] = "target"

    @property
    def plain(self) -> Place:
        """As the store knows it."""
        return self if self.container == "target" else Place(self.id, self.key)

    @staticmethod
    def from_stored(stored: Mapping[str, Any]) -> Place:
        return Place(stored["id"], Key.from_list(stored["key"]), stored.get("in", "target"))

    def to_stored(self) -> dict[str, Any]:
        # stored; change with a version
        stored: dict[str, Any] = {"id": self.id, "key": self.key.to_list()}
        return stored if self.container == "target" else stored | {"in": self.container}
