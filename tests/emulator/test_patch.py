"""Partial updates: each operation, each refusal, conditions, and that a failed one changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos.aio import ContainerProxy
from azure.cosmos.exceptions import CosmosAccessConditionFailedError, CosmosHttpResponseError

from projections.emulator.errors import ServiceError
from projections.emulator.patch import apply

from .conftest import Call

BEFORE: dict[str, Any] = {"id": "1", "n": 1, "list": [1, 2, 3], "o": {"a": {"b": 5}}, "a/b": 1, "x~y": 2}


@pytest.mark.parametrize(
    ("operation", "path", "after"),
    [
        ({"op": "add", "path": "/new", "value": 7}, "new", 7),
        ({"op": "add", "path": "/n", "value": 7}, "n", 7),
        ({"op": "add", "path": "/list/1", "value": 7}, "list", [1, 7, 2, 3]),
        ({"op": "add", "path": "/list/3", "value": 7}, "list", [1, 2, 3, 7]),
        ({"op": "add", "path": "/list/-", "value": 7}, "list", [1, 2, 3, 7]),
        ({"op": "set", "path": "/list/1", "value": 7}, "list", [1, 7, 3]),
        ({"op": "set", "path": "/list/-", "value": 7}, "list", [1, 2, 3, 7]),
        ({"op": "set", "path": "/o/a/c", "value": 7}, "o", {"a": {"b": 5, "c": 7}}),
        ({"op": "set", "path": "/a~1b", "value": 7}, "a/b", 7),
        ({"op": "set", "path": "/x~0y", "value": 7}, "x~y", 7),
        ({"op": "replace", "path": "/o/a/b", "value": None}, "o", {"a": {"b": None}}),
        ({"op": "replace", "path": "/list/0", "value": 7}, "list", [7, 2, 3]),
        ({"op": "remove", "path": "/list/0"}, "list", [2, 3]),
        ({"op": "remove", "path": "/o/a"}, "o", {}),
        ({"op": "incr", "path": "/n", "value": 2}, "n", 3),
        ({"op": "incr", "path": "/n", "value": -0.5}, "n", 0.5),
        ({"op": "incr", "path": "/fresh", "value": 2}, "fresh", 2),
        ({"op": "incr", "path": "/list/2", "value": 2}, "list", [1, 2, 5]),
        ({"op": "move", "from": "/o/a", "path": "/list/-"}, "list", [1, 2, 3, {"b": 5}]),
        ({"op": "move", "from": "/n", "path": "/o/a/b"}, "o", {"a": {"b": 1}}),
    ],
    ids=str,
)
def test_what_an_operation_does(operation: dict[str, Any], path: str, after: Any) -> None:
    made = apply(BEFORE, [operation])
    assert made[path] == after
    assert apply({}, [{"op": "add", "path": "/x", "value": BEFORE}])["x"] == BEFORE  # and the original is untouched


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/list/4", "value": 1},
        {"op": "add", "path": "/gone/x", "value": 1},
        {"op": "add", "path": "/n/x", "value": 1},
        {"op": "add", "path": "/new"},
        {"op": "set", "path": "/list/x", "value": 1},
        {"op": "replace", "path": "/gone", "value": 1},
        {"op": "replace", "path": "/list/3", "value": 1},
        {"op": "remove", "path": "/gone"},
        {"op": "remove", "path": "/list/-"},
        {"op": "incr", "path": "/o", "value": 1},
        {"op": "incr", "path": "/n", "value": "1"},
        {"op": "incr", "path": "/n", "value": True},
        {"op": "move", "from": "/gone", "path": "/x"},
        {"op": "move", "from": "/o", "path": "/o/a/c"},
        {"op": "move", "path": "/x"},
        {"op": "copy", "from": "/n", "path": "/x", "value": 1},
        {"op": "set", "path": "n", "value": 1},
        {"op": "set", "path": "/", "value": 1},
        {"op": "set", "path": 5, "value": 1},
        {"op": "set", "path": "/id", "value": "2"},
        {"op": "set", "path": "/_ts", "value": 1},
        {"op": "set", "path": "/o/key", "value": 1},
        {"op": "remove", "path": "/o"},
    ],
    ids=str,
)
def test_what_an_operation_refuses(operation: dict[str, Any]) -> None:
    with pytest.raises(ServiceError) as refused:
        apply(BEFORE | {"o": {"key": "k"}}, [operation], [("o", "key")])
    assert refused.value.status == 400


async def test_a_failing_operation_undoes_those_before_it(container: ContainerProxy) -> None:
    await container.create_item({"id": "1", "pk": "a", "n": 1})
    with pytest.raises(CosmosHttpResponseError):
        await container.patch_item(
            "1", "a", [{"op": "incr", "path": "/n", "value": 1}, {"op": "remove", "path": "/gone"}]
        )
    assert (await container.read_item("1", "a"))["n"] == 1


async def test_a_condition_decides(container: ContainerProxy, call: Call) -> None:
    await container.create_item({"id": "1", "pk": "a", "n": 1})
    bump = [{"op": "incr", "path": "/n", "value": 1}]
    made = await container.patch_item("1", "a", bump, filter_predicate="FROM c WHERE c.n = 1")
    assert made["n"] == 2
    with pytest.raises(CosmosAccessConditionFailedError) as failed:
        await container.patch_item("1", "a", bump, filter_predicate="FROM c WHERE c.n = 1")
    assert failed.value.sub_status == 1110
    with pytest.raises(CosmosHttpResponseError) as wrong:
        await container.patch_item("1", "a", bump, filter_predicate="FROM WHERE")
    assert wrong.value.status_code == 400


async def test_the_bare_array_is_a_patch_too(container: ContainerProxy, call: Call) -> None:
    await container.create_item({"id": "1", "pk": "a"})
    body = [{"op": "set", "path": "/n", "value": 1}]
    headers = {"x-ms-documentdb-partitionkey": '["a"]'}
    answer = await call("PATCH", "/dbs/shop/colls/items/docs/1", body, headers)
    assert answer.json["n"] == 1
    too_many = await call("PATCH", "/dbs/shop/colls/items/docs/1", body * 11, headers)
    assert too_many.status == 400
