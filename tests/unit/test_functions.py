"""What the Functions app registers, how long a call may take, and how it meets a busy store."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import pytest

from projections.declare import Catalog, Source
from projections.deferred import Deferral, Deferred
from projections.definitions import Definitions
from projections.errors import AlarmError, MissingContainerError, TransientError, UnreachableError, UnsafeError
from projections.functions import TriggeredWorker, _with_fields
from projections.hosting import UnheldError
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import Container, Description, Upsert
from projections.triggers import Trigger, triggers
from tests.converged import documents
from tests.host.virtual import in_virtual_time
from tests.support import index

SETTINGS = Settings("http://nowhere/", "…")


def registered(*projections: Any, **catalog: Any) -> list[Trigger]:
    return list(triggers(Layout(Catalog(projections=projections, **catalog), "shop")))


# what is registered


def test_a_trigger_is_named_after_projection_and_version() -> None:
    (trigger,) = registered(index(name="orders.by id".replace(" ", "_"), version=3))

    assert trigger.function == "orders-by_id-3"
    assert trigger.lease_prefix == "orders.by_id-3-"
    assert trigger.binding["container_name"] == "orders"
    assert trigger.binding["lease_container_name"] == "projections-leases"


def test_names_that_the_host_takes_for_one_are_told_apart() -> None:
    found = registered(index(name="a.b"), index(name="a-b"), index(name="A.B", target={"container": "other"}), index())
    names = [trigger.function.casefold() for trigger in found]

    assert len(set(names)) == 4
    assert names[3] == "by-status-1"
    assert all(name.startswith("a-b-1-") for name in names[:3])


def test_a_name_begins_with_a_letter() -> None:
    assert registered(index(name="2024-orders"))[0].function == "p-2024-orders-1"


def test_versions_and_projections_have_leases_of_their_own() -> None:
    found = registered(index(), index(version=2), index(name="by-status-1"), index(name="by-status-1", version=11))
    prefixes = [trigger.lease_prefix for trigger in found]

    assert len(set(prefixes)) == 4


def test_databases_are_where_the_catalog_says() -> None:
    projection = index(source=Source(container="orders", key="/shop", database="theirs"))
    (trigger,) = registered(projection, database="ours")

    assert trigger.binding["database_name"] == "theirs"
    assert trigger.binding["lease_database_name"] == "ours"


# a call


class Shop:
    """A worker on a store in memory that fails as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, timeout: float = 600.0, *more: Any) -> None:
        catalog = Catalog(projections=(index(alarm_after=20), *more))
        monkeypatch.setattr(Settings, "load_catalog", lambda _: catalog)
        self.failures: list[Exception] = []
        self.down: set[str] = set()
        self.opened = 0
        self.unreachable = 0
        self.store = MemoryStore(before=self._before)
        self.worker = TriggeredWorker(SETTINGS, timeout, self._open)
        self.projection = catalog.projections[0]

    async def _before(self, name: str, container: Container) -> None:
        if self.failures and name == "read" and container.name == "orders":
            raise self.failures.pop(0)
        if container.name in self.down:
            raise TransientError(f"{container.name} is down (503)")

    async def _open(self, _: Settings) -> MemoryStore:
        self.opened += 1
        if self.unreachable:
            self.unreachable -= 1
            raise UnreachableError("cannot reach http://nowhere/")
        return self.store

    async def deferred(self) -> list[Deferral]:
        deferred = Deferred(self.store, self.worker.layout.deadletters, "by-status@1")
        return [deferral async for page in deferred.pages() for deferral in page]

    async def notice(self) -> list[dict[str, Any]]:
        """An order, and its change."""
        await initialise(self.store, self.worker.layout)
        order = {"id": "o1", "shop": "s1", "status": "open"}
        [etag] = await self.store.write(Container("shop", "orders"), Key.of("s1"), [Upsert(order)])
        return [{**order, "_rid": "r==", "_etag": etag, "_ts": 1}]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(monkeypatch)


async def test_the_store_is_opened_once(shop: Shop) -> None:
    notice = await shop.notice()

    assert (await shop.worker.apply(shop.projection, notice)).outcomes == {"written": 1}
    assert (await shop.worker.apply(shop.projection, notice)).outcomes == {"unchanged": 1}
    assert shop.opened == 1


async def test_an_empty_batch_opens_nothing(shop: Shop) -> None:
    assert (await shop.worker.apply(shop.projection, [])).total == 0
    assert (await shop.worker.apply(shop.projection, None)).total == 0
    assert shop.opened == 0


