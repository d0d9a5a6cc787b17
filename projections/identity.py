"""Who is who: the identity of an item, the place of an entry, and ids that cannot collide."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from projections.keys import Key, Strategy

READABLE: Final = 64
"""How many characters of the source id an entry id shows."""


@dataclass(frozen=True)
class Identity:
    """One item in a source: an id is unique only within its partition key."""

    key: Key
    id: str

    @staticmethod
    def of(item: Mapping[str, Any], key: Strategy) -> Identity:
        """The identity of an item as its source knows it."""
        return Identity(Key.of(*key.key(item)), item["id"])

    @staticmethod
    def from_stored(stored: Mapping[str, Any]) -> Identity:
        return Identity(Key.from_list(stored["key"]), stored["id"])

    def to_stored(self) -> dict[str, Any]:
        # stored; change with a version
        return {"id": self.id, "key": self.key.to_list()}

    @cached_property
    def digest(self) -> bytes:
        # stored; change with a version: entry ids and placement buckets come from it.
        # SHA-256 of the key as canonical JSON, a line feed, the id; all UTF-8. The JSON holds no bare line feed.
        return hashlib.sha256(f"{self.key.text}\n{self.id}".encode("utf-8", "surrogatepass")).digest()

    def __str__(self) -> str:
        return f"{self.id!r} of {self.key}"


@dataclass(frozen=True)
class Place:
    """Where one entry is: its id, and its key in the target."""

    id: str
    key: Key

    @staticmethod
    def from_stored(stored: Mapping[str, Any]) -> Place:
        return Place(stored["id"], Key.from_list(stored["key"]))

    def to_stored(self) -> dict[str, Any]:
        # stored; change with a version
        return {"id": self.id, "key": self.key.to_list()}


def entry_id(identity: Identity) -> str:
    """The id of the entry made from an item: stable, a valid Cosmos id, at most 97 characters, unlike any other item's.

    It starts with the source id as far as that is plain text, for people; what tells it apart is the digest of the
    whole identity (160 bits).
    """
    # stored; change with a version
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", identity.id[:READABLE])
    return f"{readable}~{base64.b32encode(identity.digest[:20]).decode().lower()}"


def bucket(identity: Identity, buckets: int) -> int:
    """The placement bucket of an item: the first four bytes of the digest, big-endian, modulo the number of buckets."""
    # stored; change with a version
    return int.from_bytes(identity.digest[:4], "big") % buckets


def newest_of(changes: Sequence[tuple[Identity, Any]]) -> dict[Identity, Any]:
    """The last change of each item, where the feed delivers an item's states in order (facts.md 13)."""
    return dict(changes)
