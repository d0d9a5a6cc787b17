"""Partition key definitions, values, and the effective partition key (EPK) that places an item in a range.

The EPK strings are those the SDKs compute themselves (``_get_effective_partition_key_string`` in
azure-cosmos): server and client have to agree on them, because clients name EPK ranges in their requests.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from projections.emulator.errors import bad_request, key_mismatch
from projections.emulator.murmur import murmur3_32, murmur3_128


class Absent:
    """Stands for "the item has no value at this path", which is a partition key of its own, not null."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
Component: TypeAlias = "str | int | float | bool | None | Absent"

MAX_KEY_BYTES = 2048  # concepts-limits
_V1_CHARACTERS = 100  # old containers hash the first 100 characters only
_TOP_BITS = 0x3FFFFFFFFFFFFFFF  # real values stay below 3FFF...; FF is the open end


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """A container's ``partitionKey``."""

    paths: tuple[tuple[str, ...], ...]
    multi: bool
    version: int
    system: bool = False

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> KeyDefinition:
        """From the (completed) wire form."""
        paths = tuple(split_path(path) for path in definition["paths"])
        return cls(paths, definition["kind"] == "MultiHash", definition["version"], bool(definition.get("systemKey")))

    def values(self, document: Mapping[str, Any]) -> tuple[Component, ...]:
        """The key of a document; objects and arrays count as absent."""
        return tuple(_component_at(document, path) for path in self.paths)

    def epk_of(self, values: Sequence[Component]) -> str:
        """The effective partition key of a full key, or of a prefix of a hierarchical one."""
        if not values:
            return ""
        if self.multi:
            return "".join(_hash_v2((value,)) for value in values)
        return _hash_v1(values) if self.version == 1 else _hash_v2(values)

    def header_of(self, values: Sequence[Component]) -> str:
        """The wire form of a key, as in ``x-ms-documentdb-partitionkey``."""
        return json.dumps([{} if value is ABSENT else value for value in values], separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Key:
    """A partition key value (or a prefix of one) together with its place."""

    values: tuple[Component, ...]
    epk: str
    full: bool


def split_path(path: str) -> tuple[str, ...]:
    """``/a/"b c"/d`` -> ``("a", "b c", "d")``."""
    parts: list[str] = []
    rest = path
    while rest:
        if not rest.startswith("/"):
            raise bad_request(f"The path '{path}' is invalid: it has to start with '/'.")
        rest = rest[1:]
        if rest[:1] in ('"', "'"):
            end = rest.find(rest[0], 1)
            if end < 0:
                raise bad_request(f"The path '{path}' is invalid: a quote is not closed.")
            parts.append(rest[1:end])
            rest = rest[end + 1 :]
        else:
            part, slash, tail = rest.partition("/")
            parts.append(part)
            rest = slash + tail
    return tuple(parts)


@lru_cache(maxsize=65536)
def key_from_header(definition: KeyDefinition, text: str) -> Key:
    """Reads the partition key header; 400 when it does not fit the container."""
    try:
        parts = json.loads(text)
    except ValueError:
        raise bad_request(f"The partition key header is not a JSON array: {text}") from None
    if not isinstance(parts, list):
        raise bad_request(f"The partition key header is not a JSON array: {text}")
    if len(parts) > len(definition.paths):
        raise key_mismatch()
    if not parts and not definition.multi and not definition.system:
        parts = [{}]  # old clients say [] for a key that is not there
    values = tuple(_from_wire(part) for part in parts)
    full = len(values) == len(definition.paths) or (definition.system and not values)
    return Key(values, definition.epk_of(values), full)


def key_of(definition: KeyDefinition, document: Mapping[str, Any]) -> Key:
    """The key a document's own fields give it."""
    values = definition.values(document)
    if definition.system and all(value is ABSENT for value in values):
        return Key((), "", True)
    return key_from_header(definition, definition.header_of(values))


def same_values(left: Sequence[Component], right: Sequence[Component]) -> bool:
    """Equality of keys as the service sees it: 1 and 1.0 are one key, 1 and true are two."""
    return len(left) == len(right) and all(
        one is other or (one == other and isinstance(one, bool) is isinstance(other, bool))
        for one, other in zip(left, right, strict=True)
    )


def _from_wire(part: Any) -> Component:
    if part == {} and isinstance(part, dict):
        return ABSENT
    if isinstance(part, str) and len(part.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise bad_request(f"A partition key value may have {MAX_KEY_BYTES} bytes at most.")
    if part is None or isinstance(part, (str, int, float)):
        return part
    raise bad_request("A partition key value has to be a string, a number, a boolean, null or {} for none.")


def _component_at(document: Mapping[str, Any], path: tuple[str, ...]) -> Component:
    value: Any = document
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return ABSENT if isinstance(value, (dict, list)) else value


def _write(value: Component, suffix: bytes) -> bytes:
    """The bytes that are hashed for one component."""
    if value is True:
        return b"\x03"
    if value is False:
        return b"\x02"
    if value is None:
        return b"\x01"
    if isinstance(value, Absent):
        return b"\x00"
    if isinstance(value, str):
        return b"\x08" + value.encode("utf-8", "surrogatepass") + suffix
    return b"\x05" + struct.pack("<d", _as_double(value))


def _as_double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise bad_request("A partition key number is out of the range of a double.") from None


def _hash_v2(values: Sequence[Component]) -> str:
    low, high = murmur3_128(b"".join(_write(value, b"\xff") for value in values))
    return f"{high & _TOP_BITS:016X}{low:016X}"


def _hash_v1(values: Sequence[Component]) -> str:
    cut = [value[:_V1_CHARACTERS] if isinstance(value, str) else value for value in values]
    hashed = murmur3_32(b"".join(_write(_v1_number(value), b"\x00") for value in cut))
    return (encode_v1(float(hashed)) + b"".join(encode_v1(value) for value in cut)).hex().upper()


def _v1_number(value: Component) -> Component:
    """The SDK hashes whole numbers of old containers as unsigned 32-bit ones."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if isinstance(value, float) and (abs(value) >= 2**32 or not value.is_integer()):
        return value
    return float(int(value) & 0xFFFFFFFF)


def encode_v1(value: Component) -> bytes:
    """The order-preserving binary form that ends a version 1 EPK."""
    if isinstance(value, bool):
        return b"\x03" if value else b"\x02"
    if isinstance(value, Absent):
        return b"\x00"
    if value is None:
        return b""  # as the SDK has it
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
        short = len(text) <= _V1_CHARACTERS
        shown = text if short else text[: _V1_CHARACTERS + 1]
        return b"\x08" + bytes(byte + 1 for byte in shown) + (b"\x00" if short else b"")
    return b"\x05" + _encode_double(_as_double(value))


def _encode_double(value: float) -> bytes:
    """First 8 bits, then 7 bits a byte, the lowest bit saying that another byte follows."""
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    sign = 1 << 63
    payload = bits ^ sign if bits < sign else (-bits) & 0xFFFFFFFFFFFFFFFF
    out = bytearray([payload >> 56])
    payload = payload << 8 & 0xFFFFFFFFFFFFFFFF
    last = 0
    first = True
    while payload:
        if not first:
            out.append(last)
        first = False
        last = (payload >> 56) | 1
        payload = payload << 7 & 0xFFFFFFFFFFFFFFFF
    out.append(last & 0xFE)
    return bytes(out)
