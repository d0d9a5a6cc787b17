"""Whom a notice is about, where its text cannot be trusted.

The Functions host reads a payload with Json.NET, which takes text that looks like a date for a date and writes it anew:
zeros at the end of a fraction are gone, offsets have moved to the server's zone (facts.md 8). Content does not matter,
since items are read again; but an id or a key can be such text too, and the item is then not where the notice says. Two
items can even look like one. What is never rewritten is `_rid`, the store's own name of an item. The rule:

1. An identity without a date stands.
2. A doubtful identity stands if the item at that place has the notice's `_rid`.
3. Else the item is searched by its `_rid`; it then says itself who it is.
4. An item that is not found is gone, and its true identity with it. Every entry whose stored identity may have been
   written as the notice's (the same but for dates, which tell the same moments) is looked at under its *stored*
   identity. The source decides about each: only an item that is gone there loses its entries.
5. Where there is no such entry there is nothing to remove; the item is counted as skipped.

A delete that the feed tells of names its item by id and key alone, without `_rid`: for a doubtful one it is rule 4.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, TypeAlias

from projections.batches import together
from projections.entries import State
from projections.identity import Identity, Place
from projections.keys import Key, KeyValue, Plain, Undefined
from projections.states import CATCH_UP_SECONDS
from projections.store import Container, Store
from projections.version import Version

RIDS_IN_A_QUERY: Final = 100
QUERIES_AT_ONCE: Final = 16
DAYS_APART: Final = 2
"""How far one moment's dates in two time zones can be from each other, with room."""

Moment: TypeAlias = tuple[int, bool]
"""Units of 100 ns since the year 1, and whether they count in UTC (or in no zone at all)."""

_DATE: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,7}))?(?:([Zz])|([+-]\d\d)(?::?(\d\d))?)?", re.ASCII
)


def moment(value: KeyValue) -> Moment | None:
    """The moment that Json.NET reads from a text; None for what it leaves alone.

    Its other form, `/Date(0)/`, needs no place here: it arrives rewritten to this one.
    """
    match = _DATE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    if hour > 24 or minute > 59 or second > 59 or (hour == 24 and (minute or second)):
        return None
    try:
        seconds = date(year, month, day).toordinal() * 86_400 + hour * 3600 + minute * 60 + second
    except ValueError:
        return None
    fraction, utc, hours, minutes = match.groups()[6:]
    if hours:
        east = int(hours[1:]) * 3600 + int(minutes or 0) * 60
        seconds -= -east if hours[0] == "-" else east
    return seconds * 10_000_000 + int((fraction or "").ljust(7, "0")), bool(utc or hours)


def doubtful(identity: Identity) -> bool:
    """Whether part of an identity, as a notice has it, may have been rewritten."""
    return any(moment(part) is not None for part in _parts(identity))


def may_be(true: Identity, noticed: Identity) -> bool:
    """Whether an identity may have been rewritten to the one in a notice."""
    pairs = list(zip(_parts(true), _parts(noticed), strict=False))
    return len(true.key.values) == len(noticed.key.values) and all(
        _typed(one) == _typed(other) or (moment(one) is not None and moment(one) == moment(other))
        for one, other in pairs
    )


def _parts(identity: Identity) -> tuple[KeyValue, ...]:
    return (identity.id, *identity.key.values)


def _typed(value: KeyValue) -> str:
    return Key.of(value).text  # true is not 1, and 7.0 is 7


@dataclass(frozen=True)
class Resolved:
    """Notices under true identities, and the identities in notices that lead nowhere: gone, and nothing to remove."""

    notices: list[State]
    lost: list[Identity]


