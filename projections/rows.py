"""From an item to rows: what its entries are made from, one each.

An Index without `each` has the item itself for its only row. With `each`, every element of an array is a row: the item
with the element in the place of the array. A Custom projection's function says what the rows are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from projections.aggregate import Aggregate
from projections.declare import Custom, Index, Projection, Rowed
from projections.errors import ItemError
from projections.keys import Undefined, at, parse_path, problem

Item: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """What one entry is made from. `element` tells it from the item's other rows; None: there is but one."""

    values: Item
    element: str | None = None


@dataclass(frozen=True)
class _Element:
    """A row that is not told from its neighbours yet."""

    values: Item
    position: tuple[int, ...]
    value: Any  # the element itself


def rows(projection: Projection, item: Item, modelled: BaseModel | None = None) -> list[Row]:
    """The rows of an item. `modelled`: the item as the projection's model sees it, where there is one.

    Raises:
        ItemError: there is something else than an array, rows cannot be told apart, or a function fails.
    """
    if isinstance(projection, Custom):
        return _told_apart(projection, list(_made(projection, item if modelled is None else modelled)))
    if isinstance(projection, Index) and projection.each is not None:
        return _told_apart(projection, list(_elements(item, projection.each)))
    if isinstance(projection, Aggregate) and projection.each is not None:
        return [Row(element.values) for element in _elements(item, projection.each)]  # a group asks for no more
    return [Row(item)]


# each


def _elements(item: Item, each: str) -> Iterator[_Element]:
    """One for every element of the array, or of the arrays within arrays."""
    arrays: list[tuple[str, ...]] = [()]
    for name in parse_path(each):
        if name == "*":
            arrays.append(arrays[-1])
        else:
            arrays[-1] = (*arrays[-1], name)
    return _taken_apart(_Element(item, (), None), arrays)


def _taken_apart(outer: _Element, arrays: Sequence[tuple[str, ...]]) -> Iterator[_Element]:
    if not arrays:
        yield outer
        return
    found = at(outer.values, arrays[0])
    if found is None or isinstance(found, Undefined):
        return
    if not isinstance(found, list):
        path = "/" + "/".join(arrays[0])
        raise ItemError(f"{path} is no array", path=path, hint="mend the item")
    for number, element in enumerate(found):
        values = _with(outer.values, arrays[0], element)
        yield from _taken_apart(_Element(values, (*outer.position, number), element), arrays[1:])


def _with(values: Item, path: Sequence[str], value: Any) -> Item:
    """The same with another value at a path; nothing that was given is changed."""
    name, *rest = path
    return {**values, name: _with(values[name], rest, value) if rest else value}


# functions


def _made(projection: Custom, argument: Any) -> Iterator[_Element]:
    """What the function makes of an item, seen to be the same twice, and to leave the item alone."""
    given = argument.model_dump(mode="json") if isinstance(argument, BaseModel) else deepcopy(dict(argument))
    first, second = _call(projection, argument), _call(projection, argument)
    if first != second:
        raise ItemError(
            "project gave other rows for the same item when called again",
            hint="make it depend on nothing but the item: no clock, no random numbers, nothing it remembers",
        )
    left = argument.model_dump(mode="json") if isinstance(argument, BaseModel) else argument
    if left != given:
        raise ItemError("project changed the item it was given", hint="let it make new rows and leave the item alone")
    return (_Element(row, (number,), row) for number, row in enumerate(first))


def _call(projection: Custom, argument: Any) -> list[dict[str, Any]]:
    try:
        return [_row(row) for row in projection.project(argument)]
    except ItemError:
        raise
    except Exception as error:
        raise ItemError(f"project raised {type(error).__name__}", hint="make project fit every item") from error


def _row(row: Any) -> dict[str, Any]:
    """A row as the store will have it, and nobody else's to change."""
    document = row.model_dump(mode="json") if isinstance(row, BaseModel) else row
    if not isinstance(document, Mapping):
        raise ItemError(f"project gave a {type(row).__name__}", hint="give dicts or pydantic models, in a list")
    try:
        text = json.dumps(document, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ItemError(f"project gave a row that is no JSON ({type(error).__name__})", hint="give JSON") from error
    made: dict[str, Any] = json.loads(text)
    return made


# which is which


def _told_apart(projection: Rowed, elements: Sequence[_Element]) -> list[Row]:
    told: dict[str, Row] = {}
    for element in elements:
        row = Row(element.values, _element_text(_telling(projection, element)))
        assert row.element is not None
        if row.element in told and projection.by != "value":
            if projection.duplicates == "deadletter":
                raise ItemError(
                    f"two elements with the same {', '.join(projection.by)} (the second is number {element.position})",
                    path=projection.by[0],
                    hint='mend the item, declare duplicates="first" or "last", or tell elements apart by more paths',
                )
            if projection.duplicates == "first":
                continue
        told[row.element] = row
    return list(told.values())


def _telling(projection: Rowed, element: _Element) -> list[Any]:
    """The values that tell an element from the others of its item."""
    if projection.by == "position":
        return list(element.position)
    if projection.by == "value":
        return [element.value]
    return [_scalar(element, path) for path in projection.by]


def _scalar(element: _Element, path: str) -> Any:
    value = at(element.values, parse_path(path))
    reason = problem(value)
    if reason:
        what = _WHAT[reason]
        raise ItemError(
            f"element number {element.position} has {what} at {path}, which tells elements apart",
            path=path,
            hint='mend the item, or declare by="position"',
        )
    return value


_WHAT: Final = {"missing": "nothing", "null": "null", "other": "no scalar"}


def _element_text(telling: list[Any]) -> str:
    """What an entry's id is made from, beside the item's identity."""
    # stored; change with a version: sorted ASCII JSON of the values
    return json.dumps(telling, sort_keys=True, separators=(",", ":"))
