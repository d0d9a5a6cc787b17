"""The shop of adversity.py with every kind of entries under every kind of key: random histories of each.

An item has a day and lines, beside what it has there. Its entries: one for the item, one for each line (told apart by
place, by value or by a part of it), or what a function makes of it. Their keys: a path, several values in one, a time
bucket, suffixes of both kinds, levels of these, the entry's own id as the last.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from projections.buckets import TimeBucket
from projections.declare import Custom, Index, Projection, SoftDelete, Source
from projections.entries import Rules
from projections.keys import UNDEFINED
from projections.store import Document
from projections.strategies import Concat, HashSuffix, RandomSuffix
from projections.writer import Writer
from tests.simulation import adversity
from tests.simulation.adversity import Found, Shop

DAYS: Final = ("2024-12-31T23:59:59Z", "2025-01-01T00:00:00Z", "2025-01-01", "no day", 1_700_000_000, None, UNDEFINED)
LINES: Final = ([], [{"sku": "a", "n": 1}], [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}], [{"sku": "a"}, {"sku": "a"}],
                [{"sku": "b", "n": 1}, 3, {"sku": None}], "no list", None, UNDEFINED)  # fmt: skip
"""The last ones are not what is declared: they park the item, or leave it out."""


def _of_item(of: str) -> list[Any]:
    """Keys made with a value of the item."""
    day = TimeBucket("/day", "month", path="/month")
    return [
        of,
        Concat(of, "/v", path="/both"),
        day,
        RandomSuffix(of, count=3, path="/spread"),
        RandomSuffix(Concat("/v", day, path="/x"), count=2, path="/spread"),
        HashSuffix(of, of="/v", count=3, path="/spread"),
        (of, day),
        ("/v", RandomSuffix(of, count=2, path="/spread"), "/id"),
        (of, "/id"),
    ]


def pairs(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a function's own: one for each line that is one, and one for the item."""
    lines = item.get("lines")
    found = [line for line in lines if isinstance(line, dict)] if isinstance(lines, list) else []
    own = {name: item[name] for name in ("k", "v", "day") if name in item}
    return [{**own, "no": number, "of": len(found)} for number, _ in enumerate(found)] + [{**own, "no": "item"}]


class Market(Shop):
    def __init__(self, seed: int, writer: type[Writer] = Writer) -> None:
        self._more = random.Random(seed + 1)
        super().__init__(seed, writer)

    def _declared(self) -> Rules:
        return Rules(self._projection(), source_ttl=-1)

    def _projection(self) -> Projection:
        chance = self.chance
        fields: dict[str, Any] = {
            "name": "p",
            "source": Source(container="source", key="/shop"),
            "null": chance.choice(("keep", "skip", "deadletter")),
            "missing": chance.choice(("keep", "skip", "deadletter")),
            "other": chance.choice(("skip", "deadletter")),
            "deletes": SoftDelete("/deleted"),
            "placement_buckets": chance.choice((1, 2)),
        }
        several = {"by": chance.choice(("position", "value", "/lines/sku"))}
        several["duplicates"] = chance.choice(("deadletter", "first", "last"))
        match chance.choice(("item", "each", "function")):
            case "item":
                return Index(**fields, key=chance.choice(_of_item("/k")))
            case "each":
                return Index(**fields, **several, each="/lines", key=chance.choice(_of_item("/lines/sku")))
            case _:
                by = chance.choice(("position", "/no"))
                return Custom(**fields, by=by, project=pairs, key=chance.choice(_of_item("/k")))

    async def _put(self, item: Document) -> None:
        values = {"day": self._more.choice(DAYS), "lines": self._more.choice(LINES)}
        await super()._put(item | {name: value for name, value in values.items() if value is not UNDEFINED})


async def history(seed: int, writer: type[Writer] = Writer, *, at_most: int | None = None) -> Found:
    """One random history to its end, or its first steps."""
    return await adversity.history(seed, writer, at_most=at_most, kind=Market)
