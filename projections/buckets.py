"""Time buckets: the year, month, week, day, hour or minute of a timestamp, in UTC, as text that sorts by time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cached_property
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from projections.errors import AskError, CatalogError, ItemError
from projections.keys import KeyValue, Level, Owner, at, kept_apart, parse_path
from projections.texts import is_missing

Size: TypeAlias = Literal["year", "month", "week", "day", "hour", "minute"]
Unit: TypeAlias = Literal["iso", "s", "ms"]

PATTERNS: Final[Mapping[str, str]] = {
    "year": "[0-9]{4}",
    "month": "[0-9]{4}-[0-9]{2}",
    "week": "[0-9]{4}-W[0-9]{2}",
    "day": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "hour": "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}",
    "minute": "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}",
}
EXAMPLES: Final[Mapping[str, str]] = {
    "year": "2026", "month": "2026-11", "week": "2026-W48", "day": "2026-11-30", "hour": "2026-11-30T14",
    "minute": "2026-11-30T14:05",
}  # fmt: skip
FORMS: Final[Mapping[str, str]] = {
    "iso": 'ISO 8601 text such as "2026-11-30T14:05:00Z"',
    "s": "a number of seconds since 1970",
    "ms": "a number of milliseconds since 1970",
}
ISO: Final = re.compile(
    "([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt ]((?:[01][0-9]|2[0-3]):[0-5][0-9])(?::[0-5][0-9](?:[.,][0-9]+)?)?"
    "(?:([Zz])|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)?)?"
)
LENGTHS: Final[Mapping[str, timedelta]] = {
    "week": timedelta(weeks=1), "day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1),
}  # fmt: skip
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MOST_BUCKETS: Final = 1_000
"""Buckets that one span may touch."""


class NotATime(ValueError):  # noqa: N818  (it is not an error yet)
    """A value that is no timestamp of the unit."""


@dataclass(frozen=True)
class Span:
    """The time from `start` up to, not including, `end`: what a time bucket can be asked for.

    Each is a timestamp, a date, a datetime, or the text of a bucket, and stands for the moment at which that begins.
    """

    start: Any
    end: Any


@dataclass(frozen=True)
class TimeBucket(Level):
    """The bucket of time that a timestamp falls into, in UTC, kept at `path`.

    `unit` says what the timestamps are: "iso" text with any offset, or numbers of seconds ("s") or milliseconds ("ms")
    since 1970; nothing is guessed. /_ts is in seconds. `naive` says what a time without an offset is: UTC, or a reason
    to park its item. Weeks are those of ISO 8601, with their own years: 2027-01-01 is in 2026-W53.
    """

    field: str
    size: Size
    unit: Unit | None = None  # "iso" when None, and "s" for /_ts
    naive: Literal["utc", "deadletter"] = "utc"
    path: str = "/partitionKey"

    def __post_init__(self) -> None:
        _one_of("size", self.size, PATTERNS)
        _one_of("naive", self.naive, ("utc", "deadletter"))
        if self.unit is not None:
            _one_of("unit", self.unit, FORMS)
        parse_path(self.field)
        kept_apart([self.path], [self.field])
        if self.field == "/_ts" and self.unit not in (None, "s"):
            raise CatalogError("/_ts is in seconds", hint="leave unit out")

    @cached_property
    def _unit(self) -> Unit:
        return self.unit or ("s" if self.field == "/_ts" else "iso")

    @cached_property
    def _from(self) -> tuple[str, ...]:
        return parse_path(self.field)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.field,)

    @property
    def fields(self) -> tuple[str, ...]:
        return (self.field,)

    @property
    def example(self) -> tuple[str, ...]:
        return (f'"{EXAMPLES[self.size]}"',)

    def value(self, item: Mapping[str, Any], owner: Owner) -> Any:
        found = at(item, self._from)
        if is_missing(found):  # the rules of the projection say "keep"
            return found
        try:
            return bucket(self._moment(found), self.size)
        except (NotATime, OverflowError) as error:
            why = error if isinstance(error, NotATime) else "out of range"
            raise ItemError(
                f"{self.field} is no time: {why}; expected is {FORMS[self._unit]}",
                path=self.field,
                hint="mend the item, or declare the unit that it has",
            ) from None

    def _moment(self, value: Any) -> datetime:
        if self._unit == "iso":
            return _from_iso(value, self.naive == "utc")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise NotATime("another type")
        return EPOCH + timedelta(seconds=int(value // (1 if self._unit == "s" else 1000)))

    # the read side

    def asked(self, values: Sequence[Any]) -> list[KeyValue]:
        (value,) = values
        if is_missing(value):
            return [value]
        if isinstance(value, str) and ".." in value:
            value = Span(*value.split("..", 1))
        if not isinstance(value, Span):
            return self._touched(*self._extent(value))
        start, end = self._extent(value.start)[0], self._extent(value.end)[0]
        if not start < end:
            raise AskError(f"{self.field}: the span is empty", hint="its end is not part of it, and has to be later")
        return self._touched(start, end)

    def _touched(self, start: datetime, end: datetime) -> list[KeyValue]:
        found: list[KeyValue] = list(islice(_buckets(start, end, self.size), MOST_BUCKETS + 1))
        if len(found) > MOST_BUCKETS:
            raise AskError(
                f"{self.field}: the span touches more than {MOST_BUCKETS:,} buckets of a {self.size} each",
                hint="ask for a shorter one, or declare a projection with larger buckets",
            )
        return found

    def _extent(self, value: Any) -> tuple[datetime, datetime]:
        """The time that was given, from its beginning up to its end; a moment is a time of its own."""
        try:
            if isinstance(value, date) and not isinstance(value, datetime):
                value = value.isoformat()
            if self._unit == "iso" and self.size == "year" and isinstance(value, int) and not isinstance(value, bool):
                value = f"{value:04}"  # a command line takes 2026 for a number
            if isinstance(value, str) and (extent := _bucket_extent(value)) is not None:
                return extent
            given = isinstance(value, datetime)
            moment = _in_utc(value, self.naive == "utc") if given else self._moment(value)
            return moment, moment
        except (NotATime, OverflowError):
            raise AskError(
                f"{self.field}: this is no {self.size}",
                hint=f'give "{EXAMPLES[self.size]}", {FORMS[self._unit]}, a date, a datetime or a Span of two',
            ) from None


def bucket(moment: datetime, size: str) -> str:
    """The text of the bucket that a moment in UTC falls into."""
    # stored; change with a version
    if size == "week":
        year, week, _ = moment.isocalendar()
        return f"{year:04}-W{week:02}"
    return moment.isoformat()[: len(EXAMPLES[size])]  # four digits of the year, also below 1000


def _from_iso(value: Any, naive_is_utc: bool) -> datetime:
    if not isinstance(value, str):
        raise NotATime("another type")
    found = ISO.fullmatch(value)
    if found is None:
        raise NotATime("another form")
    day, time, z, sign, hours, minutes = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{time or '00:00'}")
    except ValueError:
        raise NotATime("no such day or time") from None
    if z:
        return moment.replace(tzinfo=UTC)
    if sign is None:
        return _in_utc(moment, naive_is_utc)
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if int(minutes or 0) > 59 or offset >= timedelta(days=1):
        raise NotATime("no such offset")
    return _in_utc(moment.replace(tzinfo=timezone(offset if sign == "+" else -offset)), naive_is_utc)


def _in_utc(moment: datetime, naive_is_utc: bool) -> datetime:
    if moment.tzinfo is not None:
        return moment.astimezone(UTC)
    if not naive_is_utc:
        raise NotATime("it has no offset")
    return moment.replace(tzinfo=UTC)


def _bucket_extent(text: str) -> tuple[datetime, datetime] | None:
    """The time of the bucket of this text; None: it is the text of none."""
    size = next((size for size, pattern in PATTERNS.items() if re.fullmatch(pattern, text)), None)
    if size is None:
        return None
    try:
        begins = _begins(text)
    except ValueError:
        raise NotATime("no such day or time") from None
    return begins, _next(begins, size)


def _begins(text: str) -> datetime:
    """The moment at which the bucket of this text begins."""
    if "W" in text:
        return datetime.combine(date.fromisocalendar(int(text[:4]), int(text[6:]), 1), datetime.min.time(), UTC)
    return datetime.fromisoformat(text + "0001-01-01T00:00"[len(text) :] + "Z")


def _buckets(start: datetime, end: datetime, size: str) -> Iterator[str]:
    """The buckets that the time from start up to end touches, in order; the first one in any case."""
    yield (text := bucket(start, size))
    while (moment := _next(_begins(text), size)) < end:
        yield (text := bucket(moment, size))


def _next(begins: datetime, size: str) -> datetime:
    """The moment at which the next bucket begins."""
    try:
        match size:
            case "year":
                return begins.replace(year=begins.year + 1)
            case "month":
                return (begins.replace(day=28) + timedelta(days=4)).replace(day=1)
            case _:
                return begins + LENGTHS[size]
    except (OverflowError, ValueError):
        return datetime.max.replace(tzinfo=UTC)  # the end of all time


def _one_of(name: str, value: Any, allowed: Any) -> None:
    if value not in allowed:
        raise CatalogError(f"{name}: {value!r} is none", hint=f"give one of {', '.join(allowed)}")
