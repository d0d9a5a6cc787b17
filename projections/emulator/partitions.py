"""Partition ranges: how a container's key space is cut, and what a split leaves behind."""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

from projections.emulator.errors import bad_request, range_gone
from projections.emulator.keys import KeyDefinition, encode_v1

RU_PER_RANGE = 10_000  # concepts-limits: a physical partition serves at most 10,000 RU/s
SPACE = 1 << 126  # hashes are below 3FFF...FF
FIRST, END = "", "FF"


def ranges_for(throughput: int) -> int:
    """How many physical partitions the service makes for a throughput."""
    return max(1, math.ceil(throughput / RU_PER_RANGE))


@dataclass(slots=True)
class PartitionRange:
    """One physical partition: the keys from ``minimum`` up to but not including ``maximum``."""

    id: str
    low: int  # the same bounds as numbers in SPACE, to find the middle
    high: int
    minimum: str
    maximum: str
    parents: tuple[str, ...]
    born: int  # routing version at which it appeared


@dataclass(slots=True)
class Partitions:
    """The live ranges of one container in key order, and the ids of those that were split."""

    key: KeyDefinition
    live: list[PartitionRange] = field(default_factory=list)
    gone: dict[str, int] = field(default_factory=dict)  # id -> version at which it went
    version: int = 1
    next_id: int = 0

    @classmethod
    def even(cls, key: KeyDefinition, count: int) -> Partitions:
        """A new container's ranges, all of one size."""
        made = cls(key)
        marks = [SPACE * at // count for at in range(count + 1)]
        made.live = [made._make(low, high, ()) for low, high in itertools.pairwise(marks)]
        return made

    def find(self, epk: str) -> PartitionRange:
        """The live range an effective partition key lies in."""
        at = bisect.bisect_right(self.live, epk, key=lambda one: one.minimum)
        return self.live[max(0, at - 1)]

    def get(self, range_id: str) -> PartitionRange:
        """A live range by id; 410/1002 when it is gone."""
        for one in self.live:
            if one.id == range_id:
                return one
        raise range_gone(range_id)

    def overlapping(self, minimum: str, maximum: str) -> list[PartitionRange]:
        """The live ranges that share keys with ``[minimum, maximum)``, in key order."""
        return [one for one in self.live if one.minimum < maximum and minimum < one.maximum]

    def split(self, range_id: str) -> tuple[PartitionRange, PartitionRange]:
        """Cuts a range in the middle; its children remember all ancestors, oldest first."""
        parent = self.get(range_id)
        middle = (parent.low + parent.high) // 2
        if middle in (parent.low, parent.high):
            raise bad_request(f"The partition key range {range_id} is too small to be split.")
        self.version += 1
        ancestors = (*parent.parents, parent.id)
        left = self._make(parent.low, middle, ancestors)
        right = self._make(middle, parent.high, ancestors)
        at = self.live.index(parent)
        self.live[at : at + 1] = [left, right]
        self.gone[parent.id] = self.version
        return left, right

    def grow(self, count: int) -> None:
        """Splits the largest ranges until there are ``count``; the service never merges on its own."""
        while len(self.live) < count:
            self.split(max(self.live, key=lambda one: one.high - one.low).id)

    def since(self, version: int) -> list[PartitionRange]:
        """The live ranges that appeared after a routing version."""
        return [one for one in self.live if one.born > version]

    def to_json(self) -> dict[str, Any]:
        """Stored; change with a version."""
        ranges = [[one.id, str(one.low), str(one.high), list(one.parents), one.born] for one in self.live]
        return {"live": ranges, "gone": self.gone, "version": self.version, "next": self.next_id}

    @classmethod
    def from_json(cls, key: KeyDefinition, stored: dict[str, Any]) -> Partitions:
        """The inverse of :meth:`to_json`."""
        made = cls(key, gone=stored["gone"], version=stored["version"], next_id=stored["next"])
        for range_id, low, high, parents, born in stored["live"]:
            made.live.append(made._range(range_id, int(low), int(high), tuple(parents), born))
        return made

    def _make(self, low: int, high: int, parents: tuple[str, ...]) -> PartitionRange:
        range_id = str(self.next_id)
        self.next_id += 1
        return self._range(range_id, low, high, parents, self.version)

    def _range(self, range_id: str, low: int, high: int, parents: tuple[str, ...], born: int) -> PartitionRange:
        return PartitionRange(range_id, low, high, self._bound(low), self._bound(high), parents, born)

    def _bound(self, point: int) -> str:
        """A point of the hash space as an EPK; the service's own bounds are one below the even cut."""
        if point <= 0:
            return FIRST
        if point >= SPACE:
            return END
        if self.key.version == 1 and not self.key.multi:
            return encode_v1(float((point << 32) // SPACE - 1)).hex().upper()
        return f"{point - 1:032X}"
