"""The real function in a real process, killed -9 while it works, under the model of the host."""

from __future__ import annotations

import asyncio
import importlib.util
from contextlib import AsyncExitStack

import pytest

from projections.declare import Catalog
from projections.provision import Layout
from projections.store import Document
from tests.converged import assert_converged
from tests.functions_runtime.catalog import catalog
from tests.functions_runtime.client import FunctionsHost
from tests.functions_runtime.site import DATABASE, Site
from tests.host.simulator import Host, Lease, Retry, Trigger

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("azure_functions_runtime") is None,
    reason="azure-functions-runtime is not installed; `make test` installs it",
)

BY_STATUS = catalog["orders-by-status"]


class Process:
    """The app under the official worker library; started by its first call."""

    def __init__(self, site: Site, stack: AsyncExitStack) -> None:
        self._site = site
        self._stack = stack
        self._host: FunctionsHost | None = None
        self.working = asyncio.Event()

    async def changes(self, documents: list[Document]) -> None:
        if self._host is None:
            self._host = await self._stack.enter_async_context(FunctionsHost(self._site.settings))
        self.working.set()
        answer = await self._host.deliver(self._site.functions[BY_STATUS.name], documents)
        if not answer.ok:
            raise RuntimeError(answer.exception)

    def kill(self) -> None:
        if self._host is not None:
            self._host.kill()


async def test_processes_that_are_killed_while_they_work() -> None:
    async with Site() as site, AsyncExitStack() as stack:
        source = site.layout.source(BY_STATUS)
        leases = [Lease(feed_range) for feed_range in await site.store.feed_ranges(source)]
        trigger = Trigger(source, Retry(shortest=0.05, longest=0.05), max_items=100)
        host = Host("a", site.store, trigger, leases, lambda: Process(site, stack))
        await site.put("orders", "customerId", *(order(n, "open") for n in range(150)))
        work = asyncio.create_task(host.until_end())
        for seconds in (0.02, 0.15):
            process = host.app
            assert isinstance(process, Process)
            await process.working.wait()
            await asyncio.sleep(seconds)
            host.crash()
            await site.put("orders", "customerId", *(order(n, f"after {seconds} s") for n in range(0, 150, 7)))
        await work
        await host.until_end()

        assert host.counts.failures >= 2
        assert (await site.host.tick("drain")).ok
        await assert_converged(site.store, Layout(Catalog(projections=(BY_STATUS,)), DATABASE))


def order(n: int, status: str) -> Document:
    return {"id": f"o{n}", "orderId": f"o{n}", "customerId": f"c{n % 5}", "status": status, "total": n}
