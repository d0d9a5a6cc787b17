"""Which of two states is newer; and when that cannot be said."""

from __future__ import annotations

import itertools

import pytest

from projections.version import Order, Version

SAME, NEWER, OLDER, UNCLEAR = Order.SAME, Order.NEWER, Order.OLDER, Order.UNCLEAR


def version(lsn: int | None, ts: int | None, etag: str | None = "other") -> Version:
    return Version(etag, ts, lsn)


# The other version is lsn 10, ts 100 throughout.
TABLE = [
    (11, 101, NEWER, "both say newer"),
    (9, 99, OLDER, "both say older"),
    (11, 100, UNCLEAR, "within one second"),
    (9, 100, UNCLEAR, "within one second"),
    (10, 101, UNCLEAR, "one transaction cannot have two times"),
    (10, 99, UNCLEAR, "one transaction cannot have two times"),
    (10, 100, UNCLEAR, "a tie"),
    (11, 99, UNCLEAR, "contradiction: a clock set back, or a merge"),
    (9, 101, UNCLEAR, "contradiction"),
    (11, None, NEWER, "only the lsn is known"),
    (9, None, OLDER, "only the lsn is known"),
    (10, None, UNCLEAR, "only the lsn is known, and ties"),
    (None, 101, NEWER, "only the time is known"),
    (None, 99, OLDER, "only the time is known"),
    (None, 100, UNCLEAR, "only the time is known, and ties"),
    (None, None, UNCLEAR, "nothing is known"),
]


@pytest.mark.parametrize(("lsn", "ts", "order", "why"), TABLE, ids=[f"{a}-{b}" for a, b, *_ in TABLE])
def test_order(lsn, ts, order, why):
    assert version(lsn, ts).against(version(10, 100, "stored")) is order, why


def test_lsn_zero_and_time_zero_are_known():
    assert version(0, None).against(version(1, None, "stored")) is OLDER
    assert version(0, 0).against(version(1, 1, "stored")) is OLDER
    assert version(None, 0).against(version(None, 0, "stored")) is UNCLEAR


@pytest.mark.parametrize(("lsn", "ts"), [(None, None), (9, 99), (11, 101), (11, 99)])
def test_an_equal_etag_is_the_same_state_whatever_else_is_known(lsn, ts):
    assert version(lsn, ts, "e").against(version(10, 100, "e")) is SAME


def test_two_unknown_etags_are_not_equal():
    assert version(None, None, None).against(version(None, None, None)) is UNCLEAR


def test_gone_is_newer_than_the_state_it_was_last_known_in():
    last = version(10, 100, "e")
    assert last.gone().against(last) is NEWER
    assert last.against(last.gone()) is OLDER
    assert last.gone().against(last.gone()) is SAME


def test_gone_without_a_last_state_is_unclear_against_anything():
    assert Version(deleted=True).against(version(10, 100)) is UNCLEAR
    assert version(10, 100).against(Version(deleted=True)) is UNCLEAR
    assert Version(deleted=True).against(Version(deleted=True)) is UNCLEAR


def test_a_recreated_item_is_newer_than_its_tombstone():
    assert version(12, 120).against(version(10, 100, "e").gone()) is NEWER


def test_of_two_versions_never_both_are_newer():
    flip = {SAME: SAME, UNCLEAR: UNCLEAR, NEWER: OLDER, OLDER: NEWER}
    known = (None, 0, 1, 2)
    versions = [
        Version(etag, ts, lsn, deleted)
        for etag, ts, lsn, deleted in itertools.product((None, "a", "b"), known, known, (False, True))
    ]
    for one, other in itertools.product(versions, versions):
        assert one.against(other) is flip[other.against(one)]


def test_only_the_feeds_lsn_counts():
    item = {"id": "1", "_etag": "e", "_ts": 5, "_lsn": 7}
    assert Version.of(item, from_feed=True) == Version("e", 5, 7)
    assert Version.of(item, from_feed=False) == Version("e", 5, None)


@pytest.mark.parametrize(
    "stored", [Version("e", 5), Version("e", 5, 7), Version("e", 5, 0), Version("e", 5).gone(), Version(deleted=True)]
)
def test_a_version_comes_back_from_its_stored_form(stored):
    assert Version.from_stored(stored.to_stored()) == stored
