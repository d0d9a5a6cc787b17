"""Arithmetic, bitwise and text operators. An operand of the wrong type makes the result undefined."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from .values import UNDEFINED, is_number, number


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        if not is_number(left) or not is_number(right):
            return UNDEFINED
        try:
            return number(compute(left, right))
        except (ArithmeticError, ValueError):
            return UNDEFINED

    return apply


def _bits(value: float) -> int:
    """A number as the signed 32-bit integer that bitwise operators work on, as in JavaScript."""
    if not math.isfinite(value):
        return 0
    low = math.trunc(value) & 0xFFFFFFFF
    return low - 2**32 if low & 0x80000000 else low


def _bitwise(compute: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    return _arithmetic(lambda left, right: compute(_bits(left), _bits(right)))


def _remainder(left: float, right: float) -> float:
    """`%` with the sign of the dividend."""
    if type(left) is int and type(right) is int:
        return int(math.copysign(1, left)) * (abs(left) % abs(right))
    return math.fmod(left, right)


def _concat(left: Any, right: Any) -> Any:
    return left + right if isinstance(left, str) and isinstance(right, str) else UNDEFINED


def _not(value: Any) -> Any:
    return not value if isinstance(value, bool) else UNDEFINED


BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _arithmetic(operator.truediv),
    "%": _arithmetic(_remainder),
    "&": _bitwise(operator.and_),
    "|": _bitwise(operator.or_),
    "^": _bitwise(operator.xor),
    "||": _concat,
}

UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "NOT": _not,
    "-": lambda value: -value if is_number(value) else UNDEFINED,
    "+": lambda value: value if is_number(value) else UNDEFINED,
    "~": lambda value: ~_bits(value) if is_number(value) else UNDEFINED,
}