class Resolver:
    """Finds the true identities for the notices of one projection."""

    def __init__(self, store: Store, source: Container, target: Container, key: Plain, reserved: str) -> None:
        self._store = store
        self._source = source
        self._target = target
        self._key = key
        self._reserved = reserved
        self._gate = asyncio.Semaphore(QUERIES_AT_ONCE)

    async def resolve(self, notices: Sequence[State]) -> Resolved:
        """One notice an item, the last one of each."""
        unclear = {_rid(notice) or notice.identity: notice for notice in notices if doubtful(notice.identity)}
        if not unclear:
            return Resolved(list({notice.identity: notice for notice in notices}.values()), [])
        true = await self._true({name: notice for name, notice in unclear.items() if isinstance(name, str)})
        resolved: dict[Identity, State] = {}
        for notice in notices:
            if doubtful(notice.identity) and _rid(notice) not in true:
                continue
            identity = true[_rid(notice)] if doubtful(notice.identity) else notice.identity
            resolved[identity] = State(identity, notice.version, notice.item)
        lost = [notice.identity for name, notice in unclear.items() if name not in true]
        left = await asyncio.gather(*(self._left_by(identity) for identity in lost))
        for state in (state for states in left for state in states):
            resolved.setdefault(state.identity, state)
        nowhere = [identity for identity, states in zip(lost, left, strict=True) if not states]
        return Resolved(list(resolved.values()), nowhere)

    async def _true(self, unclear: Mapping[str, State]) -> dict[str, Identity]:
        """The identities of those items that are still there."""
        places = {rid: Place(notice.identity.id, notice.identity.key) for rid, notice in unclear.items()}
        found = await self._store.read(self._source, set(places.values()))
        true = {
            rid: unclear[rid].identity
            for rid, place in places.items()
            if place in found and found[place].get("_rid") == rid
        }
        for seconds in (0.0, *CATCH_UP_SECONDS):  # a replica may lag behind the feed
            missing = [notice for rid, notice in unclear.items() if rid not in true]
            if not missing:
                break
            await asyncio.sleep(seconds)
            await together(self._search(key, part, true) for key, part in _groups(missing))
        return true

    async def _search(self, key: Key | None, notices: Sequence[State], true: dict[str, Identity]) -> None:
        text, parameters = _search_query(notices)
        async with self._gate:
            async for page in self._store.query(self._source, text, parameters, key):
                for item in page:
                    true[item["_rid"]] = Identity.of(item, self._key)

    async def _left_by(self, noticed: Identity) -> list[State]:
        """What has entries and may be the item of a notice, each with nothing known of its version."""
        text, parameters = _left_query(noticed, self._reserved)
        found = set()
        async with self._gate:
            async for page in self._store.query(self._target, text, parameters):
                found |= {Identity.from_stored(mark) for mark in page}
        return [State(identity, Version(), None) for identity in found if may_be(identity, noticed)]


def _rid(notice: State) -> str:
    """The store's own name of a notice's item; "" where it is not told."""
    return str((notice.item or {}).get("_rid") or "")


def _groups(notices: Sequence[State]) -> Iterator[tuple[Key | None, list[State]]]:
    """Notices that one query can search: in one partition if the key is clear, by ids as well if those are."""
    groups: dict[tuple[Key | None, bool], list[State]] = {}
    for notice in notices:
        identity = notice.identity
        clear = all(isinstance(value, str | int | float) and moment(value) is None for value in identity.key.values)
        by_id = moment(identity.id) is None
        groups.setdefault((identity.key if clear else None, by_id), []).append(notice)
    for (key, _), group in groups.items():
        for start in range(0, len(group), RIDS_IN_A_QUERY):
            yield key, group[start : start + RIDS_IN_A_QUERY]


def _search_query(notices: Sequence[State]) -> tuple[str, dict[str, Any]]:
    rids = {f"@r{n}": _rid(notice) for n, notice in enumerate(notices)}
    text = f"SELECT * FROM c WHERE c._rid IN ({', '.join(rids)})"
    if moment(notices[0].identity.id) is not None:
        return text, rids
    ids = {f"@i{n}": id_ for n, id_ in enumerate(dict.fromkeys(notice.identity.id for notice in notices))}
    return f"{text} AND c.id IN ({', '.join(ids)})", rids | ids  # an id is in the index, whatever the policy


def _left_query(noticed: Identity, reserved: str) -> tuple[str, dict[str, Any]]:
    """The marks of entries whose stored identity is near enough to be compared."""
    mark = f'c["{reserved}"]'
    paths = [f"{mark}.id", *(f"{mark}.key[{n}]" for n in range(len(noticed.key.values)))]
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    for n, (path, part) in enumerate(zip(paths, _parts(noticed), strict=True)):
        if moment(part) is not None:
            conditions.append(f"{path} >= @low{n} AND {path} < @high{n}")
            parameters |= {f"@low{n}": _day(str(part), -DAYS_APART), f"@high{n}": _day(str(part), DAYS_APART + 1)}
        elif not isinstance(part, Undefined):
            conditions.append(f"{path} = @part{n}")
            parameters[f"@part{n}"] = part
    return f"SELECT VALUE {mark} FROM c WHERE {' AND '.join(conditions)}", parameters


def _day(text: str, days: int) -> str:
    ordinal = date.fromisoformat(text[:10]).toordinal() + days
    return date.fromordinal(min(max(ordinal, 1), date.max.toordinal())).isoformat()
