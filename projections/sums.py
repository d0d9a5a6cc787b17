"""Both sides of a projection as sums, so that a scan of each tells whether they are equal, in memory that stays flat.

Whatever should be there adds a token to the bucket of its item, and whatever is there takes one away. Additions have no
order, so each side is read as it comes; a bucket that ends at 0 has nothing wrong in it. A token is 64 bits of a hash
over all that counts: for an entry where it is, whose it is, its content by value and the hash that its mark says.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from projections.differences import is_sound, name
from projections.entries import Entry, content_of
from projections.identity import Identity, Place
from projections.keys import MAX_EXACT
from projections.plan import Placement

BUCKETS: Final = 16_384
"""1,000 differences make 6 % of all items be looked at; what is kept of a run is 175 kB."""
MODULUS: Final = 2**64


class Sums:
    """A number for each bucket; 0 where all is equal."""

    def __init__(self, values: bytes | None = None) -> None:
        self._values = array("Q", values or bytes(8 * BUCKETS))

    def add(self, bucket: int, token: int) -> None:
        self._values[bucket] = (self._values[bucket] + token) % MODULUS

    def differing(self) -> bytearray:
        """A byte for each bucket: 1 where it is not 0."""
        return bytearray(1 if value else 0 for value in self._values)

    def to_stored(self) -> str:
        # stored; change with a version: little-endian words of 64 bits
        return b64encode(self._values.tobytes()).decode()

    @staticmethod
    def from_stored(text: str) -> Sums:
        return Sums(b64decode(text))


def bucket_of(identity: Identity) -> int:
    """Other bytes than those that placement records are spread by."""
    # stored; change with a version
    return int.from_bytes(identity.digest[4:8], "big") % BUCKETS


def bucket_of_place(place: Place) -> int:
    """Of what is nobody's."""
    return _number(name(place).encode("utf-8", "surrogatepass")) % BUCKETS


def expected_entry(identity: Identity, entry: Entry) -> int:
    """The token of an entry that should be there."""
    return _token(identity, entry.place, entry.content, entry.hash, expires=entry.expires is not None)


def found_entry(identity: Identity, place: Place, document: Mapping[str, Any], reserved: str) -> int:
    """The token of an entry that is there. What should expire at another time than it does is no token's equal."""
    expires = "ttl" in document
    hash_ = document[reserved]["hash"]
    if expires and not is_sound(document, reserved):
        hash_ = f"expires at another time than {hash_}"
    return _token(identity, place, content_of(document, reserved), hash_, expires=expires)


def _token(identity: Identity, place: Place, content: Mapping[str, Any], hash_: str, *, expires: bool) -> int:
    told = ["entry", name(place), hash_, expires, by_value(content)]
    return _number(identity.digest + json.dumps(told, sort_keys=True).encode())


def expected_record(identity: Identity, places: Iterable[Place], *, parked: bool = False) -> int:
    """The token of the record that should be there; 0 where none need be."""
    listed = sorted(map(name, places))
    if not listed and not parked:
        return 0
    return _number(identity.digest + json.dumps(["record", listed, parked]).encode())


def found_record(record: Placement) -> int:
    """The token of a record. One that lists nothing is as good as none."""
    token = expected_record(record.identity, record.entries, parked=record.parked)
    return token + 1 if record.leaving else token


def letter(identity: Identity, etag: str | None) -> int:
    """The token of a dead letter of this state."""
    return _number(identity.digest + json.dumps(["letter", etag]).encode())


def _number(told: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "big")


def by_value(value: Any) -> Any:
    """The same JSON, equal numbers alike: stores give back 1 for 1.0, and large ones as doubles."""
    if isinstance(value, Mapping):
        return {name: by_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [by_value(inner) for inner in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, int) and abs(value) > MAX_EXACT:
        return _as_double(value)
    return value


def _as_double(value: int) -> int:
    try:
        return int(float(value))
    except OverflowError:
        return value
