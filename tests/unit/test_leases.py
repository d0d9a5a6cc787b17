"""Leases as the host writes them, and which of them say how far it is with a projection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from projections.declare import Catalog, Index, Source
from projections.feed import Checkpoint
from projections.keys import Key
from projections.leases import Lease, feeds, leases
from projections.lookup import Lookup
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.store import Container, Description, FeedRange, Start, Upsert, at_lsn
from projections.triggers import lease_prefix, triggers
from projections.waiting import BehindError

INDEX = Index(name="by-status", source=Source(container="orders", key="/shop"), key="/status")
NEXT = Index(name="by-status-1", source=INDEX.source, key="/status")
LAYOUT = Layout(Catalog(projections=(INDEX, NEXT)), "shop")
RID = "O7RwAKylJbY="
TRIGGER = next(triggers(LAYOUT))
FEED = f"account.documents.azure.com_O7RwAA==_{RID}"
WHOLE = ("", "FF")


def document(token: str = "0", bounds: tuple[str, str] | None = WHOLE, **fields: Any) -> dict[str, Any]:
    """As the host writes it: of a whole physical partition (its id), or of a part of one (its bounds; version 1)."""
    ranged = {"FeedRange": {"Range": {"min": bounds[0], "max": bounds[1]}}} if bounds else {}
    return {
        "id": f"by-status-1-{FEED}..{token}",
        "version": int("-" in token),
        "LeaseToken": token,
        **ranged,
        "Owner": "ce68680e-76c0-437c-983a-45cd39474490",
        "ContinuationToken": '"24"',
        "properties": {},
        "timestamp": "2026-06-28T14:42:40.403196Z",
        "Mode": "Incremental Feed",
        "_ts": 1_782_657_760,
    } | fields


class Named(MemoryStore):
    """Calls its containers by names of its own, as a real one does."""

    rid: str | None = RID

    async def describe(self, container: Container) -> Description | None:
        found = await super().describe(container)
        return replace(found, rid=self.rid) if found else None


async def stored(*documents: dict[str, Any]) -> Named:
    store = Named()
    await initialise(store, LAYOUT)
    for one in documents:
        await store.write(LAYOUT.leases, Key.of(one["id"]), [Upsert(one)])
    return store


async def covering(*documents: dict[str, Any]) -> list[list[str]]:
    """The ways in which leases cover the feed: ranges, and how far they are."""
    [ways] = await feeds(await stored(*documents), LAYOUT, INDEX)
    return [[f"{one.feed_range} {one.position or ''}".strip() for one in way] for way in ways]


def test_a_lease_of_a_physical_partition() -> None:
    lease = Lease.of(document("6", ("1F", "FF")), TRIGGER)
    assert (lease.feed_range, lease.lsn) == (FeedRange("1F", "FF"), 24)
    assert lease.checkpoint == Checkpoint(FeedRange("1F", "FF"), at_lsn(24))
    assert (lease.owner, lease.renewed) == ("ce68680e-76c0-437c-983a-45cd39474490", 1_782_657_760)
    assert (lease.feed, lease.all_versions) == (f"by-status-1-{FEED}", False)


def test_a_lease_of_a_part_of_one() -> None:
    lease = Lease.of(document("1F-3F", ("1F", "3F")), TRIGGER)
    assert (lease.feed_range, lease.lsn) == (FeedRange("1F", "3F"), 24)


@pytest.mark.parametrize("token", [None, "", '""', "24", "x", '{"v": 2}'])
def test_a_lease_without_a_position_that_is_known_begins_at_the_beginning(token: str | None) -> None:
    lease = Lease.of(document(ContinuationToken=token), TRIGGER)
    assert lease.lsn is None
    assert lease.checkpoint
    assert lease.checkpoint.since() == Start()


def test_a_lease_that_nobody_has_taken_yet() -> None:
    lease = Lease.of(document(bounds=None, Owner=None, ContinuationToken=None), TRIGGER)
    assert (lease.feed_range, lease.owner, lease.lsn, lease.checkpoint) == (None, None, None, None)


def test_a_lease_of_the_other_mode() -> None:
    assert Lease.of(document(Mode="Full-Fidelity Feed"), TRIGGER).all_versions


async def test_leases_are_told_from_what_is_beside_them_and_from_other_projections() -> None:
    beside = [{"id": f"by-status-1-{FEED}.info"}, {"id": f"by-status-1-{FEED}.lock"}]
    others = [document(id=f"by-status-1-1-{FEED}..0"), document(id=f"somebody-elses{FEED}..0")]
    found = await leases(await stored(document(), *beside, *others), LAYOUT)
    assert {(lease.trigger.lease_prefix, lease.id) for lease in found} == {
        ("by-status-1-", f"by-status-1-{FEED}..0"),
        ("by-status-1-1-", f"by-status-1-1-{FEED}..0"),
    }


async def test_there_are_no_leases_without_their_container() -> None:
    assert await leases(MemoryStore(), LAYOUT) == []
    assert await feeds(MemoryStore(), LAYOUT, INDEX) == [[]]


async def test_leases_tell_of_a_feed_when_they_cover_it() -> None:
    left, right = document("1", ("", "1F")), document("2", ("1F", "FF"))
    assert await covering(document()) == [["0-FF #24"]]
    assert await covering(left, right) == [["0-1F #24", "1F-FF #24"]]
    assert await covering(document(), left, right) == [["0-FF #24", "0-1F #24", "1F-FF #24"]]  # it is being split
    assert await covering(left) == await covering(right) == await covering() == []
    assert await covering(left, document("2", ("2F", "FF"))) == []
    assert await covering(left, document("2", None)) == []


async def test_leases_of_a_container_that_is_no_more_tell_nothing() -> None:
    old = document(id="by-status-1-account.documents.azure.com_O7RwAA==_O7RwAOlder0=..0")
    assert await covering(old) == []
    assert await covering(old, document(ContinuationToken='"2"')) == [["0-FF #2"]]


async def test_each_address_of_the_account_has_leases_of_its_own() -> None:
    west = document(id=f"by-status-1-account-westeurope.documents.azure.com_O7RwAA==_{RID}..0")
    assert len(await covering(document(), west)) == 2


async def test_a_source_in_all_versions_mode_has_two_triggers_and_both_have_to_pass_a_write() -> None:
    source = Source(container="orders", key="/shop", mode="AllVersionsAndDeletes")
    index = Index(name="by-status", source=source, key="/status")
    layout = Layout(Catalog(projections=(index,)), "shop")
    store = Named()
    await initialise(store, layout)
    for n in "12":
        await store.write(layout.source(index), Key.of("s"), [Upsert({"id": n, "shop": "s", "status": "open"})])
    versions = document(id=f"{lease_prefix(index, all_versions=True)}{FEED}..0", Mode="Full-Fidelity Feed")
    for one in (document(), versions | {"ContinuationToken": '"1"'}):
        await store.write(layout.leases, Key.of(one["id"]), [Upsert(one)])
    assert [[one.position for one in way] for [way] in await feeds(store, layout, index)] == [["#24"], ["#1 versions"]]
    with pytest.raises(BehindError, match="1 transactions"):
        await Lookup(store, layout, index).wait_for(2, timeout=0)
    await store.write(layout.leases, Key.of(versions["id"]), [Upsert(versions)])
    await Lookup(store, layout, index).wait_for(2, timeout=0)


async def test_a_write_is_passed_when_leases_of_either_kind_have_passed_it() -> None:
    half = document("7F-FF", ("7F", "FF"), ContinuationToken=None)
    store = await stored(document("0", ("", "7F"), ContinuationToken='"1"'), half)
    lookup = Lookup(store, LAYOUT, INDEX)
    for n in "12":
        await store.write(LAYOUT.source(INDEX), Key.of("s"), [Upsert({"id": n, "shop": "s", "status": "open"})])
    with pytest.raises(BehindError, match="1 transactions"):
        await lookup.wait_for(1, timeout=0)  # a lease without a position has passed nothing
    await store.write(LAYOUT.leases, Key.of(half["id"]), [Upsert(half | {"ContinuationToken": '"1"'})])
    await lookup.wait_for(1, timeout=0)
    with pytest.raises(BehindError, match="1 transactions"):
        await lookup.wait_for(2, timeout=0)


async def test_leases_of_another_container_of_the_name_do_not_count() -> None:
    store = await stored(document(ContinuationToken='"99"'))
    store.rid = "another="
    await store.write(LAYOUT.source(INDEX), Key.of("s"), [Upsert({"id": "1", "shop": "s", "status": "open"})])
    with pytest.raises(BehindError, match="no position is stored") as caught:
        await Lookup(store, LAYOUT, INDEX).wait_for(1, timeout=0)
    assert "or the Functions app" in str(caught.value.hint)
