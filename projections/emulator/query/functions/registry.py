"""How a function is declared: its name and, a letter each, the kinds of its arguments.

An argument of another kind makes the result undefined, which is what all functions of the language do; the bodies are
left with the values they expect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..values import UNDEFINED, is_number

KINDS: Final[dict[str, Callable[[Any], bool]]] = {
    "s": lambda value: isinstance(value, str),
    "n": is_number,
    "i": lambda value: is_number(value) and value == value // 1,
    "b": lambda value: isinstance(value, bool),
    "a": lambda value: isinstance(value, list),
    "o": lambda value: isinstance(value, dict),
    "v": lambda value: value is not UNDEFINED,
    "x": lambda value: True,
}


@dataclass(frozen=True)
class Function:
    """A function, the checks around it, and how many arguments it takes."""

    call: Callable[..., Any]
    least: int
    most: int


MANY: Final = 10_000
FUNCTIONS: Final[dict[str, Function]] = {}


def register(name: str, kinds: str, body: Callable[..., Any]) -> None:
    """Declares a function. After `|` come optional arguments; a last `*` repeats the kind before it without end."""
    needed, _, optional = kinds.partition("|")
    repeated = needed.endswith("*")
    letters = needed.rstrip("*") + optional
    most = MANY if repeated else len(letters)
    checks = tuple(KINDS[letter] for letter in letters)
    FUNCTIONS[name.upper()] = Function(_checked(body, checks, repeated), len(needed.rstrip("*")), most)


def _checked(body: Callable[..., Any], checks: tuple[Callable[[Any], bool], ...], repeated: bool) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        for check, value in zip(checks, values, strict=False):
            if not check(value):
                return UNDEFINED
        return body(*values)

    if not repeated:
        return call
    last = checks[-1]
    return lambda *values: call(*values) if all(map(last, values[len(checks) :])) else UNDEFINED
