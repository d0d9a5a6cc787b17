"""The worker's log on a terminal: one line for an action, its fields as name=value, or all of it as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Structured(logging.Formatter):
    """`2026-01-31T12:00:00Z warning parked projection=orders-by-id reason=ItemError`, or the same as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the fields hold."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        action = " ".join(record.getMessage().split())
        if self._as_json:
            line = {"time": time, "level": record.levelname.lower(), "action": action, **fields}
            return json.dumps(line, default=str)
        shown = [f"{name}={_value(value)}" for name, value in fields.items() if value is not None]
        return " ".join([time, record.levelname.lower(), action, *shown])


def _value(value: Any) -> str:
    text = str(value)
    plain = bool(text) and text.isprintable() and not any(character in text for character in ' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)


class _ToStderr(logging.Handler):
    """To what is the standard error when something is logged: a command may be one of several in a process."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)  # noqa: T201
        except Exception:
            self.handleError(record)


def log_to_stderr(*, as_json: bool = False) -> None:
    """Show what the worker and the libraries log."""
    handler = _ToStderr()
    handler.setFormatter(Structured(as_json=as_json))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("projections").setLevel(logging.INFO)
