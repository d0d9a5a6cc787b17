"""From the state of an item to the entries it should own: the pure heart of a projection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError

from projections.aggregate import CONTRIBUTION, EXPIRES, Aggregate
from projections.declare import Index, Projection
from projections.embed import REF, Embed, Header
from projections.errors import ItemError, TooLargeError
from projections.identity import Element, Identity, Place
from projections.keys import UNDEFINED, Key, Owner, at, fitting, parse_path, problem
from projections.references import HeaderState, Use, alike, copies, filled, uses
from projections.rows import Row, rows
from projections.totals import contribution
from projections.version import Version
from projections.where import kind, same

SYSTEM: Final = frozenset({"_rid", "_self", "_etag", "_ts", "_attachments", "_lsn"})
"""The store's own properties; an entry gets its own."""
MAX_DOCUMENT_BYTES: Final = 2 * 1024 * 1024
"""facts.md 36."""

MARK_BYTES: Final = 4_096
"""Kept for what is added to the content: the entry's id, `ttl`, the mark with the source's key (2,048 bytes)."""

EXPIRY_SECONDS: Final = 30
"""By how much the end of an entry's time to live may be off."""

Skip = Literal["deleted", "expired", "where", "missing key", "null key", "key is no scalar", "no elements", "gone"]


NO_HEADERS: Final[Mapping[str, HeaderState | None]] = {}
NO_COPIES: Final[Mapping[str, Any]] = {}


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
    inputs: Mapping[str, Version] = field(default_factory=dict)  # of an Embed: the headers it was made from


@dataclass(frozen=True)
class Filling:
    """Copies to set in the item itself, and properties that have to go, since they have none any more."""

    values: Mapping[str, Any]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class Wanted:
    """The entries an item should own now, and why there are none if there are none."""

    entries: tuple[Entry, ...] = ()
    skip: Skip | None = None
    notes: tuple[str, ...] = ()
    filling: Filling | None = None  # of an Embed in place, where the item's copies are not as they should be


@dataclass(frozen=True)
class Rules:
    """A declaration, with what has to be known of its containers."""

    projection: Projection
    reserved: str = "_source"
    source_ttl: int | None = None  # the source container's default TTL in seconds; None: expiry is off


def wanted(rules: Rules, state: State, now: float, headers: Mapping[str, HeaderState | None] = NO_HEADERS) -> Wanted:
    """The entries that an item in this state should own at a time (epoch seconds).

    `headers`: of the items that an Embed's item refers to, as far as they have arrived.

    Raises:
        ItemError: the item cannot be projected.
    """
    projection, item = rules.projection, state.item
    if isinstance(projection, Header):
        return Wanted((_header(rules, projection, state, now),))
    if item is None:
        return Wanted(skip="gone")
    notes = _notes(projection, item)
    skip = _left_out(rules, item, now)
    if skip:
        return Wanted(skip=skip, notes=notes)
    modelled = _validate(projection, rules.reserved, item)
    if isinstance(projection, Embed):
        return _embedded(rules, projection, state, headers, notes)
    if isinstance(projection, Aggregate):
        return _contributions(rules, projection, state.identity, item, rows(projection, item, modelled), notes)
    made = [_made(rules, state.identity, item, row) for row in rows(projection, item, modelled)]
    entries = tuple(entry for entry in made if isinstance(entry, Entry))
    skips = [skip for skip in made if not isinstance(skip, Entry)]
    if entries:
        return Wanted(entries, notes=notes + tuple(f"element skipped: {skip}" for skip in skips))
    return Wanted(skip=skips[0] if skips else "no elements", notes=notes)


def _made(
    rules: Rules, identity: Identity, item: Mapping[str, Any], row: Row, copied: Mapping[str, Any] = NO_COPIES
) -> Entry | Skip:
    """The entry of a row, or why it has none."""
    projection = rules.projection
    if row.values is not item and isinstance(projection, Index) and not _passes(projection, row.values):
        return "where"
    owner = identity if row.element is None else Element(identity, row.element)
    key = _key(projection, row.values, owner)
    return key if isinstance(key, str) else _entry(rules, owner, item, row, key, copied)


