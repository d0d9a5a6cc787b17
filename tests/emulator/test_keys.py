"""Effective partition keys are those the SDK computes: it names EPK ranges in its requests."""

from __future__ import annotations

import random
from typing import Any

import pytest
from azure.cosmos.partition_key import PartitionKey, _Undefined

from projections.emulator.errors import ServiceError
from projections.emulator.keys import ABSENT, KeyDefinition, key_from_header, key_of, split_path

VALUES: list[Any] = [
    *("", "a", "tenant-1", "x" * 15, "x" * 16, "x" * 17, "x" * 99, "x" * 100, "x" * 101, "x" * 500),
    *("é", "日本語", "😀", "a b/c", "\u0000", '"', "ü" * 60),
    *(0, 1, 5, 42, 255, 2**31, 2**32 - 1, 2**40, 2**53, -1, -7, -(2**31)),
    *(0.5, -0.5, 1.5, 3.14159, 1e300, -1e-300, 1e21),
    *(True, False, None, ABSENT),
]


def theirs(paths: list[str], kind: str, version: int, values: list[Any]) -> str:
    """The SDK's own function."""
    key = PartitionKey(path=paths if kind == "MultiHash" else paths[0], kind=kind, version=version)
    wire = [_Undefined() if value is ABSENT else value for value in values]
    return str(key._get_effective_partition_key_string(wire)).upper()


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("version", [1, 2])
def test_a_single_key_is_placed_as_the_sdk_places_it(value: Any, version: int) -> None:
    ours = KeyDefinition((("pk",),), multi=False, version=version)
    assert ours.epk_of([value]) == theirs(["/pk"], "Hash", version, [value])


def test_hierarchical_keys_and_their_prefixes_are_placed_as_the_sdk_places_them() -> None:
    chance = random.Random(7)
    paths = ["/a", "/b", "/c"]
    ours = KeyDefinition((("a",), ("b",), ("c",)), multi=True, version=2)
    for _ in range(200):
        values = [chance.choice(VALUES) for _ in range(chance.randint(1, 3))]
        assert ours.epk_of(values) == theirs(paths, "MultiHash", 2, values)


def test_a_prefix_holds_exactly_the_keys_below_it() -> None:
    ours = KeyDefinition((("a",), ("b",)), multi=True, version=2)
    prefix = ours.epk_of(["t1"])
    assert all(prefix <= ours.epk_of(["t1", n]) < prefix + "FF" for n in range(100))
    assert not any(prefix <= ours.epk_of(["t2", n]) < prefix + "FF" for n in range(100))


def test_1_and_1_0_are_one_key_and_true_is_another() -> None:
    ours = KeyDefinition((("pk",),), multi=False, version=2)
    assert ours.epk_of([1]) == ours.epk_of([1.0]) != ours.epk_of([True])
    assert key_of(ours, {"pk": 1}).epk == key_of(ours, {"pk": 1.0}).epk


def test_a_missing_property_is_not_null() -> None:
    ours = KeyDefinition((("a", "b"),), multi=False, version=2)
    assert key_of(ours, {"a": {}}).epk == key_from_header(ours, "[{}]").epk
    assert key_of(ours, {"a": {"b": None}}).epk == key_from_header(ours, "[null]").epk
    assert key_from_header(ours, "[{}]").epk != key_from_header(ours, "[null]").epk


@pytest.mark.parametrize("text", ["", "x", "{}", '"a"', "[[]]", '[{"a":1}]', '["a","b"]', "[1e999]"])
def test_a_header_that_is_no_key_is_refused(text: str) -> None:
    ours = KeyDefinition((("pk",),), multi=False, version=2)
    if text == "[1e999]":
        assert key_from_header(ours, text).full  # infinity is a double, and hashes like one
        return
    with pytest.raises(ServiceError) as refused:
        key_from_header(ours, text)
    assert refused.value.status == 400


def test_paths_may_be_quoted() -> None:
    assert split_path('/"a/b"/c') == ("a/b", "c")
    assert split_path("/'a\"b'/c") == ('a"b', "c")
