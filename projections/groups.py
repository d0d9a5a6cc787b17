"""Reading the totals of an Aggregate: one document a group, whatever it is spread over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from projections.aggregate import Aggregate
from projections.identity import Place
from projections.keys import Key, at, parse_path
from projections.store import Container, Document, Store
from projections.strategies import Suffixed
from projections.totals import TOTAL_ID, Total, combined, key_properties

ALL_TOTALS: Final = "SELECT * FROM c WHERE c.id = @id"


async def totals(
    store: Store, target: Container, projection: Aggregate, keys: Sequence[Key], reserved: str
) -> list[Document]:
    """The totals under keys, and below those that are prefixes. The shards of a group are added up."""
    levels = len(projection.key.paths)
    whole = [Place(TOTAL_ID, key) for key in keys if len(key.values) == levels]
    found = list((await store.read(target, whole)).values()) if whole else []
    below = [_below(store, target, key) for key in keys if len(key.values) < levels]
    for documents in await asyncio.gather(*below):
        found += documents
    return _joined(projection, found, reserved) if projection.shards else found


async def _below(store: Store, target: Container, key: Key) -> list[Document]:
    return [document async for page in store.query(target, ALL_TOTALS, {"@id": TOTAL_ID}, key) for document in page]


def _joined(projection: Aggregate, shards: Sequence[Document], reserved: str) -> list[Document]:
    """One document for the shards of each group, under the group's key without suffixes."""
    groups: dict[Key, list[Document]] = {}
    for shard in shards:
        groups.setdefault(_group(projection, shard), []).append(shard)
    return [_one(projection, own, reserved) for own in groups.values()]


def _one(projection: Aggregate, shards: Sequence[Document], reserved: str) -> Document:
    total = combined(projection.measures, [Total.from_stored(shard, reserved) for shard in shards])
    properties = key_properties(projection, shards[0])
    properties |= {level.path[1:]: _base(level, shards[0]) for level in projection.shards}
    return total.to_stored(projection.measures, reserved, properties)


def _group(projection: Aggregate, shard: Document) -> Key:
    levels = projection.levels
    return Key.of(
        *(_base(one, shard) if isinstance(one, Suffixed) else at(shard, parse_path(one.path)) for one in levels)
    )


def _base(level: Suffixed, shard: Document) -> str:
    """What stands before the suffix: no number holds a separator."""
    return str(at(shard, parse_path(level.path))).rpartition(level.separator)[0]
