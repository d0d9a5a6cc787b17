"""The maths of groups: contributions in and out of a total. Pure.

A total is the sum of the contributions in its group, always: whoever changes a contribution writes the total in the
same transaction. Of distinct values each has a document with the number of contributions that have it; the total knows
how many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from projections.aggregate import CONTRIBUTION, Aggregate
from projections.errors import ItemError
from projections.keys import parse_path
from projections.measures import MOST_VALUES, Distinct, Item, LostExtremeError, Measure

TOTAL_ID: Final = "total"
"""Of the document with a group's totals. Ids of entries have a "~" in them."""
EXACT: Final = "exact"

Measures: TypeAlias = Mapping[str, Measure]
Contribution: TypeAlias = Mapping[str, Any]
"""By measure, those that the item contributes to."""
Value: TypeAlias = tuple[str, str]
"""A distinct value: the measure's name, and the digest."""


@dataclass(frozen=True)
class Change:
    """A contribution that is made, replaced or taken back."""

    old: Contribution | None
    new: Contribution | None


@dataclass(frozen=True)
class Total:
    """What the contributions of a group come to: the exact state of each measure."""

    contributions: int = 0
    states: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def from_stored(document: Mapping[str, Any], reserved: str) -> Total:
        mark = document[reserved]
        return Total(mark["contributions"], mark[EXACT])

    def to_stored(self, measures: Measures, reserved: str, key: Mapping[str, Any]) -> dict[str, Any]:
        """The document of a group. `key`: the properties that hold its key."""
        # stored; change with a version
        shown = {name: measure.shown(self.states.get(name)) for name, measure in measures.items()}
        known = {name: state for name, state in self.states.items() if state is not None}
        return {**key, "id": TOTAL_ID, **shown, reserved: {"contributions": self.contributions, EXACT: known}}


NOTHING: Final = Total()


def contribution(measures: Measures, rows: Sequence[Item]) -> dict[str, Any]:
    """What an item contributes to a group with the rows that it has there.

    Raises:
        ItemError: a measured value is of a wrong type, or there are too many distinct ones.
    """
    found = {name: measure.contributed(rows) for name, measure in measures.items()}
    values = sum(len(found[name] or ()) for name, measure in measures.items() if isinstance(measure, Distinct))
    if values > MOST_VALUES:
        raise ItemError(
            f"{values} distinct values of one item in one group; {MOST_VALUES} are the limit",
            hint="count them under a finer key, or leave some out with where",
        )
    return {name: value for name, value in found.items() if value is not None}


def taken_back(changes: Sequence[Change]) -> int:
    """How many contributions there have to be for these changes to be possible."""
    return sum(change.old is not None for change in changes)


def moved(measures: Measures, changes: Sequence[Change]) -> dict[Value, int]:
    """By how many contributions more, or fewer, distinct values are had."""
    counted: Counter[Value] = Counter()
    for name, measure in measures.items():
        if isinstance(measure, Distinct):
            for change in changes:
                counted.update((name, value) for value in (change.new or {}).get(name, ()))
                counted.subtract((name, value) for value in (change.old or {}).get(name, ()))
    return {value: by for value, by in counted.items() if by}


def lost(measures: Measures, total: Total, changes: Sequence[Change]) -> list[str]:
    """The measures of which nobody knows the extreme after these changes."""
    found = []
    for name, measure in measures.items():
        try:
            if not isinstance(measure, Distinct):
                measure.changed(total.states.get(name), *_parts(name, changes))
        except LostExtremeError:
            found.append(name)
    return found


def changed(
    measures: Measures,
    total: Total,
    changes: Sequence[Change],
    values: Mapping[Value, int],
    extremes: Mapping[str, Sequence[Any]],
) -> Total | None:
    """The total after these changes; None where no contribution is left.

    `values`: how many contributions had each of the `moved` values before. `extremes`: for each measure that is `lost`,
    what is contributed to it by those who stay, from the extreme on.
    """
    contributions = total.contributions + sum((c.new is not None) - (c.old is not None) for c in changes)
    if contributions == 0:
        return None
    states = {}
    for name, measure in measures.items():
        state, (old, new) = total.states.get(name), _parts(name, changes)
        if isinstance(measure, Distinct):
            old, new = _come_and_gone(name, moved(measures, changes), values)
        elif name in extremes:
            state, old, new = None, [], [*extremes[name], *new]
        states[name] = measure.changed(state, old, new)
    return Total(contributions, states)


def _parts(name: str, changes: Sequence[Change]) -> tuple[list[Any], list[Any]]:
    """What is taken back of a measure, and what is contributed."""
    old = [change.old[name] for change in changes if change.old and name in change.old]
    new = [change.new[name] for change in changes if change.new and name in change.new]
    return old, new


def _come_and_gone(name: str, by: Mapping[Value, int], before: Mapping[Value, int]) -> tuple[list[Any], list[Any]]:
    gone = [value for value in by if value[0] == name and before.get(value, 0) + by[value] == 0]
    come = [value for value in by if value[0] == name and before.get(value, 0) == 0]
    return gone, come


def combined(measures: Measures, totals: Sequence[Total]) -> Total:
    """The totals of shards as one."""
    states = {}
    for name, measure in measures.items():
        known = [total.states[name] for total in totals if total.states.get(name) is not None]
        states[name] = measure.combined(known) if known else None
    return Total(sum(total.contributions for total in totals), states)


# documents


def value_id(value: Value) -> str:
    """The id of a distinct value's document. It has two "~", and the id of an entry has one."""
    # stored; change with a version
    return f"distinct~{value[0]}~{value[1]}"


def value_document(value: Value, count: int, reserved: str, key: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a distinct value: how many contributions have it."""
    # stored; change with a version
    return {**key, "id": value_id(value), reserved: {"contributions": count}}


def key_properties(projection: Aggregate, document: Mapping[str, Any]) -> dict[str, Any]:
    """What holds the key of a group, from any document in it."""
    names = {parse_path(path)[0] for path in projection.key.paths}
    return {name: value for name, value in document.items() if name in names}


def contributed(document: Mapping[str, Any]) -> Contribution:
    """The contribution in a stored entry, or in one to be."""
    found: Contribution = document[CONTRIBUTION]
    return found
