"""From the state of an item to the entries it should own: the pure heart of a projection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import ValidationError

from projections.declare import Index
from projections.errors import ItemError, TooLargeError
from projections.identity import Identity, Place
from projections.keys import UNDEFINED, Key, Owner, at, fitting, parse_path, problem
from projections.version import Version
from projections.where import kind, same

SYSTEM: Final = frozenset({"_rid", "_self", "_etag", "_ts", "_attachments", "_lsn"})
"""The store's own properties; an entry gets its own."""
MAX_DOCUMENT_BYTES: Final = 2 * 1024 * 1024
"""facts.md 36."""

MARK_BYTES: Final = 4_096
"""Kept for what is added to the content: the entry's id, `ttl`, the mark with the source's key (2,048 bytes)."""

Skip = Literal["deleted", "expired", "where", "missing key", "null key", "key is no scalar", "gone"]


@dataclass(frozen=True)
class State:
    """What is known of one item: its content, or that it is gone (`item` is None)."""

    identity: Identity
    version: Version
    item: Mapping[str, Any] | None

    @property
    def gone(self) -> bool:
        return self.item is None


@dataclass(frozen=True)
class Entry:
    """One document that an item should own in the target."""

    place: Place
    content: Mapping[str, Any]  # the copied fields, without id and marks
    expires: int | None  # the second at which the item expires, epoch
    hash: str  # of content and expiry


@dataclass(frozen=True)
class Wanted:
    """The entries an item should own now, and why there are none if there are none."""

    entries: tuple[Entry, ...] = ()
    skip: Skip | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rules:
    """A declaration, with what has to be known of its containers."""

    projection: Index
    reserved: str = "_source"
    source_ttl: int | None = None  # the source container's default TTL in seconds; None: expiry is off


def wanted(rules: Rules, state: State, now: float) -> Wanted:
    """The entries that an item in this state should own at a time (epoch seconds).

    Raises:
        ItemError: the item cannot be projected.
    """
    projection, item = rules.projection, state.item
    if item is None:
        return Wanted(skip="gone")
    notes = _notes(projection, item)
    skip = _left_out(rules, item, now)
    if skip:
        return Wanted(skip=skip, notes=notes)
    _validate(projection, rules.reserved, item)
    key = _key(projection, item, state.identity)
    if isinstance(key, str):
        return Wanted(skip=key, notes=notes)
    return Wanted((_entry(rules, state.identity, item, key),), notes=notes)


def _left_out(rules: Rules, item: Mapping[str, Any], now: float) -> Skip | None:
    projection = rules.projection
    if projection.deletes and any(
        same(at(item, parse_path(projection.deletes.path)), value) for value in projection.deletes.equals
    ):
        return "deleted"
    expires = _expires(rules, item)
    if expires is not None and expires <= now:
        return "expired"
    if projection.where is not None and not _ask(projection, item):
        return "where"
    return None


def _ask(projection: Index, item: Mapping[str, Any]) -> bool:
    assert projection.where is not None
    try:
        return bool(projection.where(item))
    except Exception as error:
        raise ItemError(f"where raised {type(error).__name__}", hint="make where fit every item") from error


def _notes(projection: Index, item: Mapping[str, Any]) -> tuple[str, ...]:
    """A delete marker of a type that no rule names: the item stays, and somebody should know."""
    if not projection.deletes:
        return ()
    value = at(item, parse_path(projection.deletes.path))
    expected = {kind(v) for v in projection.deletes.equals} | {"missing", "null"}
    return () if kind(value) in expected else ("delete marker has an unexpected type",)


def _validate(projection: Index, reserved: str, item: Mapping[str, Any]) -> None:
    if reserved in item:
        raise ItemError(
            f"the item has a property {reserved}, which marks entries", hint="choose another Catalog(reserved=...)"
        )
    if projection.model is None:
        return
    try:
        projection.model.model_validate(item)
    except ValidationError as error:
        found = [(f"/{'/'.join(map(str, e['loc']))}", e["type"]) for e in error.errors(include_input=False)[:5]]
        problems = "; ".join(f"{path}: {kind}" for path, kind in found)
        raise ItemError(
            f"does not fit {projection.model.__name__} ({problems})",
            path=found[0][0],
            hint="mend the item or the model, then retry",
        ) from None
    except Exception as error:
        raise ItemError(f"{projection.model.__name__} raised {type(error).__name__}", hint="mend the model") from error


