"""Aggregate functions. Undefined values are skipped; a result that has no value is undefined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from .values import UNDEFINED, is_number, number, sort_key


class Accumulator(Protocol):
    """A running aggregate over one group."""

    def add(self, value: Any) -> None:
        """Takes one value in; the caller leaves undefined ones out."""

    def result(self) -> Any:
        """The aggregate of what was added."""


class _Count:
    def __init__(self) -> None:
        self._count = 0

    def add(self, value: Any) -> None:
        self._count += 1

    def result(self) -> Any:
        return self._count


class _CountIf(_Count):
    def add(self, value: Any) -> None:
        self._count += value is True


class _Sum:
    """SUM of nothing is undefined, and one value that is no number makes the whole undefined."""

    def __init__(self) -> None:
        self._sum: Any = UNDEFINED
        self._count = 0
        self._broken = False

    def add(self, value: Any) -> None:
        self._broken = self._broken or not is_number(value)
        if not self._broken:
            self._sum = self._sum + value if self._count else value
            self._count += 1

    def result(self) -> Any:
        return UNDEFINED if self._broken or not self._count else number(self._sum)


class _Average(_Sum):
    def result(self) -> Any:
        total = super().result()
        return total if total is UNDEFINED else number(total / self._count)


class _Extreme:
    """MIN or MAX over the order of all values. Arrays and objects take no part: they make it undefined."""

    def __init__(self, sign: int) -> None:
        self._sign = sign
        self._best: Any = UNDEFINED
        self._broken = False

    def add(self, value: Any) -> None:
        self._broken = self._broken or isinstance(value, (list, dict))
        if self._broken or self._best is UNDEFINED:
            self._best = value
            return
        key, best = sort_key(value), sort_key(self._best)
        if (key < best) if self._sign < 0 else (key > best):
            self._best = value

    def result(self) -> Any:
        return UNDEFINED if self._broken else self._best


AGGREGATES: Final[dict[str, Callable[[], Accumulator]]] = {
    "COUNT": _Count,
    "COUNTIF": _CountIf,
    "SUM": _Sum,
    "AVG": _Average,
    "MIN": lambda: _Extreme(-1),
    "MAX": lambda: _Extreme(1),
}
