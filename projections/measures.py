"""What can be known of a group in numbers: how items contribute to a measure, and how contributions make a total.

A measure has a value for each contribution and a state for each total, both JSON. Whatever is added up is decimal text,
and exact: 0.1 ten times is 1, and whole numbers beyond 2^53 keep every digit.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from base64 import b32encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from functools import cached_property
from typing import Any, Final, TypeAlias

from projections.declare import _field_path
from projections.errors import CatalogError, ItemError
from projections.keys import MAX_EXACT, Undefined, at, parse_path
from projections.where import kind

EXACT: Final = Context(prec=1_000, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow])
"""Nothing is rounded: a sum of numbers below LARGEST, down to the smallest double, has fewer than 500 digits."""
MEAN: Final = Context(prec=50)
LARGEST: Final = 10**100
MOST_TEXT: Final = 256
"""Characters of a text that min and max keep."""
MOST_VALUES: Final = 48
"""Distinct values of one item in one group: its old and its new ones have to fit into one transactional batch."""

Item: TypeAlias = Mapping[str, Any]
Scalar: TypeAlias = str | int | float | bool
Shown: TypeAlias = str | int | float | None
"""What a reader sees."""


class Measure(ABC):
    """One number, or text, that is kept of a group."""

    path: str | None = None

    def _check(self) -> None:
        try:
            object.__setattr__(self, "path", _field_path(self.path))
        except ValueError as error:
            name = type(self).__name__
            raise CatalogError(f"{name}: {error}", hint=f'write {name}("/total")') from None
        if self.path == "/_lsn":
            raise CatalogError(
                f"{type(self).__name__}: /_lsn is the feed's, and no part of an item", hint="use another field"
            )

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return parse_path(str(self.path))

    def _found(self, rows: Sequence[Item]) -> list[Any]:
        """The values of the measured field, where there are any: null and nothing contribute nothing."""
        values = [at(row, self._names) for row in rows]
        return [value for value in values if value is not None and not isinstance(value, Undefined)]

    @abstractmethod
    def contributed(self, rows: Sequence[Item]) -> Any:
        """What an item contributes with its rows of one group; None: nothing.

        Raises:
            ItemError: a value is of a type that the measure is not for.
        """

    @abstractmethod
    def changed(self, state: Any, old: Sequence[Any], new: Sequence[Any]) -> Any:
        """The state after some contributions were taken back and others made; None: of nothing at all."""

    @abstractmethod
    def shown(self, state: Any) -> Shown:
        """What a reader sees."""

    @abstractmethod
    def combined(self, states: Sequence[Any]) -> Any:
        """The state of several groups together."""


@dataclass(frozen=True)
class Count(Measure):
    """How many items; with `each`, how many elements."""

    def contributed(self, rows: Sequence[Item]) -> Any:
        # stored; change with a version
        return len(rows)

    def changed(self, state: Any, old: Sequence[Any], new: Sequence[Any]) -> Any:
        # stored; change with a version
        return (state or 0) - sum(old) + sum(new)

    def shown(self, state: Any) -> Shown:
        return state or 0

    def combined(self, states: Sequence[Any]) -> Any:
        return self.changed(None, (), states)


@dataclass(frozen=True)
class Sum(Measure):
    """The sum of a number."""

    path: str

    def __post_init__(self) -> None:
        self._check()

    def contributed(self, rows: Sequence[Item]) -> Any:
        # stored; change with a version
        found = self._found(rows)
        return added(decimal(value, self.path, self) for value in found) if found else None

    def changed(self, state: Any, old: Sequence[Any], new: Sequence[Any]) -> Any:
        # stored; change with a version
        return added([*_read([state or "0"]), *_taken(_read(old)), *_read(new)])

    def shown(self, state: Any) -> Shown:
        return plain_number(state or "0")

    def combined(self, states: Sequence[Any]) -> Any:
        return self.changed(None, (), states)


@dataclass(frozen=True)
class Avg(Measure):
    """The mean of a number, over the items that have it."""

    path: str

    def __post_init__(self) -> None:
        self._check()

    def contributed(self, rows: Sequence[Item]) -> Any:
        # stored; change with a version
        found = self._found(rows)
        if not found:
            return None
        return {"sum": added(decimal(value, self.path, self) for value in found), "count": len(found)}

    def changed(self, state: Any, old: Sequence[Any], new: Sequence[Any]) -> Any:
        # stored; change with a version
        before = state or {"sum": "0", "count": 0}
        sums = [before["sum"], *(value["sum"] for value in new)]
        count = before["count"] - sum(value["count"] for value in old) + sum(value["count"] for value in new)
        left = added([*_read(sums), *_taken(_read([value["sum"] for value in old]))])
        return {"sum": left, "count": count} if count else None

    def shown(self, state: Any) -> Shown:
        if not state:
            return None
        return plain_number(decimal_text(MEAN.divide(Decimal(state["sum"]), Decimal(state["count"]))))

    def combined(self, states: Sequence[Any]) -> Any:
        return self.changed(None, (), states)


class LostExtremeError(Exception):
    """Every contribution that was known to have the extreme has left: the next one has to be looked for."""


@dataclass(frozen=True)
class Extreme(Measure):
    """The greatest or the least of numbers and text. As in the store's own order, every text is above every number."""

    path: str

    greatest = True

    def __post_init__(self) -> None:
        self._check()

    def contributed(self, rows: Sequence[Item]) -> Any:
        # stored; change with a version
        found = [comparable(value, self.path, self) for value in self._found(rows)]
        return self._best(found) if found else None

    def changed(self, state: Any, old: Sequence[Any], new: Sequence[Any]) -> Any:
        """`sharing`: how many contributions are known to have the value. There may be more.

        Raises:
            LostExtremeError: none is known any more, and what stays may have anything below it.
        """
        # stored; change with a version
        best = [*([state["value"]] if state else []), *new]
        if not best:
            return None
        value = self._best(best)
        sharing = sum(other == value for other in new)
        if state and state["value"] == value:
            sharing += state["sharing"] - sum(other == value for other in old)
        if sharing <= 0:
            raise LostExtremeError
        return {"value": value, "sharing": sharing}

    def shown(self, state: Any) -> Shown:
        return state["value"] if state else None

    def combined(self, states: Sequence[Any]) -> Any:
        best = self._best([state["value"] for state in states]) if states else None
        return {"value": best, "sharing": 1} if states else None

    def _best(self, values: Collection[Any]) -> Any:
        return (max if self.greatest else min)(values, key=lambda value: (isinstance(value, str), value))


