"""The audit beside a running worker: it repairs, gives way, gives up alone, and ends with the worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from projections.cli.auditing import LAST_SECONDS, BackgroundAudit, auditing
from projections.declare import Catalog, Index, Source
from projections.errors import TransientError
from projections.keys import Key
from projections.status import status
from projections.store import Container, Delete, Upsert
from projections.worker import Worker

ORDERS = Source(container="orders", key="/customerId")
BY_ID = Index(name="by-id", source=ORDERS, key="/orderId")
BY_STATUS = Index(name="by-status", source=ORDERS, key="/status")
CATALOG = Catalog(projections=(BY_ID, BY_STATUS))
SOON = (0.05, 0.05)

OpenShop = Callable[[Catalog], Any]


def order(n: int) -> dict[str, Any]:
    return {"id": str(n), "customerId": "c1", "orderId": f"o{n}", "status": "open"}


@asynccontextmanager
async def at_work(s: Any, store: Any = None) -> AsyncIterator[tuple[Worker, BackgroundAudit]]:
    """A worker, with an audit beside it that looks at what is older than a moment."""
    worker = Worker(s.store, s.layout, list(s.catalog))
    background = BackgroundAudit(store or s.store, s.layout, worker, behind=-10, rests=SOON)
    running = asyncio.create_task(worker.run())
    async with auditing(background):
        yield worker, background
        worker.stop()
        await running


async def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.05)


async def lose(s: Any, projection: Index, n: int) -> None:
    """Take an entry away behind the worker's back."""
    [entry] = [entry for entry in await s.entries(projection.name) if entry["_source"]["id"] == str(n)]
    key = Key.of(*projection.key.of(entry))
    await s.store.write(s.layout.target(projection), key, [Delete(entry["id"], entry["_etag"])])


async def test_what_is_lost_is_repaired_beside_the_worker(shop: OpenShop) -> None:
    s = await shop(CATALOG)
    await s.put(*(order(n) for n in range(10)))
    await s.run()
    await lose(s, BY_ID, 3)
    await lose(s, BY_STATUS, 4)
    async with at_work(s):

        async def whole() -> bool:
            return [len(await s.entries(name)) for name in ("by-id", "by-status")] == [10, 10]

        await until(whole)
    await s.assert_converged()
    audits = [(await status(s.store, s.layout, projection)).audit for projection in CATALOG]
    assert [audit and audit.repaired for audit in audits] == [1, 1]


async def test_while_live_work_is_busy_it_does_a_page_at_a_time(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    await s.store.write(s.layout.source(BY_ID), Key.of("c1"), [Upsert(order(n)) for n in range(90)])
    for n in range(90, 500, 90):
        await s.store.write(s.layout.source(BY_ID), Key.of("c1"), [Upsert(order(n + k)) for k in range(90)])
    worker = Worker(s.store, s.layout, [BY_ID])
    background = BackgroundAudit(s.store, s.layout, worker, behind=-10)
    assert not worker.progress["by-id"].caught_up
    assert not await background._turn("by-id")
    audit = (await status(s.store, s.layout, BY_ID)).audit
    assert audit
    assert 0 < audit.examined < 540
    worker.progress["by-id"].caught_up = True
    assert await background._turn("by-id")
    audit = (await status(s.store, s.layout, BY_ID)).audit
    assert audit
    assert audit.examined == 540


class Priced(BaseModel):
    total: int


async def test_an_audit_that_cannot_go_on_leaves_the_worker_alone(
    shop: OpenShop, caplog: pytest.LogCaptureFixture
) -> None:
    s = await shop(Catalog(projections=(BY_ID, BY_STATUS)))
    await s.put(*(order(n) for n in range(60)))
    await s.run()
    wrong = BY_ID.model_copy(update={"model": Priced, "alarm_after": 20})
    s.catalog = Catalog(projections=(wrong, BY_STATUS))
    s.layout = type(s.layout)(s.catalog, s.layout.database)
    await lose(s, BY_STATUS, 4)
    with caplog.at_level(logging.INFO, "projections"):
        async with at_work(s) as (worker, _):

            async def whole() -> bool:
                return len(await s.entries("by-status")) == 60 and "audit stopped" in caplog.text

            await until(whole)
            assert not worker.alarms
    stopped = [record for record in caplog.records if record.message == "audit stopped"]
    assert [(r.levelname, vars(r)["projection"]) for r in stopped] == [("ERROR", "by-id")]


async def test_a_busy_account_is_waited_for(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    await s.put(order(1))
    await s.run()
    await lose(s, BY_ID, 1)
    busy, refused = True, asyncio.Event()

    class Busy:
        def __getattr__(self, name: str) -> Any:
            return getattr(s.store, name)

        async def read(self, container: Container, places: Any) -> Any:
            if busy:
                refused.set()
                raise TransientError
            return await s.store.read(container, places)

    async with at_work(s, store=Busy()):
        await asyncio.wait_for(refused.wait(), 60)
        assert await s.entries("by-id") == []
        busy = False

        async def whole() -> bool:
            return len(await s.entries("by-id")) == 1

        await until(whole)


async def test_it_ends_with_the_worker_and_goes_on_where_it_was(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(BY_ID,)))
    await s.put(*(order(n) for n in range(30)))
    started = time.monotonic()
    for _ in range(3):
        async with at_work(s):
            await asyncio.sleep(0.1)
    assert time.monotonic() - started < 3 * LAST_SECONDS  # none of them was waited for in vain
    async with at_work(s):

        async def seen() -> bool:
            audit = (await status(s.store, s.layout, BY_ID)).audit
            return audit is not None and audit.examined == 30

        await until(seen)
    await s.assert_converged()
