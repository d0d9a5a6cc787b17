"""What the totals of an Aggregate should be, worked out without the product's maths: from items, in fractions."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from projections.aggregate import Aggregate
from projections.identity import Identity, Place
from projections.keys import UNDEFINED, Key, at, parse_path
from projections.measures import Avg, Count, Distinct, Max, Measure, Sum
from projections.where import same

Document = dict[str, Any]


def totals(projection: Aggregate, items: Iterable[Mapping[str, Any]], reserved: str = "_source") -> dict[Place, Any]:
    """The documents of totals and of distinct values, for items that are not to be parked and have not expired."""
    groups: dict[Key, list[tuple[Mapping[str, Any], list[Any]]]] = {}
    for item in items:
        for key, rows in _groups(projection, item).items():
            groups.setdefault(key, []).append((item, rows))
    found: dict[Place, Any] = {}
    for key, members in groups.items():
        found |= _documents(projection, key, [rows for _, rows in members], reserved)
    return found


def _groups(projection: Aggregate, item: Mapping[str, Any]) -> dict[Key, list[Any]]:
    """The item's rows in each group that it belongs to."""
    deletes = projection.deletes
    if deletes and any(same(at(item, parse_path(deletes.path)), value) for value in deletes.equals):
        return {}
    identity = Identity.of(item, projection.source.key)
    groups: dict[Key, list[Any]] = {}
    for row in _rows(projection, item):
        inputs = [at(row, parse_path(path)) for path in projection.key.inputs]
        left_out = [rule for rule, value in ((projection.missing, UNDEFINED), (projection.null, None))
                    for found in inputs if found is value and rule == "skip"]  # fmt: skip
        if not left_out and not any(isinstance(v, dict | list) for v in inputs):
            groups.setdefault(Key.of(*projection.key.values(row, identity)), []).append(row)
    return groups


