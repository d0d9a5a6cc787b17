"""Writes syntax trees as text again, for the plans that clients run against single partition ranges."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from .parse import RESERVED
from .syntax import (
    ArrayOf,
    Between,
    Call,
    Chain,
    Coalesce,
    Collection,
    Compare,
    Conditional,
    In,
    Item,
    Like,
    Literal,
    Logical,
    Name,
    Node,
    ObjectOf,
    Parameter,
    Path,
    Select,
    Source,
    Subquery,
    Unary,
)
from .values import UNDEFINED

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ATOMS = (Literal, Parameter, Name, Path, ArrayOf, ObjectOf, Call, Subquery)
_KINDS = {"VALUE": "", "EXISTS": "EXISTS", "ARRAY": "ARRAY"}


def render(node: Node) -> str:
    """The text of an expression or query; it parses to an equal tree."""
    return _RENDERERS[type(node)](node)


def _operand(node: Node) -> str:
    return render(node) if isinstance(node, _ATOMS) else f"({render(node)})"


def _listed(nodes: Iterable[Node]) -> str:
    return ", ".join(map(render, nodes))


def _literal(node: Literal) -> str:
    return "undefined" if node.value is UNDEFINED else json.dumps(node.value)


def _steps(steps: Iterable[Node]) -> str:
    return "".join(map(_step, steps))


def _step(step: Node) -> str:
    key = step.value if isinstance(step, Literal) else None
    if isinstance(key, str) and _PLAIN.fullmatch(key) and key.upper() not in RESERVED:
        return f".{key}"
    return f"[{render(step)}]"


def _collection(node: Collection | Select) -> str:
    return f"({render(node)})" if isinstance(node, Select) else node.name + _steps(node.steps)


def _source(node: Source) -> str:
    if node.each:
        return f"{node.alias} IN {_collection(node.collection)}"
    return _collection(node.collection) + (f" AS {node.alias}" if node.alias else "")


def _item(node: Item) -> str:
    return render(node.expression) + (f" AS {node.alias}" if node.alias else "")


def _like(node: Like) -> str:
    escape = f" ESCAPE {_operand(node.escape)}" if node.escape is not None else ""
    return f"{_operand(node.text)} LIKE {_operand(node.pattern)}{escape}"


def _conditional(node: Conditional) -> str:
    return f"{_operand(node.condition)} ? {_operand(node.then)} : {_operand(node.otherwise)}"


def _select(node: Select) -> str:
    return " ".join(clause for clause in _clauses(node) if clause)


def _clauses(node: Select) -> Iterable[str]:
    yield "SELECT"
    yield "DISTINCT" if node.distinct else ""
    yield f"TOP {render(node.top)}" if node.top is not None else ""
    if node.value is not None:
        yield f"VALUE {render(node.value)}"
    else:
        yield "*" if node.star else ", ".join(map(_item, node.items))
    yield f"FROM {' JOIN '.join(map(_source, node.sources))}" if node.sources else ""
    yield f"WHERE {render(node.where)}" if node.where is not None else ""
    yield f"GROUP BY {_listed(node.group_by)}" if node.group_by else ""
    if node.order_by:
        yield "ORDER BY " + ", ".join(
            f"{render(part.expression)} {'DESC' if part.descending else 'ASC'}" for part in node.order_by
        )
    if node.offset is not None and node.limit is not None:
        yield f"OFFSET {render(node.offset)} LIMIT {render(node.limit)}"


_RENDERERS: dict[type[Node], Callable[[Any], str]] = {
    Literal: _literal,
    Parameter: lambda node: node.name,
    Name: lambda node: node.name,
    Path: lambda node: _operand(node.base) + _steps(node.steps),
    ArrayOf: lambda node: f"[{_listed(node.items)}]",
    ObjectOf: lambda node: "{" + ", ".join(f"{json.dumps(key)}: {render(item)}" for key, item in node.items) + "}",
    Call: lambda node: f"{node.name}({_listed(node.arguments)})",
    Unary: lambda node: f"{node.operator} {_operand(node.operand)}",
    Chain: lambda node: _operand(node.first) + "".join(f" {sign} {_operand(part)}" for sign, part in node.rest),
    Compare: lambda node: f"{_operand(node.left)} {node.operator} {_operand(node.right)}",
    Logical: lambda node: f" {node.operator} ".join(map(_operand, node.terms)),
    Coalesce: lambda node: " ?? ".join(map(_operand, node.terms)),
    Conditional: _conditional,
    In: lambda node: f"{_operand(node.needle)} IN ({_listed(node.items)})",
    Between: lambda node: f"{_operand(node.value)} BETWEEN {_operand(node.low)} AND {_operand(node.high)}",
    Like: _like,
    Subquery: lambda node: f"{_KINDS[node.kind]}({render(node.query)})",
    Select: _select,
}
