"""Keys, operations, feed scopes and throughput, as the SDK takes them."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

from azure.cosmos import ThroughputProperties
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue

from projections.declare import Throughput
from projections.keys import Key, Undefined
from projections.store import Create, Delete, FeedRange, Operation, Patch, Replace, Start, Upsert, from_lsn, from_time


def feed_scope(feed_range: FeedRange, since: str | Start, rid: str | None) -> dict[str, Any]:
    """What a reading of the feed of a container, which the store calls by its rid, takes."""
    bounds = {"min": feed_range.low, "max": feed_range.high, "isMinInclusive": True, "isMaxInclusive": False}
    if (lsn := from_lsn(since)) is not None:
        return {"continuation": _position(bounds, *lsn, rid)}
    at = from_time(since)
    if isinstance(since, str) and at is None:
        return {"continuation": since}
    if at is not None:  # from the second before: whether that second itself is in is not documented
        return {"feed_range": {"Range": bounds}, "start_time": datetime.fromtimestamp(max(0, at - 1), UTC)}
    assert isinstance(since, Start)
    scope = {"feed_range": {"Range": bounds}, "start_time": "Now" if since.now else "Beginning"}
    return scope | ({"mode": "AllVersionsAndDeletes"} if since.all_versions else {})


def _position(bounds: dict[str, Any], lsn: int, all_versions: bool, rid: str | None) -> str:
    """The SDK's (4.17.1) own form of a position, ChangeFeedStateV2: there is no other way in for an LSN."""
    state = {
        "v": "v2",
        "containerRid": rid,
        "mode": "AllVersionsAndDeletes" if all_versions else "LatestVersion",
        "startFrom": {"Type": "Now" if all_versions else "Beginning"},
        "continuation": {
            "v": "v2", "rid": rid, "Range": bounds, "continuation": [{"token": f'"{lsn}"', "range": bounds}]
        },
    }  # fmt: skip
    return base64.b64encode(json.dumps(state).encode()).decode()


def argument(key: Key, levels: int = 1) -> Any:
    """A key as the SDK takes it; for queries also the prefix of a key of so many levels."""
    if max(levels, len(key.values)) > 1:
        return [{} if isinstance(value, Undefined) else value for value in key.values]
    (value,) = key.values
    if isinstance(value, Undefined):
        return NonePartitionKeyValue
    return NullPartitionKeyValue if value is None else value


def batched(operation: Operation) -> tuple[Any, ...]:
    match operation:
        case Create(document):
            return ("create", (document,))
        case Upsert(document):
            return ("upsert", (document,))
        case Replace(document, etag):
            return ("replace", (document["id"], document), {"if_match_etag": etag})
        case Delete(id_, etag):
            return ("delete", (id_,), {"if_match_etag": etag})
        case Patch(id_, etag):
            return ("patch", (id_, operation.operations), {"if_match_etag": etag})


def offer(throughput: Throughput) -> Any:
    if throughput.autoscale is not None:
        return ThroughputProperties(auto_scale_max_throughput=throughput.autoscale)
    return throughput.manual
