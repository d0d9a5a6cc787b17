"""Whether the totals of an Aggregate are what its contributions come to. Pure.

Counts, exact sums and distinct values add up, and so does their check: what contributions come to is added to the sum
of their group's bucket, what totals say is taken away. A greatest or least value does not add up; for so many groups as
fit into memory the best one is remembered beside what the total says, the others have to be looked at.
"""

from __future__ import annotations

import hashlib
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, TypeAlias

from projections.aggregate import CONTRIBUTION, Aggregate
from projections.keys import Key
from projections.measures import Avg, Count, Distinct, Extreme, Sum
from projections.references import alike
from projections.sums import BUCKETS, by_value
from projections.totals import EXACT, TOTAL_ID, Total, Value, key_properties, value_id

PRIME: Final = 2**61 - 1
"""Sums are kept modulo this, in which a tenth is a number, too."""
MOST_GROUPS: Final = 10_000
"""Whose extremes are remembered."""
VALUE_ID: Final = "distinct~"

Document: TypeAlias = Mapping[str, Any]


def is_book(id_: str) -> bool:
    """Whether a document of an Aggregate's target is a total, or of a distinct value, and no contribution."""
    return id_ == TOTAL_ID or id_.startswith(VALUE_ID)


def group_bucket(key: Key) -> int:
    return _hash("group", key.text) % BUCKETS


class Books:
    """The sums of a whole target, and the extremes of its first groups."""

    def __init__(self, projection: Aggregate, reserved: str, values: bytes | None = None) -> None:
        self._projection = projection
        self._reserved = reserved
        self._values = array("Q", values or bytes(8 * BUCKETS))
        self._extremes: dict[Key, _Extremes] = {}
        self._unknown = bytearray(BUCKETS)  # buckets of groups that have to be looked at
        if values is not None and projection.extremes:  # what was remembered is lost
            self._unknown = bytearray(b"\1" * BUCKETS)

    def add(self, key: Key, document: Document) -> None:
        """Count a document of the target."""
        bucket = group_bucket(key)
        try:
            by = self._share(key, document)
        except (KeyError, TypeError, ValueError, ArithmeticError):  # nothing that was written here
            self._unknown[bucket] = 1
            return
        self._values[bucket] = (self._values[bucket] + by) % PRIME
        if self._projection.extremes:
            self._note(key, document)

    def _share(self, key: Key, document: Document) -> int:
        id_ = document["id"]
        if CONTRIBUTION in document:
            return _hash(key.text, "contributions") + self._contributed(key, document[CONTRIBUTION])
        mark = document[self._reserved]
        if id_ == TOTAL_ID:
            if not shown_rightly(self._projection, document, self._reserved):
                raise ValueError
            return -int(mark["contributions"]) * _hash(key.text, "contributions") - self._total(key, mark[EXACT])
        _, name, value = id_.split("~")
        return int(_hash(key.text, name) - mark["contributions"] * _hash(key.text, name, value))

    def _contributed(self, key: Key, own: Mapping[str, Any]) -> int:
        found = 0
        for name, measure in self._projection.measures.items():
            if own.get(name) is None:
                continue
            if isinstance(measure, Distinct):
                found += sum(_hash(key.text, name, value) for value in own[name])
            else:
                found += self._linear(key, name, own[name])
        return found

    def _total(self, key: Key, states: Mapping[str, Any]) -> int:
        return sum(self._linear(key, name, state) for name, state in states.items() if state is not None)

    def _linear(self, key: Key, name: str, value: Any) -> int:
        measure = self._projection.measures[name]
        if isinstance(measure, Count | Distinct):
            return int(value) * _hash(key.text, name)
        if isinstance(measure, Sum):
            return residue(value) * _hash(key.text, name)
        if isinstance(measure, Avg):
            return residue(value["sum"]) * _hash(key.text, name) + int(value["count"]) * _hash(key.text, name, "count")
        return 0

    def _note(self, key: Key, document: Document) -> None:
        known = self._extremes.get(key)
        if known is None:
            if len(self._extremes) >= MOST_GROUPS:
                self._unknown[group_bucket(key)] = 1
                return
            known = self._extremes[key] = _Extremes()
        for name in self._projection.extremes:
            known.note(name, self._projection.measures[name], document, self._reserved)

    def differing(self) -> bytearray:
        """A byte for each bucket of groups: 1 where some total may be wrong."""
        found = bytearray(
            1 if value or unknown else 0 for value, unknown in zip(self._values, self._unknown, strict=True)
        )
        for key, known in self._extremes.items():
            if not alike(known.told, known.best):
                found[group_bucket(key)] = 1
        return found

    def to_stored(self) -> str:
        # stored; change with a version: little-endian words of 64 bits
        return b64encode(self._values.tobytes()).decode()

    @staticmethod
    def from_stored(projection: Aggregate, reserved: str, text: str) -> Books:
        return Books(projection, reserved, b64decode(text))


