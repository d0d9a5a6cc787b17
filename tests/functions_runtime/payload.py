"""What the trigger makes of items before the app gets them (facts.md 8)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

DATE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,7})?(Z|[+-]\d\d:\d\d)?")


def as_delivered(items: Iterable[Mapping[str, Any]], hours_east: int = 0) -> list[dict[str, Any]]:
    """Items of the feed as the app gets them from a host in a time zone."""
    zone = timezone(timedelta(hours=hours_east))
    return [{name: _rewritten(value, zone) for name, value in item.items()} for item in items]


def _rewritten(value: Any, zone: timezone) -> Any:
    if isinstance(value, Mapping):
        return {name: _rewritten(inner, zone) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rewritten(inner, zone) for inner in value]
    match = DATE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    text, fraction, offset = match.groups()
    if offset and offset != "Z":
        moment = datetime.fromisoformat(text + offset).astimezone(zone)
        text, offset = moment.strftime("%Y-%m-%dT%H:%M:%S"), moment.isoformat()[-6:]
    return text + (fraction or "").rstrip("0").rstrip(".") + (offset or "")
