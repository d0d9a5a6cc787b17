"""Stored shapes of an Aggregate, pinned: a contribution, what a total keeps of it, a distinct value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from projections.aggregate import Aggregate
from projections.declare import Source
from projections.entries import Rules, State, document, wanted
from projections.identity import Identity
from projections.keys import Key
from projections.measures import Avg, Count, Distinct, Max, Min, Sum, digest
from projections.strategies import Concat
from projections.totals import NOTHING, Change, Total, changed, value_document, value_id
from projections.version import Version

GOLDEN = json.loads((Path(__file__).parent / "totals.json").read_text(encoding="utf-8"))
NOW = 1_700_000_000
BY_MONTH = Aggregate(
    name="by-month",
    source=Source(container="orders", key="/shop"),
    key=(Concat("/customer", "/month"), "/address/city"),
    measures={
        "orders": Count(),
        "revenue": Sum("/total"),
        "largest": Max("/total"),
        "first": Min("/at"),
        "mean": Avg("/total"),
        "coupons": Distinct("/coupon"),
        "nothing": Max("/absent"),
    },
)
ITEM = {
    "id": "o/1", "shop": "s1", "customer": "c_1", "month": "2026-11", "address": {"city": "漢", "zip": 1},
    "total": 12.50, "at": "2026-11-30", "coupon": 7.0, "ttl": 500, "_etag": '"e"', "_ts": NOW - 100,
}  # fmt: skip


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def stored() -> dict[str, Any]:
    """The documents of an item in a group of its own."""
    state = State(Identity(Key.of("s1"), "o/1"), Version('"e"', NOW - 100, 42), ITEM)
    [entry] = wanted(Rules(BY_MONTH, source_ttl=-1), state, NOW).entries
    contribution = document(entry, state, "_source", NOW)
    total = changed(BY_MONTH.measures, NOTHING, [Change(None, contribution["contribution"])], {}, {})
    assert total
    properties = {"partitionKey": contribution["partitionKey"], "address": {"city": "漢"}}
    value = ("coupons", digest(7, "/coupon"))
    return {
        "contribution": contribution,
        "total": total.to_stored(BY_MONTH.measures, "_source", properties),
        "value": value_document(value, 1, "_source", properties),
    }


@pytest.mark.parametrize("name", ["contribution", "total", "value"])
def test_what_is_stored(name: str) -> None:
    assert text(stored()[name]) == text(GOLDEN[name])


def test_a_stored_total_is_read() -> None:
    total = Total.from_stored(GOLDEN["total"], "_source")
    assert text(total.to_stored(BY_MONTH.measures, "_source", {})) == text(
        {name: value for name, value in GOLDEN["total"].items() if name not in ("partitionKey", "address")}
    )


@pytest.mark.parametrize("row", GOLDEN["digests"], ids=lambda row: repr(row["value"]))
def test_what_tells_values_apart(row: dict[str, Any]) -> None:
    assert digest(row["value"], "/v") == row["digest"]


def test_ids_of_values_are_no_ids_of_entries() -> None:
    assert value_id(("coupons", "abc")) == "distinct~coupons~abc"
    assert Identity(Key.of("distinct"), "distinct").entry_id.count("~") == 1
