"""Two writers on one item, every interleaving: the target ends up as a fresh rebuild would have it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from projections.writer import Attempt, Writer
from tests.simulation.search import CLOCKS, CONTENTS, RULES, History, Workers, search

ALL = [name for name in CONTENTS if name != "bad"]


def histories(length: int, names: Sequence[str] = ALL, clock: str = "apart") -> Iterator[History]:
    """Every history of some length. An item that is gone cannot go again."""
    for chosen in itertools.product(names, repeat=length):
        if ("gone", "gone") not in itertools.pairwise(chosen):
            yield History(chosen, clock)


def first_letters(history: History) -> bool:
    """Whether a history has xa where it could as well have any other first entry: the others are its mirror images."""
    entries = [name for name in history.names if name in ("xa", "xb", "ya")]
    return not entries or entries[0] == "xa"


QUICK = [history for n in (1, 2) for history in histories(n) if first_letters(history)]
SLOW = [
    *(history for clock in ("tied", "backwards") for history in histories(2, clock=clock) if first_letters(history)),
    *(history for history in histories(2) if not first_letters(history)),
]
PARKED = [History(tuple(names.split("-"))) for names in ("bad", "soft-bad", "gone-bad", "bad-soft", "bad-gone")]
THREE = [
    History(tuple(names.split("-")))
    for names in ("soft-xa-soft", "soft-xa-xb", "gone-soft-xa", "xa-soft-xa", "gone-xa-gone")
]


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers() as workers:
        yield workers


def converges(workers: Workers, history: History) -> None:
    found = search(workers, history)
    assert found.wrong is None, str(found)


@pytest.mark.parametrize("history", QUICK, ids=str)
def test_one_and_two_states(workers, history):
    converges(workers, history)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("history", SLOW, ids=str)
def test_two_states_with_other_clocks_and_mirrored(workers, history):
    converges(workers, history)


@pytest.mark.parametrize("history", PARKED, ids=str)
def test_an_item_that_is_parked_on_the_way(workers, history):
    converges(workers, history)


@pytest.mark.parametrize("history", THREE, ids=str)
def test_a_sample_of_three_states(workers, history):
    converges(workers, history)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_item_that_is_parked_and_mended(workers):
    converges(workers, History(("bad", "xa")))


# the search can fail


class Forgetful(Writer):
    """Does not remember what it has put (design 6, step 6)."""

    async def _round(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            attempt.put.clear()
        await super()._round(attempts)


def test_without_the_memory_of_what_was_put_an_entry_is_left_behind():
    with Workers(writer=Forgetful) as workers:
        found = search(workers, History(("xa", "ya")))
    assert found.wrong
    assert "fresh rebuild" in found.wrong
    assert found.steps


def test_without_the_check_afterwards_an_entry_is_left_behind():
    loose = replace(RULES, projection=RULES.projection.model_copy(update={"strict": False}))
    with Workers(rules=loose) as workers:
        found = search(workers, History(("xa", "ya")))
    assert found.wrong
    assert "fresh rebuild" in found.wrong


def test_the_clocks_differ_where_it_matters():
    assert {name: [clock(n) for n in (0, 1)] for name, clock in CLOCKS.items()} == {
        "apart": [1_700_000_000, 1_700_000_001],
        "tied": [1_700_000_000, 1_700_000_000],
        "backwards": [1_700_000_000, 1_699_999_999],
    }
