"""With --data, what was acknowledged is there after a kill, and counters go on where they stood."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.aio import CosmosClient
from azure.cosmos.exceptions import CosmosResourceNotFoundError

from projections.emulator import EMULATOR_KEY, Emulator

from .conftest import listed


async def start(*options: str) -> tuple[Process, str]:
    """The emulator as a process of its own, and its address."""
    command = [sys.executable, "-m", "projections.emulator", "--port", "0", *options]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    word, url = (await process.stdout.readline()).decode().split()
    assert word == "ready"
    return process, url


async def finish(process: Process, number: int) -> tuple[int | None, str, str]:
    process.send_signal(number)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), err.decode()


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    process, url = await start("--data", str(tmp_path / "data"))
    acknowledged: list[str] = []
    async with CosmosClient(url, EMULATOR_KEY) as client:
        database = await client.create_database("shop")
        container = await database.create_container("items", PartitionKey("/pk"), offer_throughput=11_000)
        for n in range(40):
            await container.create_item({"id": str(n), "pk": f"p{n % 5}", "big": 2**70})
            acknowledged.append(str(n))
        await container.execute_item_batch([("create", ({"id": f"b{n}", "pk": "p1"},)) for n in range(5)], "p1")
        await container.delete_item("39", "p4")
        rid = (await container.read())["_rid"]
        await finish(process, signal.SIGKILL)
    again, url = await start("--data", str(tmp_path / "data"))
    async with CosmosClient(url, EMULATOR_KEY) as client:
        container = client.get_database_client("shop").get_container_client("items")
        assert (await container.read())["_rid"] == rid
        found = await listed(container.query_items("SELECT * FROM c"))
        assert sorted(one["id"] for one in found) == sorted([*acknowledged[:-1], *(f"b{n}" for n in range(5))])
        assert (await container.read_item("7", "p2"))["big"] == 2**70
        await container.create_item({"id": "after", "pk": "p1"})
        feed = await listed(container.query_items_change_feed(start_time="Beginning"))
        # 40 creates, a batch, and a delete that left no item to tell of it: the next change is the 43rd
        assert max(one["_lsn"] for one in feed) == 43
        assert len({one["_rid"] for one in feed}) == len(feed) == 45
        assert len(await listed(container.read_feed_ranges())) == 2
        assert (await container.get_throughput()).offer_throughput == 11_000
    code, out, err = await finish(again, signal.SIGTERM)
    assert (code, out) == (0, "")
    assert "stopping" in err


async def test_all_kinds_of_state_come_back(tmp_path: Path) -> None:
    async with Emulator(tmp_path, https=False) as first, CosmosClient(first.url, EMULATOR_KEY) as client:
        database = await client.create_database("shop", offer_throughput=500)
        unique: dict[str, Any] = {"uniqueKeys": [{"paths": ["/u"]}]}
        container = await database.create_container("items", PartitionKey(["/t", "/u"]), unique_key_policy=unique)
        await container.create_item({"id": "1", "t": "a", "u": 1})
        first.split("shop", "items", "0")
        await database.create_container("gone", PartitionKey("/pk"))
        await database.delete_container("gone")
    async with Emulator(tmp_path) as second, CosmosClient(second.url, EMULATOR_KEY) as client:
        database = client.get_database_client("shop")
        assert (await database.get_throughput()).offer_throughput == 500
        assert [one["id"] for one in await listed(database.list_containers())] == ["items"]
        container = database.get_container_client("items")
        assert len(await listed(container.read_feed_ranges())) == 2
        assert (await container.read_item("1", ["a", 1]))["u"] == 1
        with pytest.raises(CosmosResourceNotFoundError):
            await database.get_container_client("gone").read()
        assert (await database.create_container("new", PartitionKey("/pk"))).id == "new"


async def test_two_emulators_cannot_share_a_folder(tmp_path: Path) -> None:
    async with Emulator(tmp_path):
        command = [sys.executable, "-m", "projections.emulator", "--port", "0", "--data", str(tmp_path)]
        second = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30)
    assert second.returncode == 1
    assert second.stdout == ""
    assert "cannot start" in second.stderr


async def test_a_taken_port_is_told_in_one_line(emulator: Emulator) -> None:
    command = [sys.executable, "-m", "projections.emulator", "--port", str(emulator.port)]
    second = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30)
    assert second.returncode == 1
    assert second.stdout == ""
    assert "cannot start" in second.stderr
    assert "Traceback" not in second.stderr


async def test_an_address_others_can_reach_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    async with Emulator(host="0.0.0.0"):
        pass
    shown = capsys.readouterr()
    assert "warning" in shown.err
    assert shown.out == ""
