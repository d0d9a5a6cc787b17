"""Dates and times. They are ISO 8601 texts in UTC with seven places, kept here as ticks of 100 ns since 1970."""

from __future__ import annotations

import calendar
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ..values import UNDEFINED
from .registry import register

SECOND: Final = 10**7
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,7}))?)?)?Z?")
_NAMES = {
    "year": ("year", "yyyy", "yy"),
    "month": ("month", "mm", "m"),
    "day": ("day", "dd", "d"),
    "hour": ("hour", "hh"),
    "minute": ("minute", "mi", "n"),
    "second": ("second", "ss", "s"),
    "millisecond": ("millisecond", "ms"),
    "microsecond": ("microsecond", "mcs"),
    "nanosecond": ("nanosecond", "ns"),
}
_PARTS = {short: name for name, shorts in _NAMES.items() for short in shorts}
# nanoseconds in a unit of fixed length
_LENGTHS = {
    "day": 86_400 * 10**9,
    "hour": 3600 * 10**9,
    "minute": 60 * 10**9,
    "second": 10**9,
    "millisecond": 10**6,
    "microsecond": 10**3,
    "nanosecond": 1,
}


def parse(text: str) -> int | None:
    """The ticks of a date, None if the text is not one."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    return _ticks(year, month, day, hour, minute, second, int((match[7] or "").ljust(7, "0")))


def _ticks(year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: int) -> int | None:
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return round((moment - _EPOCH).total_seconds()) * SECOND + fraction


def _moment(ticks: int) -> datetime:
    return _EPOCH + timedelta(seconds=ticks // SECOND)


def render(ticks: int | None) -> Any:
    """The text of a date, undefined outside the years 1 to 9999."""
    if ticks is None:
        return UNDEFINED
    try:
        moment = _moment(ticks)
    except OverflowError:
        return UNDEFINED
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}.{ticks % SECOND:07}Z"


def _now() -> int:
    return time.time_ns() // 100


def _from_parts(*parts: float) -> Any:
    year, month, day, hour, minute, second, fraction = (int(part) for part in (*parts, 0, 0, 0, 0)[:7])
    return render(_ticks(year, month, day, hour, minute, second, fraction)) if 0 <= fraction < SECOND else UNDEFINED


def _add(part: str, count: float, text: str) -> Any:
    name, ticks = _PARTS.get(part.lower()), parse(text)
    if name is None or ticks is None:
        return UNDEFINED
    if name in _LENGTHS:
        return render(ticks + int(count) * _LENGTHS[name] // 100)
    moment = _moment(ticks)
    months = moment.year * 12 + moment.month - 1 + int(count) * (12 if name == "year" else 1)
    year, month = months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        return UNDEFINED
    day = min(moment.day, calendar.monthrange(year, month)[1])
    return render(_ticks(year, month, day, moment.hour, moment.minute, moment.second, ticks % SECOND))


def _difference(part: str, start: str, end: str) -> Any:
    """How many boundaries of the unit lie between two dates: from December to January is one year."""
    name, first, second = _PARTS.get(part.lower()), parse(start), parse(end)
    if name is None or first is None or second is None:
        return UNDEFINED
    return _units(name, second) - _units(name, first)


def _units(name: str, ticks: int) -> int:
    if name in _LENGTHS:
        return ticks * 100 // _LENGTHS[name]
    moment = _moment(ticks)
    return moment.year if name == "year" else moment.year * 12 + moment.month


def _part(part: str, text: str) -> Any:
    name, ticks = _PARTS.get(part.lower()), parse(text)
    if name is None or ticks is None:
        return UNDEFINED
    if name.endswith("second") and name != "second":
        return ticks % SECOND * 100 // _LENGTHS[name]
    return getattr(_moment(ticks), name)


def _bin(text: str, part: str, size: float = 1, origin: str = "1970-01-01T00:00:00.0000000Z") -> Any:
    name, ticks, start = _PARTS.get(part.lower()), parse(text), parse(origin)
    if name not in _LENGTHS or ticks is None or start is None or size < 1:
        return UNDEFINED
    length = max(int(size) * _LENGTHS[name] // 100, 1)
    return render(start + (ticks - start) // length * length)


def _to(unit: int, text: str) -> Any:
    ticks = parse(text)
    return UNDEFINED if ticks is None else ticks // unit


for _suffix in ("", "STATIC"):
    register(f"GETCURRENTDATETIME{_suffix}", "", lambda: render(_now()))
    register(f"GETCURRENTTIMESTAMP{_suffix}", "", lambda: _now() // 10_000)
    register(f"GETCURRENTTICKS{_suffix}", "", _now)
register("DATETIMEADD", "sis", _add)
register("DATETIMEDIFF", "sss", _difference)
register("DATETIMEPART", "ss", _part)
register("DATETIMEBIN", "ss|is", _bin)
register("DATETIMEFROMPARTS", "iii|iiii", _from_parts)
register("DATETIMETOTIMESTAMP", "s", lambda text: _to(10_000, text))
register("DATETIMETOTICKS", "s", lambda text: _to(1, text))
register("TIMESTAMPTODATETIME", "i", lambda stamp: render(int(stamp) * 10_000))
register("TICKSTODATETIME", "i", lambda ticks: render(int(ticks)))
