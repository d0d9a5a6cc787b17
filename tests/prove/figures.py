"""What the data sets come to, worked out from the files alone: plain JSON and exact numbers, nothing of the product."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Group = tuple[str, str]
"""What a total is of: an airline or a customer, and a month."""

FLIGHT = ("date", "carrier", "flight", "origin", "dest", "tailnum", "scheduled")
PLANE = ("manufacturer", "model", "seats")


def rows(path: Path) -> Iterator[Row]:
    """The lines of a file. Fractions are kept as they are written."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line, parse_float=Decimal)


def some(every: Iterable[Row], share: float, by: str) -> Iterator[Row]:
    """An even share of what comes in groups, such as whole days of flights: every so many-th group."""
    for n, (_, group) in enumerate(groupby(every, key=lambda row: row[by])):
        if int((n + 1) * share) > int(n * share):
            yield from group


# flights


def with_names(flight: Mapping[str, Any], airlines: Mapping[str, str], planes: Mapping[str, Row]) -> Row:
    """A flight with the names of its airline and its plane, as far as these are known."""
    wanted = {name: flight[name] for name in FLIGHT if name in flight}
    if flight["carrier"] in airlines:
        wanted["airline"] = {"id": flight["carrier"], "name": airlines[flight["carrier"]]}
    if plane := planes.get(flight.get("tailnum", "")):
        wanted["plane"] = {"id": plane["id"]} | {name: plane[name] for name in PLANE if name in plane}
    return wanted


def delays(flights: Iterable[Mapping[str, Any]]) -> dict[Group, Row]:
    """The totals of each airline and month."""
    groups: dict[Group, list[Mapping[str, Any]]] = {}
    for flight in flights:
        groups.setdefault((flight["carrier"], flight["scheduled"][:7]), []).append(flight)
    return {group: _delays(members) for group, members in groups.items()}


def _delays(flights: list[Mapping[str, Any]]) -> Row:
    late = [flight["arr_delay"] for flight in flights if flight.get("arr_delay") is not None]
    return {
        "flights": len(flights),
        "minutes": _number(Decimal(sum(late))),
        "mean": _mean(Decimal(sum(late)), len(late)),
        "worst": max(late, default=None),
        "planes": len({flight["tailnum"] for flight in flights if flight.get("tailnum")}),
        "exact": {"minutes": _text(Decimal(sum(late)))},
    }


# orders


def spent(orders: Iterable[Mapping[str, Any]]) -> dict[Group, Row]:
    """The totals of each customer and month."""
    groups: dict[Group, list[Decimal]] = {}
    for order in orders:
        groups.setdefault((order["customerId"], order["orderDate"][:7]), []).append(Decimal(order["amount"]))
    return {
        group: {
            "orders": len(amounts),
            "spent": _number(sum(amounts, Decimal())),
            "mean": _mean(sum(amounts, Decimal()), len(amounts)),
            "largest": _number(max(amounts)),
            "exact": {"spent": _text(sum(amounts, Decimal()))},
        }
        for group, amounts in groups.items()
    }


# digits


def _number(value: Decimal) -> float:
    """The nearest number that JSON readers have."""
    return int(value) if value == value.to_integral_value() else float(value)


def _mean(total: Decimal, count: int) -> float | None:
    return float(Fraction(total) / count) if count else None


def _text(value: Decimal) -> str:
    """Every digit, and none in vain."""
    return format(value.normalize(), "f") if value else "0"


# what there is, in the same form


def shown(total: Mapping[str, Any], expected: Mapping[str, Any]) -> Row:
    """Of a stored total what is expected of it."""
    exact = {name: total["_source"]["exact"].get(name) for name in expected["exact"]}
    return {name: total.get(name) for name in expected if name != "exact"} | {"exact": exact}