def _key(projection: Index, item: Mapping[str, Any], owner: Owner) -> Key | Skip:
    for path in projection.key.inputs:
        reason = problem(at(item, parse_path(path)))
        rule = {None: "keep", "missing": projection.missing, "null": projection.null, "other": projection.other}[reason]
        if rule == "deadletter":
            what = "no scalar" if reason == "other" else reason
            raise ItemError(f"the key {path} is {what}", path=path, hint="mend the item")
        if rule == "skip":
            return _SKIPS[str(reason)]
    return fitting(Key.of(*projection.key.values(item, owner)))


_SKIPS: Final[Mapping[str, Skip]] = {"missing": "missing key", "null": "null key", "other": "key is no scalar"}


def _entry(rules: Rules, identity: Identity, item: Mapping[str, Any], key: Key) -> Entry:
    content = _content(rules.projection, item)
    expires = _expires(rules, item)
    text = canonical(content, expires)
    _fits(content, len(text))
    return Entry(Place(identity.entry_id, key), content, expires, content_hash(text))


def _content(projection: Index, item: Mapping[str, Any]) -> dict[str, Any]:
    """The fields to copy. `ttl` is control data, mirrored as the time that remains; the id is the entry's own."""
    if projection.include is None:
        content = {name: value for name, value in item.items() if name not in SYSTEM}
        for path in projection.exclude:
            _drop(content, parse_path(path))
    else:
        content = {}
        for names in map(parse_path, (*projection.include, *projection.key.copied)):
            _copy(item, content, names)
    content.pop("id", None)
    content.pop("ttl", None)
    return content


def _copy(item: Mapping[str, Any], content: dict[str, Any], names: tuple[str, ...]) -> None:
    value = at(item, names)
    if value is UNDEFINED or names[0] in SYSTEM:
        return
    for name in names[:-1]:
        inner = content.get(name)
        content[name] = content = dict(inner) if isinstance(inner, Mapping) else {}
    content[names[-1]] = value


def _drop(content: dict[str, Any], names: tuple[str, ...]) -> None:
    """Remove a path, copying what lies on the way: the item itself stays untouched."""
    if at(content, names) is UNDEFINED:
        return
    for name in names[:-1]:
        content[name] = content = dict(content[name])
    del content[names[-1]]


def _expires(rules: Rules, item: Mapping[str, Any]) -> int | None:
    """When the store expires an item, as it computes it: `_ts` plus the item's own `ttl` or the container's default."""
    if rules.projection.ttl == "ignore" or rules.source_ttl is None:
        return None
    ttl = item.get("ttl", rules.source_ttl)
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or ttl <= 0:
        return None
    return int(item["_ts"] + ttl)


def canonical(content: Mapping[str, Any], expires: int | None) -> str:
    """What the content hash is taken of: sorted, ASCII JSON of the content and its expiry."""
    # stored; change with a version
    return json.dumps([content, expires], sort_keys=True, separators=(",", ":"))


def content_hash(text: str) -> str:
    """What tells two contents apart: the first 128 bits of SHA-256, in hex."""
    # stored; change with a version
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _fits(content: Mapping[str, Any], at_most: int) -> None:
    """Refuse what the store would refuse. `at_most`: the escaped length, which is never below the bytes."""
    if at_most + MARK_BYTES <= MAX_DOCUMENT_BYTES:
        return
    size = len(json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size + MARK_BYTES > MAX_DOCUMENT_BYTES:
        raise TooLargeError(
            f"the entry would have {size + MARK_BYTES} bytes; the store takes {MAX_DOCUMENT_BYTES}",
            hint="leave fields out with include or exclude",
        )


def document(entry: Entry, state: State, reserved: str, now: float) -> dict[str, Any]:
    """The document to store for an entry."""
    # stored; change with a version
    stored: dict[str, Any] = {**entry.content, "id": entry.place.id}
    stored[reserved] = {**state.identity.to_stored(), **state.version.to_stored(), "hash": entry.hash}
    if entry.expires is not None:
        stored["ttl"] = max(1, entry.expires - int(now))
    return stored
