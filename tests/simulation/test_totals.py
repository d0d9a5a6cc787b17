"""Real writers of an Aggregate side by side: totals are what contributions come to, at every step of every run.

The protocol for entries is searched in test_search.py; what is new is the total beside them, which items share.
"""

from __future__ import annotations

from typing import Any

import pytest

from projections.entries import Rules
from projections.writer import Writer
from tests.simulation import broken
from tests.simulation.search import Search, search
from tests.simulation.states import ADDED, COMPARED, COUNTED, History
from tests.simulation.tracks import Workers


def converges(workers: Workers, *histories_: History, **options: Any) -> None:
    found = Search(workers, histories_, **options).run()
    assert found.wrong is None, str(found)
    assert found.complete


def beside(rules: Rules, one: str, other: str, writer: type[Writer] | None = None) -> tuple[Workers, list[History]]:
    """Two items; the overtaken worker has the first one, the owner both."""
    return Workers(rules, writer, ids="ij"), [History.of(one), History.of(other, id_="j")]


APART: dict[str, Any] = {"pages": ((0,), (0, 1))}
STEADY: dict[str, Any] = {**APART, "kills": False}  # with kills it is in `make prove`


@pytest.mark.parametrize("names", ["xa", "xa-xb"])
def test_one_item(names: str) -> None:
    converges(Workers(ADDED), History.of(names))


def test_an_item_that_moves_to_another_group() -> None:
    converges(Workers(ADDED), History.of("xa-ya"), kills=False)


def test_a_value_that_comes_and_goes() -> None:
    converges(Workers(COUNTED), History.of("xa"), others=("audit",))
    converges(Workers(COUNTED), History.of("xa-xb"), kills=False)


@pytest.mark.parametrize(("rules", "other"), [(ADDED, "xb"), (COMPARED, "xa")])
def test_two_items_of_one_group(rules: Rules, other: str) -> None:
    workers, both = beside(rules, "xa", other)
    converges(workers, *both, **APART)


def test_two_items_with_one_value() -> None:
    workers, both = beside(COUNTED, "xa", "xa")
    converges(workers, *both, **STEADY)


def test_the_greatest_leaves_while_another_one_comes() -> None:
    workers, both = beside(COMPARED, "xb-xa", "xa")
    converges(workers, *both, **STEADY)


# the search can fail


BROKEN: list[tuple[type[Writer], Rules, str, str | None, str]] = [
    (broken.Apart, ADDED, "xa", None, "there are totals of set()"),
    (broken.Overwriting, ADDED, "xa", "xb", "of 1 contributions, and there are 2"),
    (broken.Premature, COMPARED, "xb-gone", "xa", "its contributions come to a"),
    (broken.Assuming, ADDED, "xa-xb", None, "of 2 contributions, and there are 1"),
]


@pytest.mark.parametrize(("writer", "rules", "one", "other", "wrong"), BROKEN)
def test_without_one_part_of_it_a_total_is_torn(
    writer: type[Writer], rules: Rules, one: str, other: str | None, wrong: str
) -> None:
    if other is None:
        found = search(Workers(rules, writer), History.of(one))
    else:
        workers, both = beside(rules, one, other, writer)
        found = search(workers, *both, **STEADY)
    assert found.wrong
    assert wrong in found.wrong
    assert found.steps


def test_positions_that_were_made_one_behave_alike() -> None:
    workers, both = beside(COMPARED, "xb", "xa")
    workers.merged = {}
    converges(workers, *both, **APART)
    assert workers.check_merging() > len(workers.tracks)