def _embedded(
    rules: Rules, projection: Embed, state: State, headers: Mapping[str, HeaderState | None], notes: tuple[str, ...]
) -> Wanted:
    """The entry with its copies, and a back-reference for each item referred to."""
    assert state.item is not None
    made = uses(projection, state.item)
    copied, versions = copies(projection, made, headers)
    expires = expiry(rules, state.item)
    places = dict.fromkeys(use.back(state.identity) for use in made)
    back = tuple(_plain(place, {REF: place.key.values[0]}, expires) for place in places)
    if projection.in_place:
        values, removed = filled(projection, state.item, copied)
        return Wanted(back, notes=notes, filling=Filling(values, removed) if values or removed else None)
    entry = _made(rules, state.identity, state.item, Row(state.item), copied)
    if not isinstance(entry, Entry):
        return Wanted(skip=entry, notes=notes)
    return Wanted((*back, replace(entry, inputs=versions)), notes=notes)


def _contributions(
    rules: Rules, projection: Aggregate, identity: Identity, item: Mapping[str, Any], found: list[Row],
    notes: tuple[str, ...],
) -> Wanted:  # fmt: skip
    """One entry for each group that the item contributes to, with all that its rows there come to."""
    groups: dict[Key, list[Mapping[str, Any]]] = {}
    skips: list[Skip] = []
    for values in (row.values for row in found):
        out = values is not item and not _passes(projection, values)
        key: Key | Skip = "where" if out else _key(projection, values, identity)
        if isinstance(key, Key):
            groups.setdefault(key, []).append(values)
        else:
            skips.append(key)
    entries = tuple(
        _contribution(rules, projection, Place(identity.entry_id, key), item, own) for key, own in groups.items()
    )
    if entries:
        return Wanted(entries, notes=notes + tuple(f"element skipped: {skip}" for skip in skips))
    return Wanted(skip=skips[0] if skips else "no elements", notes=notes)


def _contribution(
    rules: Rules, projection: Aggregate, place: Place, item: Mapping[str, Any], group: list[Mapping[str, Any]]
) -> Entry:
    """It carries no `ttl`: the store would let it expire without a word, and the total would stay."""
    # stored; change with a version
    content: dict[str, Any] = {}
    for names in map(parse_path, projection.key.copied):
        _copy(group[0], content, names)
    _add_key(projection, content, place.key)
    content[CONTRIBUTION] = contribution(projection.measures, group)
    expires = expiry(rules, item)
    return _plain(place, content if expires is None else content | {EXPIRES: expires}, None)


def _header(rules: Rules, projection: Header, state: State, now: float) -> Entry:
    """What is known of a referenced item: also when it is gone, so that no late state brings it back.

    Like a contribution, and for the same reason, it carries no `ttl`.
    """
    place = Use(projection.reference, state.identity).header
    content: dict[str, Any] = {REF: place.key.values[0]}
    item = state.item
    expires = None if item is None else expiry(rules, item)
    if item is not None and not _deleted(projection, item) and (expires is None or expires > now):
        content["copy"] = {"id": _copied_id(rules, projection, item)}
        for names in map(parse_path, projection.fields):
            _copy(item, content["copy"], names)
        if expires is not None:
            content[EXPIRES] = expires
    return _plain(Place(place.id, place.key), content, None)  # a Header's target is the refs container


def _copied_id(rules: Rules, projection: Header, item: Mapping[str, Any]) -> Any:
    """The id of the item referred to; where an entry of it is copied from, that is in the entry's mark."""
    if not projection.upstream:
        return item["id"]
    mark = item.get(rules.reserved)
    if not isinstance(mark, Mapping) or "id" not in mark:
        [of] = projection.upstream
        raise ItemError(
            f"it is among the entries of {of.name} and none of them", hint="give the projection a target of its own"
        )
    return mark["id"]


def _plain(place: Place, content: dict[str, Any], expires: int | None) -> Entry:
    text = canonical(content, expires)
    _fits(content, len(text))
    return Entry(place, content, expires, content_hash(text))


def _deleted(projection: Projection, item: Mapping[str, Any]) -> bool:
    deletes = projection.deletes
    return deletes is not None and any(same(at(item, parse_path(deletes.path)), value) for value in deletes.equals)


def _left_out(rules: Rules, item: Mapping[str, Any], now: float) -> Skip | None:
    projection = rules.projection
    if _deleted(projection, item):
        return "deleted"
    expires = expiry(rules, item)
    if expires is not None and expires <= now:
        return "expired"
    exploded = getattr(projection, "each", None) is not None  # then it is asked of every row
    return None if exploded or _passes(projection, item) else "where"


def _passes(projection: Projection, item: Mapping[str, Any]) -> bool:
    if projection.where is None:
        return True
    try:
        return bool(projection.where(item))
    except Exception as error:
        raise ItemError(f"where raised {type(error).__name__}", hint="make where fit every item") from error


