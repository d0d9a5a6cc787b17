"""Outcomes are a closed set, and counts add up."""

from __future__ import annotations

from projections.identity import Identity
from projections.keys import Key
from projections.outcomes import Outcome, Result, Tally


def result(outcome: Outcome, reason: str | None = None, *notes: str) -> Result:
    return Result(Identity(Key.of("k"), "1"), outcome, reason, notes)


RESULTS = [
    result(Outcome.WRITTEN),
    result(Outcome.WRITTEN, None, "delete marker has an unexpected type"),
    result(Outcome.SKIPPED, "where"),
    result(Outcome.SKIPPED, "missing key"),
    result(Outcome.REMOVED, "where"),
    result(Outcome.PARKED, "TooLargeError"),
]


def counted(*results: Result) -> Tally:
    tally = Tally()
    tally.add(results)
    return tally


def test_the_outcomes_are_the_words_of_the_design():
    assert {outcome.value for outcome in Outcome} == {
        "written", "unchanged", "stale", "removed", "moved", "skipped", "parked",
    }  # fmt: skip


def test_every_result_is_counted_once_by_outcome():
    tally = counted(*RESULTS)
    assert tally.total == len(RESULTS)
    assert tally.outcomes == {"written": 2, "skipped": 2, "removed": 1, "parked": 1}


def test_reasons_are_counted_by_what_came_of_them():
    assert counted(*RESULTS).reasons == {
        "skipped: where": 1,
        "skipped: missing key": 1,
        "removed: where": 1,
        "parked: TooLargeError": 1,
        "delete marker has an unexpected type": 1,
    }


def test_an_empty_tally_counts_nothing():
    assert Tally().total == 0
    assert Tally().to_stored() == {"outcomes": {}, "reasons": {}}


def test_tallies_add_up():
    one, other = counted(*RESULTS[:3]), counted(*RESULTS[3:])
    one.merge(other)
    assert one == counted(*RESULTS)


def test_a_tally_comes_back_from_its_stored_form():
    tally = counted(*RESULTS)
    assert Tally.from_stored(tally.to_stored()) == tally
    assert Tally.from_stored({}) == Tally()


def test_the_stored_form_does_not_depend_on_the_order_of_results():
    assert list(counted(*RESULTS).to_stored()["outcomes"]) == list(counted(*reversed(RESULTS)).to_stored()["outcomes"])


def test_two_tallies_share_no_counters():
    one = counted(*RESULTS)
    assert Tally().total == 0
    assert one.total == 6
