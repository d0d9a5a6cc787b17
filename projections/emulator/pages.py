"""Pages of queries: where the next one begins, what one holds, and the answers that are kept for later pages."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from projections.emulator.errors import bad_request
from projections.emulator.storage import LAST_SEQUENCE

_FOREIGN_TOKEN = re.compile(r"[+-]RID:")
_KEPT_ANSWERS = 16


@dataclass(frozen=True, slots=True)
class Position:
    """Where the next page begins.

    It names keys and the last item, not an offset: after a split the clients hand a range's token to its children,
    and each has to find its own place. ``minimum`` and ``maximum`` are the range that is being read; what lies below
    is done, what lies above is still to come, inside it the items from ``at`` on.
    """

    minimum: str = ""
    maximum: str = ""
    at: int = 0  # the first item that was not given entirely
    skip: int = 0  # its rows that were given; of a sorted answer, those of the whole answer

    def encode(self) -> str:
        """The continuation token."""
        return base64.b64encode(json.dumps([self.minimum, self.maximum, self.at, self.skip]).encode()).decode()

    @classmethod
    def decode(cls, token: str | None) -> Position | None:
        """The position in a token. Tokens of the service itself are accepted, and start over."""
        if not token or _FOREIGN_TOKEN.match(token):
            return None
        try:
            minimum, maximum, at, skip = json.loads(base64.b64decode(token, validate=True))
            made = cls(str(minimum), str(maximum), int(at), int(skip))
        except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
            raise bad_request("The continuation token is malformed.") from None
        if not (0 <= made.at <= LAST_SEQUENCE and made.skip >= 0):
            raise bad_request("The continuation token is malformed.")
        return made


@dataclass(slots=True)
class Page:
    """Rows of one response."""

    rows: list[bytes]
    range_ids: list[str]
    following: Position | None
    scanned: int
    size: int


class Answers:
    """The last whole answers of sorted and aggregating queries, so that their later pages need not run again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, list[bytes]] = OrderedDict()

    def get(self, key: Any) -> list[bytes] | None:
        """A kept answer."""
        return self._kept.pop(key, None)

    def put(self, key: Any, rows: list[bytes]) -> None:
        """Keeps an answer, and drops the oldest."""
        self._kept[key] = rows
        while len(self._kept) > _KEPT_ANSWERS:
            self._kept.popitem(last=False)


@dataclass(slots=True)
class QueryOptions:
    """How queries are answered."""

    merge_by_client: bool = False  # refuse what the service refuses too: cross-partition sorts, aggregates, TOP, ...
    answers: Answers = field(default_factory=Answers)
