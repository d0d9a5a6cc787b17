"""Whether a native index could do what a projection does: what stands against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from projections.declare import Index, Projection
from projections.gsi.language import clash


@dataclass(frozen=True)
class Obstacle:
    """A declared feature that no native index has."""

    feature: str  # the field that declares it
    reason: str  # why a native index cannot do it
    without: str  # what would become of it

    def to_json(self) -> dict[str, str]:
        """For programs."""
        return {"feature": self.feature, "reason": self.reason, "without": self.without}


def obstacles(projection: Projection, database: str | None = None) -> tuple[Obstacle, ...]:
    """Why a native index cannot do what this projection does; nothing where it can.

    `database` is where the catalog's containers are when a declaration names none.
    """
    if not isinstance(projection, Index):
        kind = type(projection).__name__
        return (Obstacle(kind, "a native index copies properties and computes nothing", "it cannot be declared"),)
    declared = [
        Obstacle(name, reason, without)
        for name, (is_used, reason, without) in OBSTACLES.items()
        if name in type(projection).model_fields and is_used(getattr(projection, name))
    ]
    return (*declared, *_of_key(projection), *_of_target(projection, database), *_of_names(projection))


OBSTACLES: Final[Mapping[str, tuple[Callable[[Any], bool], str, str]]] = {
    "each": (
        lambda value: value is not None,
        "a native index has one entry an item; it does not take arrays apart",
        "an item would be found by none of its elements",
    ),
    "where": (
        lambda value: value is not None,
        "a native index holds every item",
        "items that `where` leaves out would have entries, and cost writes and storage",
    ),
    "model": (
        lambda value: value is not None,
        "a native index checks nothing",
        "items that do not fit would have entries, and nobody would be told",
    ),
    "exclude": (
        bool,
        "a definition says what to copy, not what to leave out",
        "what is excluded would be copied; `include` names the others instead",
    ),
    "deletes": (
        lambda value: value is not None,
        "to a native index an item that is only marked as deleted is an item",
        "marked items would keep their entries until they are really deleted",
    ),
    "ttl": (
        lambda value: value == "ignore",
        "a native index is kept in step with its source",
        "entries would go when their items expire",
    ),
}
"""Field -> when it stands against a native index, why, and what would become of it."""

NEUTRAL: Final = frozenset(
    """name source key include target version missing null other parked deadletter_payload ru_per_second alarm_after
    placement placement_buckets strict by duplicates""".split()  # noqa: SIM905 - a column of words reads worse
)
"""Fields that say how the work is done, or that are looked at in other ways: none of them is an obstacle as such."""


def _of_key(projection: Index) -> Iterator[Obstacle]:
    if projection.key.copied != projection.key.paths:
        yield Obstacle(
            "key", "it is computed, and a definition has no functions",
            "the computed value would have to be a property of the items themselves",
        )  # fmt: skip


def _of_target(projection: Index, database: str | None) -> Iterator[Obstacle]:
    target = projection.target
    if target.throughput.manual is not None:
        yield Obstacle(
            "target.throughput", "a native index is autoscale only", "Throughput(autoscale=...) would have to be used"
        )
    if target.unique_keys:
        yield Obstacle("target.unique_keys", "a native index refuses no item", "two entries could have the same values")
    if (target.database or database) != (projection.source.database or database):
        yield Obstacle(
            "target.database", "a native index is in the database of its source", "it would have to be there, too"
        )


def _of_names(projection: Index) -> Iterator[Obstacle]:
    problem = clash(selected(projection) or ())
    if problem:
        yield Obstacle("include", problem, "one of them could not be copied")


def selected(projection: Index) -> tuple[str, ...] | None:
    """The paths to select: what is included, and the key, which an entry always has; None for everything."""
    if projection.include is None:
        return None
    return tuple(dict.fromkeys((*projection.include, *projection.key.copied)))
