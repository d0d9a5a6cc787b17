"""What happened to items, as a closed set, and how it is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from projections.identity import Identity


class Outcome(StrEnum):
    """What happened to the entries of one item."""

    WRITTEN = "written"  # created, or given new content in place
    UNCHANGED = "unchanged"  # already as they should be
    STALE = "stale"  # a newer state had been applied before
    REMOVED = "removed"
    MOVED = "moved"  # to another key
    SKIPPED = "skipped"  # left out by a declared rule, and nothing was there
    PARKED = "parked"  # in the dead letters, with the reason


@dataclass(frozen=True, slots=True)
class Result:
    """What happened to one item, and by which rule where one had a say."""

    identity: Identity
    outcome: Outcome
    reason: str | None = None
    notes: tuple[str, ...] = ()
    known: bool = False  # an audit found it parked already, in this very state


@dataclass
class Tally:
    """Outcomes counted, and the reasons for what was skipped, removed or parked."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.outcomes.values())

    def add(self, results: Iterable[Result]) -> None:
        for result in results:
            self.outcomes[result.outcome.value] += 1
            if result.reason:
                self.reasons[f"{result.outcome}: {result.reason}"] += 1
            for note in result.notes:
                self.reasons[note] += 1

    def merge(self, other: Tally) -> None:
        self.outcomes.update(other.outcomes)
        self.reasons.update(other.reasons)

    def to_stored(self) -> dict[str, dict[str, int]]:
        # stored; change with a version
        return {"outcomes": dict(sorted(self.outcomes.items())), "reasons": dict(sorted(self.reasons.items()))}

    @staticmethod
    def from_stored(stored: Mapping[str, Mapping[str, int]]) -> Tally:
        return Tally(Counter(stored.get("outcomes", {})), Counter(stored.get("reasons", {})))
