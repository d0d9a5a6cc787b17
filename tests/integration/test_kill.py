"""kill -9, on real processes: emulator, worker and writers are programs of their own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from projections.cosmos import connect
from projections.example import catalog
from projections.provision import Layout
from projections.settings import Settings
from tests.converged import assert_converged
from tests.processes import EmulatorProcess, kill_after, run, start


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[EmulatorProcess]:
    process = EmulatorProcess(tmp_path / "data")
    yield process
    process.kill()


def orders(path: Path, number: int, seed: int) -> Path:
    """A file of orders; the same ones for every seed, with other contents and keys."""
    chance = random.Random(seed)
    with path.open("w") as file:
        for n in range(number):
            customer = f"c{n % 97}"
            item = {"id": str(n // 97), "customerId": customer, "orderId": f"{customer}-{n // 97}"}
            item |= {"status": chance.choice(["open", "paid", "shipped"]), "total": chance.randrange(1000)}
            if chance.random() < 0.1:
                item["deleted"] = True
            file.write(json.dumps(item) + "\n")
    return path


async def check(emulator: EmulatorProcess) -> None:
    async with connect(Settings(emulator.url, emulator.connection_string)) as store:
        await assert_converged(store, Layout(catalog, "shop"))


async def test_killed_again_and_again_while_orders_change(emulator: EmulatorProcess, tmp_path: Path) -> None:
    chance = random.Random(1)
    run(["init"], emulator.connection_string)
    run(["load", "orders", str(orders(tmp_path / "0.jsonl", 1500, 0))], emulator.connection_string)
    killed = 0
    for seed in range(1, 6):
        worker = start(["run"], emulator.connection_string)
        load = start(
            ["load", "orders", str(orders(tmp_path / f"{seed}.jsonl", 1500, seed))], emulator.connection_string
        )
        killed += kill_after(worker, 1.2 + chance.random() * 1.5)
        load.communicate()
        if seed == 3:
            emulator.kill()
            emulator.start()
    assert killed == 5
    run(["run", "--until-caught-up"], emulator.connection_string)
    run(["audit", "--behind", "0"], emulator.connection_string)  # dead letters of items that are mended since
    await check(emulator)
