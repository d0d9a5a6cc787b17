"""Random histories under all that the platform may do: a short run. `make prove` has the long one."""

from __future__ import annotations

import random

import pytest

from tests.simulation import broken
from tests.simulation.adversity import CLIMATES, Found, history, run

FIRST = random.randrange(10**6)
"""Other histories every time; a failure names its seed and tells its tale."""


@pytest.mark.parametrize("part", range(4))
def test_random_histories_converge_and_add_up(part: int) -> None:
    for seed in range(FIRST + part * 40, FIRST + part * 40 + 40):
        found = run(history(seed))
        assert found.wrong is None, f"seed {seed}: {found}"


def test_every_climate_comes() -> None:
    found = [run(history(seed)) for seed in range(40)]
    assert {one.climate for one in found} == set(CLIMATES)
    assert any(one.audited_first for one in found)
    assert not all(one.audited_first for one in found)


def first_wrong(writer: type) -> Found | None:
    return next((found for seed in range(1_500) if (found := run(history(seed, writer))).wrong), None)


def test_a_writer_that_believes_what_looks_older_goes_wrong() -> None:
    found = first_wrong(broken.Credulous)
    assert found
    assert found.tale


def test_a_history_can_be_told_from_its_beginning() -> None:
    assert run(history(3, at_most=1)).tale == run(history(3)).tale[: len(run(history(3, at_most=1)).tale)]
