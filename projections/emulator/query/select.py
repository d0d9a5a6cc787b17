"""Compiles whole queries: FROM and JOIN, WHERE, GROUP BY, SELECT, DISTINCT, ORDER BY, OFFSET/LIMIT and TOP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .aggregates import AGGREGATES, Accumulator
from .errors import QueryError
from .expressions import compile_expression, constant
from .filters import compile_filter
from .scope import Aggregate, Compiled, Env, GroupScope, Scope
from .sources import Envs, compile_sources
from .syntax import Call, Item, Literal, Name, Node, Path, Select, walk
from .values import UNDEFINED, identity, sort_key

Rows = Callable[[Env, Iterable[Any] | None], Iterator[Any]]
"""A compiled query: the row outside it and, for the outermost one, the documents; gives its rows."""


@dataclass(frozen=True)
class _Parts:
    """A query's clauses, compiled."""

    envs: Envs
    width: int  # how many slots a row of envs has
    project: Compiled
    grouped: bool
    group: tuple[Compiled, ...]
    aggregates: tuple[Aggregate, ...]
    order: tuple[tuple[Compiled, bool], ...]


def compile_select(node: Select, outer: Scope, root: bool = False) -> Rows:
    """The query as a function. `root`: the outermost query, whose FROM reads the documents."""
    envs, scope = compile_matches(node, outer, root)
    whole = is_aggregate(node) and not node.group_by
    selecting = GroupScope.over(scope) if whole or node.group_by else scope
    parts = _Parts(
        envs,
        scope.width,
        project=_projection(node, selecting),
        grouped=selecting is not scope,
        group=tuple(compile_expression(part, scope) for part in node.group_by),
        # the names have no value in the one row of an aggregate: sorting it is allowed and does nothing
        order=()
        if whole
        else tuple((compile_expression(part.expression, selecting), part.descending) for part in node.order_by),
        aggregates=tuple(selecting.aggregates) if isinstance(selecting, GroupScope) else (),
    )
    distinct, window = node.distinct, _window(node, scope)

    def rows(env: Env, documents: Iterable[Any] | None) -> Iterator[Any]:
        found = _values(parts, env, documents)
        return window(_distinct(found) if distinct else found)

    return rows


def compile_matches(node: Select, outer: Scope, root: bool) -> tuple[Envs, Scope]:
    """FROM, JOIN and WHERE: the rows that pass, and the scope they are in."""
    envs, scope = compile_sources(node.sources, outer, root)
    if node.where is None:
        return envs, scope
    test = compile_filter(node.where, scope)
    return (lambda env, documents: (row for row in envs(env, documents) if test(row))), scope


def is_aggregate(node: Select) -> bool:
    """Whether the query's own select list aggregates; subqueries are their own affair."""
    parts = (part for root in (node.value, *(item.expression for item in node.items)) if root for part in walk(root))
    return any(isinstance(part, Call) and part.name in AGGREGATES for part in parts)


def _values(parts: _Parts, env: Env, documents: Iterable[Any] | None) -> Iterator[Any]:
    rows = parts.envs(env, documents)
    if parts.grouped:
        rows = _grouped(parts, rows, env)
    if parts.order:
        rows = iter(_sorted(list(rows), parts.order))
    for row in rows:
        value = parts.project(row)
        if value is not UNDEFINED:
            yield value


def _sorted(rows: list[Env], order: tuple[tuple[Compiled, bool], ...]) -> list[Env]:
    """Sorted by the last key first; the sort is stable, also downwards, so the first key wins."""
    for value, descending in reversed(order):
        rows.sort(key=lambda row, value=value: sort_key(value(row)), reverse=descending)  # type: ignore[misc]
    return rows


def _grouped(parts: _Parts, rows: Iterable[Env], outside: Env) -> Iterator[Env]:
    """A row for each group: its first row, followed by the list of the aggregates' results."""
    groups: dict[Any, tuple[Env, list[Accumulator]]] = {}
    if not parts.group:  # one group, also of no rows
        groups[()] = ((*outside, *[UNDEFINED] * (parts.width - len(outside))), _accumulators(parts))
    for row in rows:
        key = tuple([identity(part(row)) for part in parts.group])
        if key not in groups:
            groups[key] = (row, _accumulators(parts))
        for aggregate, accumulator in zip(parts.aggregates, groups[key][1], strict=True):
            value = aggregate.argument(row)
            if value is not UNDEFINED:
                accumulator.add(value)
    for row, accumulators in groups.values():
        yield (*row, [accumulator.result() for accumulator in accumulators])


def _accumulators(parts: _Parts) -> list[Accumulator]:
    return [AGGREGATES[aggregate.function]() for aggregate in parts.aggregates]


def _distinct(values: Iterable[Any]) -> Iterator[Any]:
    seen: set[Any] = set()
    for value in values:
        key = identity(value)
        if key not in seen:
            seen.add(key)
            yield value


def _window(node: Select, scope: Scope) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """OFFSET, LIMIT and TOP."""
    start = count(node.offset, "OFFSET", scope) or 0
    limits = [
        limit for limit in (count(node.limit, "LIMIT", scope), count(node.top, "TOP", scope)) if limit is not None
    ]
    if not limits:
        return lambda rows: rows
    stop = start + min(limits)
    return lambda rows: islice(rows, start, stop)


def count(node: Node | None, clause: str, scope: Scope) -> int | None:
    """The number of TOP, OFFSET or LIMIT."""
    if node is None:
        return None
    value = constant(node, scope)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        raise QueryError(f"{clause} needs a whole number that is not negative.")
    return value


def _projection(node: Select, scope: Scope) -> Compiled:
    if node.value is not None:
        return compile_expression(node.value, scope)
    if node.star:
        if len(node.sources) != 1 or node.group_by:
            raise QueryError("'SELECT *' is only valid with a single input set and without GROUP BY.")
        slot = scope.width - 1
        return lambda env: env[slot]
    items = [(name, compile_expression(item.expression, scope)) for name, item in named(node.items)]
    return lambda env: {name: value for name, item in items if (value := item(env)) is not UNDEFINED}


def named(items: Iterable[Item]) -> list[tuple[str, Item]]:
    """The entries of a select list with their names: the alias, the last property, or $1, $2, …"""
    pairs: list[tuple[str, Item]] = []
    unnamed = 0
    for item in items:
        name = item.alias or _own_name(item.expression)
        if name is None:
            unnamed += 1
            name = f"${unnamed}"
        if any(name == other for other, _ in pairs):
            raise QueryError(f"The property '{name}' is selected twice; give one of them an alias.")
        pairs.append((name, item))
    return pairs


def _own_name(node: Node) -> str | None:
    if isinstance(node, Name):
        return node.name
    last = node.steps[-1] if isinstance(node, Path) else None
    return last.value if isinstance(last, Literal) and isinstance(last.value, str) else None
