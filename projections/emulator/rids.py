"""Resource ids: short base64 names that nest, database (4 bytes), container (8), item (16)."""

from __future__ import annotations

import base64
import binascii


def encode(raw: bytes) -> str:
    """Base64 with ``-`` for ``/``, since rids stand in paths."""
    return base64.b64encode(raw, b"+-").decode()


def decode(text: str) -> bytes | None:
    """The bytes of a rid, or None when the text is not one."""
    try:
        return base64.b64decode(text, b"+-", validate=True)
    except (binascii.Error, ValueError):
        return None


def database(number: int) -> bytes:
    """The rid of the n-th database; scrambled, since real ones are not consecutive either."""
    return ((number * 0x9E3779B1) & 0xFFFFFFFF).to_bytes(4, "big")


def container(parent: bytes, number: int) -> bytes:
    """The rid of the n-th container (the top bit marks containers)."""
    return parent + ((number * 0x85EBCA77) & 0x7FFFFFFF | 0x80000000).to_bytes(4, "big")


def item(parent: bytes, sequence: int) -> str:
    """The rid of the n-th item of a container."""
    return encode(parent + sequence.to_bytes(8, "little"))


def sequence_of(parent: bytes, text: str) -> int | None:
    """The number of an item in its container, or None when the rid is not one of its items."""
    raw = decode(text)
    if raw is None or len(raw) != 16 or raw[:8] != parent:
        return None
    return int.from_bytes(raw[8:], "little")


def offer(number: int) -> str:
    """The rid of the n-th offer."""
    return encode(((number * 0x9E3779) & 0xFFFFFF).to_bytes(3, "big"))


def is_database_rid(text: str) -> bool:
    """A database named like a rid (8 characters ending in ``==``) is taken for one, as by the SDK."""
    return len(text) == 8 and text.endswith("==") and decode(text) is not None
