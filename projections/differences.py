"""How what was found of an item differs from what there should be: the pure part of verify.

Each difference is told by the one side that can see it whole, so that none is told twice: what an item should have and
has not, by the item; what is where nothing should be, by the entry that is there; a record or a dead letter of nobody,
by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from projections.aggregate import EXPIRES, Aggregate
from projections.embed import Header
from projections.entries import (
    Entry,
    Rules,
    State,
    Wanted,
    canonical,
    content_hash,
    content_of,
    expiry,
    is_made_of,
    owner_of,
)
from projections.errors import ItemError
from projections.identity import Identity, Place
from projections.plan import Placement, record_place

SOON: Final = 60
"""Seconds: what expires within these, or has within the last ones of twice as many, is about to go by itself."""


class Fault(StrEnum):
    """What is wrong: a closed set."""

    MISSING = "missing"  # an entry is not there
    STALE = "stale"  # an entry is as an older state of its item had it
    WRONG_CONTENT = "wrong content"  # an entry is as no state had it, or marked as another item's
    WRONG_PLACE = "wrong place"  # the item has entries, and none here
    ORPHAN = "orphan"  # the item has no entries, or is gone
    PLACEMENT = "placement wrong"  # the record does not list what there is
    BACK_REFERENCE = "back-reference wrong"
    CONTRIBUTION = "contribution wrong"
    TOTAL = "total wrong"
    LETTER_MISSING = "dead letter missing"  # the item cannot be projected, and is not on record
    LETTER_EXTRA = "dead letter extra"  # of an item that can be projected, or is gone
    FOREIGN = "foreign"  # a document in the target that no projection made: left alone


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that is not as it should be. It names ids, keys and hashes, and holds no content."""

    fault: Fault
    identity: Identity | None = None
    place: Place | None = None  # where something is, or should be
    what: str = ""  # more of it
    expected: str | None = None
    found: str | None = None

    def to_json(self) -> dict[str, Any]:
        # stored; change with a version
        told: dict[str, Any] = {"class": self.fault.value}
        if self.identity:
            told["item"] = self.identity.to_stored()
        if self.place:
            told["place"] = self.place.to_stored()
        more = {"what": self.what or None, "expected": self.expected, "found": self.found}
        return told | {name: value for name, value in more.items() if value is not None}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Difference:
        return Difference(
            fault=Fault(told["class"]),
            identity=Identity.from_stored(told["item"]) if "item" in told else None,
            place=Place.from_stored(told["place"]) if "place" in told else None,
            what=told.get("what", ""), expected=told.get("expected"), found=told.get("found"),
        )  # fmt: skip


class Letter(Protocol):
    """Of a dead letter, what counts here."""

    @property
    def version(self) -> Mapping[str, Any]: ...

    @property
    def last(self) -> int: ...


@dataclass
class Known:
    """What is known of one item: its state, what follows from that, and what was found."""

    state: State
    want: Wanted
    error: ItemError | None = None  # why it has to be parked
    record: Placement | None = None
    documents: dict[Place, Mapping[str, Any]] = field(default_factory=dict)  # at wanted and at listed places
    letter: Letter | None = None  # looked for where there should be one

    @property
    def identity(self) -> Identity:
        return self.state.identity

    @property
    def wanted(self) -> dict[Place, Entry]:
        return {entry.place: entry for entry in self.want.entries}

    @property
    def listed(self) -> tuple[Place, ...]:
        return self.record.entries if self.record else ()

    @property
    def newest(self) -> int:
        """When the last of all this was written (epoch seconds)."""
        times: list[int] = [document["_ts"] for document in self.documents.values()]
        return max([*times, self.written or 0, self.letter.last if self.letter else 0])

    @property
    def written(self) -> int | None:
        """When the item was."""
        return None if self.state.item is None else int(self.state.item["_ts"])

    def block(self, reserved: str) -> None:
        """What no projection made stands where an entry should: such an item is parked."""
        if any(is_foreign(self.documents[place], reserved) for place in self.wanted if place in self.documents):
            self.want, self.error = Wanted(), ItemError("a document is in the way")


def is_foreign(document: Mapping[str, Any], reserved: str) -> bool:
    """Whether a document carries no mark of an entry, so that no writer ever touches it."""
    mark = document.get(reserved)
    return not (isinstance(mark, Mapping) and isinstance(mark.get("hash"), str))


def leaves_soon(rules: Rules, known: Known, now: float) -> bool:
    """Whether the item goes by itself at about this time, and with it what it has."""
    expires = None if known.state.item is None else expiry(rules, known.state.item)
    return expires is not None and expires <= now + SOON


def name(place: Place) -> str:
    """What a place is known by."""
    return f"{place.container}|{place.id}|{place.key.text}"


def is_tombstone(rules: Rules, entry: Entry) -> bool:
    """The header of an item that is gone: one that has expired itself is as good."""
    return isinstance(rules.projection, Header) and "copy" not in entry.content


# what an item should have


def of_item(rules: Rules, known: Known, moved: Collection[str] = ()) -> Iterator[Difference]:
    """Of an item that is there: its entries, where they should be; its record; its dead letter.

    `moved`: names of places that are empty since the entry is elsewhere, which is told there.
    """
    for place, entry in known.wanted.items():
        document = known.documents.get(place)
        if document is None and (name(place) in moved or is_tombstone(rules, entry)):
            continue
        difference = _of_entry(rules, known.identity, entry, document)
        if difference:
            yield difference
    if known.want.filling:
        yield Difference(fault=Fault.WRONG_CONTENT, identity=known.identity, what="copies in the item")
    lacks_letter = known.error is not None and not _is_on_record(rules, known)
    if lacks_letter:
        yield Difference(fault=Fault.LETTER_MISSING, identity=known.identity, what=type(known.error).__name__)
    elif rules.projection.placement == "tracked":
        wrong = _record_problem(rules, known)
        if wrong:
            place = record_place(rules.projection, known.identity)
            yield Difference(fault=Fault.PLACEMENT, identity=known.identity, place=place, what=wrong)


