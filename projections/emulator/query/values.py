"""JSON values as the query language sees them: types, equality, order."""

from __future__ import annotations

import math
from typing import Any, Final


class _Undefined:
    """The type of `UNDEFINED`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __bool__(self) -> bool:
        return False


UNDEFINED: Final = _Undefined()
"""The value of something that is not there. It never leaves the engine in a result."""

_RANKS: dict[type, int] = {_Undefined: 0, type(None): 1, bool: 2, int: 3, float: 3, str: 4, list: 5, dict: 6}
NUMBER: Final = 3


def rank(value: Any) -> int:
    """The place of a value's type in the order undefined < null < boolean < number < string < array < object."""
    return _RANKS[type(value)]


def is_number(value: Any) -> bool:
    """True for numbers; to Python a boolean is one too, here it is not."""
    return type(value) is int or type(value) is float


def identity(value: Any) -> Any:
    """A hashable stand-in, equal for equal values: 1 and 1.0 are one value, 1 and true are two."""
    kind = type(value)
    if kind is bool:
        return (bool, value)
    if kind is list:
        return (list, tuple(map(identity, value)))
    if kind is dict:
        return (dict, frozenset((key, identity(item)) for key, item in value.items()))
    return value


def sort_key(value: Any) -> tuple[int, Any]:
    """A key that orders any two values: first by type, then inside the type. Strings go by code point."""
    kind = type(value)
    if kind is list:
        return (5, [sort_key(item) for item in value])
    if kind is dict:
        return (6, [(key, sort_key(value[key])) for key in sorted(value)])
    if value is None or value is UNDEFINED:
        return (_RANKS[kind], 0)
    return (_RANKS[kind], value)


def equals(left: Any, right: Any) -> Any:
    """`left = right`: deep for arrays and objects, undefined between values of different types."""
    kind = rank(left)
    if kind != rank(right) or not kind:
        return UNDEFINED
    if kind >= rank([]):
        return identity(left) == identity(right)
    return left == right


def differs(left: Any, right: Any) -> Any:
    """`left != right`: like `=`, undefined between values of different types."""
    same = equals(left, right)
    return same if same is UNDEFINED else not same


def less(left: Any, right: Any) -> Any:
    """`left < right`; undefined across types and for arrays and objects, which have no such order."""
    kind = rank(left)
    if kind != rank(right) or not 0 < kind < rank([]):
        return UNDEFINED
    return False if left is None else left < right


def at_most(left: Any, right: Any) -> Any:
    """`left <= right`."""
    more = less(right, left)
    return more if more is UNDEFINED else not more


def number(value: float) -> Any:
    """A computed number as JSON shows it: 2.0 as 2; what is no finite number is undefined."""
    if type(value) is int:
        return value
    if not math.isfinite(value):
        return UNDEFINED
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
