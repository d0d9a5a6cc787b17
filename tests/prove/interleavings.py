"""Every interleaving of store calls, for all histories of up to three states."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any, TypeVar

from projections.entries import Rules
from tests.prove.report import Part
from tests.simulation import broken
from tests.simulation.copies import WHOLE, CopyWorkers, Parts
from tests.simulation.search import Found, Search
from tests.simulation.search_copies import CopySearch, authored
from tests.simulation.states import (
    ADDED,
    ALL,
    CLOCKS,
    COMPARED,
    COUNTED,
    ELEMENTS,
    ENTRIES,
    EXPLODED,
    RULES,
    History,
    histories,
)
from tests.simulation.tracks import Workers

SECONDS = 900.0
"""For one search, before it is cut off."""

AnyWorkers = TypeVar("AnyWorkers", bound=Workers)

MOST_TRACKS = 100_000
"""Remembered by one process."""


@dataclass(frozen=True)
class Job:
    """One search."""

    group: str
    histories: tuple[History, ...]
    options: dict[str, Any] = field(default_factory=dict)
    rules: Rules = RULES
    writer: str | None = None  # a broken one, which has to go wrong

    def run(self, seconds: float) -> Found:
        workers = _workers("".join(history.id for history in self.histories), self.rules, self.writer)
        return Search(workers, self.histories, **self.options).run(seconds=seconds)

    def __str__(self) -> str:
        return f"{self.group}: {', '.join(map(str, self.histories))}"


@dataclass(frozen=True)
class CopyJob:
    """One search of what keeps copies."""

    group: str
    histories: tuple[str, ...]  # of the item, and of each author
    options: dict[str, Any] = field(default_factory=dict)
    clock: str = "apart"
    parts: Parts = WHOLE
    writer: str | None = None  # the part that is broken, so that it has to go wrong

    def run(self, seconds: float) -> Found:
        workers = _remembered(self.parts, lambda: CopyWorkers(self.parts))
        return CopySearch(workers, authored(*self.histories, clock=self.clock), **self.options).run(seconds=seconds)

    def __str__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in self.options.items())
        return f"{self.group}: {', '.join(self.histories)} ({self.clock}){options}"


_known: dict[Any, Any] = {}


def _workers(ids: str, rules: Rules, writer: str | None) -> Workers:
    options = {"writer": getattr(broken, writer)} if writer else {}
    return _remembered((ids, repr(rules), writer), lambda: Workers(rules, ids=ids, **options))


def _remembered(which: Any, make: Callable[[], AnyWorkers]) -> AnyWorkers:
    """What is remembered of writers serves for all histories with the same states in them."""
    known: AnyWorkers | None = _known.get(which)
    if known is None or len(known.tracks) > MOST_TRACKS:
        known = _known[which] = make()
    return known


def _readers(history: History) -> bool:
    """Whether readers should find an entry all the time, once there is one."""
    return all(name in ENTRIES for name in history.names)


def jobs() -> Iterator[Job | CopyJob]:
    for length in (3, 2, 1):
        for clock in CLOCKS:
            for history in histories(length, clock):
                yield Job("an overtaken worker beside the owner", (history,), {"readers": _readers(history)})
    for length in (3, 2, 1):
        for clock in CLOCKS if length < 3 else ("apart",):
            for history in histories(length, clock):
                yield Job("an audit beside the owner", (history,), {"others": ("audit",)})
    for length in (2, 1):
        for history in histories(length):
            others = ("overtaken", "replay")
            yield Job("an overtaken worker and a replay beside the owner", (history,), {"others": others})
    for length in (2, 1):
        for history in histories(length):
            for name in ("xa", "ya", "soft"):
                yield Job("two items that share batches", (history, History.of(name, id_="j")))
    for length in (3, 2, 1):
        for names in product(ELEMENTS, repeat=length):
            single = [name for name in names if name in ("[x]", "[y]")]
            if ("gone", "gone") not in pairwise(names) and single[:1] != ["[y]"]:  # else a mirror image
                yield Job("elements that come and go", (History(names),), rules=EXPLODED)
    yield from _totals()
    yield from _copies()
    for other in (*ALL, "bad"):
        for names in {("bad", other), (other, "bad")} if other != "bad" else {("bad",)}:
            if names[0] in ("xa", "soft", "gone", "bad"):  # else a mirror image
                yield Job("an item that is parked on the way", (History(names),))


TOTALS = {"added up": ADDED, "compared": COMPARED, "distinct": COUNTED}
APART: dict[str, Any] = {"pages": ((0,), (0, 1))}
"""The overtaken worker has one of two items, the owner both."""


def _totals() -> Iterator[Job]:
    """Items that share groups: what is new beside contributions, which are entries, is the total.

    Two items with distinct values, of which one changes groups, come to more than 4,000,000 positions: left out.
    """
    for kind, rules in TOTALS.items():
        for length in (2, 1):
            for history in histories(length):
                yield Job(f"totals, {kind}: one item", (history,), rules=rules)
                yield Job(f"totals, {kind}: an audit", (history,), {"others": ("audit",)}, rules=rules)
                moves = len({name[0] for name in history.names if name in ENTRIES}) > 1
                for name in () if kind == "distinct" and moves else ("xa", "xb", "ya"):
                    both = (history, History.of(name, id_="j"))
                    yield Job(f"totals, {kind}: two items", both, APART, rules=rules)


SETTLED: dict[str, Any] = {"settled": True}
STEADY: dict[str, Any] = {"settled": True, "kills": False}
TRACED: dict[str, Any] = {"kills": False, "fan_outs": 0, "traced": True}
OTHER_CLOCKS = ("tied", "backwards")


def _copies() -> Iterator[CopyJob]:
    """An item and its authors: all that go from one state to the next side by side, some of what goes further."""
    yield from _arriving()
    yield from _moving()
    yield from _overtaken()
    for item in ("x:-x:a", "x:a-xx:a", "x:a-x:"):
        yield CopyJob("copies: two fan-outs at once", (item, "Ann-Bob"), {**STEADY, "fan_outs": 2})
    yield CopyJob("copies: two fan-outs at once", ("x:a", "Ann-Bob-Ann"), {**SETTLED, "fan_outs": 2, "overtaken": "a"})
    for item in ("x:a-x:", "x:a-x:b", "x:-x:ab", "x:a-y:a", "x:a-gone"):
        yield CopyJob("copies: a back-reference for every copy", (item, "Ann-Bob"), {"settled": True, **TRACED})
    for histories_ in (("x:ab", "Ann-Bob", "Ann-Bob"), ("x:a-x:b", "Ann-Bob", "Ann"), ("x:-x:ab", "Ann-Bob", "Ann")):
        yield CopyJob("copies: two authors", histories_, STEADY)


def _arriving() -> Iterator[CopyJob]:
    group = "copies: item and author arrive side by side"
    for item, author in (("x:a", "Ann"), ("x:a", "gone"), ("x:", "Ann")):
        yield CopyJob(group, (item, author))
    for item, author in (("x:a", "Ann-Bob"), ("x:a", "Ann-gone"), ("x:a-x:", "Ann"), ("x:-x:a", "Ann")):
        yield CopyJob(group, (item, author), {"kills": False})


def _moving() -> Iterator[CopyJob]:
    group = "copies: item and author move on side by side"
    for item in ("x:a-x:", "x:a-xx:a", "x:a-gone", "x:-x:a", "x:-x:ab", "gone-x:a"):
        for author in ("Ann-Bob", "Ann-gone", "gone-Ann"):
            yield CopyJob(group, (item, author), SETTLED)
    for item in ("x:a-y:a", "x:a-x:b", "x:a-x:ab"):
        for author in ("Ann-Bob", "Ann-gone"):
            yield CopyJob(group, (item, author), STEADY)
    for clock in OTHER_CLOCKS:
        for item in ("x:a-x:", "x:-x:a", "x:a-xx:a"):
            yield CopyJob(group, (item, "Ann-Bob"), STEADY, clock)
    for item in ("x:a-x:-x:a", "x:a-xx:a-x:a", "x:a-gone-x:a"):
        yield CopyJob(f"{group}, three states", (item, "Ann-Bob"), STEADY)
    for item in ("x:a-x:", "x:-x:a", "x:a-xx:a", "x:a-gone"):
        for author in ("Ann-Bob-Ann", "Ann-gone-Ann"):
            yield CopyJob(f"{group}, three states", (item, author), STEADY)
    for author in ("Ann-Bob-Ann-Bob", "gone-Ann-gone-Ann"):
        yield CopyJob(f"{group}, four states of the author", ("x:a", author), SETTLED)


def _overtaken() -> Iterator[CopyJob]:
    group = "copies: an overtaken worker"
    for author in ("Ann-Bob", "Ann-gone", "gone-Ann"):
        for who in ("i", "a", "ia"):
            yield CopyJob(group, ("x:a", author), {**SETTLED, "overtaken": who})
    for clock in CLOCKS:
        for author in ("Ann-Bob-Ann", "Ann-gone-Ann"):
            yield CopyJob(group, ("x:a", author), {**SETTLED, "overtaken": "a"}, clock)
    for item in ("x:-x:a", "x:a-xx:a", "gone-x:a", "x:a-x:"):
        for who in "ia":
            yield CopyJob(group, (item, "Ann-Bob"), {"settled": True, "kills": False, "overtaken": who})


BROKEN: list[Job | CopyJob] = [
    *(
        CopyJob("copies broken on purpose", histories_, options, parts=parts, writer=name)
        for name, parts, histories_, options in (
            ("Blinkered", Parts(items=broken.Blinkered), ("x:a", "Ann"), {}),
            ("Reversed", Parts(items=broken.Reversed), ("x:a", "Ann"), TRACED),
            ("Rash", Parts(items=broken.Rash), ("x:a-x:", "Ann"), {"settled": True, **TRACED}),
            ("Sparing", Parts(items=broken.Sparing), ("x:a-x:", "gone-Ann"), SETTLED),
            ("Silent", Parts(headers=broken.Silent), ("x:a", "Ann"), {}),
            ("Late", Parts(headers=broken.Late), ("x:a", "Ann"), {}),
            ("Sweeping", Parts(jobs=broken.Sweeping), ("x:a", "Ann-Bob"), {"kills": False}),
            ("Eager", Parts(fan_outs=broken.Eager), ("x:a", "Ann-Bob"), SETTLED),
            ("Tolerant", Parts(fan_outs=broken.Tolerant), ("x:a", "Ann-Bob-Ann-Bob"), SETTLED),
            ("Presuming", Parts(fan_outs=broken.Presuming), ("x:a", "Ann"), {}),
        )
    ),
    *(
        Job("totals broken on purpose", histories_, APART if len(histories_) == 2 else {}, rules, writer)
        for writer, rules, histories_ in (
            ("Apart", ADDED, (History.of("xa"),)),
            ("Assuming", ADDED, (History.of("xa-xb"),)),
            ("Overwriting", ADDED, (History.of("xa"), History.of("xb", id_="j"))),
            ("Overwriting", COUNTED, (History.of("xa"), History.of("xb", id_="j"))),
            ("Premature", COMPARED, (History.of("xb-gone"), History.of("xa", id_="j"))),
        )
    ),
    *(
        Job("broken on purpose", (History.of("xa-ya"),), {}, writer=name)
        for name in ("Unchecked", "Forgetful", "Hasty", "Narrow")
    ),
    Job("broken on purpose", (History.of("xa-xb", "backwards"),), {}, writer="Credulous"),
    Job("broken on purpose", (History.of("xa-ya", "backwards"),), {}, writer="Credulous"),
    Job("broken on purpose", (History.of("xa-ya-xb"),), {"readers": True}, writer="Unguarded"),
    Job("broken on purpose", (History.of("xa-ya-xa"),), {"readers": True}, writer="Trusting"),
]  # fmt: skip


def _run(task: tuple[Job | CopyJob, float]) -> tuple[Job | CopyJob, Found]:
    job, seconds = task
    return job, job.run(seconds)


def prove(advance: Any, *, processes: int, seconds: float = SECONDS, only: str = "") -> Iterator[Part]:
    """Run every search; one part for each group."""
    every = [job for job in [*jobs(), *BROKEN] if only in str(job)]
    parts = {job.group: Part(job.group) for job in every}
    positions = dict.fromkeys(parts, 0)
    longest = dict.fromkeys(parts, (0.0, ""))
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, maxtasksperchild=60) as pool:
        for job, found in pool.imap_unordered(_run, [(job, seconds) for job in every]):
            part = parts[job.group]
            part.runs += 1
            part.seconds += found.seconds
            positions[job.group] += found.positions
            longest[job.group] = max(longest[job.group], (found.seconds, str(job)))
            if job.writer and not found.wrong:
                part.divergences.append(f"{job} with {job.writer}: nothing went wrong")
            elif not job.writer and found.wrong:
                part.divergences.append(f"{job}: {found}")
            if not found.complete:
                part.unfinished.append(f"{job}: {found.positions:,} positions in {found.seconds:.0f} s, then cut off")
            advance(len(every), str(job))
    for group, part in parts.items():
        part.measured = f"{positions[group]:,} positions; longest {longest[group][0]:.0f} s"
        yield part
