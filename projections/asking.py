"""From what a reader gives to the values of each level of a key: in order, or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Protocol, TypeAlias

from projections.errors import AskError, SkippedError

Given: TypeAlias = tuple[Any, ...]
"""The values of one level."""


class Asked(Protocol):
    """What has to be known of a level to read by it."""

    @property
    def fields(self) -> tuple[str, ...]:
        """What has to be given, by path."""

    @property
    def extra(self) -> tuple[str, ...]:
        """What may be given beside, all or none of it, so that fewer keys have to be asked for."""

    @property
    def example(self) -> tuple[str, ...]:
        """A value for each of `fields`, as Python."""


def given(levels: Sequence[Asked], values: Sequence[Any]) -> list[Given]:
    """The values of each level from the left, as far as there are any.

    `values` are in level order (a level of several values takes them one after the other, or as a tuple), or one
    mapping of paths to values. `...` leaves a level open, which the last ones may be.

    Raises:
        AskError: they do not fit the levels; it says what to give.
    """
    named = len(values) == 1 and isinstance(values[0], Mapping)
    found = _by_name(levels, values[0]) if named else _by_position(levels, values)
    while found and found[-1] is None:
        found.pop()
    if not found:
        raise AskError(f"no values for a key of {len(levels)}", hint=_usage(levels))
    closed: list[Given] = []
    for level, one in zip(levels, found, strict=False):
        if one is None:
            raise _skipped(levels, found)
        if len(one) not in (len(level.fields), len(level.fields) + len(level.extra)):
            raise AskError(f"{_names(level)}: {len(one)} values are given", hint=_usage(levels))
        if any(value is ... for value in one):
            raise AskError(f"{_names(level)} are one text: without one of them it is not known", hint=_usage(levels))
        closed.append(one)
    return closed


def combined(levels: Sequence[Sequence[Any]], most: int) -> list[tuple[Any, ...]]:
    """Every combination of the values that each level is to be asked for.

    Raises:
        AskError: there are more than `most`.
    """
    count = 1
    for level in levels:
        count *= len(level)
    if count > most:
        raise AskError(
            f"that makes {count:,} keys to ask for, and {most:,} are the limit", hint="ask for less: a shorter span"
        )
    return list(product(*levels))


def _by_position(levels: Sequence[Asked], values: Sequence[Any]) -> list[Given | None]:
    rest = list(values)
    found: list[Given | None] = []
    for number, level in enumerate(levels):
        if not rest:
            return found
        if isinstance(rest[0], tuple | list):
            found.append(tuple(rest.pop(0)))
            continue
        most = len(level.fields) + (len(level.extra) if number == len(levels) - 1 else 0)
        taken, rest = tuple(rest[:most]), rest[most:]
        found.append(None if all(value is ... for value in taken) else taken)
    if rest:
        raise AskError(f"{len(values)} values for a key of {len(values) - len(rest)}", hint=_usage(levels))
    return found


def _by_name(levels: Sequence[Asked], named: Mapping[Any, Any]) -> list[Given | None]:
    known = {path for level in levels for path in (*level.fields, *level.extra)}
    for path in named:
        if path not in known:
            raise AskError(f"the key is not made from {path!r}", hint=_usage(levels))
    found: list[Given | None] = []
    for level in levels:
        extra = tuple(path for path in level.extra if path not in level.fields)  # what is in both is not the same
        paths = tuple(path for path in (*level.fields, *extra) if named.get(path, ...) is not ...)
        found.append(tuple(named[path] for path in paths) if paths else None)
        if paths not in ((), level.fields, (*level.fields, *level.extra)):
            raise AskError(f"of {_names(level)} only {', '.join(paths)} is given", hint=_usage(levels))
    return found


def _skipped(levels: Sequence[Asked], found: Sequence[Given | None]) -> SkippedError:
    missing = ", ".join(_names(level) for level, one in zip(levels, found, strict=False) if one is None)
    there = ", ".join(_names(level) for level, one in zip(levels, found, strict=False) if one is not None)
    return SkippedError(
        f"{missing} cannot be left open while {there} is given: entries are found by the levels from the left. "
        "Without them every physical partition of the target would have to be asked, each for 2.5 RU or more, "
        "however few entries there are",
        hint=f"give {missing}, too; or declare another projection, whose key begins with {there}",
    )


def _names(level: Asked) -> str:
    return " and ".join(level.fields)


def _usage(levels: Sequence[Asked]) -> str:
    """What to give, with an example."""
    names = ", ".join(path for level in levels for path in level.fields)
    example = ", ".join(value for level in levels for value in level.example)
    extra = [path for level in levels for path in level.extra]
    also = f"; {', '.join(extra)} may be added, so that one key is asked for and not all suffixes" if extra else ""
    prefix = "; leaving out the last ones asks for all below" if len(levels) > 1 else ""
    order = " in this order" if names.count(",") else ""
    return f"give the values of {names}{order}, such as entries({example}){also}{prefix}"
