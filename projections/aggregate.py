"""Totals of groups, declared: what is counted, added up and compared of the items that have a key in common."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import Field, InstanceOf, field_validator, model_validator

from projections.declare import EachField, Projection
from projections.keys import Hierarchical, Level, Path, parse_path
from projections.measures import Distinct, Extreme, Measure
from projections.strategies import Concat, HashSuffix, Suffixed

CONTRIBUTION: Final = "contribution"
EXPIRES: Final = "expires"
NAME: Final = re.compile("[A-Za-z][A-Za-z0-9_]*")
OWN: Final = ("id", "ttl", CONTRIBUTION, EXPIRES)
"""Properties of totals and contributions that are no measures."""
MOST_MEASURES: Final = 32
"""So many fit into the documents of a full batch."""


class Aggregate(Projection):
    """Totals of the items that have a key in common: a group. With `each`, of their elements.

    The target has one document a group with the totals, and one an item and group with what the item contributes to
    them. Both are always written together.
    """

    measures: dict[str, InstanceOf[Measure]] = Field(min_length=1, max_length=MOST_MEASURES)
    each: EachField | None = None

    @field_validator("measures")
    @classmethod
    def _names_are_good(cls, measures: dict[str, Measure]) -> dict[str, Measure]:
        for name in measures:
            if not NAME.fullmatch(name) or name in OWN:
                raise ValueError(f"a measure cannot be called {name!r}; choose another name of letters and digits")
        return measures

    @model_validator(mode="after")
    def _fits(self) -> Aggregate:
        if self.placement == "append_only":
            raise ValueError("placement: contributions of items that change have to be found again; use tracked")
        if "/id" in self.key.paths:
            raise ValueError("key: with /id every item would be a group of its own; leave it out")
        if self.target.unique_keys:
            raise ValueError("target: contributions and totals share a group, and no value is unique in it")
        for name in (parse_path(path)[0] for path in self.key.paths):
            if name in self.measures:
                raise ValueError(f"measures: the key is kept at /{name}; give the measure another name")
            if name in OWN:
                raise ValueError(f"key: /{name} has another use in the target; use the path of another field")
        for name, measure in self.measures.items():
            if isinstance(measure, Distinct):
                self._counts_once(name, measure)
        return self

    def _counts_once(self, name: str, measure: Distinct) -> None:
        """A value must not be in two shards of one group: it would be counted in each."""
        for suffixed in self.shards:
            known = {measure.path, *(path for level in self.levels for path in _constant(level))}
            if not (isinstance(suffixed, HashSuffix) and set(suffixed.of) <= known):
                raise ValueError(
                    f"measures: {name} would count {measure.path} once in every shard that has it; let the suffix be "
                    f'made from it, HashSuffix(..., of="{measure.path}"), or take no suffix'
                )

    @property
    def levels(self) -> tuple[Level, ...]:
        """Of the key."""
        key: Any = self.key
        return key.levels if isinstance(key, Hierarchical) else (key,)

    @property
    def shards(self) -> tuple[Suffixed, ...]:
        """The levels of the key that spread one group over several partitions."""
        return tuple(level for level in self.levels if isinstance(level, Suffixed))

    @property
    def indexing(self) -> dict[str, Any]:
        """The target's indexing policy: what totals are found and sorted by, and what the worker itself asks for."""
        asked = [*map(_indexed, self.key.paths), *(f"/{name}" for name in (*self.measures, EXPIRES))]
        asked += [f"/{CONTRIBUTION}/{name}" for name in self.extremes]
        return {
            "indexingMode": "consistent",
            "automatic": True,
            "includedPaths": [{"path": f"{path}/?"} for path in asked],
            "excludedPaths": [{"path": "/*"}],
        }

    @property
    def extremes(self) -> tuple[str, ...]:
        """The measures that are looked for in order."""
        return tuple(name for name, measure in self.measures.items() if isinstance(measure, Extreme))


def _indexed(path: str) -> str:
    """As an indexing policy has it."""
    return "".join(f"/{name}" if NAME.fullmatch(name) else f'/"{name}"' for name in parse_path(path))


def _constant(level: Level) -> tuple[str, ...]:
    """The fields of which all items of a group have the same value."""
    base = level.base if isinstance(level, Suffixed) else level
    parts = base.parts if isinstance(base, Concat) else (base,)
    return tuple(part.path for part in parts if isinstance(part, Path))
