"""What orders two states of one item: same, newer, older, or unclear. Unclear is never guessed (design 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class Order(Enum):
    SAME = "same"
    NEWER = "newer"
    OLDER = "older"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Version:
    """One state of one item.

    `lsn` is known only for states read from the feed, and counts per physical partition; `ts` has a resolution of one
    second; `etag` has no order (facts.md 14). `deleted`: the item is gone, and this was its last known state, if any.
    """

    etag: str | None = None
    ts: int | None = None
    lsn: int | None = None
    deleted: bool = False

    @staticmethod
    def of(item: Mapping[str, Any], *, from_feed: bool) -> Version:
        """The version of an item as read. Only the feed's `_lsn` is the store's own; elsewhere it is a user's field."""
        lsn = item.get("_lsn") if from_feed else None
        return Version(etag=item["_etag"], ts=item["_ts"], lsn=lsn)

    @staticmethod
    def from_stored(stored: Mapping[str, Any]) -> Version:
        return Version(stored.get("etag"), stored.get("ts"), stored.get("lsn"), bool(stored.get("deleted", False)))

    def to_stored(self) -> dict[str, Any]:
        # stored; change with a version
        stored: dict[str, Any] = {"etag": self.etag, "ts": self.ts}
        if self.lsn is not None:
            stored["lsn"] = self.lsn
        if self.deleted:
            stored["deleted"] = True
        return stored

    @property
    def comparable(self) -> bool:
        """Whether it tells one state from all others."""
        return self.etag is not None or self.lsn is not None

    def gone(self) -> Version:
        """The version of an item that is gone and was last known so."""
        return replace(self, deleted=True)

    def against(self, other: Version) -> Order:
        """How this version stands to another one of the same item.

        NEWER may be acted upon, since whoever writes checks the source afterwards. OLDER is a suspicion that the
        source has to confirm: a clock set back by a failover, or counts that start again after a merge, make a newer
        state look older, and an update dropped for that would never come back.
        """
        if self.etag is not None and self.etag == other.etag:
            return _by(int(self.deleted) - int(other.deleted)) or Order.SAME
        if self == other and self.lsn is not None:
            return Order.SAME  # a delete that the feed told of: it has no etag
        lsn, ts = _sign(self.lsn, other.lsn), _sign(self.ts, other.ts)
        if lsn is None or ts is None:
            return _by(lsn or ts or 0) or Order.UNCLEAR
        return (_by(lsn) if lsn == ts else None) or Order.UNCLEAR


def _sign(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else (one > other) - (one < other)


def _by(sign: int) -> Order | None:
    return None if sign == 0 else Order.NEWER if sign > 0 else Order.OLDER
