"""Each decision of the guarded write protocol, steps 1 to 5 of design 6."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from projections.entries import Entry
from projections.identity import Identity, Place
from projections.keys import Key
from projections.plan import (
    FORMER_SECONDS,
    MOST_FORMER,
    Confirm,
    Facts,
    Nothing,
    Placement,
    Put,
    Rearrange,
    Remove,
    Rewrite,
    Stored,
    decide,
    placement_document,
    placement_from,
)
from projections.version import Version
from tests.support import NOW

ITEM = Identity(Key.of("s1"), "o1")
OLD, PRESENT, NEW = Version("e1", 100, 1), Version("e2", 200, 2), Version("e3", 300, 3)
GONE = Version(deleted=True)


def place(key: str) -> Place:
    return Place(ITEM.entry_id, Key.of(key))


def entry(key: str, content: str = "a") -> Entry:
    return Entry(place(key), {"k": key, "v": content}, None, content)


def stored(version: Version = OLD, content: str = "a", etag: str = "t1") -> Stored:
    return Stored(version, content, etag)


def record(*keys: str, version: Version = OLD, **fields: Any) -> Placement:
    return Placement(ITEM, version, tuple(map(place, keys)), **{"etag": "p1", **fields})


def facts(*wanted: Entry, placement: Placement | None = None, stored: Any = None, **fields: Any) -> Facts:
    return Facts(
        ITEM, **{"version": PRESENT, "wanted": wanted, "placement": placement, "stored": stored or {}, **fields}
    )


IN_PLACE = {"placement": record("x"), "stored": {place("x"): stored()}}

# steps 1 and 2: is the state outdated?


@pytest.mark.parametrize("where", ["placement", "entry"])
@pytest.mark.parametrize(
    ("version", "looks_older"),
    [(OLD, True), (Version("e9", 100), True), (Version("e9", 200), False), (Version("e9", 150, 3), False)],
    ids=["older", "older by time alone", "a tie", "contradiction"],
)
def test_a_state_that_is_not_clearly_newer_is_confirmed_with_the_source(where, version, looks_older):
    is_stored = record("x", version=PRESENT if where == "placement" else Version("e0", 1, 0))
    there = {place("x"): stored(PRESENT if where == "entry" else Version("e0", 1, 0))}
    doubt = decide(facts(entry("x", "b"), placement=is_stored, stored=there, version=version), NOW)
    assert doubt == Confirm(looks_older=looks_older)


def test_an_entry_at_a_place_that_is_not_listed_is_asked_too():
    there = {place("y"): stored(NEW)}
    assert decide(facts(entry("y"), placement=record("x"), stored=there), NOW) == Confirm(looks_older=True)


def test_one_doubt_among_many_is_enough():
    there = {place("x"): stored(OLD), place("y"): stored(NEW)}
    assert isinstance(decide(facts(entry("x"), placement=record("x", "y"), stored=there), NOW), Confirm)


def test_a_confirmed_state_is_applied_over_anything():
    there = {place("x"): stored(NEW, "b")}
    decision = decide(facts(entry("x"), placement=record("x", version=NEW), stored=there, confirmed=True), NOW)
    assert decision == Rewrite((Put(entry("x"), "t1"),))


def test_gone_without_a_known_state_is_confirmed():
    assert decide(facts(version=GONE, **IN_PLACE), NOW) == Confirm(looks_older=False)


def test_the_same_state_again_is_no_doubt():
    assert decide(facts(entry("x"), version=OLD, **IN_PLACE), NOW) == Nothing()


# step 3: nothing to do


def test_an_entry_with_this_content_is_left_alone_by_a_newer_state():
    assert decide(facts(entry("x"), **IN_PLACE), NOW) == Nothing()


def test_an_item_that_never_had_an_entry_gets_no_record():
    assert decide(facts(), NOW) == Nothing()
    assert decide(facts(version=GONE), NOW) == Nothing()


def test_a_tombstone_stays_as_it_is():
    assert decide(facts(placement=record()), NOW) == Nothing()
    assert decide(facts(placement=record(version=NEW)), NOW) == Nothing()


# step 4: other content in the same place


def test_new_content_replaces_what_was_read_and_the_record_stays():
    assert decide(facts(entry("x", "b"), **IN_PLACE), NOW) == Rewrite((Put(entry("x", "b"), "t1"),))


def test_of_several_entries_only_the_changed_ones_are_put():
    there = {place("x"): stored(), place("y"): stored(etag="t2")}
    decision = decide(facts(entry("x"), entry("y", "b"), placement=record("y", "x"), stored=there), NOW)
    assert decision == Rewrite((Put(entry("y", "b"), "t2"),))


# step 5: other places


def test_a_first_entry_is_recorded_before_it_is_created():
    decision = decide(facts(entry("x")), NOW)
    assert decision == Rearrange(record("x", version=PRESENT), (Put(entry("x"), None),), (), None, False)
    assert decision.first.etag is None


def test_a_move_records_both_places_then_puts_then_removes_then_records_the_new_one():
    decision = decide(facts(entry("y"), **IN_PLACE), NOW)
    assert decision == Rearrange(
        first=record("x", "y", version=PRESENT, leaving=(place("x"),)),
        puts=(Put(entry("y"), None),),
        removes=(Remove(place("x"), "t1"),),
        last=record("y", version=PRESENT, former=((place("x"), NOW),)),
        unparks=False,
    )


def test_the_first_record_replaces_the_one_that_was_read():
    decision = decide(facts(entry("y"), **IN_PLACE), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.first.etag == "p1"


def test_a_listed_entry_that_is_not_there_is_created():
    decision = decide(facts(entry("x"), placement=record("x")), NOW)
    assert decision == Rearrange(record("x", version=PRESENT), (Put(entry("x"), None),), (), None, False)


def test_a_listed_place_with_nothing_in_it_needs_no_remove_and_becomes_former():
    decision = decide(facts(entry("y"), placement=record("x")), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.removes == ()
    assert decision.last == record("y", version=PRESENT, former=((place("x"), NOW),))


BOTH = {place("x"): stored(), place("y"): stored(etag="t2")}


def test_an_entry_that_another_writer_has_set_out_to_remove_is_put_again_and_then_settled():
    """That writer may be alive: it is refused then, and readers see an entry all the time."""
    before = record("x", "y", leaving=(place("y"),))
    decision = decide(facts(entry("y"), placement=before, stored=BOTH), NOW)
    assert decision == Rearrange(
        first=record("x", "y", version=PRESENT, leaving=(place("x"), place("y"))),
        puts=(Put(entry("y"), "t2"),),
        removes=(Remove(place("x"), "t1"),),
        last=record("y", version=PRESENT, former=((place("x"), NOW),)),
        unparks=False,
    )


def test_it_is_settled_even_where_nothing_else_is_to_do():
    before = record("y", leaving=(place("y"),))
    decision = decide(facts(entry("y"), placement=before, stored={place("y"): stored(etag="t2")}), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.puts == (Put(entry("y"), "t2"),)
    assert decision.first == record("y", version=PRESENT, leaving=(place("y"),))
    assert decision.last == record("y", version=PRESENT)


def test_what_stays_is_not_written_again_where_nobody_is_about_to_remove_it():
    """One of a thousand elements goes: that is one removal."""
    decision = decide(facts(entry("y"), placement=record("x", "y"), stored=BOTH), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.puts == ()
    assert decision.removes == (Remove(place("x"), "t1"),)


def test_an_entry_that_loses_a_back_reference_is_written_again():
    """A fan-out that has read it, and dies after writing, is not followed by another one: it has to be refused."""
    back = Place("i", Key.of("by|a"), "refs")
    before = replace(record("x"), entries=(back, place("x")))
    there = {back: stored(etag="t2"), place("x"): stored()}
    decision = decide(facts(entry("x"), placement=before, stored=there), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.puts == (Put(entry("x"), "t1"),)
    assert decision.removes == (Remove(back, "t2"),)


def test_a_fan_out_writes_again_what_it_finds_right():
    """Another one may have read it earlier, be about to write what was right then, and die."""
    back = Place("i", Key.of("by|a"), "refs")
    there = {back: stored(etag="t2"), place("x"): stored()}
    wanted = (Entry(back, {}, None, stored().hash), entry("x"))
    known = replace(
        facts(entry("x"), placement=replace(record("x"), entries=(back, place("x"))), stored=there), wanted=wanted
    )
    assert decide(known, NOW) == Nothing()
    assert decide(replace(known, renewing=True), NOW) == Rewrite((Put(entry("x"), "t1"),))


def test_what_is_leaving_is_stored_by_its_number_among_the_entries():
    before = record("x", "y", leaving=(place("y"),))
    document = placement_document(before, "b", "i", 60)
    assert document["leaving"] == [1]
    assert placement_from(document | {"_etag": "p1"}) == before


def test_a_copy_that_may_be_newer_than_the_known_header_is_doubted():
    """The item side never puts an older copy over a newer one: it asks first."""
    known, newer = Version('"h1"', 10), Version('"h2"', 20)
    there = {place("x"): replace(stored(), inputs={"by|a": newer})}
    wanted = replace(entry("x"), inputs={"by|a": known})
    assert decide(facts(wanted, placement=record("x"), stored=there), NOW) == Confirm(looks_older=True)
    same = replace(entry("x"), inputs={"by|a": newer})
    assert decide(facts(same, placement=record("x"), stored=there), NOW) == Nothing()


def test_what_was_put_before_counts_as_listed_while_it_is_there():
    there = {place("x"): stored(), place("y"): stored(etag="t2")}
    decision = decide(facts(entry("x"), placement=record("x"), stored=there, put={place("y")}), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.first.entries == (place("x"), place("y"))
    assert decision.removes == (Remove(place("y"), "t2"),)
    assert decision.last == record("x", version=PRESENT, former=((place("y"), NOW),))


def test_what_was_put_before_and_is_gone_is_forgotten():
    assert decide(facts(entry("x"), put={place("y")}, **IN_PLACE), NOW) == Nothing()


def test_a_delete_removes_and_leaves_a_tombstone():
    decision = decide(facts(**IN_PLACE), NOW)
    assert decision == Rearrange(
        first=record("x", version=PRESENT, leaving=(place("x"),)),
        puts=(),
        removes=(Remove(place("x"), "t1"),),
        last=record(version=PRESENT, former=((place("x"), NOW),)),
        unparks=False,
    )


def test_a_tombstone_of_an_item_that_is_gone_keeps_its_last_known_version():
    decision = decide(facts(version=GONE, confirmed=True, **IN_PLACE), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.last
    assert decision.first.version == decision.last.version == OLD.gone()


def test_a_delete_with_a_version_of_its_own_stamps_that():
    decision = decide(facts(version=PRESENT.gone(), **IN_PLACE), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.first.version == PRESENT.gone()


def test_an_item_that_comes_back_is_recorded_again():
    decision = decide(facts(entry("x"), placement=record(former=((place("x"), NOW - 5),))), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.first == record("x", version=PRESENT, former=((place("x"), NOW - 5),))
    assert decision.last is None


# former places


def left(*ages: tuple[str, int]) -> tuple[tuple[Place, int], ...]:
    return tuple((place(key), NOW - age) for key, age in ages)


def test_places_left_are_remembered_for_an_hour():
    assert FORMER_SECONDS == 3600
    before = record("x", former=left(("u", 10), ("v", 3599), ("w", 3600), ("z", 9000)))
    decision = decide(facts(entry("y"), placement=before, stored={place("x"): stored()}), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.last
    assert decision.last.former == left(("x", 0), ("u", 10), ("v", 3599))


def test_of_an_item_that_moves_all_the_time_the_last_places_are_remembered():
    before = record("x", former=left(*((f"k{n}", n) for n in range(MOST_FORMER))))
    decision = decide(facts(entry("y"), placement=before, stored={place("x"): stored()}), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.last
    assert len(decision.last.former) == MOST_FORMER
    assert decision.last.former[0] == (place("x"), NOW)
    assert decision.last.former[-1] == (place(f"k{MOST_FORMER - 2}"), NOW - MOST_FORMER + 2)


def test_a_place_left_twice_is_remembered_once_with_the_later_time():
    before = record("x", former=left(("x", 100), ("u", 10)))
    decision = decide(facts(entry("y"), placement=before, stored={place("x"): stored()}), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.last
    assert decision.last.former == left(("x", 0), ("u", 10))


def test_a_place_that_is_wanted_again_is_no_longer_former():
    before = record("x", former=left(("y", 100)))
    decision = decide(facts(entry("y"), placement=before, stored={place("x"): stored()}), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.last
    assert decision.last.former == left(("x", 0))


# parking


def test_a_parked_item_loses_its_entries_and_is_marked():
    decision = decide(facts(parking=True, **IN_PLACE), NOW)
    assert decision == Rearrange(
        first=record("x", version=PRESENT, leaving=(place("x"),), parked=True),
        puts=(),
        removes=(Remove(place("x"), "t1"),),
        last=record(version=PRESENT, former=((place("x"), NOW),), parked=True),
        unparks=False,
    )


def test_a_parked_item_without_entries_is_marked_too():
    decision = decide(facts(parking=True), NOW)
    assert decision == Rearrange(record(version=PRESENT, parked=True), (), (), None, False)


def test_an_item_that_is_parked_again_has_nothing_to_mark():
    assert decide(facts(parking=True, placement=record(parked=True)), NOW) == Nothing()


def test_an_outdated_state_is_not_parked_unconfirmed():
    assert isinstance(decide(facts(parking=True, placement=record("x", version=NEW)), NOW), Confirm)


def test_a_mended_item_is_projected_and_its_dead_letter_has_had_its_time():
    decision = decide(facts(entry("x"), placement=record(parked=True)), NOW)
    assert decision == Rearrange(
        first=record("x", version=PRESENT, parked=True),
        puts=(Put(entry("x"), None),),
        removes=(),
        last=record("x", version=PRESENT),
        unparks=True,
    )


def test_a_parked_item_that_is_deleted_needs_its_dead_letter_no_more():
    decision = decide(facts(placement=record(parked=True)), NOW)
    assert decision == Rearrange(record(version=PRESENT, parked=True), (), (), record(version=PRESENT), unparks=True)


def test_kept_entries_of_a_parked_item_stay_and_only_the_record_says_so():
    decision = decide(facts(parking=True, keeping=True, **IN_PLACE), NOW)
    assert decision == Rearrange(record("x", version=PRESENT, parked=True), (), (), None, False)


def test_kept_and_marked_for_this_state_already():
    marked = record("x", version=PRESENT, parked=True)
    assert decide(facts(parking=True, keeping=True, placement=marked, stored=IN_PLACE["stored"]), NOW) == Nothing()


def test_a_kept_entry_is_put_right_when_the_item_is_mended():
    marked = record("x", parked=True)
    decision = decide(facts(entry("x", "b"), placement=marked, stored=IN_PLACE["stored"]), NOW)
    assert isinstance(decision, Rearrange)
    assert decision.puts == (Put(entry("x", "b"), "t1"),)
    assert decision.last == record("x", version=PRESENT)
    assert decision.unparks


# append_only


def test_append_only_creates_or_replaces_and_records_nothing():
    assert decide(facts(entry("x"), tracked=False), NOW) == Rewrite((Put(entry("x"), None),))
    there = {place("x"): stored(content="b")}
    assert decide(facts(entry("x"), stored=there, tracked=False), NOW) == Rewrite((Put(entry("x"), "t1"),))


def test_append_only_leaves_what_is_right_and_what_is_newer():
    assert decide(facts(entry("x"), stored={place("x"): stored()}, tracked=False), NOW) == Nothing()
    there = {place("x"): stored(NEW, "b")}
    assert isinstance(decide(facts(entry("x"), stored=there, tracked=False), NOW), Confirm)


def test_append_only_never_removes():
    assert decide(facts(tracked=False), NOW) == Nothing()
    assert decide(facts(version=GONE, tracked=False), NOW) == Nothing()
    assert decide(facts(parking=True, tracked=False), NOW) == Nothing()


# strict=False


def test_without_the_check_afterwards_an_item_without_entries_is_recorded():
    assert decide(facts(strict=False), NOW) == Rearrange(record(version=PRESENT), (), (), None, False)


def test_without_the_check_afterwards_a_newer_delete_moves_the_tombstone_on():
    decision = decide(facts(strict=False, placement=record()), NOW)
    assert decision == Rearrange(record(version=PRESENT), (), (), None, False)
    assert decide(facts(strict=False, placement=record(version=PRESENT)), NOW) == Nothing()


def test_without_the_check_afterwards_an_outdated_delete_is_confirmed():
    assert isinstance(decide(facts(strict=False, placement=record(version=NEW)), NOW), Confirm)


# the stored form


@pytest.mark.parametrize(
    "placement",
    [record("x", "y"), record("x", former=left(("y", 5))), record(), record(parked=True), record(version=OLD.gone())],
    ids=["plain", "former", "tombstone", "parked", "gone"],
)
def test_a_record_comes_back_from_its_stored_form(placement):
    document = placement_document(placement, "p@1|3", ITEM.entry_id, 60)
    back = placement_from({**document, "_etag": "p1"})
    assert back == placement
    assert back.etag == "p1"


def test_only_a_record_that_says_nothing_more_expires():
    def ttl(placement: Placement) -> Any:
        return placement_document(placement, "p@1|3", ITEM.entry_id, 60).get("ttl")

    assert ttl(record()) == 60
    assert ttl(record(former=left(("x", 5)))) == 60
    assert ttl(record("x")) is None
    assert ttl(record(parked=True)) is None


def test_the_etag_is_no_part_of_what_a_record_says():
    assert record("x") == replace(record("x"), etag="other")
