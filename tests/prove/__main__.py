"""The whole proof: `python -m tests.prove [PART ...]`. It ends with a summary, and with 1 where anything diverged."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.prove import data, faults, interleavings, kills, randomly
from tests.prove.report import Part

PARTS: dict[str, Callable[[Any, argparse.Namespace], Iterator[Part]]] = {
    "interleavings": lambda advance, given: interleavings.prove(
        advance, processes=given.processes, seconds=given.seconds, only=given.only
    ),
    "random": lambda advance, given: randomly.prove(
        advance, processes=given.processes, seed=given.seed, number=given.histories
    ),
    "kills": lambda advance, given: kills.prove(advance, seed=given.seed, kills=given.kills, changes=given.load),
    "faults": lambda advance, given: faults.prove(advance, seed=given.seed, number=given.changes),
    "data": lambda advance, given: data.prove(
        advance, folder=given.data, share=given.share, seed=given.seed, only=given.only
    ),
}


def main() -> int:
    given = _arguments()
    os.environ["PYTHONHASHSEED"] = "0"  # of the processes to come: a seed gives the same history every time
    console = Console(width=None if sys.stdout.isatty() else 160)
    found: list[Part] = []
    for name in given.parts or [name for name in PARTS if name != "data" or given.data]:
        found += _prove(console, name, given)
    console.print(_summary(found, given))
    for part in found:
        for text in part.divergences:
            console.print(f"DIVERGES {part.what}: {text}", markup=False)
        for text in part.unfinished:
            console.print(f"not finished: {text}", markup=False)
    return 1 if any(part.divergences for part in found) else 0


def _prove(console: Console, name: str, given: argparse.Namespace) -> list[Part]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began, told = time.monotonic(), 0.0
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        done = 0

        def advance(total: int, what: str = "", by: int = 1) -> None:
            nonlocal told, done
            done += by
            progress.update(task, advance=by, total=total)
            if not console.is_terminal and time.monotonic() - told > 30:
                told = time.monotonic()
                console.print(f"{told - began:6.0f} s  {name}  {done} of {total}  {what}", markup=False)

        return list(PARTS[name](advance, given))


def _summary(found: list[Part], given: argparse.Namespace) -> Table:
    table = Table(title=f"seed {given.seed}")
    for heading in ("what", "runs", "measured", "divergences", "not finished", "seconds"):
        table.add_column(heading, justify="left" if heading in ("what", "measured") else "right")
    for part in found:
        counts = (str(len(part.divergences)), str(len(part.unfinished)))
        table.add_row(part.what, f"{part.runs:,}", part.measured, *counts, f"{part.seconds:,.0f}")
    return table


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all when none is named", metavar="PART")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1, help="of everything that is random")
    parser.add_argument("--seconds", type=float, default=interleavings.SECONDS, help="for one search at most")
    parser.add_argument("--only", default="", help="searches, or data sets, whose name holds this text")
    parser.add_argument("--histories", type=int, default=100_000, help="random ones")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--load", type=int, default=20_000, help="changes while workers are killed")
    parser.add_argument("--changes", type=int, default=1_000_000, help="with faults, in memory")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", default=os.environ.get(data.VARIABLE),
        help=f"where the data sets are; {data.VARIABLE} says it, too; without it there is no part data",
    )  # fmt: skip
    parser.add_argument("--share", type=float, default=1.0, help="of the data sets that is used")
    given = parser.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    if "data" in given.parts and not given.data:
        parser.error(f"data: say with --data, or with {data.VARIABLE}, where the data sets are")
    return given


if __name__ == "__main__":
    sys.exit(main())
