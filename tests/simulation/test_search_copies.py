"""The workers that keep copies side by side, every interleaving: all ends up as a fresh rebuild would have it.

Long searches are in `make prove`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation import broken
from tests.simulation.copies import CopyWorkers, Parts
from tests.simulation.search import Found
from tests.simulation.search_copies import CopySearch, authored

STEADY: dict[str, Any] = {"kills": False}
SETTLED: dict[str, Any] = {"settled": True}


def searched(workers: CopyWorkers, item: str, *authors: str, **options: Any) -> Found:
    return CopySearch(workers, authored(item, *authors), **options).run()


def converges(item: str, *authors: str, **options: Any) -> None:
    found = searched(CopyWorkers(), item, *authors, **options)
    assert found.wrong is None, str(found)
    assert found.complete


def test_item_and_author_arrive_side_by_side() -> None:
    converges("x:a", "Ann", **STEADY)


@pytest.mark.parametrize("item", ["x:a-x:", "x:-x:a", "x:a-xx:a"])
def test_item_and_author_move_on_side_by_side(item: str) -> None:
    converges(item, "Ann-Bob", **SETTLED, **STEADY)


def test_a_reference_that_comes_while_its_author_changes_and_somebody_is_killed() -> None:
    converges("x:-x:a", "Ann-Bob", **SETTLED)


def test_an_author_that_goes_away_and_somebody_is_killed() -> None:
    converges("x:a", "Ann-gone", overtaken="a", **SETTLED)


def test_an_overtaken_worker_of_the_item_and_somebody_is_killed() -> None:
    converges("x:a", "Ann-Bob", overtaken="i", **SETTLED)


def test_two_authors_of_one_item() -> None:
    converges("x:ab", "Ann-Bob", "Ann-Bob", **SETTLED, **STEADY)


@pytest.mark.parametrize("item", ["x:a-x:", "x:-x:a", "x:a-gone"])
def test_whatever_has_a_copy_has_a_back_reference_at_every_moment(item: str) -> None:
    converges(item, "Ann-Bob", traced=True, **SETTLED, **STEADY)


# the search can fail


BROKEN: list[tuple[Parts, str, str, dict[str, Any], str]] = [
    (Parts(items=broken.Blinkered), "x:a", "Ann", STEADY, "fresh rebuild"),
    (Parts(items=broken.Reversed), "x:a", "Ann", {"traced": True, **STEADY}, "no back-reference"),
    (Parts(items=broken.Rash), "x:a-x:", "Ann", {"traced": True, **SETTLED, **STEADY}, "no back-reference"),
    (Parts(headers=broken.Silent), "x:a", "Ann", STEADY, "fresh rebuild"),
    (Parts(headers=broken.Late), "x:a", "Ann", {}, "fresh rebuild"),
    (Parts(jobs=broken.Sweeping), "x:a", "Ann-Bob", STEADY, "fresh rebuild"),
    (Parts(fan_outs=broken.Eager), "x:a", "Ann-Bob", SETTLED, "fresh rebuild"),
    (Parts(fan_outs=broken.Presuming), "x:a", "Ann-Bob", {**SETTLED, **STEADY}, "fresh rebuild"),
]


@pytest.mark.parametrize(("parts", "item", "author", "options", "wrong"), BROKEN)
def test_without_one_part_of_it_it_goes_wrong(
    parts: Parts, item: str, author: str, options: dict[str, Any], wrong: str
) -> None:
    found = searched(CopyWorkers(parts), item, author, **options)
    assert found.wrong
    assert wrong in found.wrong
    assert found.steps


def test_a_fan_out_on_record_only_after_the_header_is_well_unless_somebody_is_killed() -> None:
    assert searched(CopyWorkers(Parts(headers=broken.Late)), "x:a", "Ann", **STEADY).wrong is None


# what the search rests on


def test_positions_that_were_made_one_behave_alike() -> None:
    workers = CopyWorkers()
    workers.merged = {}
    assert searched(workers, "x:a-x:", "Ann-Bob", **SETTLED, **STEADY).wrong is None
    assert workers.check_merging() > len(workers.tracks)


def test_without_making_positions_one_it_comes_to_the_same() -> None:
    merged, whole = (searched(CopyWorkers(merging=on), "x:a", "Ann", **STEADY) for on in (True, False))
    assert whole.wrong is None
    assert whole.positions > merged.positions