@dataclass(frozen=True)
class Max(Extreme):
    """The greatest of numbers and text."""


@dataclass(frozen=True)
class Min(Extreme):
    """The least of numbers and text."""

    greatest = False


@dataclass(frozen=True)
class Distinct(Measure):
    """How many different values there are. Each has a document in its group, with the number of items that have it."""

    path: str

    def __post_init__(self) -> None:
        self._check()

    def contributed(self, rows: Sequence[Item]) -> Any:
        # stored; change with a version
        return sorted({digest(value, self.path) for value in self._found(rows)}) or None

    def changed(self, state: Any, old: Sequence[Any], new: Sequence[Any]) -> Any:
        """`old` and `new`: values of which the last contribution left, and the first one came."""
        # stored; change with a version
        return (state or 0) - len(old) + len(new)

    def shown(self, state: Any) -> Shown:
        return state or 0

    def combined(self, states: Sequence[Any]) -> Any:
        return sum(states)


# values


def decimal(value: Any, path: str, measure: Measure) -> Decimal:
    """A number as it is written in JSON, exactly.

    Raises:
        ItemError: it is none, or none that anybody adds up.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(value, path, measure, "numbers")
    _finite(value, path)
    return Decimal(repr(value))


def comparable(value: Any, path: str, measure: Measure) -> int | float | str:
    """A number or text, equal ones alike.

    Raises:
        ItemError: it is neither, or too long.
    """
    if isinstance(value, str):
        if len(value) > MOST_TEXT:
            raise ItemError(
                f"{path} is a text of {len(value):,} characters; min and max keep {MOST_TEXT}", path=path,
                hint="use a shorter field",
            )  # fmt: skip
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(value, path, measure, "numbers and text")
    _finite(value, path)
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT else value


def digest(value: Any, path: str) -> str:
    """What tells a value from others: 160 bits of SHA-256. Numbers go by their value, 7 and 7.0 are one.

    Raises:
        ItemError: it is an object or an array.
    """
    if not isinstance(value, str | int | float):
        raise ItemError(f"{path} is an {kind(value)}; distinct values are scalars", path=path, hint="mend the item")
    # stored; change with a version: ASCII JSON of the type and the value
    number = not isinstance(value, str | bool)
    if number:
        _finite(value, path)
    text = json.dumps([kind(value), decimal_text(Decimal(repr(value))) if number else value], separators=(",", ":"))
    return b32encode(hashlib.sha256(text.encode()).digest()[:20]).decode().lower()


def _finite(value: Any, path: str) -> None:
    if not abs(value) <= (1e100 if isinstance(value, float) else LARGEST):  # NaN is not, either
        raise ItemError(f"{path} is no number to reckon with: it is beyond 1e100", path=path, hint="mend the item")


def _wrong(value: Any, path: str, measure: Measure, takes: str) -> ItemError:
    return ItemError(
        f"{path} is a {kind(value)}; {type(measure).__name__} takes {takes}",
        path=path,
        hint="mend the item, or leave such items out with where",
    )


def added(values: Any) -> str:
    """The exact sum, as text."""
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, value)
    return decimal_text(total)


def decimal_text(value: Decimal) -> str:
    """The one way to write a number: no exponent, no zeros that mean nothing."""
    # stored; change with a version
    return format(value.normalize(EXACT), "f") if value else "0"


def plain_number(text: str) -> int | float:
    """What JSON readers take for the number: exact as long as a double can be."""
    whole = "." not in text
    return int(text) if whole and abs(int(text)) <= MAX_EXACT else float(text)


def _read(texts: Sequence[str]) -> list[Decimal]:
    return [Decimal(text) for text in texts]


def _taken(values: Sequence[Decimal]) -> list[Decimal]:
    return [value.copy_negate() for value in values]  # -value would round it to 28 digits
