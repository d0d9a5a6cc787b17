"""Type checking: always true or false, never undefined."""

from __future__ import annotations

from typing import Any

from ..values import UNDEFINED, is_number
from .registry import KINDS, register


def _is_integer(value: Any) -> bool:
    return is_number(value) and float(value).is_integer()


register("IS_DEFINED", "x", lambda value: value is not UNDEFINED)
register("IS_NULL", "x", lambda value: value is None)
register("IS_BOOL", "x", KINDS["b"])
register("IS_NUMBER", "x", is_number)
register("IS_FINITE_NUMBER", "x", is_number)
register("IS_INTEGER", "x", _is_integer)
register("IS_STRING", "x", KINDS["s"])
register("IS_ARRAY", "x", KINDS["a"])
register("IS_OBJECT", "x", KINDS["o"])
register("IS_PRIMITIVE", "x", lambda value: value is not UNDEFINED and not isinstance(value, (list, dict)))
register("IIF", "xxx", lambda condition, then, otherwise: then if condition is True else otherwise)
