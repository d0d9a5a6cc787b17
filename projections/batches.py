"""Many conditional writes with few calls: grouped by logical partition, cut at the store's limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from projections.errors import FatalError, ProjectionsError, TooLargeError
from projections.keys import Key
from projections.store import Container, Delete, Operation, Patch, Store, WriteError

MAX_OPERATIONS: Final = 100
"""facts.md 36: operations in a transactional batch."""
MAX_BYTES: Final = 1_800_000
"""Bytes of documents in a batch; the limit is 2 MiB for the whole request, whose wrapping costs some."""

Result: TypeAlias = str | None | ProjectionsError
"""The new etag (None for a delete), or why this one write was refused: a ConflictError or an ItemError."""


@dataclass(frozen=True, slots=True)
class Write:
    """One operation on a document of one logical partition."""

    key: Key
    operation: Operation


async def write_all(
    store: Store, container: Container, writes: Sequence[Write], gate: asyncio.Semaphore
) -> list[Result]:
    """Carry out independent writes; one result each, in order.

    Writes to one logical partition share transactional batches: a refused one is taken out and the rest sent again, so
    that no write fails for another's sake. `gate` bounds the calls under way.
    """
    results: list[Result] = [None] * len(writes)

    async def send(indices: list[int]) -> None:
        async with gate:
            await _send(store, container, writes, indices, results)

    await together(send(indices) for indices in _cut(writes))
    return results


async def together(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run calls side by side to their end, each of them; then raise the gravest failure, if any."""
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for grave in (asyncio.CancelledError, FatalError, BaseException):
        for failure in failures:
            if isinstance(failure, grave):
                raise failure


async def _send(
    store: Store, container: Container, writes: Sequence[Write], indices: list[int], results: list[Result]
) -> None:
    while indices:
        try:
            # facts.md 21: the SDK takes things out of the list it is given, so it gets a new one every time
            etags = await store.write(container, writes[indices[0]].key, [writes[i].operation for i in indices])
        except WriteError as error:
            if isinstance(error.cause, TooLargeError) and len(indices) > 1:
                half = len(indices) // 2  # together too large; alone each may fit
                await _send(store, container, writes, indices[:half], results)
                indices = indices[half:]
                continue
            results[indices[error.index]] = error.cause
            del indices[error.index]
        else:
            for index, etag in zip(indices, etags, strict=True):
                results[index] = etag
            return


def _cut(writes: Sequence[Write]) -> Iterator[list[int]]:
    """Groups of writes that may share one batch."""
    groups: dict[Key, list[int]] = {}
    for index, write in enumerate(writes):
        groups.setdefault(write.key, []).append(index)
    for indices in groups.values():
        part: list[int] = []
        filled = 0
        for index in indices:
            size = _size(writes[index].operation) if len(indices) > 1 else 0
            if part and (len(part) == MAX_OPERATIONS or filled + size > MAX_BYTES):
                yield part
                part, filled = [], 0
            part.append(index)
            filled += size
        yield part


def _size(operation: Operation) -> int:
    """Bytes on the wire: the SDK escapes what is not ASCII."""
    if isinstance(operation, Delete):
        return 200
    body = operation.operations if isinstance(operation, Patch) else operation.document
    return len(json.dumps(body)) + 200
