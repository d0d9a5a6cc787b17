"""What a changed declaration asks for: nothing, a replay, a new version, or somebody's judgement.

A definition is a declaration as JSON (describing.py): an object for each declared value, with its `kind`, field by
field. Two things decide what a change of a field needs. What is stored may not fit any more: another key, other
measures, other buckets; or readers would miss entries for as long as it takes to bring all in line. Then it takes a new
version, beside which the old one goes on. Where every entry is right as soon as its item has been applied again, and
those in between are what they were, a replay will do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Need(StrEnum):
    NOTHING = "nothing"  # it holds from the next start on, and entries do not depend on it
    JUDGEMENT = "judgement"  # a function or model: nobody can tell from outside whether entries change
    REPLAY = "replay"  # entries are right when every item has been applied again
    VERSION = "version"  # what is stored does not fit any more, or readers would miss entries meanwhile


GRAVITY: Final = tuple(Need)

_EVERY: Final[dict[str, Need]] = {
    "name": Need.VERSION,
    "version": Need.VERSION,
    "source": Need.VERSION,
    "key": Need.VERSION,
    "where": Need.REPLAY,
    "model": Need.REPLAY,
    "missing": Need.REPLAY,
    "null": Need.REPLAY,
    "other": Need.REPLAY,
    "target": Need.VERSION,
    "deletes": Need.REPLAY,
    "ttl": Need.REPLAY,
    "parked": Need.REPLAY,
    "deadletter_payload": Need.NOTHING,
    "ru_per_second": Need.NOTHING,
    "alarm_after": Need.NOTHING,
    "placement": Need.VERSION,  # without records nobody knows what to remove
    "placement_buckets": Need.VERSION,
    "strict": Need.NOTHING,
    "reserved": Need.VERSION,  # the catalog's: entries would not be known as such
}
_ROWED: Final = _EVERY | {"by": Need.VERSION, "duplicates": Need.REPLAY}
_FIELDS: Final = {"include": Need.REPLAY, "exclude": Need.REPLAY}

NEEDS: Final[Mapping[str, Mapping[str, Need]]] = {
    "Index": _ROWED | _FIELDS | {"each": Need.VERSION},
    "Custom": _ROWED | {"project": Need.REPLAY},
    "Aggregate": _EVERY | {"measures": Need.VERSION, "each": Need.VERSION},
    "Embed": _EVERY
    | _FIELDS
    | {
        "references": Need.VERSION,
        "fan_out_ru_per_second": Need.NOTHING,
        "fan_out_warning": Need.NOTHING,
        "in_place": Need.VERSION,
    },
    "Reference": {
        "source": Need.VERSION,
        "id": Need.VERSION,
        "fields": Need.VERSION,  # headers have these alone
        "key": Need.VERSION,
        "deletes": Need.REPLAY,
        "of": Need.VERSION,
    },
    "Source": {
        "container": Need.VERSION,
        "key": Need.VERSION,
        "database": Need.VERSION,
        "mode": Need.NOTHING,  # the worker hands over by itself (feed.py)
    },
    "Target": {
        "container": Need.VERSION,
        "database": Need.VERSION,
        "throughput": Need.NOTHING,  # this and the next: `doctor` says how to bring the container in line
        "indexing": Need.NOTHING,
        "unique_keys": Need.VERSION,  # permanent
        "default_ttl": Need.NOTHING,
    },
    "SoftDelete": {"path": Need.REPLAY, "equals": Need.REPLAY},
    "Throughput": {"manual": Need.NOTHING, "autoscale": Need.NOTHING},
}
"""By kind of declared value and field. Of a field that has such a value itself, the inner fields decide."""


@dataclass(frozen=True)
class Change:
    """A field that is declared otherwise than it was."""

    field: str
    old: Any
    new: Any
    need: Need

    def __str__(self) -> str:
        return f"{self.field}: {shown(self.old)} -> {shown(self.new)}"

    def to_json(self) -> dict[str, Any]:
        """For programs, and as it is stored."""
        # stored; change with a version
        return {"field": self.field, "old": self.old, "new": self.new, "need": self.need.value}

    @staticmethod
    def from_stored(stored: Mapping[str, Any]) -> Change:
        return Change(stored["field"], stored["old"], stored["new"], Need(stored["need"]))


def shown(value: Any) -> str:
    """A value of a definition, for people."""
    if _is_code(value):
        return f"{value.get('function') or value.get('model')} ({value['source'] or 'source unknown'})"
    if isinstance(value, Mapping) and "kind" in value:
        given = {name: one for name, one in value.items() if name != "kind" and one is not None}
        return f"{value['kind']}({', '.join(f'{name}={shown(one)}' for name, one in given.items())})"
    if isinstance(value, list) and value:
        return f"({', '.join(map(shown, value))})"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def gravest(changes: Iterable[Change]) -> Need:
    """What it takes to carry all of these out."""
    return max((change.need for change in changes), key=GRAVITY.index, default=Need.NOTHING)


def compare(old: Mapping[str, Any], new: Mapping[str, Any], before: str = "") -> Iterator[Change]:
    """What has changed from one definition to another, field by field."""
    if old["kind"] != new["kind"]:
        yield Change(f"{before}kind", old["kind"], new["kind"], Need.VERSION)
        return
    needs = NEEDS.get(new["kind"], {})
    for name in {**old, **new}:
        yield from _compare(f"{before}{name}", old.get(name), new.get(name), needs.get(name, Need.VERSION))


def _compare(field: str, old: Any, new: Any, need: Need) -> Iterator[Change]:
    if _text(old) == _text(new):
        return
    if _has_fields(old) and _has_fields(new):
        yield from compare(old, new, f"{field}.")
    elif (
        isinstance(old, Mapping) and isinstance(new, Mapping) and all(map(_has_fields, (*old.values(), *new.values())))
    ):
        for name in {**old, **new}:
            yield from _compare(f"{field}.{name}", old.get(name), new.get(name), need)
    elif not (_is_code(old) and _is_code(new)):
        yield Change(field, old, new, need)
    elif old["source"] is None or old["source"] != new["source"]:
        yield Change(field, old, new, Need.JUDGEMENT)


def _text(value: Any) -> str:
    """By type: 1 and true differ."""
    return json.dumps(value, sort_keys=True)


def _has_fields(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("kind") in NEEDS


def _is_code(value: Any) -> bool:
    """Whether it stands for something of which only the source text is known."""
    return isinstance(value, Mapping) and set(value) in ({"function", "source"}, {"model", "source"})
