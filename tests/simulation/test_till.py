"""Random histories of an Aggregate: a short run. `make prove` has the long one."""

from __future__ import annotations

import random

import pytest

from tests.simulation import broken
from tests.simulation.adversity import run
from tests.simulation.till import history

FIRST = random.randrange(10**6)
"""Other histories every time; a failure names its seed and tells its tale."""


@pytest.mark.parametrize("part", range(2))
def test_totals_are_what_contributions_come_to_and_contributions_what_items_do(part: int) -> None:
    for seed in range(FIRST + part * 30, FIRST + part * 30 + 30):
        found = run(history(seed))
        assert found.wrong is None, f"seed {seed}: {found}"


@pytest.mark.parametrize("writer", [broken.Apart, broken.Assuming])
def test_a_writer_that_tears_totals_is_found_out(writer: type) -> None:
    assert any(run(history(seed, writer)).wrong for seed in range(50))
