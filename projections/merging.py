"""Entries under several keys as one answer: page by page, side by side, in an order, and resumable after any page."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import heapq
import json
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from projections.batches import together
from projections.errors import AskError, StoreError
from projections.keys import Key, at, order, parse_path
from projections.store import Document, Rows

Ask: TypeAlias = Callable[[Key, str, str | None, int | None], AsyncIterator[Rows]]
"""Key, query text, position to go on after, page size -> the pages."""

PARALLEL: Final = 16
"""Calls of one lookup that may be under way."""
AHEAD: Final = 100
"""Entries of one key that are read ahead at most, where they come in an order."""
MAX_TOKEN_BYTES: Final = 8 * 1024 * 1024
"""Of a token's contents: it may come from anybody."""


@dataclass(frozen=True)
class Sorting:
    """By which field, and which way."""

    path: str
    descending: bool = False

    @property
    def text(self) -> str:
        """For a query."""
        names = "".join(f"[{json.dumps(name)}]" for name in parse_path(self.path))
        return f" ORDER BY c{names} {'DESC' if self.descending else 'ASC'}"

    def rank(self, entry: Document) -> _Rank:
        """What the entry is sorted by."""
        return _Rank(order(at(entry, parse_path(self.path))), self.descending)


@dataclass(frozen=True)
class _Rank:
    value: tuple[int, Any]
    descending: bool

    def __lt__(self, other: _Rank) -> bool:
        return other.value < self.value if self.descending else self.value < other.value


@dataclass
class _Stream:
    """The entries under one key, and how far they have been given."""

    key: Key
    begin: str | None = None  # after which position the page under way was read; None: it is the first
    last: list[Any] | None = None  # of that page, the entry that was given last: its id and what it is sorted by
    ended: bool = False  # everything has been given
    skipping: bool = False  # the page is read again, and what was given of it has still to be passed over
    rest: deque[Document] = field(default_factory=deque)  # of that page, what has not been given
    following: str | None = None  # after which position the next page is to be read
    read: bool = False  # whether the page under way is here
    latest: _Rank | None = None  # of what was given last

    def turn(self) -> None:
        """When all that was read is given: go on to the next page, if there is one."""
        if self.read and not self.rest:
            self.begin, self.read, self.ended = self.following, False, self.following is None
            self.last = self.last if self.skipping else None