async def test_a_store_that_was_away_is_opened_by_the_next_call(shop: Shop) -> None:
    notice = await shop.notice()
    shop.unreachable = 1

    with pytest.raises(UnreachableError):
        await shop.worker.apply(shop.projection, notice)
    assert (await shop.worker.apply(shop.projection, notice)).outcomes == {"written": 1}


async def test_containers_that_were_missing_are_looked_for_again(shop: Shop) -> None:
    item = {"id": "o1", "shop": "s1", "_rid": "r==", "_etag": "e", "_ts": 1}
    with pytest.raises(MissingContainerError) as caught:
        await shop.worker.apply(shop.projection, [item])
    assert caught.value.projection in ("by-status", "by-status@1")

    assert (await shop.worker.apply(shop.projection, await shop.notice())).outcomes == {"written": 1}


@in_virtual_time
async def test_trouble_that_passes_is_waited_for_within_the_call(shop: Shop) -> None:
    notice = await shop.notice()
    shop.failures = [TransientError("busy (429)")] * 3

    assert (await shop.worker.apply(shop.projection, notice)).outcomes == {"written": 1}


@in_virtual_time
async def test_what_is_not_done_in_time_is_deferred_and_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, timeout=60.0)
    notice = await shop.notice()
    shop.down = {"by-status"}

    assert (await shop.worker.apply(shop.projection, notice)).total == 0
    (deferral,) = await shop.deferred()
    assert (str(deferral.identity), deferral.attempts) == ("'o1' of [\"s1\"]", 1)
    assert "by-status is down" in deferral.reason

    await shop.worker.apply(shop.projection, notice)
    assert [again.attempts for again in await shop.deferred()] == [2]

    shop.down = set()
    report = (await shop.worker.drain())["by-status@1"]
    assert report is not None
    assert (report.tally.outcomes, report.finished) == ({"written": 1}, True)
    assert await shop.deferred() == []


@in_virtual_time
async def test_what_cannot_even_be_deferred_fails_the_call_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, timeout=60.0)
    notice = await shop.notice()
    shop.down = {"by-status", "projections-deadletters"}

    with pytest.raises(TransientError, match=r"not done within 48 s .*by-status is down.*, and not deferred"):
        await shop.worker.apply(shop.projection, notice)


@in_virtual_time
async def test_a_drain_of_one_projection_leaves_a_busy_store_in_peace(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, timeout=60.0)
    notice = await shop.notice()
    shop.down = {"by-status"}
    await shop.worker.apply(shop.projection, notice)

    (report,) = (await shop.worker.drain()).values()
    assert report is None or not report.finished
    assert [deferral.attempts for deferral in await shop.deferred()] == [1]


async def test_an_audit_repairs_what_was_never_delivered(shop: Shop) -> None:
    await shop.notice()
    young = (await shop.worker.audit())["by-status@1"]
    assert young is not None
    assert young.examined == 0
    later = TriggeredWorker(SETTINGS, 600.0, shop._open, now=lambda: time.time() + 400)
    both = await asyncio.gather(later.audit(), later.audit())
    reports = [report for audit in both if (report := audit["by-status@1"]) is not None]
    assert sum(report.repaired.outcomes["written"] for report in reports) >= 1
    assert len(await documents(shop.store, Container("shop", "by-status"))) == 1


