"""Compiles WHERE. A filter only asks whether a condition is true, so false and undefined need not be told apart.

That allows what makes scans and long read-many queries quick: a comparison with a constant becomes one test, and an
OR of equalities or an IN list becomes one look-up in a set instead of a walk over its terms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from .expressions import compile_expression, constant
from .scope import Env, Scope
from .syntax import Compare, In, Logical, Node, Path
from .values import UNDEFINED, identity

Test = Callable[[Env], bool]


def compile_filter(node: Node, scope: Scope) -> Test:
    """The test whether the node is true for a row."""
    if isinstance(node, Logical):
        return _all(node, scope) if node.operator == "AND" else _any(node, scope)
    if isinstance(node, Compare) and node.operator == "=":
        return _equal(node, scope)
    if isinstance(node, In):
        return _in(node, scope)
    value = compile_expression(node, scope)
    return lambda env: value(env) is True


def _all(node: Logical, scope: Scope) -> Test:
    tests = [compile_filter(term, scope) for term in node.terms]
    if len(tests) == 2:
        first, second = tests
        return lambda env: first(env) and second(env)
    return lambda env: all(test(env) for test in tests)


def _any(node: Logical, scope: Scope) -> Test:
    """Terms that only pin paths to constants are grouped by those paths; each group is one set look-up."""
    pinned: defaultdict[tuple[Path, ...], set[Any]] = defaultdict(set)
    tests: list[Test] = []
    for term in node.terms:
        pins = _pins(term, scope)
        if pins is None:
            tests.append(compile_filter(term, scope))
        else:
            pinned[tuple(pins)].add(tuple(map(identity, pins.values())))
    tests.extend(_lookup(paths, wanted, scope) for paths, wanted in pinned.items())
    return lambda env: any(test(env) for test in tests)


def _pins(node: Node, scope: Scope) -> dict[Path, Any] | None:
    """The paths and constants of an equality or an AND of equalities; None for any other condition."""
    pins: dict[Path, Any] = {}
    for term in node.terms if isinstance(node, Logical) and node.operator == "AND" else (node,):
        found = equality(term, scope)
        if found is None or found[0] in pins or found[1] is UNDEFINED:
            return None
        pins[found[0]] = found[1]
    return pins


def equality(node: Node, scope: Scope) -> tuple[Path, Any] | None:
    """The path and the constant of `path = constant`, in either order."""
    if not isinstance(node, Compare) or node.operator != "=":
        return None
    for path, other in ((node.left, node.right), (node.right, node.left)):
        value = constant(other, scope)
        if isinstance(path, Path) and value is not NotImplemented:
            return path, value
    return None


def _lookup(paths: tuple[Path, ...], wanted: set[Any], scope: Scope) -> Test:
    getters = [compile_expression(path, scope) for path in paths]
    return lambda env: tuple([identity(get(env)) for get in getters]) in wanted


def _equal(node: Compare, scope: Scope) -> Test:
    found = equality(node, scope)
    if found is None:
        value = compile_expression(node, scope)
        return lambda env: value(env) is True
    get, wanted = compile_expression(found[0], scope), found[1]
    if isinstance(wanted, str):  # equal to nothing but the same string, so no look at types
        return lambda env: bool(get(env) == wanted)
    if wanted is UNDEFINED:
        return lambda env: False
    key = identity(wanted)
    return lambda env: bool(identity(get(env)) == key)


def _in(node: In, scope: Scope) -> Test:
    wanted = [constant(item, scope) for item in node.items]
    if any(value is NotImplemented for value in wanted):
        value = compile_expression(node, scope)
        return lambda env: value(env) is True
    keys = {identity(value) for value in wanted if value is not UNDEFINED}
    get = compile_expression(node.needle, scope)
    return lambda env: identity(get(env)) in keys