class Merged:
    """Reads under several keys. After every page, `token` says where each of them is; None when nothing is left.

    Without an order the keys take turns; with one they are merged, each being sorted by the store. Memory holds a page,
    and with an order up to 100 entries a key.
    """

    def __init__(self, ask: Ask, keys: Sequence[Key], sorting: Sorting | None = None, token: str | None = None) -> None:
        self._ask = ask
        self._sorting = sorting
        self._text = f"SELECT * FROM c{sorting.text if sorting else ''}"
        question = "\n".join([self._text, *(key.text for key in keys)])
        self._question = hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._ahead = 0  # how many entries of a key are read at a time; with a token as before, to find the same pages
        self._streams = [_Stream(key) for key in keys]
        if token:
            self._ahead, states = _states(token, self._question, len(keys))
            for stream, (begin, last, ended) in zip(self._streams, states, strict=True):
                stream.begin, stream.last, stream.ended, stream.skipping = begin, last, bool(ended), last is not None
        self._gate = asyncio.Semaphore(PARALLEL)

    @property
    def token(self) -> str | None:
        """Where to go on, as opaque text."""
        if all(stream.ended for stream in self._streams):
            return None
        states = [[stream.begin, stream.last, int(stream.ended)] for stream in self._streams]
        text = json.dumps([self._question, self._ahead, states], separators=(",", ":"))
        return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")

    async def page(self, size: int | None) -> list[Document]:
        """The next entries, `size` at most and fewer only at the end; all that are left when None."""
        return await (self._in_order(size) if self._sorting else self._in_turn(size))

    async def _load(self, streams: Sequence[_Stream], size: int | None) -> None:
        await together(self._read(stream, size) for stream in streams)

    async def _read(self, stream: _Stream, size: int | None) -> None:
        asked = self._ask(stream.key, self._text, stream.begin, size)
        async with self._gate, aclosing(asked) as pages:  # type: ignore[type-var]
            page: Rows = await anext(pages, Rows())
        stream.rest = deque(self._passed_over(stream, page) if stream.skipping else page)
        stream.following, stream.read = page.position, True

    # without an order: pages are taken whole

    async def _in_turn(self, size: int | None) -> list[Document]:
        found: list[Document] = []
        while open_ := [stream for stream in self._streams if not stream.ended]:
            left = None if size is None else size - len(found)
            if left == 0:
                break
            chosen = open_ if left is None else open_[: min(left, PARALLEL)]
            await self._load(chosen, None if left is None else left // len(chosen))
            for stream in chosen:
                found.extend(stream.rest)
                stream.rest.clear()
                stream.turn()
        return found

    # in an order: pages are taken apart

    async def _in_order(self, size: int | None) -> list[Document]:
        heads: list[tuple[_Rank, int]] = []
        found: list[Document] = []
        self._ahead = self._ahead or _ahead(size, len(self._streams))
        await self._refill(self._streams)
        for number, stream in enumerate(self._streams):
            self._push(heads, number, stream)
        while heads:
            rank, number = heapq.heappop(heads)
            stream = self._streams[number]
            found.append(entry := stream.rest.popleft())
            stream.last, stream.latest = [entry["id"], list(rank.value)], rank
            stream.turn()
            if len(found) == size:  # before anything is read that may never be asked for
                break
            await self._refill([stream])
            self._push(heads, number, stream)
        return found

    def _push(self, heads: list[tuple[_Rank, int]], number: int, stream: _Stream) -> None:
        if not stream.rest:
            return
        assert self._sorting is not None
        rank = self._sorting.rank(stream.rest[0])
        if stream.latest is not None and rank < stream.latest:
            raise StoreError(
                f"what is below {stream.key} is in several physical partitions, which are not sorted together",
                hint="give all levels of the key, or read without order_by",
            )
        heapq.heappush(heads, (rank, number))

    async def _refill(self, streams: Sequence[_Stream]) -> None:
        """Read on where nothing is left, until there is something or the end."""
        for stream in streams:
            stream.turn()
        while waiting := [stream for stream in streams if not stream.rest and not stream.ended]:
            await self._load(waiting, self._ahead)
            for stream in waiting:
                stream.turn()

    def _passed_over(self, stream: _Stream, page: Rows) -> list[Document]:
        """What comes behind the entry that was given last; where that is gone, whatever is not sorted before it."""
        assert self._sorting is not None
        assert stream.last is not None
        id_, (kind, value) = stream.last
        ids = [entry["id"] for entry in page]
        if id_ in ids:
            stream.skipping = False
            return page[ids.index(id_) + 1 :]
        floor = _Rank((kind, value), self._sorting.descending)
        rest = [entry for entry in page if not self._sorting.rank(entry) < floor]
        stream.skipping = not rest
        return rest


def _ahead(size: int | None, keys: int) -> int:
    """How many entries of each key to read at a time, for pages of this size."""
    return AHEAD if size is None else min(AHEAD, size, max(10, 2 * size // keys))


def _states(token: str, question: str, count: int) -> tuple[int, list[Any]]:
    try:
        packed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        asked, ahead, states = json.loads(zlib.decompressobj().decompress(packed, MAX_TOKEN_BYTES))
        fits = asked == question and isinstance(ahead, int) and len(states) == count and all(map(_is_state, states))
    except (ValueError, TypeError, zlib.error):
        fits = False
    if not fits:
        raise AskError(
            "the token is not of this lookup", hint="give the token of the page before, with the same key and order_by"
        )
    return ahead, states


def _is_state(state: Any) -> bool:
    begin, last, ended = state
    if not (begin is None or isinstance(begin, str)) or ended not in (0, 1):
        return False
    if last is None:
        return True
    id_, (kind, value) = last
    return isinstance(id_, str) and (kind in (0, 1, 5) or order(value)[0] == kind)
