"""The syntax tree: what the parser hands to the compiler, the point finder and the planner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """Any part of a query."""


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant; objects and arrays are `ObjectOf` and `ArrayOf`."""

    value: Any


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """`@name`, the sign included."""

    name: str


@dataclass(frozen=True, slots=True)
class Name(Node):
    """An identifier that FROM or JOIN declared."""

    name: str


@dataclass(frozen=True, slots=True)
class Path(Node):
    """`base.step[step]`; a named property is a step that is a string literal."""

    base: Node
    steps: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ArrayOf(Node):
    """`[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ObjectOf(Node):
    """`{"a": b}`."""

    items: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Group(Node):
    """Something in parentheses, until precedence.py knows whether it is a list or one expression."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function call; the name in upper case."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`NOT`, `-`, `+` or `~`."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Chain(Node):
    """Operators of the same level, applied from left to right: `a + b - c`."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """`=`, `!=`, `<`, `<=`, `>` or `>=`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logical(Node):
    """`AND` or `OR` over two or more terms, flattened."""

    operator: str
    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Coalesce(Node):
    """`a ?? b ?? c`."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """`condition ? then : otherwise`."""

    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class In(Node):
    """`needle IN (items)`."""

    needle: Node
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Between(Node):
    """`value BETWEEN low AND high`, both ends included."""

    value: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class Like(Node):
    """`text LIKE pattern ESCAPE escape`."""

    text: Node
    pattern: Node
    escape: Node | None


@dataclass(frozen=True, slots=True)
class Subquery(Node):
    """A query inside an expression: kind is `VALUE` (scalar), `EXISTS` or `ARRAY`."""

    kind: str
    query: Select


@dataclass(frozen=True, slots=True)
class Collection(Node):
    """`name.path` in FROM or JOIN."""

    name: str
    steps: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Source(Node):
    """One entry of FROM or JOIN; `each` is `alias IN collection`."""

    collection: Collection | Select
    alias: str | None
    each: bool


@dataclass(frozen=True, slots=True)
class Item(Node):
    """One entry of a select list."""

    expression: Node
    alias: str | None


@dataclass(frozen=True, slots=True)
class Sort(Node):
    """One entry of ORDER BY."""

    expression: Node
    descending: bool


@dataclass(frozen=True, slots=True)
class Select(Node):
    """A whole query. Exactly one of star, value and items says what is selected."""

    star: bool = False
    value: Node | None = None
    items: tuple[Item, ...] = ()
    distinct: bool = False
    top: Node | None = None
    sources: tuple[Source, ...] = ()
    where: Node | None = None
    group_by: tuple[Node, ...] = ()
    order_by: tuple[Sort, ...] = ()
    offset: Node | None = None
    limit: Node | None = None


def walk(node: Node, into_queries: bool = False) -> Iterator[Node]:
    """The node and everything under it; queries inside it only when asked for."""
    pending: list[Any] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            pending.extend(part)
        elif isinstance(part, Node):
            yield part
            if into_queries or part is node or not isinstance(part, Select):
                pending.extend(getattr(part, field.name) for field in fields(part))
