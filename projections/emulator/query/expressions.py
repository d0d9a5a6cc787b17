"""Compiles expressions to closures over an `Env`, once for each bound query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import values
from .aggregates import AGGREGATES
from .errors import QueryError
from .functions import lookup
from .functions.matching import like_matcher
from .operators import BINARY, UNARY
from .scope import Aggregate, Compiled, GroupScope, Scope
from .syntax import (
    ArrayOf,
    Between,
    Call,
    Chain,
    Coalesce,
    Compare,
    Conditional,
    In,
    Like,
    Literal,
    Logical,
    Name,
    Node,
    ObjectOf,
    Parameter,
    Path,
    Subquery,
    Unary,
)
from .values import UNDEFINED

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": values.equals,
    "!=": values.differs,
    "<": values.less,
    "<=": values.at_most,
    ">": lambda left, right: values.less(right, left),
    ">=": lambda left, right: values.at_most(right, left),
}


def compile_expression(node: Node, scope: Scope) -> Compiled:
    """The closure that computes the node's value for a row."""
    return _COMPILERS[type(node)](node, scope)


def constant(node: Node, scope: Scope) -> Any:
    """The value of a literal or parameter; NotImplemented for anything else."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Parameter):
        return scope.parameter(node.name)
    return NotImplemented


def _value(node: Literal | Parameter, scope: Scope) -> Compiled:
    value = constant(node, scope)
    return lambda env: value


def _name(node: Name, scope: Scope) -> Compiled:
    slot = scope.slot(node.name)
    return lambda env: env[slot]


def _path(node: Path, scope: Scope) -> Compiled:
    base = compile_expression(node.base, scope)
    if len(node.steps) == 1 and isinstance(node.base, Name) and isinstance(key := constant(node.steps[0], scope), str):
        return _property(scope.slot(node.base.name), key)
    keys = [constant(step, scope) for step in node.steps]
    if NotImplemented not in keys:
        return lambda env: _follow(base(env), keys)
    steps = [compile_expression(step, scope) for step in node.steps]
    return lambda env: _follow(base(env), [step(env) for step in steps])


def _property(slot: int, key: str) -> Compiled:
    """`c.key`, the expression that queries are full of."""

    def get(env: tuple[Any, ...]) -> Any:
        value = env[slot]
        return value.get(key, UNDEFINED) if isinstance(value, dict) else UNDEFINED

    return get


def _follow(value: Any, keys: list[Any]) -> Any:
    for key in keys:
        value = member(value, key)
    return value


def member(value: Any, key: Any) -> Any:
    """`value[key]`: a property of an object or a place in an array."""
    if isinstance(value, dict):
        return value.get(key, UNDEFINED) if isinstance(key, str) else UNDEFINED
    if isinstance(value, list) and values.is_number(key) and key == int(key) and 0 <= key < len(value):
        return value[int(key)]
    return UNDEFINED


def _array(node: ArrayOf, scope: Scope) -> Compiled:
    items = [compile_expression(item, scope) for item in node.items]
    # a missing member is null in an array: the service keeps the length
    return lambda env: [None if (value := item(env)) is UNDEFINED else value for item in items]


def _object(node: ObjectOf, scope: Scope) -> Compiled:
    items = [(key, compile_expression(item, scope)) for key, item in node.items]
    return lambda env: {key: value for key, item in items if (value := item(env)) is not UNDEFINED}


def _call(node: Call, scope: Scope) -> Compiled:
    if node.name in AGGREGATES:
        return _aggregate(node, scope)
    function = lookup(node.name, len(node.arguments))
    arguments = [compile_expression(argument, scope) for argument in node.arguments]
    if len(arguments) == 1:
        (only,) = arguments
        return lambda env: function(only(env))
    if len(arguments) == 2:
        first, second = arguments
        return lambda env: function(first(env), second(env))
    return lambda env: function(*[argument(env) for argument in arguments])


def _aggregate(node: Call, scope: Scope) -> Compiled:
    if not isinstance(scope, GroupScope):
        raise QueryError(f"The aggregate {node.name} may only stand in SELECT, and not inside another aggregate.")
    if len(node.arguments) != 1:
        raise QueryError(f"{node.name} takes one argument.")
    number, slot = len(scope.aggregates), scope.rows.width
    scope.aggregates.append(Aggregate(node.name, compile_expression(node.arguments[0], scope.rows)))
    return lambda env: env[slot][number]


def _unary(node: Unary, scope: Scope) -> Compiled:
    operand, apply = compile_expression(node.operand, scope), UNARY[node.operator]
    return lambda env: apply(operand(env))


def _chain(node: Chain, scope: Scope) -> Compiled:
    first = compile_expression(node.first, scope)
    rest = [(BINARY[operator], compile_expression(operand, scope)) for operator, operand in node.rest]
    if len(rest) == 1:
        apply, second = rest[0]
        return lambda env: apply(first(env), second(env))

    def run(env: tuple[Any, ...]) -> Any:
        value = first(env)
        for apply, operand in rest:
            value = apply(value, operand(env))
        return value

    return run


def _compare(node: Compare, scope: Scope) -> Compiled:
    left, right = compile_expression(node.left, scope), compile_expression(node.right, scope)
    compare = COMPARISONS[node.operator]
    return lambda env: compare(left(env), right(env))


def _logical(node: Logical, scope: Scope) -> Compiled:
    """Three-valued: one deciding term settles it, else a term that is no boolean makes it undefined."""
    terms = [compile_expression(term, scope) for term in node.terms]
    deciding = node.operator == "OR"

    def run(env: tuple[Any, ...]) -> Any:
        result: Any = not deciding
        for term in terms:
            value = term(env)
            if value is deciding:
                return deciding
            if value is not True and value is not False:
                result = UNDEFINED
        return result

    return run


def _coalesce(node: Coalesce, scope: Scope) -> Compiled:
    terms = [compile_expression(term, scope) for term in node.terms]

    def run(env: tuple[Any, ...]) -> Any:
        return next((value for term in terms if (value := term(env)) is not UNDEFINED), UNDEFINED)

    return run


def _conditional(node: Conditional, scope: Scope) -> Compiled:
    condition, then, otherwise = (
        compile_expression(part, scope) for part in (node.condition, node.then, node.otherwise)
    )
    return lambda env: then(env) if condition(env) is True else otherwise(env)


def _in(node: In, scope: Scope) -> Compiled:
    """Short for `needle = a OR needle = b …`, undefined comparisons included."""
    needle, items = compile_expression(node.needle, scope), [compile_expression(item, scope) for item in node.items]

    def run(env: tuple[Any, ...]) -> Any:
        value, result = needle(env), False
        for item in items:
            same = values.equals(value, item(env))
            if same is True:
                return True
            result = UNDEFINED if same is UNDEFINED else result
        return result

    return run


def _between(node: Between, scope: Scope) -> Compiled:
    return _logical(Logical("AND", (Compare(">=", node.value, node.low), Compare("<=", node.value, node.high))), scope)


def _like(node: Like, scope: Scope) -> Compiled:
    text, pattern = compile_expression(node.text, scope), compile_expression(node.pattern, scope)
    escape = compile_expression(node.escape, scope) if node.escape is not None else lambda env: None

    def run(env: tuple[Any, ...]) -> Any:
        subject, wanted = text(env), pattern(env)
        if not isinstance(subject, str) or not isinstance(wanted, str):
            return UNDEFINED
        return like_matcher(wanted, escape(env))(subject) is not None

    return run


def _subquery(node: Subquery, scope: Scope) -> Compiled:
    from .select import compile_select  # a query contains expressions and an expression may contain a query

    rows = compile_select(node.query, scope)
    if node.kind == "EXISTS":
        return lambda env: next(rows(env, None), UNDEFINED) is not UNDEFINED
    if node.kind == "ARRAY":
        return lambda env: list(rows(env, None))

    def scalar(env: tuple[Any, ...]) -> Any:
        found = rows(env, None)
        value = next(found, UNDEFINED)
        if next(found, UNDEFINED) is not UNDEFINED:
            raise QueryError("The cardinality of a scalar subquery result set cannot be greater than 1.")
        return value

    return scalar


_COMPILERS: dict[type[Node], Callable[[Any, Scope], Compiled]] = {
    Literal: _value,
    Parameter: _value,
    Name: _name,
    Path: _path,
    ArrayOf: _array,
    ObjectOf: _object,
    Call: _call,
    Unary: _unary,
    Chain: _chain,
    Compare: _compare,
    Logical: _logical,
    Coalesce: _coalesce,
    Conditional: _conditional,
    In: _in,
    Between: _between,
    Like: _like,
    Subquery: _subquery,
}