def _rows(projection: Aggregate, item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    rows: Iterable[Mapping[str, Any]] = [item]
    if projection.each:
        [name] = parse_path(projection.each)  # deeper ones are tested elsewhere
        rows = [{**item, name: element} for element in item.get(name) or []]
    return (row for row in rows if projection.where is None or projection.where(row))


def _documents(projection: Aggregate, key: Key, members: list[list[Any]], reserved: str) -> dict[Place, Document]:
    """Of one group: `members` are the rows of each item in it."""
    properties = _properties(projection, members[0][0], key)
    total: Document = {"id": "total", **properties}
    exact: Document = {}
    found: dict[Place, Document] = {}
    for name, measure in projection.measures.items():
        values = [_values(measure, rows) for rows in members]
        total[name], state = _figured(measure, values, members)
        exact |= {} if state is None else {name: state}
        if isinstance(measure, Distinct):
            for value, count in _having(values).items():
                id_ = f"distinct~{name}~{value}"
                found[Place(id_, key)] = {"id": id_, **properties, reserved: {"contributions": count}}
    total[reserved] = {"contributions": len(members), "exact": exact}
    return {Place("total", key): total, **found}


def _properties(projection: Aggregate, row: Mapping[str, Any], key: Key) -> Document:
    document: Document = dict(projection.key.stored(key.values))
    for path in projection.key.copied:
        *outer, last = parse_path(path)
        value, here = at(row, parse_path(path)), document
        if value is not UNDEFINED:
            for name in outer:
                here = here.setdefault(name, {})
            here[last] = value
    return document


def _values(measure: Measure, rows: list[Any]) -> list[Any]:
    if measure.path is None:
        return []
    found = [at(row, parse_path(measure.path)) for row in rows]
    return [value for value in found if value is not UNDEFINED and value is not None]


def _figured(measure: Measure, values: list[list[Any]], members: list[list[Any]]) -> tuple[Any, Any]:
    """What a total shows of a measure, and its exact state."""
    every = [value for own in values for value in own]
    if isinstance(measure, Count):
        return (count := sum(map(len, members))), count
    if isinstance(measure, Distinct):
        return (count := len(_having(values))), count
    if isinstance(measure, Sum | Avg):
        total = sum((Fraction(repr(value)) for value in every), Fraction())
        if isinstance(measure, Sum):
            return _number(total), _text(total)
        return (_number(total / len(every)), {"sum": _text(total), "count": len(every)}) if every else (None, None)
    if not every:
        return None, None
    choose = max if isinstance(measure, Max) else min
    best = choose(every, key=lambda value: (isinstance(value, str), value))
    own = [choose(value, key=lambda one: (isinstance(one, str), one)) for value in values if value]
    best = int(best) if isinstance(best, float) and best.is_integer() and abs(best) <= 2**53 else best
    return best, {"value": best, "sharing": sum(value == best for value in own)}


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 and abs(value) <= 2**53 else float(value)


def _text(value: Fraction) -> str:
    """An exact decimal: its denominator divides a power of ten."""
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
    sign, whole = "-" if value < 0 else "", str(abs(int(value * 10**digits))).rjust(digits + 1, "0")
    return sign + (f"{whole[:-digits]}.{whole[-digits:]}" if digits else whole)


def _having(values: list[list[Any]]) -> dict[str, int]:
    """How many items have each value, by what the product names it."""
    counted: dict[str, int] = {}
    for own in values:
        for value in {_named(value) for value in own}:
            counted[value] = counted.get(value, 0) + 1
    return counted


def _named(value: Any) -> str:
    kind = "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"
    text = json.dumps([kind, _text(Fraction(repr(value))) if kind == "number" else value], separators=(",", ":"))
    return base64.b32encode(hashlib.sha256(text.encode()).digest()[:20]).decode().lower()


def known(documents: Mapping[Place, Mapping[str, Any]], reserved: str = "_source") -> dict[Place, Any]:
    """The same without what may be counted low: how many contributions have an extreme."""
    return {place: _without(document, reserved) for place, document in documents.items()}


def _without(document: Mapping[str, Any], reserved: str) -> dict[str, Any]:
    mark = document[reserved]
    exact = {
        name: state["value"] if isinstance(state, dict) and "sharing" in state else state
        for name, state in mark.get("exact", {}).items()
    }
    return {**document, reserved: {**mark, "exact": exact}}


# of stored contributions


def folded(projection: Aggregate, stored: Mapping[Place, Mapping[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What the stored contributions of each group come to; sums and counts only, and how many there are."""
    found: dict[Key, dict[str, Any]] = {}
    for place, document in stored.items():
        own, group = document["contribution"], found.setdefault(place.key, {"contributions": 0})
        group["contributions"] += 1
        for name, measure in projection.measures.items():
            value = own.get(name)
            if isinstance(measure, Count | Sum):
                group[name] = group.get(name, 0) + Fraction(value or 0)
            elif isinstance(measure, Distinct):
                group[name] = group.get(name, frozenset()) | frozenset(value or ())
            elif value is not None and not isinstance(measure, Avg):
                group[name] = [*group.get(name, ()), value]
    return found


def torn(projection: Aggregate, stored: Mapping[Place, Mapping[str, Any]], reserved: str = "_source") -> str | None:
    """Where a stored total is not what the stored contributions come to."""
    contributions = {place: doc for place, doc in stored.items() if "contribution" in doc}
    groups = folded(projection, contributions)
    shown = {place.key: document for place, document in stored.items() if place.id == "total"}
    if groups.keys() != shown.keys():
        return f"there are totals of {set(shown)}, contributions to {set(groups)}"
    for key, group in groups.items():
        total = shown[key]
        counted = total[reserved]["contributions"]
        if counted != group["contributions"]:
            return f"the total of {key} is of {counted} contributions, and there are {group['contributions']}"
        for name, measure in projection.measures.items():
            own: Any = group.get(name)
            if isinstance(measure, Avg):
                continue
            if isinstance(measure, Distinct):
                own = len(own)
            elif isinstance(measure, Count | Sum):
                own = _number(own)
            elif own:
                own = (max if isinstance(measure, Max) else min)(own, key=lambda value: (isinstance(value, str), value))
            if total[name] != own:
                return f"the total of {key} has {total[name]} for {name}; its contributions come to {own}"
    return None
