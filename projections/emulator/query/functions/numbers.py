"""Mathematical functions. A result that is no finite number is undefined."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from ..values import UNDEFINED, number
from .registry import register


def _computed(name: str, kinds: str, compute: Callable[..., Any]) -> None:
    def run(*values: Any) -> Any:
        try:
            return number(compute(*values))
        except (ArithmeticError, ValueError):
            return UNDEFINED

    register(name, kinds, run)


def _round(value: float) -> float:
    """Half away from zero."""
    return math.copysign(math.floor(abs(value) + 0.5), value) if isinstance(value, float) else value


def _log(value: float, base: float = math.e) -> float:
    return math.log(value) if base == math.e else math.log(value, base)


def _bin(value: float, size: float = 1) -> float:
    return math.floor(value / size) * size


def _whole(compute: Callable[[int, int], int]) -> Callable[[float, float], Any]:
    """A function of 64-bit integers."""

    def run(left: float, right: float) -> Any:
        result = compute(int(left), int(right))
        return result if -(2**63) <= result < 2**63 else UNDEFINED

    return run


def _whole_or_undefined(name: str, compute: Callable[[int, int], int]) -> None:
    guarded = _whole(compute)

    def run(left: float, right: float) -> Any:
        try:
            return guarded(left, right)
        except (ArithmeticError, ValueError):
            return UNDEFINED

    register(name, "ii", run)


def _quotient(left: int, right: int) -> int:
    """Towards zero."""
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _shift_left(value: int, places: int) -> int:
    return (value << places) if 0 <= places < 64 else 0


def _shift_right(value: int, places: int) -> int:
    return (value >> places) if 0 <= places < 64 else 0


_computed("ABS", "n", abs)
_computed("CEILING", "n", math.ceil)
_computed("FLOOR", "n", math.floor)
_computed("ROUND", "n", _round)
_computed("TRUNC", "n", math.trunc)
_computed("SQRT", "n", math.sqrt)
_computed("SQUARE", "n", lambda value: value * value)
_computed("POWER", "nn", math.pow)
_computed("EXP", "n", math.exp)
_computed("LOG", "n|n", _log)
_computed("LOG10", "n", math.log10)
_computed("SIGN", "n", lambda value: (value > 0) - (value < 0))
_computed("PI", "", lambda: math.pi)
_computed("SIN", "n", math.sin)
_computed("COS", "n", math.cos)
_computed("TAN", "n", math.tan)
_computed("COT", "n", lambda value: 1 / math.tan(value))
_computed("ASIN", "n", math.asin)
_computed("ACOS", "n", math.acos)
_computed("ATAN", "n", math.atan)
_computed("ATN2", "nn", math.atan2)
_computed("DEGREES", "n", math.degrees)
_computed("RADIANS", "n", math.radians)
_computed("NUMBERBIN", "n|n", _bin)
register("RAND", "", random.random)

_whole_or_undefined("INTADD", int.__add__)
_whole_or_undefined("INTSUB", int.__sub__)
_whole_or_undefined("INTMUL", int.__mul__)
_whole_or_undefined("INTDIV", _quotient)
_whole_or_undefined("INTMOD", lambda left, right: left - _quotient(left, right) * right)
_whole_or_undefined("INTBITAND", int.__and__)
_whole_or_undefined("INTBITOR", int.__or__)
_whole_or_undefined("INTBITXOR", int.__xor__)
_whole_or_undefined("INTBITLEFTSHIFT", _shift_left)
_whole_or_undefined("INTBITRIGHTSHIFT", _shift_right)
register("INTBITNOT", "i", lambda value: ~int(value))
