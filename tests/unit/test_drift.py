"""What counts as a difference between a declaration and a container, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from projections.declare import Throughput
from projections.drift import differences, normalised
from projections.store import Container, Description

WANTED = Description(Container("db", "c"), ("/k",), default_ttl=-1)


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"key_paths": ("/other",)}, "key"),
        ({"key_kind": "MultiHash"}, "key kind"),
        ({"key_version": 1}, "key version"),
        ({"default_ttl": None}, "default TTL"),
        ({"default_ttl": 60}, "default TTL"),
        ({"unique_keys": (("/email",),)}, "unique keys"),
        ({"indexing": {"indexingMode": "none"}}, "indexing"),
        ({"indexing": {"excludedPaths": [{"path": "/notes/*"}]}}, "indexing"),
        ({"indexing": {"compositeIndexes": [[{"path": "/a"}, {"path": "/b"}]]}}, "indexing"),
        ({"indexing": {"excludedPaths": [{"path": "/*"}]}}, "indexing"),
    ],
    ids=str,
)
def test_each_setting_that_differs_is_told_with_what_to_do(change: dict[str, Any], setting: str) -> None:
    for wanted, found in ((WANTED, replace(WANTED, **change)),):
        [one] = differences(wanted, found)
        assert one.setting == setting
        assert one.declared != one.found
        assert one.remedy


def test_all_differences_are_told() -> None:
    found = replace(WANTED, default_ttl=60, unique_keys=(("/a",),), indexing={"indexingMode": "none"}, key_version=1)
    settings = [one.setting for one in differences(WANTED, found)]
    assert settings == ["key version", "default TTL", "unique keys", "indexing"]


ETAG = {"path": '/"_etag"/?'}
DEFAULT = {"indexingMode": "Consistent", "automatic": True, "includedPaths": [{"path": "/*"}], "excludedPaths": [ETAG]}
NONE = {"indexingMode": "none", "automatic": False, "includedPaths": [], "excludedPaths": []}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, DEFAULT),
        ({"indexingMode": "none"}, NONE),
        ({"includedPaths": [{"path": "/a/?"}, {"path": "/b/?"}], "excludedPaths": [{"path": "/*"}]},
         {"includedPaths": [{"path": "/b/?"}, {"path": '/"a"/?'}], "excludedPaths": [ETAG, {"path": "/*"}]}),
        ({"includedPaths": [{"path": "/*", "indexes": [{"kind": "Range", "dataType": "Number"}]}]}, None),
        ({"compositeIndexes": [[{"path": "/a"}, {"path": "/b", "order": "descending"}]]},
         {"compositeIndexes": [[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]]}),
        ({"compositeIndexes": [], "spatialIndexes": []}, None),
    ],
    ids=range(6),
)  # fmt: skip
def test_what_the_service_adds_or_writes_otherwise_is_no_difference(one: Any, other: Any) -> None:
    assert normalised(one) == normalised(other)
    assert list(differences(replace(WANTED, indexing=one), replace(WANTED, indexing=other))) == []


def test_the_order_of_a_composite_index_matters() -> None:
    one = {"compositeIndexes": [[{"path": "/a"}, {"path": "/b"}]]}
    other = {"compositeIndexes": [[{"path": "/b"}, {"path": "/a"}]]}
    assert normalised(one) != normalised(other)


def test_unique_keys_are_the_same_in_any_order() -> None:
    one = replace(WANTED, unique_keys=(("/a", "/b"), ("/c",)))
    assert list(differences(one, replace(WANTED, unique_keys=(("/c",), ("/b", "/a"))))) == []


@pytest.mark.parametrize(
    ("declared", "found", "told"),
    [
        (Throughput(), Throughput(manual=400), None),  # whatever the account gives
        (Throughput(manual=400), None, None),  # nobody could tell
        (Throughput(manual=400), Throughput(manual=400), None),
        (Throughput(manual=400), Throughput(manual=1000), "declared 400 RU/s, found 1000 RU/s"),
        (Throughput(autoscale=4000), Throughput(manual=4000), "declared autoscale, 4000 RU/s at most, found 4000 RU/s"),
        (Throughput(autoscale=4000), Throughput(), "found none of its own (serverless or shared)"),
    ],
    ids=str,
)
def test_throughput(declared: Throughput, found: Throughput | None, told: str | None) -> None:
    shown = [str(one) for one in differences(replace(WANTED, throughput=declared), WANTED, found)]
    assert shown == [] if told is None else told in shown[0]
