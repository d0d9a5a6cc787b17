"""How far a feed position is behind a write, by the LSNs that session tokens and positions hold.

Positions are opaque to everybody else. What is read here is the SDK's (4.17.1) own form of them; of another form
nothing is known, and the answer says so.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from projections.errors import AskError
from projections.store import FeedRange, from_lsn

PART: Final = re.compile(r"([^:,]+):(?:-?[0-9]+#)?([0-9]+)(?:#[0-9]+=-?[0-9]+)*")
"""Of a session token: the id of a physical partition, a version, the LSN, and those of regions."""
NUMBER: Final = re.compile('"?([0-9]+)"?')


@dataclass(frozen=True)
class Stand:
    """An LSN in a slice of the feed."""

    low: str
    high: str
    lsn: int

    def meets(self, other: Stand) -> bool:
        """Whether the slices overlap."""
        return self.low < other.high and other.low < self.high


def behind(feed_range: FeedRange, position: str | None, token: str, partitions: Sequence[Mapping[str, Any]]) -> int:
    """How many LSNs a position is behind a session token (or an LSN); 0 where it has passed it or is of other slices.

    A position of an unknown form is behind by all of them.

    Raises:
        AskError: this is no session token.
    """
    asked = list(_asked(token, partitions))
    lsn, _ = from_lsn(position or "") or (0, False)
    held = (_of_sdk(position) if position is not None else []) or [Stand(feed_range.low, feed_range.high, lsn)]
    return max((max(0, one.lsn - there.lsn) for one in asked for there in held if one.meets(there)), default=0)


def _asked(token: str, partitions: Sequence[Mapping[str, Any]]) -> Iterator[Stand]:
    if number := NUMBER.fullmatch(token):
        yield Stand("", "FF", int(number[1]))
        return
    for part in token.split(","):
        found = PART.fullmatch(part.strip())
        if found is None:
            raise AskError(
                "this is no session token", hint='give what x-ms-session-token said after the write, such as "0:-1#27"'
            )
        yield from _of_partition(found[1], int(found[2]), partitions)


def _of_partition(id_: str, lsn: int, partitions: Sequence[Mapping[str, Any]]) -> Iterator[Stand]:
    """The slices of a physical partition; of one that has split, its children's, which go on from its LSN."""
    for partition in partitions:
        if id_ == partition["id"] or id_ in (partition.get("parents") or ()):
            yield Stand(partition["minInclusive"], partition["maxExclusive"], lsn)


def _of_sdk(position: str) -> list[Stand]:
    try:
        parts = json.loads(base64.b64decode(position, validate=True))["continuation"]["continuation"]
        return [Stand(part["range"]["min"], part["range"]["max"], _lsn(part["token"])) for part in parts]
    except (ValueError, KeyError, TypeError):
        return []


def _lsn(token: str | None) -> int:
    found = NUMBER.fullmatch(token or "")
    return int(found[1]) if found else 0
