"""Entries with copies, under all that the platform may do: a short run. `make prove` has the long one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from projections.batches import Write
from projections.embedding import EmbedWriter, HeaderWriter
from projections.plan import Put
from projections.writer import Attempt, Writer
from tests.simulation.adversity import run
from tests.simulation.town import Found, history

FIRST = random.randrange(10**6)
"""Other histories every time; a failure names its seed and tells its tale."""


def test_copies_follow_what_they_are_copies_of() -> None:
    for seed in range(FIRST, FIRST + 60):
        found = run(history(seed))
        assert found.wrong is None, f"seed {seed}: {found}"


class Blinkered(EmbedWriter):
    """Does not look whether a header has moved on."""

    async def _still_present(self, attempts: list[Attempt]) -> list[Attempt]:
        return await Writer._still_present(self, attempts)


class Backwards(EmbedWriter):
    """Puts the entry before the back-references: a fan-out in between finds nothing to do."""

    async def _put(self, puts: list[tuple[Attempt, Put]]) -> None:
        for container in ("target", "refs"):
            here = [(attempt, put) for attempt, put in puts if put.entry.place.container == container]
            await self._put_into([(attempt, put) for attempt, put in here if not attempt.failed])


class Late(HeaderWriter):
    """Has the fan-out on record only when the header is written."""

    async def _write_entries(self, writes: list[tuple[Attempt, Write]]) -> None:
        await Writer._write_entries(self, writes)
        await self.jobs.begin([attempt.identity for attempt, _ in writes])


class Silent(HeaderWriter):
    """Has no fan-out."""

    async def _write_entries(self, writes: list[tuple[Attempt, Write]]) -> None:
        await Writer._write_entries(self, writes)


def first_wrong(**writers: Any) -> Found | None:
    return next((found for seed in range(1_000) if (found := run(history(seed, **writers))).wrong), None)


@pytest.mark.parametrize(
    "writers", [{"writer": Blinkered}, {"header_writer": Silent}, {"header_writer": Late}], ids=str
)
def test_without_one_part_of_the_protocol_a_copy_is_wrong(writers: Any) -> None:
    assert first_wrong(**writers)
