"""All flights with the names of airline and plane, and an airline that is renamed while new flights keep arriving."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.prove import figures
from tests.prove.account import Account
from tests.prove.figures import Row
from tests.prove.report import Steps

CATALOG = "projections.example.flights:catalog"
NAMES, DELAYS = "flights-with-names", "delays"
FAN_OUT = f"{NAMES}.airline"
KILLED_AT = (0.15, 0.4, 0.65)
"""How far the fan-out is when its worker is killed."""
MANY = 10_000
"""Entries of a fan-out that is long enough to be caught at all of these."""
PAUSE = 0.05
"""Seconds between two new flights."""
REST = 3.0
"""Seconds between two looks at how it gets on: each counts all entries."""
IN_TIME = 7200.0
"""Seconds for a fan-out."""


@dataclass
class Data:
    """What there is, as the files have it."""

    airlines: dict[str, str]
    planes: dict[str, Row]
    flights: list[Row]

    @staticmethod
    def of(folder: Path, share: float) -> Data:
        flights = list(figures.some(figures.rows(folder / "flights.jsonl.gz"), share, by="date"))
        flown = {flight.get("tailnum") for flight in flights}
        return Data(
            {row["id"]: row["name"] for row in figures.rows(folder / "airlines.jsonl.gz")},
            {row["id"]: row for row in figures.rows(folder / "planes.jsonl.gz") if row["id"] in flown},
            flights,
        )

    @property
    def largest(self) -> str:
        """The airline with the most flights."""
        carriers = [flight["carrier"] for flight in self.flights]
        return max(sorted(set(carriers)), key=carriers.count)


@dataclass
class Renaming:
    """What was seen of the fan-out."""

    kills: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)  # entries that were done, look by look
    total: int = 0


class Arrivals(threading.Thread):
    """New flights, through the SDK, until told to end; every third one is of the airline that is renamed."""

    def __init__(self, account: Account, data: Data, seed: int) -> None:
        super().__init__(daemon=True)
        self._account = account
        self._data = data
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self._failed: Exception | None = None
        self.made: list[Row] = []

    def run(self) -> None:
        try:
            self._arrive()
        except Exception as error:
            self._failed = error

    def _arrive(self) -> None:
        flights = self._account.container("flights")
        own = [flight for flight in self._data.flights if flight["carrier"] == self._data.largest]
        while not self._over.wait(PAUSE):
            some = own if self._chance.random() < 1 / 3 else self._data.flights
            flight = self._chance.choice(some) | {"id": f"new-{len(self.made)}", "arr_delay": self._delay()}
            flights.upsert_item(flight)
            self.made.append(flight)

    def _delay(self) -> int | None:
        return self._chance.choice((None, self._chance.randrange(-60, 400)))

    def end(self) -> list[Row]:
        self._over.set()
        self.join()
        if self._failed:
            raise self._failed
        return self.made


def story(account: Account, folder: Path, share: float, seed: int, steps: Steps) -> None:
    """Project the flights, rename an airline, and compare every entry with the files."""
    with steps.timed("reading the files"):
        data = Data.of(folder, share)
    with steps.timed("load"):
        _load(account, data)
    for name in (NAMES, DELAYS):
        with steps.timed(f"first run of {name}"):
            account.run("run", "--until-caught-up", name)
    _compare(account, data, steps, "after the first run")
    arrivals = Arrivals(account, data, seed)
    arrivals.start()
    try:
        with steps.timed("renaming"):
            data.airlines[data.largest] += " & Sons"
            account.container("airlines").upsert_item({"id": data.largest, "name": data.airlines[data.largest]})
            renaming = _rename(account, steps)
    finally:
        made = arrivals.end()
    with steps.timed("last run"):
        account.run("run", "--until-caught-up", NAMES, DELAYS)
    data.flights += made
    _compare(account, data, steps, "after the renaming")
    _look_up(account, data, steps)
    many = renaming.total > MANY
    steps.expect(len(renaming.kills) == len(KILLED_AT) or not many, f"only {len(renaming.kills)} workers were killed")
    steps.tell(
        f"{data.largest} renamed on {sum(f['carrier'] == data.largest for f in data.flights):,} flights, "
        f"fan-out of {renaming.total:,} {', '.join(renaming.kills)}; {len(made):,} flights arrived meanwhile"
    )


def _load(account: Account, data: Data) -> None:
    account.run("init")
    account.load("airlines", [{"id": id_, "name": name} for id_, name in data.airlines.items()])
    account.load("planes", data.planes.values())
    account.load("flights", data.flights)


# the renaming


def _rename(account: Account, steps: Steps) -> Renaming:
    """Have workers carry out the fan-out, each of them killed but the last."""
    found = Renaming()
    marks = iter(KILLED_AT)
    mark: float | None = next(marks)
    worker = account.start("run", NAMES, DELAYS)
    try:
        for done, total in _progress(account):
            assert worker.poll() is None, f"the worker has ended: {account.said()}"
            account.look(worker)
            steps.expect(done >= max(found.seen, default=0), f"the fan-out went back from {max(found.seen, default=0)}")
            found.seen.append(done)
            found.total = total
            if mark is not None and done >= total * mark:
                worker.kill()
                worker.wait()
                found.kills.append(f"killed at {done / total:.0%}")
                mark = next(marks, None)
                worker = account.start("run", NAMES, DELAYS)
    finally:
        worker.terminate()
        worker.wait()
    return found


def _progress(account: Account) -> Iterator[tuple[int, int]]:
    """What `status` says of the fan-out, once it counts its entries, until it is over."""
    began, deadline = False, time.monotonic() + IN_TIME
    while time.monotonic() < deadline:
        time.sleep(REST)
        one = account.status()[FAN_OUT]
        if fan_outs := one["fanOuts"]:
            began = True
            if fan_outs["total"] is not None:
                yield fan_outs["done"], fan_outs["total"]
        elif began or (one["lagSeconds"] == 0 and one["health"] == "ok"):
            return
    raise AssertionError(f"the fan-out is not over after {IN_TIME:g} s: {account.said()}")


# what has come of it


def _compare(account: Account, data: Data, steps: Steps, when: str) -> None:
    with steps.timed(f"comparing {when}"):
        expected = {flight["id"]: figures.with_names(flight, data.airlines, data.planes) for flight in data.flights}
        steps.equal(f"{NAMES} {when}", dict(_entries(account)), expected)
        totals = figures.delays(data.flights)
        stored = {(d["carrier"], d["month"]): d for d in account.documents(DELAYS, "c.id = 'total'")}
        found = {group: figures.shown(d, totals[group]) if group in totals else d for group, d in stored.items()}
        steps.equal(f"{DELAYS} {when}", found, totals)


def _entries(account: Account) -> Iterator[tuple[str, Row]]:
    for entry in account.documents(NAMES):
        yield entry["_source"]["id"], {name: entry[name] for name in entry if name != "id" and name[0] != "_"}


def _look_up(account: Account, data: Data, steps: Steps) -> None:
    """The same through `lookup`, of one day and one month."""
    day = data.flights[0]["date"]
    [answer] = account.run("lookup", NAMES, day)
    names = {entry["airline"]["name"] for entry in answer["entries"] if entry["carrier"] == data.largest}
    flown = [flight for flight in data.flights if flight["date"] == day]
    steps.expect(len(answer["entries"]) == len(flown), f"lookup of {day} has {len(answer['entries'])} flights")
    steps.expect(names <= {data.airlines[data.largest]}, f"lookup of {day} has the names {names}")
    group = (data.largest, day[:7])
    expected = figures.delays(data.flights)[group]
    [answer] = account.run("lookup", DELAYS, *group)
    steps.equal(f"lookup of {group}", {group: figures.shown(answer["entries"][0], expected)}, {group: expected})
