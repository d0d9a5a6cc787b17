"""Stored shapes of verify, pinned: how far a run is, and what the last one has found."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from projections.differences import Difference, Fault
from projections.identity import Identity, Place
from projections.keys import Key
from projections.outcomes import Tally
from projections.sides import Piece, Side
from projections.store import FeedRange
from projections.sums import Sums, bucket_of
from projections.verification import Phase, Report, Run
from tests.golden.test_golden_feed import golden
from tests.support import index

IDENTITY = Identity(Key.of("s1"), "o1")


def run() -> Run:
    """One that was cut off among the dead letters."""
    missing = Difference(
        fault=Fault.MISSING, identity=IDENTITY, place=Place("o1~a", Key.of("open")), what="of many", expected="h1"
    )
    foreign = Difference(fault=Fault.FOREIGN, place=Place("x", Key.of("open")))
    report = Report(
        "by-status", "all", 10, 9, 3, Counter({"missing": 1}), 2, [missing], Counter({"missing": 1}), Counter(),
        Tally(Counter(written=1)), 7, 12.5, 1.5,
    )  # fmt: skip
    pieces = [
        Piece(Side.TARGET, FeedRange("", "FF"), since="b3BhcXVl"), Piece(Side.LETTERS, partition="by-status@1"),
    ]  # fmt: skip
    made = Run("all, repair", pieces, report, 1_700_000_000, Phase.FIND, 1, "b3BhcXVl")
    made.chosen = bytes(made.faulty[:-1]) + b"\1"
    made.held, made.moved, made.saves = {'|target|x|["open"]': foreign}, {'target|o1~a|["open"]': True}, 4
    made.unbalanced = [Key.of("open")]
    return made


def test_a_run_that_was_cut_off() -> None:
    stored: dict[str, Any] = run().to_stored("by-status@1")
    assert json.loads(json.dumps(stored)) == golden("verify")


def test_a_stored_run_is_gone_on_with() -> None:
    read = Run.from_stored(golden("verify") | {"_etag": "e"}, index(), "_source")
    assert read.etag == "e"
    assert read.to_stored("by-status@1") == run().to_stored("by-status@1")


def test_sums_and_their_buckets() -> None:
    sums = Sums()
    sums.add(1, 258)
    sums.add(2, -1)
    assert sums.to_stored()[:36] == "AAAAAAAAAAACAQAAAAAAAP//////////AAAA"
    assert Sums.from_stored(sums.to_stored()).to_stored() == sums.to_stored()
    assert [n for n, differs in enumerate(sums.differing()) if differs] == [1, 2]
    assert bucket_of(IDENTITY) == golden("verify-bucket")