def _of_entry(rules: Rules, identity: Identity, entry: Entry, document: Mapping[str, Any] | None) -> Difference | None:
    if document is None:
        return _told(rules, Fault.MISSING, identity, entry.place, expected=entry.hash)
    if is_made_of(document, entry, identity, rules.reserved):
        return None
    mark = document[rules.reserved]
    old = mark["hash"] != entry.hash and owner_of(document, rules.reserved) == identity
    fault = Fault.STALE if old and is_sound(document, rules.reserved) else Fault.WRONG_CONTENT
    return _told(rules, fault, identity, entry.place, expected=entry.hash, found=mark["hash"])


def is_sound(document: Mapping[str, Any], reserved: str) -> bool:
    """Whether the content of an entry has the hash that its mark says."""
    content, found = content_of(document, reserved), document[reserved].get("hash")
    return any(content_hash(canonical(content, expires)) == found for expires in _may_expire(document))


def _may_expire(document: Mapping[str, Any]) -> list[int | None]:
    """When the item of an entry may expire: the entry's time counts from its own write, by another clock."""
    ttl = document.get("ttl")
    if not isinstance(ttl, int):
        return [None]
    about = document["_ts"] + ttl
    return [about + off for off in (0, 1, -1, 2, -2, 3, -3)]


def _told(rules: Rules, fault: Fault, identity: Identity, place: Place, **more: Any) -> Difference:
    """In the words of the kind of entry that it is."""
    own = Fault.BACK_REFERENCE if place.container == "refs" else Fault.CONTRIBUTION
    if place.container == "refs" or isinstance(rules.projection, Aggregate):
        return Difference(fault=own, identity=identity, place=place, what=fault.value, **more)
    return Difference(fault=fault, identity=identity, place=place, **more)


def _is_on_record(rules: Rules, known: Known) -> bool:
    """There is a letter of this state; or somebody has dropped it, which the record outlives."""
    etag = known.state.version.etag
    if known.letter is not None and known.letter.version.get("etag") == etag:
        return True
    record = known.record
    return record is not None and record.parked and record.version.etag == etag


def _record_problem(rules: Rules, known: Known) -> str | None:
    record, there = known.record, known.documents
    if record is None:
        if known.error:
            return "no record"
        return "no record" if any(place in there for place in known.wanted) else None
    if record.identity != known.identity:
        return "of another item"
    if record.leaving:
        return "a move that nobody has ended"
    if record.parked != (known.error is not None):
        return "parked" if record.parked else "not parked"
    unlisted = [place for place in known.wanted if place in there and place not in record.entries]
    if unlisted:
        return f"{len(unlisted)} not listed"
    empty = [place for place in record.entries if place not in there and place not in known.wanted]
    return f"lists {len(empty)} that are not there" if empty else None


# what is where nothing should be


def of_entry(rules: Rules, known: Known, place: Place, document: Mapping[str, Any], now: float) -> Difference | None:
    """Of an entry that is there, given what is known of the item that it says it is of."""
    entry = known.wanted.get(place)
    if entry is not None:  # the item itself tells, if there is one
        return _of_entry(rules, known.identity, entry, document) if known.state.gone else None
    if (known.error and rules.projection.parked == "keep") or _expires_soon(document, now):
        return None
    fault = Fault.WRONG_PLACE if known.want.entries else Fault.ORPHAN
    moved = origin(known, place)
    return _told(rules, fault, known.identity, place, expected=_where(moved) if moved else None)


def origin(known: Known, place: Place) -> Place | None:
    """The place that is empty since the entry is at this one."""
    empty = (one for one in known.wanted if one.id == place.id and one.container == place.container)
    return next((one for one in empty if one not in known.documents), None)


def is_own(known: Known, place: Place) -> bool:
    """Whether an entry with this id can be the item's; else its mark may say so wrongly, and it be another item's."""
    ids = {known.identity.entry_id, *(one.id for one in known.listed), *(one.id for one in known.wanted)}
    return place.id in ids


def _expires_soon(document: Mapping[str, Any], now: float) -> bool:
    """Contributions and headers wait to be swept, a while after their time."""
    expires = document.get(EXPIRES)
    if isinstance(expires, int) and not isinstance(expires, bool):
        return now - 2 * SOON <= expires <= now + SOON
    ttl = document.get("ttl")
    return isinstance(ttl, int) and document["_ts"] + ttl <= now + SOON


def of_record(known: Known, record: Placement) -> Difference | None:
    """Of a record whose item is gone. Entries that it lists and that are there tell of themselves."""
    empty = [place for place in record.entries if place not in known.documents]
    what = "parked, and gone" if record.parked else f"lists {len(empty)} that are not there" if empty else None
    return Difference(fault=Fault.PLACEMENT, identity=known.identity, what=what) if what else None


def of_letter(known: Known) -> Difference | None:
    """Of a dead letter whose item is gone, or has no error any more."""
    if known.error is not None:
        return None
    what = "the item is gone" if known.state.gone else "the item can be projected"
    return Difference(fault=Fault.LETTER_EXTRA, identity=known.identity, what=what)


def foreign(place: Place) -> Difference:
    """Of a document that no projection made."""
    return Difference(fault=Fault.FOREIGN, place=place)


def _where(place: Place) -> str:
    return f"{place.id} under {place.key}"
