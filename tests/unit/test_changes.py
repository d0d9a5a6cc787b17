"""What a change says, in either mode of the feed, and as the Functions host hands it on."""

from __future__ import annotations

from typing import Any

import pytest

from projections.changes import is_version, made_at, rid_of, state_of
from projections.errors import FatalError
from projections.identity import Identity
from projections.keys import UNDEFINED, Key, plain
from projections.version import Order, Version
from tests.support import item

SHOP = plain("/shop")


def version(operation: str, current: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"current": current, "metadata": {"lsn": 7, "crts": 1_700_000_000, "operationType": operation, **metadata}}


def deleted(told: Any = None, **metadata: Any) -> dict[str, Any]:
    told = {"shop": "s1"} if told is None else told
    return version("delete", {}, id="o1", partitionKey=told, previousImageLSN=6, **metadata)


def key_of(told: dict[str, Any], *paths: str) -> tuple[Any, ...]:
    return state_of(deleted(told), plain(paths)).identity.key.values


def test_an_item_of_the_latest_versions_is_its_own_change() -> None:
    change = item(_lsn=4)
    state = state_of(change, SHOP)
    assert (state.identity, state.item) == (Identity(Key.of("s1"), "o1"), change)
    assert state.version == Version('"e1"', change["_ts"], 4)
    assert (is_version(change), made_at(change), rid_of(change)) == (False, change["_ts"], "r==")


def test_an_item_may_have_fields_that_are_called_as_those_of_a_wrapper() -> None:
    change = item(current={"x": 1}, previous=None, metadata={"operationType": "delete", "id": "o9"}, _lsn=4)
    assert not is_version(change)
    assert state_of(change, SHOP).item == change


@pytest.mark.parametrize("operation", ["create", "replace", "Create"])
def test_a_version_is_the_item_as_it_was_then(operation: str) -> None:
    current = item(status="paid")
    change = version(operation, current)
    state = state_of(change, SHOP)
    assert (state.identity, state.item) == (Identity(Key.of("s1"), "o1"), current)
    assert state.version == Version('"e1"', current["_ts"], 7)
    assert (is_version(change), made_at(change), rid_of(change)) == (True, 1_700_000_000, "r==")


@pytest.mark.parametrize("current", [{}, None, "left out"])
@pytest.mark.parametrize("operation", ["delete", "Delete"])
def test_a_delete_is_told_by_its_metadata(operation: str, current: Any) -> None:
    change = deleted() | {"current": current}
    change["metadata"]["operationType"] = operation
    if current == "left out":
        del change["current"]
    state = state_of(change, SHOP)
    assert state.gone
    assert state.identity == Identity(Key.of("s1"), "o1")
    assert state.version == Version(None, 1_700_000_000, 7, deleted=True)
    assert rid_of(change) == ""


def test_a_delete_with_the_previous_image_is_told_by_that() -> None:
    change = {**version("delete", None), "previous": item(shop="s2")}
    assert state_of(change, SHOP).identity == Identity(Key.of("s2"), "o1")
    assert rid_of(change) == "r=="


@pytest.mark.parametrize(
    ("told", "paths", "values"),
    [
        ({"shop": "s1"}, ["/shop"], ("s1",)),
        ({"/shop": "s1"}, ["/shop"], ("s1",)),
        ({"shop": None}, ["/shop"], (None,)),
        ({"shop": 7}, ["/shop"], (7,)),
        ({"shop": True}, ["/shop"], (True,)),
        ({}, ["/shop"], (UNDEFINED,)),
        ({"shop": {}}, ["/shop"], (UNDEFINED,)),
        ({"a/b": 1}, ["/a/b"], (1,)),
        ({"/a/b": 1}, ["/a/b"], (1,)),
        ({"a.b": 1}, ["/a/b"], (1,)),
        ({"b": 1}, ["/a/b"], (1,)),
        ({"a": {"b": 1}}, ["/a/b"], (1,)),
        ({"user": "u", "tenant": "t"}, ["/tenant", "/user"], ("t", "u")),
        ({"tenant": "t"}, ["/tenant", "/user"], ("t", UNDEFINED)),
        ({"b": 2, "a/b": 1}, ["/a/b", "/b"], (1, 2)),
        ({"x": {"id": 1}, "id": 2}, ["/x/id", "/id"], (1, 2)),
    ],
)
def test_the_key_of_a_delete(told: dict[str, Any], paths: list[str], values: tuple[Any, ...]) -> None:
    assert key_of(told, *paths) == values


def test_a_delete_under_another_key_than_declared_is_not_guessed_at() -> None:
    with pytest.raises(FatalError, match="under customer; the source is declared with the key /shop") as raised:
        state_of(deleted({"customer": "c1"}), SHOP)
    assert raised.value.hint


@pytest.mark.parametrize("change", [version("delete"), version("delete", id=7, partitionKey={})])
def test_a_delete_of_nobody_knows_what(change: dict[str, Any]) -> None:
    with pytest.raises(FatalError, match="not of which item"):
        state_of(change, SHOP)


def test_deletes_and_other_versions_are_in_order() -> None:
    gone = state_of(deleted(), SHOP).version
    before = Version('"e1"', 1_699_999_999, 6)
    after = Version('"e2"', 1_700_000_001, 8)
    within_a_second = Version('"e1"', 1_700_000_000, 6)
    assert gone.against(gone) is Order.SAME
    assert [gone.against(other) for other in (before, after)] == [Order.NEWER, Order.OLDER]
    assert gone.against(within_a_second) is Order.UNCLEAR  # so the source is asked
    assert gone.comparable
    assert not Version(deleted=True).comparable
