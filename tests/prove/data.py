"""The whole data sets, through the commands, on an emulator in a process of its own; compared with the files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.prove import flights, orders
from tests.prove.account import Account
from tests.prove.report import Part, Steps

VARIABLE = "PROJECTIONS_DATA"
"""Of the environment: where the data sets are."""
STORIES: dict[str, tuple[str, Callable[..., None], int]] = {
    "flights": (flights.CATALOG, flights.story, 8),
    "orders": (orders.CATALOG, orders.story, 13),
}
"""The catalog, what is done, in how many steps."""


def prove(advance: Any, *, folder: Path, share: float, seed: int, only: str = "") -> Iterator[Part]:
    """Each data set on an account of its own."""
    for name, (catalog, story, number) in STORIES.items():
        if only not in name:
            continue
        part = Part(f"data: {name}")
        with tempfile.TemporaryDirectory() as scratch:
            account = Account(Path(scratch), catalog)
            try:
                story(account, folder, share, seed, steps := Steps(part, advance, number))
                worker, emulator = account.peak, account.emulator_memory
                steps.tell(f"memory: {worker:,.0f} MB a worker at most, {emulator:,.0f} MB the emulator at the end")
            except AssertionError as error:
                part.divergences.append(str(error))
            finally:
                account.close()
        yield part
