"""The built-in functions, by family; each module registers its own when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import QueryError
from . import arrays, dates, numbers, places, strings, types
from .registry import FUNCTIONS

__all__ = ["lookup"]

_FAMILIES = (arrays, dates, numbers, places, strings, types)
_UNSUPPORTED = {
    "ST_": "Spatial functions other than ST_DISTANCE are",
    "VECTORDISTANCE": "Vector search is",
    "FULLTEXT": "Full-text search is",
    "RRF": "Hybrid search is",
}


def lookup(name: str, count: int) -> Callable[..., Any]:
    """The function of that upper-case name, checked to take that many arguments."""
    function = FUNCTIONS.get(name)
    if function is None:
        for prefix, what in _UNSUPPORTED.items():
            if name.startswith(prefix):
                raise QueryError(f"{what} not supported ({name}).")
        raise QueryError(f"'{name}' is not a recognized built-in function name.")
    if not function.least <= count <= function.most:
        wanted = str(function.least) if function.least == function.most else f"{function.least} to {function.most}"
        raise QueryError(f"{name} takes {wanted} arguments, not {count}.")
    return function.call
