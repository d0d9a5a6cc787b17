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
TRACED: dict[str, Any] = {**STEADY, "fan_outs": 0, "traced": True}
WORKERS = CopyWorkers()
"""What is remembered of them serves for all these searches."""


def searched(workers: CopyWorkers, item: str, *authors: str, clock: str = "apart", **options: Any) -> Found:
    return CopySearch(workers, authored(item, *authors, clock=clock), **options).run()


def converges(item: str, *authors: str, **options: Any) -> None:
    found = searched(WORKERS, item, *authors, **options)
    assert found.wrong is None, str(found)
    assert found.complete


def test_item_and_author_arrive_side_by_side() -> None:
    converges("x:a", "Ann")


@pytest.mark.parametrize("item", ["x:a-x:", "x:a-xx:a", "x:a-gone", "gone-x:a"])
def test_item_and_author_move_on_side_by_side(item: str) -> None:
    converges(item, "Ann-Bob", **SETTLED, **STEADY)


@pytest.mark.parametrize("author", ["Ann-Bob", "Ann-gone", "gone-Ann"])
def test_a_reference_that_comes_while_its_author_changes_and_somebody_is_killed(author: str) -> None:
    converges("x:-x:a", author, **SETTLED)


@pytest.mark.slow
@pytest.mark.parametrize("author", ["Ann-Bob", "Ann-gone", "gone-Ann"])
def test_a_reference_that_goes_while_its_author_changes_and_somebody_is_killed(author: str) -> None:
    converges("x:a-x:", author, **SETTLED)


@pytest.mark.parametrize("clock", ["tied", "backwards"])
def test_other_clocks(clock: str) -> None:
    converges("x:a", "Ann-Bob", clock=clock, overtaken="a", **SETTLED)


def test_an_overtaken_worker_of_the_item_and_somebody_is_killed() -> None:
    converges("x:a", "Ann-Bob", overtaken="i", **SETTLED)


def test_an_author_that_flips_back_while_its_header_is_about_to_be_written() -> None:
    converges("x:a", "Ann-Bob-Ann-Bob", **SETTLED, **STEADY)


def test_two_fan_outs_at_once() -> None:
    converges("x:a-xx:a", "Ann-Bob", fan_outs=2, **SETTLED, **STEADY)


@pytest.mark.slow
def test_two_authors_of_one_item() -> None:
    converges("x:ab", "Ann-Bob", "Ann-Bob", **SETTLED, **STEADY)


@pytest.mark.parametrize("item", ["x:a-x:", "x:a-x:b", "x:-x:a", "x:a-y:a", "x:a-gone"])
def test_a_worker_has_a_back_reference_for_every_copy_at_every_moment(item: str) -> None:
    """A fan-out beside it may be overtaken, and sees to that afterwards."""
    converges(item, "Ann-Bob", **SETTLED, **TRACED)


# the search can fail


BROKEN: list[tuple[Parts, str, str, dict[str, Any], str]] = [
    (Parts(items=broken.Blinkered), "x:a", "Ann", STEADY, "fresh rebuild"),
    (Parts(items=broken.Reversed), "x:a", "Ann", TRACED, "no back-reference"),
    (Parts(items=broken.Rash), "x:a-x:", "Ann", {**SETTLED, **TRACED}, "no back-reference"),
    (Parts(items=broken.Sparing), "x:a-x:", "gone-Ann", SETTLED, "fresh rebuild"),
    (Parts(headers=broken.Silent), "x:a", "Ann", STEADY, "fresh rebuild"),
    (Parts(headers=broken.Late), "x:a", "Ann", {}, "fresh rebuild"),
    (Parts(jobs=broken.Sweeping), "x:a", "Ann-Bob", STEADY, "fresh rebuild"),
    (Parts(fan_outs=broken.Eager), "x:a", "Ann-Bob", SETTLED, "fresh rebuild"),
    (Parts(fan_outs=broken.Tolerant), "x:a", "Ann-Bob-Ann-Bob", {**SETTLED, **STEADY}, "fresh rebuild"),
    (Parts(fan_outs=broken.Presuming), "x:a", "Ann", STEADY, "fresh rebuild"),
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
    assert searched(workers, "x:-x:a", "Ann-Bob", **SETTLED, **STEADY).wrong is None
    assert workers.check_merging() > len(workers.tracks)


def test_without_making_positions_one_it_comes_to_the_same() -> None:
    merged, whole = (searched(CopyWorkers(merging=on), "x:-x:a", "Ann", **SETTLED) for on in (True, False))
    assert whole.wrong is None
    assert whole.positions > merged.positions
