"""The query plan a client asks for when it merges the partition ranges itself.

The plan names what to merge (order, aggregates, groups, windows) and a rewritten query to send to each range, whose
rows carry what the merge needs: `{"_rid", "orderByItems", "payload"}`, `[{"item": partial}]` or
`{"groupByItems", "payload"}`. The rewritten query is one this engine runs like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from .aggregates import AGGREGATES
from .engine import BoundQuery, Parameters, compile_query
from .errors import QueryError
from .render import render
from .select import named
from .syntax import ArrayOf, Call, Item, Literal, Logical, Name, Node, ObjectOf, Path, Select, walk

PLAN_NAMES: Final = {
    "COUNT": "Count",
    "COUNTIF": "CountIf",
    "SUM": "Sum",
    "AVG": "Average",
    "MIN": "Min",
    "MAX": "Max",
}
_FILTER: Final = "{documentdb-formattableorderbyquery-filter}"
_FULL_RANGE: Final = {"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}


def query_plan(text: str, parameters: Parameters = None, partition_key_paths: Sequence[str] = ()) -> dict[str, Any]:
    """The `partitionedQueryExecutionInfo` of a query.

    The ranges are always the whole key space: a client visits every range, which is right if not the least work.
    `partition_key_paths` is what a narrower answer would need.
    """
    try:
        info = _query_info(compile_query(text).bind(parameters))
    except RecursionError:
        raise QueryError("The query is nested too deeply.") from None
    return {
        "partitionedQueryExecutionInfoVersion": 2,
        "queryInfo": info,
        "queryRanges": [dict(_FULL_RANGE)],
    }


def _query_info(bound: BoundQuery) -> dict[str, Any]:
    tree = bound.query.tree
    grouped = bool(tree.group_by)
    sorts = tree.order_by
    return {
        "distinctType": _distinct_type(tree),
        "top": bound.top,
        "offset": bound.offset,
        "limit": bound.limit,
        "orderBy": ["Descending" if sort.descending else "Ascending" for sort in sorts],
        "orderByExpressions": [render(sort.expression) for sort in sorts],
        "groupByExpressions": [render(part) for part in tree.group_by],
        "groupByAliases": [name for name, _ in named(tree.items)] if grouped else [],
        "aggregates": [] if grouped else [PLAN_NAMES[call.name] for call in _aggregate_calls(tree)],
        "groupByAliasToAggregateType": _aggregate_aliases(tree) if grouped else {},
        "rewrittenQuery": _rewritten(tree, bound),
        "hasSelectValue": bound.query.is_value,
        "dCountInfo": None,
        "hasNonStreamingOrderBy": False,
    }


def _selected(tree: Select) -> list[Node]:
    return [tree.value] if tree.value is not None else [item.expression for item in tree.items]


def _aggregate_calls(tree: Select) -> list[Call]:
    parts = (part for root in _selected(tree) for part in walk(root))
    return [part for part in parts if isinstance(part, Call) and part.name in AGGREGATES]


def _distinct_type(tree: Select) -> str:
    """`Ordered` if equal rows come one after the other, so that a client need only look at the last."""
    if not tree.distinct:
        return "None"
    selected = set(_selected(tree))
    leading = {sort.expression for sort in tree.order_by[: len(selected)]}
    return "Ordered" if selected and selected == leading else "Unordered"


def _aggregate_aliases(tree: Select) -> dict[str, str | None]:
    return {name: _plan_name(item.expression) for name, item in named(tree.items)}


def _plan_name(node: Node) -> str | None:
    return PLAN_NAMES.get(node.name) if isinstance(node, Call) else None


def _rewritten(tree: Select, bound: BoundQuery) -> str:
    """The query for one range; empty where the query itself serves."""
    if tree.group_by:
        return render(_grouped(tree))
    if bound.query.has_aggregate:
        return render(_partial(tree))
    if tree.order_by:
        return render(_ordered(tree, bound)).replace(f'"{_FILTER}"', _FILTER)
    if bound.offset is not None:
        return render(_unwindowed(tree, bound))
    return ""


def _unwindowed(tree: Select, bound: BoundQuery) -> Select:
    """A range must give the rows that the client will skip, so it starts at 0; before DISTINCT it cannot stop."""
    if tree.distinct:
        return replace(tree, distinct=False, top=None, offset=None, limit=None)
    if bound.offset is None or bound.limit is None:
        return tree
    return replace(tree, offset=Literal(0), limit=Literal(bound.offset + bound.limit))


def _ordered(tree: Select, bound: BoundQuery) -> Select:
    items = ArrayOf(tuple(_item_of(sort.expression) for sort in tree.order_by))
    placeholder = Literal(_FILTER)
    return replace(
        _unwindowed(tree, bound),
        star=False,
        value=None,
        items=(
            Item(Path(Name(_alias(tree)), (Literal("_rid"),)), None),
            Item(items, "orderByItems"),
            Item(_payload(tree), "payload"),
        ),
        where=Logical("AND", (tree.where, placeholder)) if tree.where is not None else placeholder,
    )


def _payload(tree: Select) -> Node:
    """What the query selects, as one expression."""
    if tree.star:
        return Name(_alias(tree))
    if tree.value is not None:
        return tree.value
    return ObjectOf(tuple((name, item.expression) for name, item in named(tree.items)))


def _alias(tree: Select) -> str:
    source = tree.sources[0] if tree.sources else None
    if source is None or isinstance(source.collection, Select):
        raise QueryError("A query plan with ORDER BY needs a FROM that names its source.")
    return source.alias or source.collection.name


def _partial(tree: Select) -> Select:
    """`[{"item": partial}]` for each aggregate; sorting and windows apply to the merged row, not here."""
    items = tuple(_item_of(_partial_of(call)) for call in _aggregate_calls(tree))
    return replace(tree, value=ArrayOf(items), items=(), distinct=False, top=None, order_by=(), offset=None, limit=None)


def _partial_of(call: Call) -> Node:
    if call.name != "AVG":
        return call
    return ObjectOf((("sum", Call("SUM", call.arguments)), ("count", Call("COUNT", call.arguments))))


def _grouped(tree: Select) -> Select:
    groups = ArrayOf(tuple(_item_of(part) for part in tree.group_by))
    if tree.value is not None:
        payload = _group_item(tree.value)
    else:
        payload = ObjectOf(tuple((name, _group_item(item.expression)) for name, item in named(tree.items)))
    items = (Item(groups, "groupByItems"), Item(payload, "payload"))
    return replace(tree, value=None, items=items, distinct=False, top=None, order_by=(), offset=None, limit=None)


def _group_item(node: Node) -> Node:
    return _item_of(_partial_of(node)) if isinstance(node, Call) and node.name in AGGREGATES else node


def _item_of(node: Node) -> Node:
    return ObjectOf((("item", node),))
