"""Compiles FROM and JOIN to the rows they produce."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .errors import QueryError
from .expressions import compile_expression
from .scope import Compiled, Env, Scope
from .syntax import Collection, Literal, Name, Node, Path, Select, Source
from .values import UNDEFINED

Envs = Callable[[Env, Iterable[Any] | None], Iterator[Env]]
"""The row outside and, for the outermost FROM, the documents; gives the rows inside."""


def compile_sources(sources: tuple[Source, ...], outer: Scope, root: bool) -> tuple[Envs, Scope]:
    """The rows of FROM with its JOINs, and the scope that names their slots."""
    if not sources:
        return (lambda env, documents: iter((env,))), outer
    envs, scope = _first(sources[0], outer, root)
    for source in sources[1:]:
        envs, scope = _joined(envs, source, scope)
    return envs, scope


def _first(source: Source, outer: Scope, root: bool) -> tuple[Envs, Scope]:
    collection = source.collection
    scope = outer.declare(_alias(source))
    if isinstance(collection, Select):
        return _derived(source, collection, outer, root), scope
    if not root:
        produce = _produce(source, outer)
        return (lambda env, documents: ((*env, value) for value in produce(env))), scope
    if not collection.steps and not source.each:
        return _documents, scope
    # the first name of the outermost FROM stands for the document, whatever it is
    produce = _produce(source, Scope({collection.name: 0}, 1, outer.parameters))

    def envs(env: Env, documents: Iterable[Any] | None) -> Iterator[Env]:
        return ((value,) for document in documents or () for value in produce((document,)))

    return envs, scope


def _documents(env: Env, documents: Iterable[Any] | None) -> Iterator[Env]:
    return ((document,) for document in documents or ())


def _derived(source: Source, query: Select, outer: Scope, root: bool) -> Envs:
    """`FROM (SELECT …)`."""
    from .select import compile_select  # a query has sources and a source may be a query

    rows = compile_select(query, outer, root)

    def envs(env: Env, documents: Iterable[Any] | None) -> Iterator[Env]:
        return ((*env, value) for row in rows(env, documents) for value in _spread(row, source.each))

    return envs


def _joined(envs: Envs, source: Source, scope: Scope) -> tuple[Envs, Scope]:
    inner = scope.declare(_alias(source))
    if isinstance(source.collection, Select):
        derived = _derived(source, source.collection, scope, root=False)
        return (lambda env, documents: (row for left in envs(env, documents) for row in derived(left, None))), inner
    produce = _produce(source, scope)
    return (lambda env, documents: ((*left, value) for left in envs(env, documents) for value in produce(left))), inner


def _produce(source: Source, scope: Scope) -> Callable[[Env], Iterable[Any]]:
    """The values of one source at one row: the members of an array, or the value itself if there is one."""
    get, each = _collection(source.collection, scope), source.each
    return lambda env: _spread(get(env), each)


def _spread(value: Any, each: bool) -> Iterable[Any]:
    if each:
        return value if isinstance(value, list) else ()
    return () if value is UNDEFINED else (value,)


def _collection(collection: Collection | Select, scope: Scope) -> Compiled:
    assert isinstance(collection, Collection)
    node: Node = Name(collection.name)
    return compile_expression(Path(node, collection.steps) if collection.steps else node, scope)


def _alias(source: Source) -> str | None:
    """The name a source declares: its alias, or the last word of its path."""
    collection = source.collection
    if source.alias is not None or isinstance(collection, Select):
        return source.alias
    for step in reversed(collection.steps):
        if not isinstance(step, Literal):
            raise QueryError("A path in FROM takes names and numbers only.")
        if isinstance(step.value, str):
            return step.value
    return collection.name
