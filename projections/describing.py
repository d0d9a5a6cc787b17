"""A declaration as JSON, field by field: what is stored of it, so that a later one can be compared with it.

Of functions and models nothing can be stored but their names and a digest of their source text, without comments.
What they call is not looked at.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Final

from pydantic import BaseModel

from projections.aggregate import Aggregate
from projections.buckets import TimeBucket
from projections.declare import Custom, Declaration, Index, Projection, SoftDelete, Source, Target, Throughput
from projections.embed import Embed, Reference
from projections.keys import Hierarchical, Path
from projections.measures import Avg, Count, Distinct, Max, Min, Sum
from projections.provision import Layout
from projections.revision import NEEDS
from projections.strategies import Concat, HashSuffix, RandomSuffix

DECLARATIONS: Final = (Index, Custom, Aggregate, Embed, Reference, Source, Target, SoftDelete, Throughput)
OTHERS: Final = (Concat, TimeBucket, RandomSuffix, HashSuffix, Avg, Count, Distinct, Max, Min, Sum)
KINDS: Final[Mapping[str, type[Any]]] = {kind.__name__: kind for kind in (*DECLARATIONS, *OTHERS)}


def described(layout: Layout, projection: Projection) -> dict[str, Any]:
    """A projection's definition, with the containers that it comes to."""
    # stored; change with a version
    definition = _declared(projection, layout)
    definition["target"] |= {"container": projection.container}
    return definition | {"reserved": layout.catalog.reserved}


def completed(stored: Any) -> Any:
    """A stored definition with the fields that there were not when it was written: what they do by default is what
    was done then.
    """
    if isinstance(stored, list):
        return [completed(value) for value in stored]
    if not isinstance(stored, Mapping):
        return stored
    kind = KINDS.get(str(stored.get("kind")))
    known = {} if kind is None else _defaults(kind)
    return known | {name: completed(value) for name, value in stored.items()}


def _defaults(kind: type[Any]) -> dict[str, Any]:
    if not issubclass(kind, Declaration):
        return {one.name: _value(one.default, None) for one in fields(kind) if one.default is not MISSING}
    optional = {name: one for name, one in kind.model_fields.items() if not one.is_required()}
    return {name: _value(one.get_default(call_default_factory=True), None) for name, one in optional.items()}


def _declared(value: Declaration, layout: Layout | None) -> dict[str, Any]:
    kind = next(one.__name__ for one in type(value).__mro__ if one.__name__ in NEEDS)
    found = {"kind": kind, **{name: _value(getattr(value, name), layout) for name in type(value).model_fields}}
    if layout is not None and isinstance(value, Source | Target):
        found["database"] = value.database or layout.catalog.database or layout.database
    return found


def _value(value: Any, layout: Layout | None) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return int(value) if isinstance(value, float) and value.is_integer() else value  # stores keep no difference
    if isinstance(value, Projection):
        return value.full_name
    if isinstance(value, Declaration):
        return _declared(value, layout)
    if isinstance(value, Path):
        return value.path
    if isinstance(value, Hierarchical):
        return [_value(level, layout) for level in value.levels]
    if is_dataclass(value) and not isinstance(value, type):
        inner = {one.name: _value(getattr(value, one.name), layout) for one in fields(value)}
        return {"kind": type(value).__name__, **inner}
    if isinstance(value, Mapping):
        return {str(name): _value(one, layout) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_value(one, layout) for one in value]
    return _code(value)


def _code(value: Callable[..., Any]) -> dict[str, Any]:
    named = value if hasattr(value, "__qualname__") else type(value)
    name = f"{named.__module__}.{named.__qualname__}"
    if isinstance(value, type):
        own = [one for one in value.__mro__ if issubclass(one, BaseModel) and one is not BaseModel]
        return {"model": name, "source": _digest(*own)}
    return {"function": name, "source": _digest(named)}


def _digest(*code: Any) -> str | None:
    """Of source text, however it is laid out; None where there is none to be had."""
    try:
        texts = [_bare(textwrap.dedent(inspect.getsource(one))) for one in code]
    except (OSError, TypeError):
        return None
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _bare(text: str) -> str:
    try:
        return ast.unparse(ast.parse(text))
    except SyntaxError:  # a lambda stands within a statement, of which this is a part
        return "\n".join(line.strip() for line in text.splitlines())
