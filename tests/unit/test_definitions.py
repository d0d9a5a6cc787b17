"""Definitions as they are stored, compared, and settled when a worker starts."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from projections.declare import Catalog, Projection, Target, Throughput
from projections.definitions import Definitions
from projections.errors import UnsafeError
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.revision import Need
from projections.where import field
from projections.worker import Engine
from tests.support import NOW, index

PLAIN = index()
REPLAYED = index(where=field("/total") > 5)
REKEYED = index(key="/region")


@pytest.fixture
async def store() -> MemoryStore:
    made = MemoryStore()
    await initialise(made, layout(PLAIN))
    return made


def layout(*projections: Projection) -> Layout:
    return Layout(Catalog(projections=projections), "shop")


def definitions(store: MemoryStore, projection: Projection, now: float = NOW) -> Definitions:
    return Definitions(store, layout(projection), lambda: now)


async def settle(store: MemoryStore, projection: Projection, now: float = NOW) -> None:
    await definitions(store, projection, now).settle(projection)


async def due(store: MemoryStore) -> dict[str, Need]:
    found = await definitions(store, PLAIN).read("by-status@1")
    assert found
    return {one.change.field: one.change.need for one in found.due}


async def test_the_first_start_puts_it_on_record(store: MemoryStore) -> None:
    assert await definitions(store, PLAIN).read("by-status@1") is None
    await Engine.open(store, layout(PLAIN), PLAIN)
    [found] = await definitions(store, PLAIN).all()
    assert (found.full_name, found.since > NOW, found.due) == ("by-status@1", True, ())
    assert found.fields["key"] == "/status"


async def test_a_dry_run_puts_nothing_on_record(store: MemoryStore) -> None:
    await Engine.open(store, layout(PLAIN), PLAIN, dry_run=True)
    assert await definitions(store, PLAIN).all() == []


async def test_a_change_that_needs_a_version_is_refused_and_leaves_the_record(store: MemoryStore) -> None:
    await settle(store, PLAIN)
    spread = index(placement_buckets=32)  # nothing of the containers would tell
    with pytest.raises(UnsafeError, match="placement_buckets: 16 -> 32") as raised:
        await Engine.open(store, layout(spread), spread)
    assert raised.value.hint
    assert "version=2" in raised.value.hint
    assert "projections plan" in raised.value.hint
    found = await definitions(store, PLAIN).read("by-status@1")
    assert found
    assert found.fields["placement_buckets"] == 16
    await settle(store, index(placement_buckets=32, version=2))  # beside it, it may


async def test_a_change_that_needs_a_replay_is_due_until_one_is_done(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    await settle(store, PLAIN)
    with caplog.at_level(logging.WARNING, "projections"):
        await settle(store, REPLAYED, NOW + 10)
    assert "projections replay by-status" in caplog.text
    assert await due(store) == {"where": Need.REPLAY}
    caplog.clear()
    await settle(store, REPLAYED, NOW + 20)
    assert not caplog.records
    await definitions(store, REPLAYED).replayed(REPLAYED, began=NOW + 5)  # it began before the change was at work
    assert await due(store) == {"where": Need.REPLAY}
    await definitions(store, REPLAYED).replayed(REPLAYED, began=NOW + 11)
    assert await due(store) == {}


async def test_going_back_is_a_change_like_any_other(store: MemoryStore) -> None:
    await settle(store, PLAIN)
    await settle(store, REPLAYED, NOW + 10)
    await settle(store, PLAIN, NOW + 20)
    found = await definitions(store, PLAIN).read("by-status@1")
    assert found
    assert [(one.change.field, one.change.new, one.at) for one in found.due] == [("where", None, NOW + 20)]


async def test_what_entries_do_not_depend_on_is_put_on_record_and_asks_for_nothing(store: MemoryStore) -> None:
    await settle(store, PLAIN)
    await settle(store, index(ru_per_second=5, target=Target(throughput=Throughput(manual=500))))
    found = await definitions(store, PLAIN).read("by-status@1")
    assert found
    assert (found.fields["ru_per_second"], found.due) == (5, ())


def of_before(item: Any) -> bool:
    return True


def of_now(item: Any) -> bool:
    return False


async def test_code_that_may_have_changed_is_due_until_somebody_judges(store: MemoryStore) -> None:
    await settle(store, index(where=of_before))
    now = index(where=of_now)
    await settle(store, now)
    assert await due(store) == {"where": Need.JUDGEMENT}
    accepted = await definitions(store, now).accept(now)
    assert [change.field for change in accepted] == ["where"]
    assert await due(store) == {}


async def test_two_that_start_at_once_agree(store: MemoryStore) -> None:
    started: list[Any] = []

    async def before(name: str, container: Any) -> None:
        if name == "write" and not started:
            started.append(name)
            await settle(store, PLAIN)

    store._before = before
    await settle(store, PLAIN)
    assert len(await definitions(store, PLAIN).all()) == 1


async def test_two_that_start_at_once_and_do_not_agree_find_it_out(store: MemoryStore) -> None:
    started: list[Any] = []

    async def before(name: str, container: Any) -> None:
        if name == "write" and not started:
            started.append(name)
            await settle(store, PLAIN)

    store._before = before
    with pytest.raises(UnsafeError, match="another declaration"):
        await settle(store, REKEYED)
