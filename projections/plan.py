"""The plan: what to do about one item, decided from its state, its placement record and what the target holds.

Pure. The steps and their numbers are those of design 6. What a decision says is carried out by writer.py, every write
under the condition that what was read here is still there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from projections.declare import Projection
from projections.entries import Entry
from projections.identity import Identity, Place
from projections.keys import Key
from projections.version import Order, Version

FORMER_SECONDS: Final = 3_600
"""How long a placement record remembers the places an item has left, for audit to look there."""
MOST_FORMER: Final = 1_000
"""Places left that a record holds: of an item that moves more often the last ones are remembered."""


@dataclass(frozen=True)
class Placement:
    """The stored record of which entries an item owns now."""

    identity: Identity
    version: Version
    entries: tuple[Place, ...] = ()
    leaving: tuple[Place, ...] = ()  # entries that a writer has set out to remove, and may yet be about to
    former: tuple[tuple[Place, int], ...] = ()  # places left, and when (epoch seconds)
    parked: bool = False  # there is a dead letter of this item
    etag: str | None = field(default=None, compare=False)  # of the record itself; None: not stored yet


@dataclass(frozen=True)
class Stored:
    """What the target holds at a place."""

    version: Version
    hash: str
    etag: str
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  # as it was read
    inputs: Mapping[str, Version] = field(default_factory=dict)  # of the headers that an Embed's entry was made from


@dataclass(frozen=True)
class Confirm:
    """Something stored does not look older than the state: ask the source whether the state is its present one."""

    looks_older: bool


@dataclass(frozen=True)
class Nothing:
    """The target is as it should be."""


@dataclass(frozen=True)
class Put:
    """Write an entry: replace what was read (`etag`), or create it."""

    entry: Entry
    etag: str | None


@dataclass(frozen=True)
class Remove:
    """Remove an entry that is still the one that was read."""

    place: Place
    etag: str


@dataclass(frozen=True)
class Rewrite:
    """Same places, other content: the placement record stays as it is (step 4)."""

    puts: tuple[Put, ...]


@dataclass(frozen=True)
class Rearrange:
    """Placement first, then puts, then removes, then the final placement if it differs (step 5)."""

    first: Placement
    puts: tuple[Put, ...]
    removes: tuple[Remove, ...]
    last: Placement | None
    unparks: bool  # the item's dead letter has had its time


Decision: TypeAlias = Confirm | Nothing | Rewrite | Rearrange


@dataclass(frozen=True)
class Facts:
    """All that a decision rests on."""

    identity: Identity
    version: Version  # of the state
    wanted: tuple[Entry, ...]
    placement: Placement | None
    stored: Mapping[Place, Stored]  # whatever the target holds at the listed, wanted and remembered places
    put: Collection[Place] = ()  # what this attempt has put, or may have
    confirmed: bool = False  # the source said, after all this was read, that the state is its present one
    parking: bool = False  # the item is being parked
    keeping: bool = False  # ... and its entries stay as they are
    tracked: bool = True
    strict: bool = True
    renewing: bool = False  # entries are written again, though they are as they should be


def decide(facts: Facts, now: float) -> Decision:
    """Steps 1 to 5 of the guarded write protocol. `now` in epoch seconds."""
    listed = facts.placement.entries if facts.placement else ()
    known = frozenset(listed)
    have = [place for place in _unique(listed, facts.put) if place in known or place in facts.stored]
    if _nothing_to_do(facts, have) or (not facts.tracked and not facts.wanted):
        return Nothing()
    doubt = None if facts.confirmed else _doubt(facts)
    if doubt:
        return doubt
    if facts.parking and facts.keeping:
        return _mark_parked(facts, have)
    if not facts.tracked or _in_place(facts, have):
        puts = tuple(_puts(facts, again=_target_places(facts) if facts.renewing else ()))
        return Rewrite(puts) if puts else Nothing()
    return _rearrange(facts, have, now)


def _nothing_to_do(facts: Facts, have: list[Place]) -> bool:
    """Nothing wanted and nothing there. A record is then worth its write only where no post-check guards it."""
    placement = facts.placement
    settled = placement.parked == facts.parking if placement else not facts.parking
    guarded = facts.strict or (placement is not None and facts.version.against(placement.version) is Order.SAME)
    return not facts.wanted and not have and settled and guarded


def _doubt(facts: Facts) -> Confirm | None:
    versions = [stored.version for stored in facts.stored.values()]
    if facts.placement:
        versions.append(facts.placement.version)
    orders = {facts.version.against(version) for version in versions} | set(_input_orders(facts))
    if orders <= {Order.NEWER, Order.SAME}:
        return None
    return Confirm(looks_older=Order.OLDER in orders)


def _input_orders(facts: Facts) -> Iterator[Order]:
    """How the headers that are known stand to those that what is stored was made from."""
    for entry in facts.wanted:
        stored = facts.stored.get(entry.place)
        for text, version in stored.inputs.items() if stored else ():
            if text in entry.inputs:
                yield entry.inputs[text].against(version)


def _in_place(facts: Facts, have: list[Place]) -> bool:
    """Something is wanted, the placement record lists exactly that, and all of it is there."""
    want = {entry.place for entry in facts.wanted}
    return (
        bool(want)
        and facts.placement is not None
        and facts.placement.parked == facts.parking
        and not facts.placement.leaving
        and set(facts.placement.entries) == want == set(have)
        and all(place in facts.stored for place in want)
    )


def _puts(facts: Facts, again: Collection[Place] = ()) -> list[Put]:
    """The wanted entries that are not there as they should be, and those that have to be written `again`."""
    puts = []
    for entry in facts.wanted:
        stored = facts.stored.get(entry.place)
        if stored is None:
            puts.append(Put(entry, None))
        elif stored.hash != entry.hash or entry.place in again:
            puts.append(Put(entry, stored.etag))
    return puts


def _target_places(facts: Facts) -> list[Place]:
    return [entry.place for entry in facts.wanted if entry.place.container == "target"]


def _rearrange(facts: Facts, have: list[Place], now: float) -> Rearrange:
    want = [entry.place for entry in facts.wanted]
    staying = frozenset(want)
    leaving = [place for place in have if place not in staying]
    old = facts.placement or Placement(facts.identity, facts.version)
    # what another writer has set out to remove, and should stay, is written again: that writer is refused then
    returning = [place for place in old.leaving if place in staying]
    # so is an entry that loses a back-reference: a fan-out that has read it is refused then, and no other one comes
    losing = facts.renewing or any(place.container == "refs" for place in leaving)
    puts = tuple(_puts(facts, again=(*returning, *(_target_places(facts) if losing else ()))))
    version = _stamp(facts.version, old.version)
    unparks = old.parked and not facts.parking
    first = Placement(
        facts.identity, version, tuple(_unique(have, want)), tuple(_unique(leaving, returning)), old.former,
        old.parked or facts.parking, old.etag,
    )  # fmt: skip
    former = tuple((place, int(now)) for place in leaving) + tuple(
        (place, left)
        for place, left in old.former
        if now - left < FORMER_SECONDS and place not in staying and place not in leaving
    )
    last = (
        Placement(facts.identity, version, tuple(want), (), former[:MOST_FORMER], facts.parking)
        if leaving or returning or unparks
        else None
    )
    removes = tuple(Remove(place, facts.stored[place].etag) for place in leaving if place in facts.stored)
    return Rearrange(first, puts, removes, last, unparks)


def _mark_parked(facts: Facts, have: list[Place]) -> Decision:
    """The entries of a parked item stay; only the record says that there is a dead letter."""
    old = facts.placement or Placement(facts.identity, facts.version)
    if old.parked and facts.version.against(old.version) is Order.SAME:
        return Nothing()
    version = _stamp(facts.version, old.version)
    first = Placement(facts.identity, version, tuple(have), old.leaving, old.former, True, old.etag)
    return Rearrange(first, (), (), None, unparks=False)


def _stamp(version: Version, known: Version) -> Version:
    """A gone item has no version of its own: it is the last known state, gone."""
    return known.gone() if version.deleted and version.etag is None and version.ts is None else version


def _unique(*places: Collection[Place]) -> list[Place]:
    return list(dict.fromkeys(place for group in places for place in group))


def record_place(projection: Projection, identity: Identity) -> Place:
    """Where the placement record of an item is, in the state container."""
    number = identity.bucket(projection.placement_buckets)
    return Place(identity.entry_id, Key.of(record_partition(projection, number)))


def record_partition(projection: Projection, number: int) -> str:
    """The logical partition of a bucket of placement records."""
    # stored; change with a version
    return f"{projection.full_name}|{number}"


def placement_document(placement: Placement, partition: str, record_id: str, ttl: int) -> dict[str, Any]:
    """The stored form. A record that lists nothing is a tombstone and expires after `ttl` seconds."""
    # stored; change with a version
    document: dict[str, Any] = {
        "id": record_id,
        "pk": partition,
        "source": placement.identity.to_stored(),
        "version": placement.version.to_stored(),
        "entries": [place.to_stored() for place in placement.entries],
    }
    if placement.leaving:
        numbers = {place: number for number, place in enumerate(placement.entries)}
        document["leaving"] = [numbers[place] for place in placement.leaving]
    if placement.former:
        document["former"] = [{**place.to_stored(), "left": left} for place, left in placement.former]
    if placement.parked:
        document["parked"] = True
    if not placement.entries and not placement.parked:
        document["ttl"] = ttl
    return document


def placement_from(document: Mapping[str, Any]) -> Placement:
    """From the stored form."""
    entries = tuple(Place.from_stored(stored) for stored in document["entries"])
    return Placement(
        identity=Identity.from_stored(document["source"]),
        version=Version.from_stored(document["version"]),
        entries=entries,
        leaving=tuple(entries[number] for number in document.get("leaving", ())),
        former=tuple((Place.from_stored(stored), stored["left"]) for stored in document.get("former", ())),
        parked=document.get("parked", False),
        etag=document["_etag"],
    )
