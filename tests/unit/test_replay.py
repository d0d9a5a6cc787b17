"""A replay that dies at any of its calls is followed by one that finishes; and how a replay is asked for."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
import typer

from projections.cli.replaying import _begin, _condition, _key
from projections.declare import Catalog, Index, Source
from projections.errors import CatalogError
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.replay import Replay, Report
from projections.resumption import From, Resumption
from projections.store import Container, Delete, Upsert
from projections.worker import Engine, Worker
from tests.converged import assert_converged, documents
from tests.host.virtual import in_virtual_time
from tests.integration.conftest import KilledError, MortalStore

ORDERS = Source(container="orders", key="/c")
BY_STATE = Index(name="by-state", source=ORDERS, key="/state", placement_buckets=1)
LAYOUT = Layout(Catalog(projections=(BY_STATE,)), "db")
SOURCE, TARGET = Container("db", "orders"), Container("db", "by-state")


async def damaged() -> MemoryStore:
    """A target from which half of the entries are gone."""
    store = MemoryStore()
    await initialise(store, LAYOUT)
    for n in range(6):
        await store.write(SOURCE, Key.of("c"), [Upsert({"id": str(n), "c": "c", "state": "xy"[n % 2]})])
    await Worker(store, LAYOUT, [BY_STATE]).run(until_caught_up=True)
    for entry in await documents(store, TARGET):
        if entry["state"] == "x":
            await store.write(TARGET, Key.of("x"), [Delete(entry["id"], entry["_etag"])])
    return store


async def replay(store: Any, begin: From = "beginning") -> Report:
    engine = await Engine.open(store, LAYOUT, BY_STATE)
    return await Replay(store, LAYOUT, engine, begin=begin, page_size=2).run()


@pytest.mark.parametrize("begin", ["beginning", 1])
@pytest.mark.parametrize("after", [False, True])
@in_virtual_time
async def test_whenever_it_dies_another_one_finishes(begin: From, after: bool) -> None:
    for dies_at in range(1, 100):
        store = await damaged()
        mortal = MortalStore(store, dies_at, after=after)  # type: ignore[arg-type]
        with contextlib.suppress(KilledError):
            await replay(mortal, begin)
        if not mortal.died:
            assert dies_at > 10
            return
        report = await replay(store, begin)
        assert report.finished
        await assert_converged(store, LAYOUT)
        record = await Resumption(store, LAYOUT.state, BY_STATE.full_name).record()
        assert record
        assert record["finished"] is not None
    raise AssertionError("it never comes to an end")


def test_what_a_replay_begins_with_as_it_is_typed() -> None:
    assert (_begin("beginning"), _begin("checkpoint")) == ("beginning", "checkpoint")
    assert (
        _begin("1700000000") == _begin("2023-11-14T22:13:20Z") == _begin("2023-11-14T23:13:20+01:00") == 1_700_000_000
    )
    assert _begin("2023-11-14T22:13:20") == 1_700_000_000  # UTC, as everything is
    ago = _begin("2h")
    assert isinstance(ago, int)
    assert abs(time.time() - 7200 - ago) < 5
    with pytest.raises(typer.BadParameter, match="no span of time"):
        _begin("yesterday")


def test_keys_and_conditions_as_they_are_typed() -> None:
    assert _key("c1") == Key.of("c1")
    assert _key("7") == Key.of(7)
    assert _key('"7"') == Key.of("7")
    assert _key('["de", 7, null]') == Key.of("de", 7, None)
    assert _condition("/a/b=x=y") == ("/a/b", "x=y")
    assert _condition("/n=1.5") == ("/n", 1.5)
    with pytest.raises(typer.BadParameter, match="no JSON array"):
        _key("[1")
    with pytest.raises(typer.BadParameter, match="/path=value"):
        _condition("status")
    with pytest.raises(CatalogError):
        _condition("/a//b=1")
