"""The engine's front: a compiled query, and the same with its parameters bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from .errors import QueryError
from .parse import parse
from .points import Point, find_points
from .scope import Scope
from .select import compile_matches, compile_select, count, is_aggregate
from .syntax import Parameter, Select, walk

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""`{"@name": value}`, or the list of `{"name": "@name", "value": value}` that clients send."""


@lru_cache(maxsize=1000)
def compile_query(text: str) -> Query:
    """Reads a query, or a bare condition `FROM c WHERE …`. Raises `QueryError` if it is not one."""
    return Query(parse(text))


class Query:
    """A query whose parameters have no values yet. Immutable and safe to share."""

    def __init__(self, tree: Select) -> None:
        self.tree = tree
        self.parameter_names = frozenset(part.name for part in walk(tree, True) if isinstance(part, Parameter))
        self.is_value = tree.value is not None
        self.has_aggregate = is_aggregate(tree)
        self.has_group_by = bool(tree.group_by)
        self.has_distinct = tree.distinct
        self.has_order_by = bool(tree.order_by)
        self.has_top = tree.top is not None
        self.has_offset_limit = tree.offset is not None
        self.has_join = len(tree.sources) > 1
        whole = self.has_aggregate or self.has_group_by or self.has_distinct or self.has_order_by
        derived = any(isinstance(source.collection, Select) for source in tree.sources[:1])
        # rows stream one document at a time, whatever documents come before or after
        self.is_plain = bool(tree.sources) and not (whole or derived or self.has_top or self.has_offset_limit)
        # compiling once checks names, functions and clauses; 1 is a value that fits wherever a parameter may stand
        self.bind(dict.fromkeys(self.parameter_names, 1))

    def bind(self, parameters: Parameters = None) -> BoundQuery:
        """The query with values for its parameters. Raises `QueryError` for one that is missing or does not fit."""
        return BoundQuery(self, _values(parameters))


class BoundQuery:
    """A query ready to run, as often as wanted."""

    def __init__(self, query: Query, parameters: Mapping[str, Any]) -> None:
        self.query = query
        self._scope = Scope(parameters=parameters)
        try:
            self._rows = compile_select(query.tree, self._scope, root=True)
        except RecursionError:
            raise QueryError("The query is nested too deeply.") from None
        self.top = count(query.tree.top, "TOP", self._scope)
        self.offset = count(query.tree.offset, "OFFSET", self._scope)
        self.limit = count(query.tree.limit, "LIMIT", self._scope)
        whole = query.has_aggregate and query.is_value and not query.has_group_by
        self._is_one_value = whole and not self.offset and self.limit != 0 and self.top != 0

    def rows(self, documents: Iterable[Mapping[str, Any]], partial: bool = False) -> Iterator[Any]:
        """The answer over these documents, in their order unless sorted; one at a time where the query is plain.

        `SELECT VALUE` of an aggregate that has no value (MAX over nothing) is null in a whole answer. In a partial
        one, which a client merges with those of other ranges, it is no row: a null would be taken for a value.
        Raises `QueryError` for what only shows while running, such as a scalar subquery with two rows.
        """
        rows = self._rows((), documents)
        return rows if partial or not self._is_one_value else _or_null(rows)

    def matches(self, document: Mapping[str, Any]) -> bool:
        """Whether the document passes FROM, JOIN and WHERE."""
        return next(self._matches((), (document,)), None) is not None

    def points(self) -> list[Point] | None:
        """Paths and values of which a matching document has at least one set; None if WHERE pins nothing.

        A value of `UNDEFINED` says that the path is absent. The list may be wider than WHERE, never narrower.
        """
        return self._points

    @cached_property
    def _points(self) -> list[Point] | None:
        return find_points(self.query.tree, self._scope)

    @cached_property
    def _matches(self) -> Any:
        return compile_matches(self.query.tree, self._scope, root=True)[0]


def _or_null(rows: Iterator[Any]) -> Iterator[Any]:
    yield next(rows, None)


def _values(parameters: Parameters) -> Mapping[str, Any]:
    if parameters is None or isinstance(parameters, Mapping):
        return parameters or {}
    try:
        return {parameter["name"]: parameter["value"] for parameter in parameters}
    except (KeyError, TypeError):
        raise QueryError("A query parameter needs a name and a value.") from None
