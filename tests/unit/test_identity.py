"""Who is who: ids that cannot collide and that the store takes."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.identity import Identity, Place
from projections.keys import UNDEFINED, Hierarchical, Key, Path

CASE_7 = [
    "a/b", "a\\b", "a?b", "a#b", "a%2Fb", "a b", "a ", " a", "a", "Jack's doc", "x|y", 'a"b', "a\tb", "..",
    "ключ-🙂", "日本",
]  # fmt: skip

KEYS = st.lists(
    st.one_of(st.text(max_size=20), st.integers(-5, 5), st.booleans(), st.none(), st.just(UNDEFINED)),
    min_size=1,
    max_size=3,
).map(lambda values: Key.of(*values))
IDENTITIES = st.builds(Identity, KEYS, st.text(min_size=1, max_size=300))


def is_valid_id(text: str) -> bool:
    """facts.md 26, kept stricter: plain text that is safe in any address."""
    return bool(re.fullmatch(r"[A-Za-z0-9_.~-]{1,255}", text))


def test_case_7_sixteen_odd_ids_give_sixteen_valid_ids():
    ids = {Identity(Key.of("k1"), id_).entry_id for id_ in CASE_7}
    assert len(ids) == 16
    assert all(map(is_valid_id, ids))


@given(IDENTITIES)
def test_any_identity_gives_a_valid_id(identity):
    assert is_valid_id(identity.entry_id)
    assert len(identity.entry_id) <= 97


@given(IDENTITIES, IDENTITIES)
def test_two_items_never_share_an_id(one, other):
    assert (one.entry_id == other.entry_id) is (one == other)


def test_case_6_the_same_id_in_two_partitions_gives_two_ids():
    keys = ["ana", "bo", "", None, UNDEFINED, 7, "7", True, "true"]
    assert len({Identity(Key.of(key), "chat1").entry_id for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Identity(Key.of("a"), "b"), Identity(Key.of("b"), "a")),
        (Identity(Key.of("a", "b"), "c"), Identity(Key.of("a"), "b,c")),
        (Identity(Key.of("a"), "b\nc"), Identity(Key.of("a\nb"), "c")),
        (Identity(Key.of('a"]\nb'), "c"), Identity(Key.of("a"), 'b"]\nc')),
        (Identity(Key.of("x"), "e\u0301"), Identity(Key.of("x"), "\u00e9")),
        (Identity(Key.of("x"), "a" * 64 + "1"), Identity(Key.of("x"), "a" * 64 + "2")),
    ],
    ids=["swapped", "levels", "line feed", "quotes", "composed", "beyond what is shown"],
)
def test_id_and_key_do_not_run_together(one, other):
    assert one.entry_id != other.entry_id


def test_an_entry_id_shows_the_source_id_to_people():
    assert Identity(Key.of("s1"), "order-42").entry_id.startswith("order-42~")
    assert Identity(Key.of("s1"), "a/b").entry_id.startswith("a_b~")


def test_case_13_an_id_keeps_its_zeros():
    assert Identity(Key.of("q"), "007").entry_id != Identity(Key.of("q"), "7").entry_id


def test_one_number_is_one_item_however_it_is_written():
    assert Identity(Key.of(7), "a").entry_id == Identity(Key.of(7.0), "a").entry_id


def test_a_lone_surrogate_is_an_id_like_any_other():
    assert is_valid_id(Identity(Key.of("\ud800"), "\udfff").entry_id)


def test_the_digest_is_fixed():
    """stored; change with a version"""
    identity = Identity(Key.of("s1"), "o1")
    assert identity.digest.hex() == "6b1b8bb6a0cc44529506dfb088aa747ea611c729ff7de700610d6338123f3de6"


@pytest.mark.parametrize("buckets", [1, 2, 16, 4096])
def test_buckets_are_all_used_and_never_left(buckets):
    used = {Identity(Key.of("s"), str(n)).bucket(buckets) for n in range(buckets * 12)}
    assert used == set(range(buckets))


def test_the_identity_of_an_item_is_its_key_and_its_id():
    item = {"id": "1", "a": None, "c": {"d": 7}}
    assert Identity.of(item, Path("/a")) == Identity(Key.of(None), "1")
    levels = Hierarchical((Path("/a"), Path("/b"), Path("/c/d")))
    assert Identity.of(item, levels) == Identity(Key.of(None, UNDEFINED, 7), "1")


@given(IDENTITIES)
def test_identities_and_places_come_back_from_their_stored_form(identity):
    assert Identity.from_stored(identity.to_stored()) == identity
    place = Place(identity.entry_id, identity.key)
    assert Place.from_stored(place.to_stored()) == place


def test_an_identity_is_told_to_people_in_full():
    assert str(Identity(Key.of("s1", None), "o1")) == "'o1' of [\"s1\",null]"


def test_places_differ_by_id_and_by_key():
    places = [Place(id_, Key.of(key)) for id_, key in itertools.product(("a", "b"), (1, "1"))]
    assert len(set(places)) == 4
