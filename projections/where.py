"""Typed predicates over items: `field("/status") == "open"`. Nothing is coerced: 1, "1" and true differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from projections.keys import UNDEFINED, Undefined, at, parse_path

Scalar: TypeAlias = str | int | float | bool | None
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]


def kind(value: Any) -> str:
    """The JSON type of a value: what the store would say it is."""
    if isinstance(value, Undefined):
        return "missing"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def same(one: Any, other: Any) -> bool:
    """Equal in type and value: 1 equals 1.0, but neither true nor "1"."""
    return kind(one) == kind(other) and bool(one == other)


class Predicate:
    """What `where=` takes. Combine with `&`, `|` and `~`."""

    def __call__(self, item: Mapping[str, Any]) -> bool:
        raise NotImplementedError

    def __and__(self, other: Predicate) -> Predicate:
        return All((self, other))

    def __or__(self, other: Predicate) -> Predicate:
        return Any_((self, other))

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a predicate is true of an item, not by itself: combine with &, | and ~, not with and, or, not")


@dataclass(frozen=True)
class Compare(Predicate):
    """A field beside a constant. Values of another type than the constant never match, except with `!=`."""

    path: str
    operator: Operator
    value: Scalar

    def __call__(self, item: Mapping[str, Any]) -> bool:
        found = at(item, parse_path(self.path))
        if self.operator == "=":
            return same(found, self.value)
        if self.operator == "!=":
            return not same(found, self.value)
        if kind(found) != kind(self.value) or kind(found) not in ("number", "string"):
            return False
        match self.operator:
            case "<":
                return bool(found < self.value)
            case "<=":
                return bool(found <= self.value)
            case ">":
                return bool(found > self.value)
            case _:
                return bool(found >= self.value)


@dataclass(frozen=True)
class In(Predicate):
    """A field that equals one of several constants, each by type and value."""

    path: str
    values: tuple[Scalar, ...]

    def __call__(self, item: Mapping[str, Any]) -> bool:
        found = at(item, parse_path(self.path))
        return any(same(found, value) for value in self.values)


@dataclass(frozen=True)
class Exists(Predicate):
    """A field that is there, null included."""

    path: str

    def __call__(self, item: Mapping[str, Any]) -> bool:
        return at(item, parse_path(self.path)) is not UNDEFINED


@dataclass(frozen=True)
class All(Predicate):
    parts: tuple[Predicate, ...]

    def __call__(self, item: Mapping[str, Any]) -> bool:
        return all(part(item) for part in self.parts)


@dataclass(frozen=True)
class Any_(Predicate):  # noqa: N801  (typing.Any has the better name)
    parts: tuple[Predicate, ...]

    def __call__(self, item: Mapping[str, Any]) -> bool:
        return any(part(item) for part in self.parts)


@dataclass(frozen=True)
class Not(Predicate):
    part: Predicate

    def __call__(self, item: Mapping[str, Any]) -> bool:
        return not self.part(item)


@dataclass(frozen=True, eq=False)
class field:  # noqa: N801  (reads as a word in a catalog)
    """A field of an item, to compare: `field("/total") >= 100`, `field("/status").is_in("open", "held")`."""

    path: str

    def __post_init__(self) -> None:
        parse_path(self.path)

    def __eq__(self, value: Scalar) -> Predicate:  # type: ignore[override]
        return Compare(self.path, "=", value)

    def __ne__(self, value: Scalar) -> Predicate:  # type: ignore[override]
        return Compare(self.path, "!=", value)

    def __lt__(self, value: Scalar) -> Predicate:
        return Compare(self.path, "<", value)

    def __le__(self, value: Scalar) -> Predicate:
        return Compare(self.path, "<=", value)

    def __gt__(self, value: Scalar) -> Predicate:
        return Compare(self.path, ">", value)

    def __ge__(self, value: Scalar) -> Predicate:
        return Compare(self.path, ">=", value)

    def is_in(self, *values: Scalar) -> Predicate:
        return In(self.path, values)

    def exists(self) -> Predicate:
        return Exists(self.path)
