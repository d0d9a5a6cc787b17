"""Random histories, every one from a seed of its own: `python -m tests.prove random --seed S` repeats them."""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.prove.report import Part
from tests.simulation import adversity, market, till, town
from tests.simulation.adversity import Found, run

CHUNK = 200
STEPS = 25
KINDS: dict[str, tuple[Any, int]] = {
    "": (adversity.history, 1), " of every kind and key": (market.history, 2), " with totals": (till.history, 5),
    " with copies": (town.history, 5),
    " with copies in place": (functools.partial(town.history, in_place=True), 5),
}  # fmt: skip
"""What the histories are of: an Index, an Aggregate, an Embed; of so many histories of an Index there is one."""


def shortest(history: Any, seed: int) -> Found:
    """The shortest beginning of a history that goes wrong."""
    for steps in range(1, STEPS + 1):
        found = run(history(seed, at_most=steps))
        if found.wrong:
            return found
    return run(history(seed))


def _chunk(task: tuple[str, range]) -> tuple[int, list[str], Counter[str], float]:
    kind, seeds = task
    history, _ = KINDS[kind]
    began = time.process_time()
    wrong, counted = [], Counter[str]()
    for seed in seeds:
        found = run(history(seed))
        counted[f"climate {found.climate}"] += 1
        counted["audited first"] += found.audited_first
        counted["items"] += found.items
        counted.update(found.outcomes)
        if found.wrong:
            wrong.append(f"seed {seed}: {shortest(history, seed)}" if len(wrong) < 3 else f"seed {seed}: {found.wrong}")
    return len(seeds), wrong, counted, time.process_time() - began


def prove(advance: Any, *, processes: int, seed: int, number: int) -> Iterator[Part]:
    """Run so many histories of an Index, and fewer of an Aggregate and an Embed."""
    for kind, (_, share) in KINDS.items():
        yield _histories(advance, processes, seed, number // share, kind)


def _histories(advance: Any, processes: int, seed: int, number: int, kind: str) -> Part:
    part, counted = Part(f"random histories{kind}"), Counter[str]()
    first = seed * 1_000_000_000
    chunks = [(kind, range(n, min(n + CHUNK, first + number))) for n in range(first, first + number, CHUNK)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for runs, wrong, found, seconds in pool.imap_unordered(_chunk, chunks):
            part.runs += runs
            part.divergences += wrong
            part.seconds += seconds
            counted.update(found)
            advance(number, wrong[0] if wrong else f"{len(part.divergences)} divergences", by=runs)
    ends = ", ".join(f"{counted[name]:,} {word}" for name, word in ENDS.items())
    part.measured = f"{counted['items']:,} items = {ends}; {counted['audited first']:,} histories needed an audit"
    reflected = sum(counted[name] for name in ENDS)
    if reflected != counted["items"]:
        part.divergences.append(f"{reflected} items are accounted for, of {counted['items']}")
    return part


ENDS = {"unchanged": "reflected", "skipped": "left out by a rule", "parked": "parked"}
