"""Entries with copies, under all that the platform may do: a short run. `make prove` has the long one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.simulation import broken
from tests.simulation.adversity import Found, run
from tests.simulation.town import history

FIRST = random.randrange(10**6)
"""Other histories every time; a failure names its seed and tells its tale."""


@pytest.mark.parametrize("in_place", [False, True])
def test_copies_follow_what_they_are_copies_of(in_place: bool) -> None:
    for seed in range(FIRST, FIRST + 60):
        found = run(history(seed, in_place=in_place))
        assert found.wrong is None, f"seed {seed}: {found}"


def first_wrong(**writers: Any) -> Found | None:
    return next((found for seed in range(5_000) if (found := run(history(seed, **writers))).wrong), None)


def test_without_fan_outs_a_copy_is_wrong() -> None:
    assert first_wrong(header_writer=broken.Silent)


@pytest.mark.slow
def test_without_a_look_at_the_headers_a_copy_is_wrong() -> None:
    assert first_wrong(writer=broken.Blinkered)
