"""Finds what a WHERE pins: sets of `property path -> value` of which a document must fit one to match."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .expressions import constant
from .filters import equality
from .scope import Scope
from .syntax import Call, Compare, In, Literal, Logical, Name, Node, Path, Select, Unary
from .values import UNDEFINED, identity

Point = dict[tuple[str, ...], Any]
MAX_POINTS = 10_000  # more than this many combinations of IN lists narrow nothing worth the memory


def find_points(query: Select, scope: Scope) -> list[Point] | None:
    """The points of a query's WHERE, None if it does not narrow the documents down."""
    source = query.sources[0] if query.sources else None
    # only where the first name of FROM stands for the document itself
    if source is None or query.where is None or source.each or isinstance(source.collection, Select):
        return None
    if source.collection.steps:
        return None
    alias = source.alias or source.collection.name
    return _points(query.where, _Root(alias, scope))


class _Root:
    """How paths of the document are told from other expressions."""

    def __init__(self, alias: str, scope: Scope) -> None:
        self.alias = alias
        self.scope = scope

    def path(self, node: Node) -> tuple[str, ...] | None:
        """`("a", "b")` for `alias.a["b"]`, None for anything else."""
        if not isinstance(node, Path) or node.base != Name(self.alias):
            return None
        keys = tuple(step.value for step in node.steps if isinstance(step, Literal) and isinstance(step.value, str))
        return keys if len(keys) == len(node.steps) else None


def _points(node: Node, root: _Root) -> list[Point] | None:
    if isinstance(node, Logical):
        parts = (_points(term, root) for term in node.terms)
        return _either(parts) if node.operator == "OR" else _both(parts)
    absent = _absent(node, root)
    if absent is not None:
        return [{absent: UNDEFINED}]
    if isinstance(node, In):
        return _listed(node, root)
    found = equality(node, root.scope)
    path = root.path(found[0]) if found else None
    return [{path: found[1]}] if found and path and _is_scalar(found[1]) else None


def _is_scalar(value: Any) -> bool:
    return value is not UNDEFINED and not isinstance(value, (list, dict))


def _listed(node: In, root: _Root) -> list[Point] | None:
    path, wanted = root.path(node.needle), [constant(item, root.scope) for item in node.items]
    if path is None or not all(value is not NotImplemented and _is_scalar(value) for value in wanted):
        return None
    return [{path: value} for value in {identity(value): value for value in wanted}.values()]


def _absent(node: Node, root: _Root) -> tuple[str, ...] | None:
    """The path of `NOT IS_DEFINED(path)` or `IS_DEFINED(path) = false`."""
    call: Node | None = None
    if isinstance(node, Unary) and node.operator == "NOT":
        call = node.operand
    elif isinstance(node, Compare) and node.operator == "=":
        if constant(node.right, root.scope) is False:
            call = node.left
        elif constant(node.left, root.scope) is False:
            call = node.right
    return (
        root.path(call.arguments[0])
        if isinstance(call, Call) and call.name == "IS_DEFINED" and call.arguments
        else None
    )


def _either(parts: Iterable[list[Point] | None]) -> list[Point] | None:
    points: list[Point] = []
    for part in parts:
        if part is None:
            return None
        points.extend(part)
    return points


def _both(parts: Iterable[list[Point] | None]) -> list[Point] | None:
    """Every combination that does not contradict itself; conditions that pin nothing leave the others as they are."""
    result: list[Point] | None = None
    for part in parts:
        if part is None:
            continue
        if result is None:
            result = part
        elif len(result) * len(part) > MAX_POINTS:
            result = min(result, part, key=len)
        else:
            merged = (_merged(left, right) for left in result for right in part)
            result = [point for point in merged if point is not None]
    return result


def _merged(left: Point, right: Point) -> Point | None:
    for path in left.keys() & right.keys():
        if identity(left[path]) != identity(right[path]):
            return None
    return {**left, **right}
