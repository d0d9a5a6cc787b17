"""With real processes: a worker and a reader, while somebody writes and has readers use another version."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from projections.cosmos import connect
from projections.dropping import Drop
from projections.keys import Key
from projections.promotion import Order, Promotion
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import Store, Upsert
from projections.worker import Worker
from tests.integration.test_versions import clean
from tests.integration.versions_catalog import ONE, after, both
from tests.processes import ROOT, EmulatorProcess, environment, start

COUNT = 8
LAYOUT = Layout(both, "shop")
ME = Order(who="me")


async def line_of(process: subprocess.Popen[str], seconds: float = 90) -> str:
    assert process.stdout
    ready, _, _ = await asyncio.to_thread(select.select, [process.stdout], [], [], seconds)
    assert ready, "nothing was printed"
    return process.stdout.readline().strip()


@contextmanager
def running(*processes: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def start_reader(connection_string: str, **settings: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.integration.version_reader", str(COUNT)],
        cwd=ROOT, env=environment(connection_string, **settings),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


async def load(store: Store, total: int) -> None:
    for n in range(COUNT):
        order = {"id": str(n), "customerId": "c", "orderId": f"A-{n}", "status": "open", "total": total}
        await store.write(LAYOUT.source(ONE), Key.of("c"), [Upsert(order)])


async def on_and_on(store: Store) -> None:
    total = 1
    while True:
        await load(store, total)
        await asyncio.sleep(0.1)
        total += 1


async def test_a_reader_process_misses_nothing(tmp_path: Path) -> None:
    account = EmulatorProcess(tmp_path / "account")
    settings = {"COSMOS_DATABASE": "shop", "PROJECTIONS_CATALOG": "tests.integration.versions_catalog:both"}
    async with connect(Settings.read({"COSMOS": account.connection_string})) as store:
        await initialise(store, LAYOUT)
        await load(store, 0)
        await Worker(store, LAYOUT, [ONE]).run(until_caught_up=True)
        worker = start(["run", "--json"], account.connection_string, **settings)
        reader = start_reader(account.connection_string, **settings)
        promotion = Promotion(store, LAYOUT, verified=clean, wait=60.0)
        with running(worker, reader):
            assert await line_of(reader) == "version 1"
            writer = asyncio.create_task(on_and_on(store))
            while (await promotion.promote("by-number", 2, Order(who="me", dry_run=True))).objections:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
            assert (await promotion.promote("by-number", 2, ME)).switched
            assert await line_of(reader) == "version 2"
            await promotion.rollback("by-number", ME)
            assert await line_of(reader) == "version 1"
            await promotion.promote("by-number", 2, ME)
            assert await line_of(reader) == "version 2"
            worker.kill()
            await (await Drop.of(store, Layout(after, "shop"), "by-number", 1, force=True)).run("me")
            await asyncio.sleep(1.0)
            assert reader.poll() is None
            writer.cancel()
    account.kill()