async def test_an_audit_tells_of_others_at_the_same_leases(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    await shop.notice()
    for number in range(2):
        id_ = f"by-status-1-acct.documents.azure.com_aa==_bb==..{number}"
        lease = {"id": id_, "LeaseToken": str(number), "Owner": f"host-{number}"}
        await shop.store.write(Container("shop", "projections-leases"), Key.of(id_), [Upsert(lease)])
    for _ in range(2):
        await shop.worker.audit()
    assert [record.message.startswith("leases with several owners") for record in caplog.records].count(True) == 1


@in_virtual_time
async def test_one_projection_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while its containers are looked at, nor in the timers, whatever becomes of it there."""
    other = index(name="other")
    loop, shop = asyncio.get_running_loop(), Shop(monkeypatch, 60.0, other)
    notice = await shop.notice()
    shop.down = {"by-status"}
    held = asyncio.create_task(shop.worker.apply(shop.projection, notice))
    await asyncio.sleep(0.05)
    started = loop.time()
    assert (await shop.worker.apply(other, notice)).outcomes == {"written": 1}
    assert loop.time() == started
    await held
    assert loop.time() >= 48

    later = TriggeredWorker(SETTINGS, 60.0, shop._open, now=lambda: time.time() + 400)
    reports = await later.audit()
    assert reports["by-status@1"] is None  # busy
    assert reports["other@1"] is not None
    assert reports["other@1"].examined == 1


# what is refused


async def test_a_refused_app_applies_nothing_and_says_why(shop: Shop) -> None:
    notice = await shop.notice()
    shop.worker.refuse([UnsafeError("this is unsafe", hint="do that"), UnsafeError("and that", hint="do this")])

    for call in (shop.worker.apply(shop.projection, notice), shop.worker.drain(), shop.worker.audit()):
        with pytest.raises(UnsafeError, match=r"refused: this is unsafe \(do that\); and that \(do this\)"):
            await call
    assert await shop.deferred() == []
    code, text = await shop.worker.health()
    assert (code, json.loads(text)["status"]) == (503, "refused")
    assert json.loads(text)["problems"][0] == {"reason": "this is unsafe", "remedy": "do that"}


async def test_where_to_raise_would_lose_the_batch_it_is_deferred_first(shop: Shop) -> None:
    notice = await shop.notice()
    shop.worker.refuse([UnheldError("no retry policy", hint="register one")])

    with pytest.raises(UnsafeError, match="no retry policy"):
        await shop.worker.apply(shop.projection, notice)
    assert len(await shop.deferred()) == 1


# health


async def test_health_asks_the_account_once_in_a_while(shop: Shop) -> None:
    await shop.notice()
    shop.unreachable = 1

    code, text = await shop.worker.health()
    assert (code, json.loads(text)) == (503, {"status": "unreachable", "projections": ["by-status@1"]})
    assert (await shop.worker.health())[0] == 503
    assert shop.opened == 1


async def test_health_of_an_account_without_the_containers(shop: Shop) -> None:
    code, text = await shop.worker.health()
    assert (code, json.loads(text)["status"]) == (503, "not ready")


async def test_health_names_what_is_missing(shop: Shop) -> None:
    await shop.store.create_container(Description(Container("shop", "projections-state"), ("/pk",)))
    code, text = await shop.worker.health()
    assert (code, json.loads(text)["status"]) == (503, "not ready")
    assert "there is no container shop/orders" in json.loads(text)["problems"][0]["reason"]


async def test_health_looks_at_the_leases(shop: Shop) -> None:
    await shop.store.create_container(Description(Container("shop", "projections-leases"), ("/pk",)))
    await shop.notice()
    code, text = await shop.worker.health()
    assert (code, json.loads(text)["status"]) == (503, "not ready")
    assert "/id is needed" in json.loads(text)["problems"][0]["reason"]


async def test_health_tells_of_an_alarm(shop: Shop) -> None:
    """So many bad items that the catalog must be wrong: calls raise, and the range is held until it is mended."""
    await shop.notice()
    bad = [{"id": f"b{n}", "shop": "s1", "status": {"odd": n}} for n in range(shop.projection.alarm_after)]
    for item in bad:
        await shop.store.write(Container("shop", "orders"), Key.of("s1"), [Upsert(item)])
    with pytest.raises(AlarmError):
        await shop.worker.apply(shop.projection, [{**item, "_rid": "r", "_etag": "e", "_ts": 1} for item in bad])

    code, text = await shop.worker.health()
    assert (code, json.loads(text)["status"]) == (503, "not ready")
    assert "items in a row cannot be projected" in json.loads(text)["problems"][0]["reason"]


async def test_a_declaration_that_is_not_what_is_deployed_is_refused(shop: Shop) -> None:
    notice = await shop.notice()
    other = shop.projection.model_copy(update={"placement_buckets": 4})
    await Definitions(shop.store, Layout(Catalog(projections=(other,)), "shop")).settle(other)
    with pytest.raises(UnsafeError, match="placement_buckets: 4 -> 16"):
        await shop.worker.apply(shop.projection, notice)
    code, text = await shop.worker.health()
    assert (code, json.loads(text)["status"]) == (503, "not ready")
    assert "version=2" in json.loads(text)["problems"][0]["remedy"]


async def test_health_is_ok(shop: Shop) -> None:
    await shop.notice()
    assert (await shop.worker.health())[0] == 200


# the log


def test_fields_travel_in_the_message() -> None:
    record = logging.LogRecord("projections", logging.INFO, "f.py", 1, "applied %s", ("now",), None)
    record.projection = "by-status@1"
    record.hint = None

    assert _with_fields(record)
    assert record.getMessage() == 'applied now {"projection": "by-status@1"}'


def test_a_record_without_fields_stays() -> None:
    record = logging.LogRecord("projections", logging.INFO, "f.py", 1, "100 %", None, None)
    assert _with_fields(record)
    assert record.getMessage() == "100 %"
