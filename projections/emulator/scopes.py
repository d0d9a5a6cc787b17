"""Which keys a query or feed request is about: a partition key, a prefix of one, a range, a part of a range, or all."""

from __future__ import annotations

from dataclasses import dataclass

from projections.emulator.catalog import Container
from projections.emulator.exchange import Request
from projections.emulator.keys import Key, key_from_header
from projections.emulator.partitions import END, FIRST, PartitionRange

KEY_HEADER = "x-ms-documentdb-partitionkey"
RANGE_HEADER = "x-ms-documentdb-partitionkeyrangeid"
_JUST_BEHIND = "!"  # sorts before every hex digit, so [epk, epk + this) holds one key


@dataclass(slots=True)
class Scope:
    """The keys ``[minimum, maximum)`` and the live ranges they lie in, in key order."""

    minimum: str
    maximum: str
    ranges: list[PartitionRange]
    key: Key | None = None
    by_range: bool = False

    @property
    def range_ids(self) -> list[str]:
        """The ids of the ranges."""
        return [one.id for one in self.ranges]

    def within(self, one: PartitionRange) -> tuple[str, str]:
        """The part of a range that is in scope."""
        return max(self.minimum, one.minimum), min(self.maximum, one.maximum)


def scope_of(container: Container, request: Request) -> Scope:
    """Reads the scope headers; 410/1002 when they name a range that is gone."""
    headers = request.headers
    minimum, maximum = FIRST, END
    range_id = headers.get(RANGE_HEADER)
    by_range = range_id is not None
    if range_id is not None:
        one = container.partitions.get(range_id.rpartition(",")[2])  # some clients say "container rid,range id"
        minimum, maximum = one.minimum, one.maximum
    if headers.get("x-ms-read-key-type", "").lower() == "effectivepartitionkeyrange":
        minimum = max(minimum, headers.get("x-ms-start-epk", FIRST).upper())
        maximum = min(maximum, headers.get("x-ms-end-epk", END).upper())
        by_range = True
    key = None
    text = headers.get(KEY_HEADER)
    if text is not None:
        key = key_from_header(container.key, text)
        minimum, maximum = max(minimum, key.epk), min(maximum, _end_of(key))
    if key is not None and key.full and not by_range:
        ranges = [container.partitions.find(key.epk)]
    else:
        ranges = container.partitions.overlapping(minimum, maximum)
    return Scope(minimum, maximum, ranges, key, by_range)


def _end_of(key: Key) -> str:
    return key.epk + _JUST_BEHIND if key.full else key.epk + END
