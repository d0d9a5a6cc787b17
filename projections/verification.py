"""A run of verify: how much it looks at, how far it is, what it has found. Stored, so that another goes on with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from projections.aggregate import Aggregate
from projections.books import Books
from projections.declare import Projection
from projections.differences import Difference
from projections.keys import Key
from projections.outcomes import Tally
from projections.sides import Piece
from projections.store import Document, FeedRange
from projections.sums import BUCKETS, Sums

STORED_SECONDS: Final = 7 * 24 * 3600
"""How long what is stored of a run that nobody goes on with is kept."""
ALL: Final = bytes([1]) * BUCKETS
RUN_ID: Final = "verify"
LAST_ID: Final = "verified"


class Phase(StrEnum):
    COMPARE = "compare"  # the sums of both sides
    FIND = "find"  # what differs
    BALANCE = "balance"  # totals are made what their contributions come to, so that these can be repaired
    REPAIR = "repair"
    CHECK = "check"  # what still differs after the repair
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """How much is looked at: everything, or some of it."""

    sample: float | None = None  # percent of the keys of both sides
    feed_range: FeedRange | None = None  # hashed keys, of both sides
    since_audit: bool = False  # of the source only the changes after the audit's checkpoints

    @property
    def whole(self) -> bool:
        return self == Scope()

    def __str__(self) -> str:
        if self.sample is not None:
            return f"{self.sample:g} %"
        return "since audit" if self.since_audit else str(self.feed_range) if self.feed_range else "all"


@dataclass
class Report:
    """What a verify has found and done so far."""

    projection: str
    scope: str = "all"
    examined: int = 0  # items
    entries: int = 0
    looked_at: int = 0  # items and entries, one by one
    differences: Counter[str] = field(default_factory=Counter)  # by class
    pending: int = 0
    examples: list[Difference] = field(default_factory=list)
    repaired: Counter[str] | None = None  # by class; None: nothing was to be repaired
    left: Counter[str] = field(default_factory=Counter)  # by class, after the repair
    outcomes: Tally = field(default_factory=Tally)  # of the repair
    calls: int = 0
    request_units: float = 0.0
    seconds: float = 0.0
    complete: bool = False

    @property
    def clean(self) -> bool:
        return not self.differences

    def note(self, difference: Difference, at_most: int) -> None:
        """Count a difference, and keep it where it is one of the first of its class."""
        self.differences[difference.fault.value] += 1
        if self.differences[difference.fault.value] <= at_most:
            self.examples.append(difference)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        # stored; change with a version
        return {
            "projection": self.projection,
            "scope": self.scope,
            "complete": self.complete,
            "clean": self.clean,
            "examined": self.examined,
            "entries": self.entries,
            "lookedAt": self.looked_at,
            "differences": dict(sorted(self.differences.items())),
            "pending": self.pending,
            "repaired": None if self.repaired is None else dict(sorted(self.repaired.items())),
            "left": dict(sorted(self.left.items())),
            **self.outcomes.to_stored(),
            "requestUnits": round(self.request_units, 2),
            "calls": self.calls,
            "seconds": round(self.seconds, 2),
            "examples": [difference.to_json() for difference in self.examples],
        }

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Report:
        repaired = told["repaired"]
        return Report(
            told["projection"], told["scope"], told["examined"], told["entries"], told["lookedAt"],
            Counter(told["differences"]), told["pending"], [Difference.from_json(one) for one in told["examples"]],
            None if repaired is None else Counter(repaired), Counter(told["left"]), Tally.from_stored(told),
            told["calls"], told["requestUnits"], told["seconds"],
        )  # fmt: skip


@dataclass
class Run:
    """How far a run is: all of it that has to outlive its process."""

    options: str  # a run goes on only with what it began with
    pieces: list[Piece]
    report: Report
    began: int
    phase: Phase = Phase.COMPARE
    number: int = 0  # of the piece
    position: str | None = None
    sums: Sums = field(default_factory=Sums)  # worth something while both sides are compared
    books: Books | None = None
    chosen: bytes = ALL  # buckets of items that are looked at
    groups: bytes = ALL  # buckets of groups
    faulty: bytearray = field(default_factory=lambda: bytearray(BUCKETS))  # buckets with differences
    held: dict[str, Difference] = field(default_factory=dict)  # what may turn out to be something else
    moved: dict[str, bool] = field(default_factory=dict)  # empty places of entries that are elsewhere
    unbalanced: list[Key] = field(default_factory=list)  # groups whose total is not what contributions come to
    saves: int = 0
    etag: str | None = None

    def to_stored(self, partition: str) -> Document:
        # stored; change with a version
        return {
            "id": RUN_ID,
            "pk": partition,
            "options": self.options,
            "pieces": [piece.to_stored() for piece in self.pieces],
            "began": self.began,
            "phase": self.phase.value,
            "number": self.number,
            "position": self.position,
            "sums": self.sums.to_stored() if self.phase is Phase.COMPARE else None,
            "books": self.books.to_stored() if self.books and self.phase is Phase.COMPARE else None,
            "chosen": _packed(self.chosen),
            "groups": _packed(self.groups),
            "faulty": _packed(self.faulty),
            "held": {name: difference.to_json() for name, difference in self.held.items()},
            "moved": self.moved,
            "unbalanced": [key.to_list() for key in self.unbalanced],
            "report": self.report.to_json(),
            "saves": self.saves,
            "ttl": STORED_SECONDS,
        }

    @staticmethod
    def from_stored(stored: Mapping[str, Any], projection: Projection, reserved: str) -> Run:
        books = None
        if isinstance(projection, Aggregate) and stored["books"] is not None:
            books = Books.from_stored(projection, reserved, stored["books"])
        held = {name: Difference.from_json(told) for name, told in stored["held"].items()}
        return Run(
            stored["options"], [Piece.from_stored(one) for one in stored["pieces"]],
            Report.from_json(stored["report"]), stored["began"], Phase(stored["phase"]), stored["number"],
            stored["position"], Sums.from_stored(stored["sums"]) if stored["sums"] else Sums(), books,
            _unpacked(stored["chosen"]),
            _unpacked(stored["groups"]), bytearray(_unpacked(stored["faulty"])), held, dict(stored["moved"]),
            [Key.from_list(one) for one in stored["unbalanced"]],
            stored["saves"], stored["_etag"],
        )  # fmt: skip


def _packed(marks: bytes | bytearray) -> str:
    """A bit a bucket, in hex."""
    return f"{int(''.join('1' if mark else '0' for mark in marks), 2):x}"


def _unpacked(text: str) -> bytes:
    return bytes(int(bit) for bit in f"{int(text, 16):0{BUCKETS}b}")
