"""Where output goes: data on stdout, talk on stderr; and how errors are told."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from projections.errors import ProjectionsError

WIDE: Final = 200
"""Columns where nobody's terminal is there to say: tables are not folded in a file."""
LONGEST_CAUSE: Final = 300


def out() -> Console:
    """For data."""
    return _console(stderr=False)


def err() -> Console:
    """For talk."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else WIDE, markup=False, highlight=False)


def say(text: str) -> None:
    """One line of talk."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def emit(value: Any) -> None:
    """One JSON value on a line of its own."""
    print(json.dumps(value, ensure_ascii=True, separators=(", ", ": ")), flush=True)  # noqa: T201


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table; columns of numbers are set to the right."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    listed = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numbers = all(row[index] is None or isinstance(row[index], int | float) for row in listed)
        made.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in listed:
        made.add_row(*(_cell(value) for value in row))
    return made


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def tell(error: ProjectionsError) -> None:
    """An error, its causes as far as they say more, and the next thing to try."""
    told = str(error)
    say(f"error: {error}")
    for cause in _causes(error):
        if (cause.partition(": ")[2] or cause) not in told:
            say(f"  because: {cause}")
        told += cause
    if error.hint:
        say(f"hint: {error.hint}")


def _causes(error: BaseException) -> Iterator[str]:
    """The chain of causes, each as one line."""
    cause = error.__cause__
    while cause is not None:
        lines = str(cause).strip().splitlines() or [""]
        text = str(cause) if isinstance(cause, ProjectionsError) else f"{type(cause).__name__}: {lines[0]}".rstrip(": ")
        yield text if len(text) <= LONGEST_CAUSE else f"{text[:LONGEST_CAUSE]}..."
        cause = cause.__cause__