@dataclass
class _Extremes:
    """Of one group, by measure."""

    told: dict[str, Any] = field(default_factory=dict)  # by the total
    best: dict[str, Any] = field(default_factory=dict)  # of the contributions

    def note(self, name: str, measure: Any, document: Document, reserved: str) -> None:
        if CONTRIBUTION in document:
            value = document[CONTRIBUTION].get(name)
            if value is not None:
                state = measure.changed(
                    {"value": self.best[name], "sharing": 1} if name in self.best else None, (), [value]
                )
                self.best[name] = state["value"]
        elif document["id"] == TOTAL_ID and (state := document[reserved][EXACT].get(name)) is not None:
            self.told[name] = state["value"]


def residue(text: str) -> int:
    """A decimal modulo the prime."""
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits))) * pow(10, exponent, PRIME)
    return -whole if sign else whole


def _hash(*told: str) -> int:
    text = "\n".join(told).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") % PRIME


# one group, exactly


@dataclass
class Fold:
    """What the contributions of one group come to, read one after the other."""

    projection: Aggregate
    contributions: int = 0
    values: Counter[Value] = field(default_factory=Counter)  # how many contributions have a distinct value
    properties: dict[str, Any] = field(default_factory=dict)  # what holds the key
    odd: list[Document] = field(default_factory=list)  # nothing that can be reckoned with
    _states: dict[str, Any] = field(default_factory=dict)

    def add(self, document: Document) -> None:
        """One contribution: as stored, or as it should be."""
        try:
            own = document[CONTRIBUTION]
            states = {
                name: measure.changed(self._states.get(name), (), [own[name]] if name in own else [])
                for name, measure in self.projection.measures.items()
                if not isinstance(measure, Distinct)
            }
            values = [
                (name, value)
                for name, measure in self.projection.measures.items()
                if isinstance(measure, Distinct)
                for value in own.get(name, ())
            ]
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError):
            self.odd.append(document)
            return
        self._states = states
        self.values.update(values)
        self.contributions += 1
        self.properties = self.properties or key_properties(self.projection, document)

    @property
    def total(self) -> Total:
        distinct = Counter(name for name, _ in self.values)
        names = (name for name, measure in self.projection.measures.items() if isinstance(measure, Distinct))
        return Total(self.contributions, self._states | {name: distinct[name] for name in names})


def shown_rightly(projection: Aggregate, document: Document, reserved: str) -> bool:
    """Whether the properties of a total follow from its exact state."""
    properties = key_properties(projection, document)
    made = Total.from_stored(document, reserved).to_stored(projection.measures, reserved, properties)
    return alike(by_value(made), by_value({name: document.get(name) for name in made}))


def agrees(fold: Fold, books: Mapping[str, Document], reserved: str) -> bool:
    """Whether a total, and the documents of distinct values, are what contributions come to. `books`: by id."""
    total = books.get(TOTAL_ID)
    values = {id_: document for id_, document in books.items() if id_ != TOTAL_ID}
    if {value_id(value): count for value, count in fold.values.items()} != _counts(values, reserved):
        return False
    if total is None or not fold.contributions:
        return total is None and not fold.contributions
    try:
        told = Total.from_stored(total, reserved)
        return shown_rightly(fold.projection, total, reserved) and alike(_known(fold, told), _known(fold, fold.total))
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return False


def _known(fold: Fold, total: Total) -> dict[str, Any]:
    """Without what may be counted low: how many contributions have an extreme."""
    states = {name: state for name, state in total.states.items() if state is not None}
    for name, measure in fold.projection.measures.items():
        if isinstance(measure, Extreme) and name in states:
            states[name] = states[name]["value"]
        elif isinstance(measure, Distinct | Count | Sum):
            states.setdefault(name, measure.changed(None, (), ()))
    return {"contributions": total.contributions, "states": states}


def _counts(values: Mapping[str, Document], reserved: str) -> dict[str, Any]:
    marks = {id_: document.get(reserved) for id_, document in values.items()}
    return {id_: mark.get("contributions") if isinstance(mark, Mapping) else None for id_, mark in marks.items()}
