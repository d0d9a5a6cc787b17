"""Computed keys: another way to make them would leave every entry behind, and other languages make them too.

The vectors in keys.json were computed by JavaScript as the README has it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from projections.buckets import TimeBucket
from projections.identity import Element, Identity
from projections.keys import UNDEFINED, Key, strategy
from projections.strategies import Concat, HashSuffix, RandomSuffix
from projections.texts import joined, number, parted

VECTORS = json.loads((Path(__file__).parent / "keys.json").read_text(encoding="utf-8"))
ITEM = {
    "id": "o1", "tenant": "acme", "user": 7, "at": "2026-11-30T23:30:00-02:00", "orderId": "o_1", "_ts": 1_796_000_000,
}  # fmt: skip
OWNER = Identity(Key.of("acme", 7), "o1")


def values(vector: Any) -> list[Any]:
    return [UNDEFINED if value == {} and isinstance(value, dict) else value for value in vector["values"]]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["text"].encode("ascii", "replace").decode())
def test_the_text_and_the_suffixes_of_values(vector):
    of = tuple(f"/f{n}" for n, _ in enumerate(vector["values"]))
    assert joined(values(vector), "_") == vector["text"]
    assert parted(vector["text"], "_") == tuple(values(vector))
    for count, suffix in vector["suffix"].items():
        assert HashSuffix("/base", of=of, count=int(count)).hashed(values(vector)) == suffix


NUMBERS = [
    (7.0, "7"), (-0.0, "0"), (1e21, "1e+21"), (1e20, "100000000000000000000"), (1.5e21, "1.5e+21"), (1e-6, "0.000001"),
    (1e-7, "1e-7"), (-1.25e-9, "-1.25e-9"), (123.456, "123.456"), (0.1, "0.1"), (5e-324, "5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e+308"), (123456789012345680000.0, "123456789012345680000"),
    (2**53, "9007199254740992"), (-7, "-7"), (1.234e-5, "0.00001234"), (100, "100"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), NUMBERS)
def test_numbers_are_written_as_ecmascript_writes_them(value, text):
    assert number(value) == text


KEYS = [
    (Concat("/tenant", "/user"), ["acme_~d7"]),
    (Concat("/tenant", TimeBucket("/at", "month"), separator="-", path="/pk"), ["acme-2026~s12"]),
    (TimeBucket("/at", "year"), ["2026"]),
    (TimeBucket("/at", "month"), ["2026-12"]),
    (TimeBucket("/at", "week"), ["2026-W49"]),
    (TimeBucket("/at", "day"), ["2026-12-01"]),
    (TimeBucket("/at", "hour"), ["2026-12-01T01"]),
    (TimeBucket("/at", "minute"), ["2026-12-01T01:30"]),
    (TimeBucket("/_ts", "minute"), ["2026-11-30T00:53"]),
    (RandomSuffix("/tenant", count=10), ["acme_6"]),
    (RandomSuffix(TimeBucket("/at", "day"), count=100), ["2026-12-01_66"]),
    (HashSuffix("/tenant", of="/orderId", count=10), ["acme_5"]),
    (HashSuffix(Concat("/tenant", "/user"), of=("/orderId", "/user"), count=100, separator="-"), ["acme_~d7-85"]),
    (("/tenant", TimeBucket("/at", "month"), "/id"), ["acme", "2026-12", "o1~ys26cp6nfdld45fbfc2c7f2nemlnrhr5"]),
]


@pytest.mark.parametrize(("declared", "key"), KEYS, ids=repr)
def test_the_keys_of_an_item(declared, key):
    assert list(strategy(declared).values(ITEM, OWNER)) == key


def test_the_suffix_of_an_element_is_drawn_from_its_own_digest():
    drawn = [RandomSuffix("/tenant", count=1_000).value(ITEM, Element(OWNER, f"[{n}]")) for n in range(3)]
    assert drawn == ["acme_216", "acme_952", "acme_259"]
