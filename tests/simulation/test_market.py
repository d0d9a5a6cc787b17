"""Random histories of every kind of entries and keys: a short run. `make prove` has the long one."""

from __future__ import annotations

import random

import pytest

from projections.declare import Custom, Index
from tests.simulation.adversity import run
from tests.simulation.market import Market, history

FIRST = random.randrange(10**6)
"""Other histories every time; a failure names its seed and tells its tale."""


@pytest.mark.parametrize("part", range(4))
def test_every_kind_of_entries_under_every_kind_of_key(part: int) -> None:
    for seed in range(FIRST + part * 30, FIRST + part * 30 + 30):
        found = run(history(seed))
        assert found.wrong is None, f"seed {seed}: {found}"


def test_every_kind_comes() -> None:
    projections = [Market(seed).rules.projection for seed in range(400)]
    assert len({(type(p), getattr(p, "each", None), repr(p.key)) for p in projections}) == 3 * 9
    assert {p.by for p in projections if isinstance(p, Custom)} == {"position", ("/no",)}
    each = {(p.by, p.duplicates) for p in projections if isinstance(p, Index) and p.each}
    assert len(each) == 3 * 3
