"""A replay under a cap of request units beside live traffic: `python -m benchmarks.replay_cap`.

The emulator, a process of its own, throttles containers of 10,000 RU per second. A projection is built by a replay with
a cap of 2,000 while somebody writes to its source, and reads from its target. Reported: what the replay used of its cap
in the measured time, and how often live traffic was refused. The goal is 95 to 100 %, and never.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from projections.cosmos import connect
from projections.declare import Catalog, Index, Source, Target, Throughput
from projections.errors import ThrottledError
from projections.identity import Place
from projections.keys import Key
from projections.metering import measured
from projections.pace import PacedStore
from projections.patience import PatientStore
from projections.provision import Layout, initialise
from projections.replay import Replay
from projections.settings import Settings, emulator_connection
from projections.store import Description, Store, Upsert
from projections.worker import Engine

RU = Throughput(manual=10_000)
ORDERS = Source(container="orders", key="/customer")
PROJECTION = Index(name="by-state", source=ORDERS, key="/state", target=Target(throughput=RU))
LAYOUT = Layout(Catalog(projections=(PROJECTION,)), "bench")


@asynccontextmanager
async def emulator() -> AsyncIterator[str]:
    """The connection string of one that throttles."""
    command = [sys.executable, "-m", "projections.emulator", "--port", "0", "--throttle"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout
        ready = (await process.stdout.readline()).decode()
        yield emulator_connection(ready.removeprefix("ready ").strip())
    finally:
        process.terminate()
        await process.wait()


@dataclass
class Live:
    """Traffic beside the replay."""

    calls: int = 0
    refused: int = 0

    async def run(self, store: Store, per_second: float, items: int) -> None:
        source, target = LAYOUT.source(PROJECTION), LAYOUT.target(PROJECTION)
        while True:
            self.calls += 2
            number = self.calls % items
            try:
                await store.write(source, Key.of(f"c{number % 97}"), [Upsert(order(number))])
                await store.read(target, [Place("x", Key.of(f"s{number % 53}"))])
            except ThrottledError:
                self.refused += 1
            await asyncio.sleep(2 / per_second)


def order(number: int) -> dict[str, Any]:
    return {"id": f"o{number}", "customer": f"c{number % 97}", "state": f"s{number % 53}", "text": "x" * 300}


async def load(store: Store, items: int) -> None:
    """Before anything is throttled or measured, and in batches."""
    source = LAYOUT.source(PROJECTION)
    for customer in range(97):
        mine = [Upsert(order(number)) for number in range(customer, items, 97)]
        for start in range(0, len(mine), 100):
            await PatientStore(store).write(source, Key.of(f"c{customer}"), mine[start : start + 100])


async def measure(cap: float, seconds: float, items: int, live_per_second: float) -> dict[str, Any]:
    async with emulator() as connection, connect(Settings("", connection)) as store:
        await store.create_container(Description(LAYOUT.source(PROJECTION), ("/customer",), -1, throughput=RU))
        await initialise(store, LAYOUT)
        await load(store, items)
        live = Live()
        traffic = asyncio.create_task(live.run(store, live_per_second, items))
        paced = PacedStore.below(PatientStore(store), request_units=cap)
        engine = await Engine.open(paced, LAYOUT, PROJECTION)
        replaying = Replay(paced, LAYOUT, engine, request_units=cap)
        began = time.monotonic()
        with measured() as cost:
            report = await replaying.run(stop=lambda: time.monotonic() - began > seconds)
        took = time.monotonic() - began
        traffic.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await traffic
        return {
            "cap": cap,
            "seconds": round(took, 1),
            "usedOfCap": round(cost.request_units / took / cap, 3),
            "items": report.read,
            "toTheEnd": report.finished,
            "liveCalls": live.calls,
            "liveRefused": live.refused,
            "cores": os.cpu_count(),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cap", type=float, default=2_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--items", type=int, default=60_000)
    parser.add_argument("--live", type=float, default=50, help="calls a second of live traffic")
    given = parser.parse_args()
    print(json.dumps(asyncio.run(measure(given.cap, given.seconds, given.items, given.live)), indent=1))


if __name__ == "__main__":
    main()
