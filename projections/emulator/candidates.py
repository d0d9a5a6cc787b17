"""Finds the items a query can be about by id and partition key, where its WHERE pins them down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from projections.emulator.catalog import Container
from projections.emulator.errors import ServiceError
from projections.emulator.keys import ABSENT, Component
from projections.emulator.query import UNDEFINED, BoundQuery
from projections.emulator.scopes import Scope
from projections.emulator.storage import Item, Storage

_ID = ("id",)


def candidates(storage: Storage, container: Container, bound: BoundQuery, scope: Scope) -> list[Item] | None:
    """The items worth looking at, by age; None when the query has to look at all in scope."""
    points = bound.points()
    if points is None:
        return None
    pins = [_pin(container, point, scope) for point in points]
    if any(epk is None and item_id is None for epk, item_id in pins):
        return None
    found: dict[int, Item] = {}
    loose: list[str] = []
    whole = {epk for epk, item_id in pins if item_id is None}
    for epk in whole:
        found |= {item.row: item for item in storage.of_key(container.number, epk or "")}
    for epk, item_id in pins:
        if item_id is None or epk in whole:
            continue
        if epk is None:
            loose.append(item_id)
        elif (item := storage.item(container.number, epk, item_id)) is not None:
            found[item.row] = item
    found |= {item.row: item for item in storage.by_ids(container.number, loose)}
    return [found[row] for row in sorted(found)]


def pins_one_key(container: Container, bound: BoundQuery) -> bool:
    """Whether the WHERE fixes the whole partition key to one value, so that no cross-partition flag is needed."""
    points = bound.points()
    if not points:
        return False
    keys = {_epk(container, point) for point in points}
    return len(keys) == 1 and None not in keys


def _pin(container: Container, point: Mapping[tuple[str, ...], Any], scope: Scope) -> tuple[str | None, str | None]:
    item_id = point.get(_ID)
    epk = scope.key.epk if scope.key is not None and scope.key.full else _epk(container, point)
    return epk, item_id if isinstance(item_id, str) else None


def _epk(container: Container, point: Mapping[tuple[str, ...], Any]) -> str | None:
    values: list[Component] = []
    for path in container.key.paths:
        if path not in point:
            return None
        value = point[path]
        if value is UNDEFINED:
            value = ABSENT
        elif isinstance(value, (list, dict)):
            return None
        values.append(value)
    try:
        return container.key.epk_of(values)
    except ServiceError:
        return None
