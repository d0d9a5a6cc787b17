"""Which documents the SDK's bulk read can be trusted with, and which have to be read in other ways."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from projections.identity import Place
from projections.keys import Key, parse_path

AWKWARD: Final = re.compile(r"[/\\?#%\t\r\n]|\s$")
"""Ids that other clients can store, but that do not survive in an address (case 7)."""
SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON has and UTF-8 has not: the SDK cannot tell where such a key is."""
RESERVED: Final = frozenset(
    """ALL AND ARRAY AS ASC BETWEEN BY CASE CAST CONVERT CROSS DESC DISTINCT ELSE END ESCAPE EXISTS FALSE FOR FROM GROUP
    HAVING IF IN INNER INSERT INTO IS JOIN LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER OVER RANK RIGHT SELECT SET
    THEN TOP TRUE UDF UNDEFINED UPDATE VALUE WHERE WITH""".split()  # noqa: SIM905 - a column of words reads worse
)
"""Words that the SDK writes into its queries as they are where they are names of properties."""
MOST_IDS: Final = 500
"""In one query."""


@dataclass
class Reads:
    """How to read a number of places."""

    bulk: list[Place] = field(default_factory=list)
    queries: list[tuple[Key, list[str]]] = field(default_factory=list)  # ids of one logical partition each
    single: list[Place] = field(default_factory=list)


def divided(places: Collection[Place], paths: Sequence[str]) -> Reads:
    """How to read these places of a container keyed by these paths.

    The SDK's bulk read (4.17.1) takes 1 for true and null for a missing level. Where all that it asks one physical
    partition for is in one logical partition it writes `c.PATH = KEY` with the first path, so that levels are not found
    and nested paths are no syntax; and it never quotes a reserved word.
    """
    reads = Reads(single=[place for place in places if not _is_plain(place)])
    plain = [place for place in places if _is_plain(place)]
    if len(paths) == 1 and _is_simple(paths[0]):
        reads.bulk = plain
        return reads
    by_key: dict[Key, list[Place]] = {}
    for place in plain:
        by_key.setdefault(place.key, []).append(place)
    quoted = all(_is_quoted(path) for path in paths)
    for key, group in by_key.items():
        if len(group) > 1:
            reads.queries += [(key, ids) for ids in _cut([place.id for place in group])]
        else:
            (reads.bulk if quoted else reads.single).append(group[0])
    return reads


def by_ids(ids: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The query for documents of one logical partition, and its parameters."""
    parameters = {f"@id{number}": id_ for number, id_ in enumerate(ids)}
    return f"SELECT * FROM c WHERE c.id IN ({', '.join(parameters)})", parameters


def _cut(ids: Sequence[str]) -> Iterator[list[str]]:
    for begin in range(0, len(ids), MOST_IDS):
        yield list(ids[begin : begin + MOST_IDS])


def _is_plain(place: Place) -> bool:
    if AWKWARD.search(place.id) or SURROGATE.search(place.key.text):
        return False
    return all(type(v) in (str, int, float) for v in place.key.values)


def _is_simple(path: str) -> bool:
    """One name that needs no quotes in a query."""
    names = parse_path(path)
    return len(names) == 1 and names[0].isascii() and names[0].isidentifier() and names[0].upper() not in RESERVED


def _is_quoted(path: str) -> bool:
    """Whether the SDK's other query writes the path rightly: nested ones in brackets, names that are none, too."""
    return '"' not in path and (path.count("/") > 1 or not path[1:].isidentifier() or _is_simple(path))
