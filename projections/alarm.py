"""The alarm: so many items in a row cannot be projected that the catalog is likely to be wrong, not the data.

Dead letters are for bad items. Where every item is bad (a wrong deployment), parking them all would empty the target
and bury the few letters that matter. So a projection stops when `alarm_after` different items have been parked with an
error of one class and none has been given an entry meanwhile. The position stays before the page that raised the alarm.
What was counted before that page is stored: a restart that changes nothing raises the alarm again with its first page,
and parks nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from projections.declare import Projection
from projections.errors import AlarmError, ConflictError
from projections.identity import Place
from projections.keys import Key
from projections.outcomes import Outcome, Result
from projections.store import Container, Delete, Document, Store, Upsert, WriteError

GOOD: Final = frozenset({Outcome.WRITTEN, Outcome.UNCHANGED, Outcome.MOVED})
"""The item has an entry: the declaration can be right."""


@dataclass
class Streak:
    """Items parked since the last one that has an entry, counted once each, by the class of their errors."""

    carried: Mapping[str, int] = field(default_factory=dict)  # from before this process
    seen: dict[str, set[str]] = field(default_factory=dict)  # the items' entry ids

    def note(self, results: Iterable[Result]) -> bool:
        """Whether one of the items has an entry. Those left out by a rule, or parked before, say nothing."""
        good = False
        for result in results:
            if result.outcome in GOOD:
                self.carried, self.seen, good = {}, {}, True
            elif result.outcome is Outcome.PARKED and not result.known:
                self.seen.setdefault(str(result.reason), set()).add(result.identity.entry_id)
        return good

    def counts(self) -> dict[str, int]:
        """How many items, by class of error."""
        return {
            error: self.carried.get(error, 0) + len(self.seen.get(error, ())) for error in {**self.carried, **self.seen}
        }


@dataclass(frozen=True)
class Raised:
    """A stored alarm."""

    error: str  # class of the errors
    items: int  # parked in a row
    before: Mapping[str, int]  # the counts before the page that raised it
    at: int  # epoch seconds

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {"error": self.error, "items": self.items, "at": self.at}

    def to_stored(self, projection: str) -> Document:
        # stored; change with a version
        return {
            "id": "alarm",
            "pk": projection,
            "error": self.error,
            "items": self.items,
            "before": dict(sorted(self.before.items())),
            "at": self.at,
        }

    @staticmethod
    def from_stored(document: Mapping[str, Any]) -> Raised:
        return Raised(document["error"], document["items"], document["before"], document["at"])


class Alarm:
    """The alarm of one projection, beside its checkpoints."""

    def __init__(self, store: Store, state: Container, projection: Projection) -> None:
        self._store = store
        self._state = state
        self._projection = projection
        self._place = Place("alarm", Key.of(projection.full_name))
        self._streak = Streak()
        self._stored = False

    async def load(self) -> Raised | None:
        """The alarm that was raised and not ended since; counting goes on from there."""
        raised = await self.raised()
        self._stored = raised is not None
        if raised:
            self._streak = Streak(raised.before)
        return raised

    async def raised(self) -> Raised | None:
        """The alarm as it is stored."""
        document = (await self._store.read(self._state, [self._place])).get(self._place)
        return Raised.from_stored(document) if document else None

    async def heed(self, results: Iterable[Result], now: float) -> None:
        """Count what happened to a page of items.

        Raises:
            AlarmError: too many were parked in a row.
        """
        before = self._streak.counts()
        good = self._streak.note(results)
        error, items = max(self._streak.counts().items(), key=lambda pair: pair[1], default=("", 0))
        if not self._projection.alarm_after:
            self._streak = Streak()
        elif items >= self._projection.alarm_after:
            await self._raise(Raised(error, items, before, int(now)))
        if self._stored and (good or not self._projection.alarm_after):
            await self._end()

    async def _raise(self, raised: Raised) -> None:
        document = raised.to_stored(self._projection.full_name)
        await self._store.write(self._state, self._place.key, [Upsert(document)])
        self._stored = True
        raise AlarmError(
            f"{raised.items:,} items in a row cannot be projected ({raised.error}), and none can: "
            "the catalog is likely to be wrong, not the data",
            projection=self._projection.label,
            hint=f"see `projections deadletters list {self._projection.label}` for the reasons and mend the catalog; "
            "if these items are bad indeed, raise alarm_after (0: no alarm)",
        )

    async def _end(self) -> None:
        """An item has an entry again, or the declaration wants no alarm."""
        document = (await self._store.read(self._state, [self._place])).get(self._place)
        try:
            if document:
                await self._store.write(self._state, self._place.key, [Delete("alarm", document["_etag"])])
        except WriteError as error:
            if not isinstance(error.cause, ConflictError):
                raise  # a conflict: another worker has raised or ended it meanwhile
        self._stored = False