def _notes(projection: Projection, item: Mapping[str, Any]) -> tuple[str, ...]:
    """A delete marker of a type that no rule names: the item stays, and somebody should know."""
    if not projection.deletes:
        return ()
    value = at(item, parse_path(projection.deletes.path))
    expected = {kind(v) for v in projection.deletes.equals} | {"missing", "null"}
    return () if kind(value) in expected else ("delete marker has an unexpected type",)


def _validate(projection: Projection, reserved: str, item: Mapping[str, Any]) -> BaseModel | None:
    """Refuse what the declaration does not allow; the item as its model sees it."""
    if reserved in item:
        raise ItemError(
            f"the item has a property {reserved}, which marks entries", hint="choose another Catalog(reserved=...)"
        )
    if projection.model is None:
        return None
    try:
        return projection.model.model_validate(item)
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


def _key(projection: Projection, item: Mapping[str, Any], owner: Owner) -> Key | Skip:
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


def _entry(rules: Rules, owner: Owner, item: Mapping[str, Any], row: Row, key: Key, copied: Mapping[str, Any]) -> Entry:
    content = _content(rules.projection, row.values)
    for name in content.keys() & (rules.projection.references if isinstance(rules.projection, Embed) else {}):
        raise ItemError(
            f"the item has a property {name}, under which copies are kept",
            path=f"/{name}",
            hint="give the reference another name, or exclude the property",
        )
    content |= copied
    if rules.reserved in content:
        raise ItemError(
            f"a row has a property {rules.reserved}, which marks entries", hint="leave it out of what project gives"
        )
    _add_key(rules.projection, content, key)
    return _plain(Place(owner.entry_id, key), content, expiry(rules, item))


def _content(projection: Projection, row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields to copy. `ttl` is control data, mirrored as the time that remains; the id is the entry's own."""
    chosen = projection if isinstance(projection, Index | Embed) else None
    include = chosen.include if chosen else None
    if include is None:
        content = {name: value for name, value in row.items() if name not in SYSTEM}
        for path in chosen.exclude if chosen else ():
            _drop(content, parse_path(path))
    else:
        content = {}
        for names in map(parse_path, (*include, *projection.key.copied)):
            _copy(row, content, names)
    content.pop("id", None)
    content.pop("ttl", None)
    return content


def _add_key(projection: Projection, content: dict[str, Any], key: Key) -> None:
    """The computed levels of the key, where the store looks for them."""
    for name, value in projection.key.stored(key.values).items():
        if name in content and not same(content[name], value):
            raise ItemError(
                f"the item has a property {name}, under which the key is kept",
                path=f"/{name}",
                hint="give the key another path=...",
            )
        content[name] = value


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


def expiry(rules: Rules, item: Mapping[str, Any]) -> int | None:
    """When the store expires an item, as it computes it: `_ts` plus the item's own `ttl` or the container's default."""
    if rules.projection.ttl == "ignore" or rules.source_ttl is None:
        return None
    ttl = item.get("ttl", rules.source_ttl)
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or ttl <= 0:
        return None
    return int(item["_ts"] + ttl)


def content_of(document: Mapping[str, Any], reserved: str) -> dict[str, Any]:
    """The content of a stored entry: without id, time to live and marks."""
    own = SYSTEM | {"id", "ttl", reserved}
    return {name: value for name, value in document.items() if name not in own}


def owner_of(document: Mapping[str, Any], reserved: str) -> Identity | None:
    """The item that a stored entry says it was made from; None where it says none."""
    mark = document.get(reserved)
    try:
        return Identity.from_stored(mark) if isinstance(mark, Mapping) and isinstance(mark["id"], str) else None
    except (KeyError, TypeError):
        return None


def is_made_of(document: Mapping[str, Any], entry: Entry, identity: Identity, reserved: str) -> bool:
    """Whether a document is what an entry of this item comes to, whenever it was written."""
    return (
        owner_of(document, reserved) == identity
        and document[reserved].get("hash") == entry.hash
        and alike(content_of(document, reserved), entry.content)
        and _lives_until(document, entry.expires)
    )


def _lives_until(document: Mapping[str, Any], expires: int | None) -> bool:
    """Whether a document's time to live ends about when it should; the writer's clock is not quite the store's."""
    ttl = document.get("ttl")
    if expires is None or not isinstance(ttl, int | float):
        return expires is None and ttl is None
    return bool(abs(document["_ts"] + ttl - expires) <= EXPIRY_SECONDS)


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
    inputs = {text: version.to_stored() for text, version in sorted(entry.inputs.items()) if version.comparable}
    if inputs:
        stored[reserved]["inputs"] = inputs
    if entry.expires is not None:
        stored["ttl"] = max(1, entry.expires - int(now))
    return stored
