"""Functions over arrays and objects."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from ..values import UNDEFINED, identity
from .registry import register


def _contains(items: list[Any], wanted: Any, partial: bool = False) -> bool:
    if partial and isinstance(wanted, dict):
        return any(_includes(item, wanted) for item in items)
    key = identity(wanted)
    return any(identity(item) == key for item in items)


def _includes(value: Any, wanted: dict[str, Any]) -> bool:
    """Whether an object has at least the wanted properties."""
    return isinstance(value, dict) and all(
        key in value and identity(value[key]) == identity(item) for key, item in wanted.items()
    )


def _slice(items: list[Any], start: float, length: float | None = None) -> list[Any]:
    """`ARRAY_SLICE`: a negative start counts from the end."""
    begin = int(start) if start >= 0 else max(len(items) + int(start), 0)
    return items[begin:] if length is None else items[begin : begin + max(int(length), 0)]


def _unique(items: Iterable[Any]) -> list[Any]:
    return list({identity(item): item for item in reversed(list(items))}.values())[::-1]


def _contains_any(items: list[Any], *wanted: Any) -> Any:
    """True if one is there; an undefined one leaves open what would be false."""
    if any(_contains(items, one) for one in wanted if one is not UNDEFINED):
        return True
    return UNDEFINED if UNDEFINED in wanted else False


def _contains_all(items: list[Any], *wanted: Any) -> Any:
    """False if one is missing; an undefined one leaves open what would be true."""
    if not all(_contains(items, one) for one in wanted if one is not UNDEFINED):
        return False
    return UNDEFINED if UNDEFINED in wanted else True


def _intersect(left: list[Any], right: list[Any]) -> list[Any]:
    keys = {identity(item) for item in right}
    return [item for item in _unique(left) if identity(item) in keys]


register("ARRAY_CONTAINS", "av|b", _contains)
register("ARRAY_CONTAINS_ANY", "ax*", _contains_any)
register("ARRAY_CONTAINS_ALL", "ax*", _contains_all)
register("ARRAY_LENGTH", "a", len)
register("ARRAY_SLICE", "an|n", _slice)
register("ARRAY_CONCAT", "aa*", lambda *arrays: list(chain(*arrays)))
register("SETINTERSECT", "aa", _intersect)
register("SETUNION", "aa", lambda left, right: _unique([*left, *right]))
register(
    "OBJECTTOARRAY", "o|ss", lambda value, key="k", item="v": [{key: name, item: part} for name, part in value.items()]
)
