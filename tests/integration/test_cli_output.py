"""What the command line prints: errors with their causes, log lines, tables."""

from __future__ import annotations

import io
import itertools
import json
import logging
import sys
from typing import Any

import pytest
from rich.console import Console

from projections.cli.console import emit, table, tell
from projections.cli.logs import Structured
from projections.errors import ItemError, ProjectionsError


def chain(*errors: Exception) -> Any:
    """The first of these errors, each caused by the next."""
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[0]


def told(error: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    tell(error)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_an_error_names_projection_and_item_and_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    error = ItemError("no key", projection="by-id", item="'1' of [\"c\"]", hint="try this")
    assert told(error, capsys) == ["error: projection by-id, item '1' of [\"c\"]: no key", "hint: try this"]


def test_causes_are_told_once_each_and_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    first = ProjectionsError("cannot reach it")
    error = chain(first, OSError("refused\nsecond line"), ConnectionError("refused"), ProjectionsError("timed out"))
    assert told(error, capsys) == [
        "error: cannot reach it", "  because: OSError: refused", "  because: timed out",
    ]  # fmt: skip


def test_a_long_cause_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(chain(ProjectionsError("no"), ValueError("x" * 5000)), capsys)
    assert len(lines) == 2
    assert len(lines[1]) < 400


def record(message: str, **extra: Any) -> logging.LogRecord:
    made = logging.makeLogRecord({"msg": message, "levelno": logging.WARNING, "levelname": "WARNING", "created": 1.5})
    vars(made).update(extra)
    return made


def test_a_log_line_is_one_line_of_fields() -> None:
    text = Structured(as_json=False).format(
        record("parked", projection="by-id", item="'1' of [\"c\"]", attempts=2, hint=None, reason="a\nb")
    )
    assert text == (
        '1970-01-01T00:00:01.500Z warning parked projection=by-id item="\'1\' of [\\"c\\"]" attempts=2 reason="a\\nb"'
    )


def test_a_log_line_as_json() -> None:
    line = json.loads(Structured(as_json=True).format(record("parked", projection="by-id", attempts=2)))
    assert line == {
        "time": "1970-01-01T00:00:01.500Z", "level": "warning", "action": "parked",
        "projection": "by-id", "attempts": 2,
    }  # fmt: skip


def test_an_exception_is_a_field_and_no_traceback() -> None:
    try:
        raise ValueError("bad\nthing")
    except ValueError:
        text = Structured(as_json=False).format(record("failed", exc_info=sys.exc_info()))
    assert text.endswith('failed error="ValueError: bad\\nthing"')


def test_json_lines_hold_no_line_ends(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"text": "a\nb\u2028c", "n": 1})
    out = capsys.readouterr().out
    assert out == '{"text": "a\\nb\\u2028c", "n": 1}\n'


def test_tables_do_not_take_text_for_markup() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, markup=False, highlight=False)
    console.print(table(("name", "n", "seen"), [("[bold]x[/bold]", 1234567, None), ("y", 2, True)]))
    text = [line.split() for line in stream.getvalue().splitlines()]
    assert text == [["name", "n", "seen"], ["[bold]x[/bold]", "1,234,567", "-"], ["y", "2", "yes"]]
