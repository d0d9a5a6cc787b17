"""Reading through the real SDK: your own writes while a worker runs, and `projections lookup`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from azure.cosmos.aio import CosmosClient
from typer.testing import CliRunner

from projections.buckets import TimeBucket
from projections.cli.app import app
from projections.declare import Catalog, Index, Source
from projections.emulator import Emulator
from projections.identity import Identity, Place
from projections.keys import Key
from projections.lookup import Lookup
from projections.store import Delete
from projections.strategies import RandomSuffix
from projections.waiting import BehindError
from projections.worker import Worker

ORDERS = Source(container="orders", key="/customer")
SPREAD = Index(name="spread", source=ORDERS, key=RandomSuffix("/status", count=4))
LEVELS = Index(name="levels", source=ORDERS, key=("/region", "/status"))
CATALOG = Catalog(projections=(SPREAD, LEVELS))

OpenShop = Callable[[Catalog], Any]


def order(n: int, **fields: Any) -> dict[str, Any]:
    return {"id": str(n), "customer": f"c{n % 9}", "status": "open", "region": "north", "n": n} | fields


@asynccontextmanager
async def customer(emulator: Emulator, s: Any) -> AsyncIterator[Any]:
    """Somebody who writes to the source, with the SDK and nothing else; the source has three physical partitions."""
    async with CosmosClient.from_connection_string(emulator.connection_string) as client:
        database = client.get_database_client(s.layout.database)
        container = database.get_container_client("orders")
        await container.replace_throughput(30_000)
        yield container


@asynccontextmanager
async def working(s: Any) -> AsyncIterator[None]:
    """While a worker runs."""
    worker = Worker(s.store, s.layout, list(s.catalog))
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await running


async def test_you_read_your_writes(emulator: Emulator, shop: OpenShop) -> None:
    s = await shop(CATALOG)
    async with customer(emulator, s) as orders, working(s):
        lookup = Lookup(s.store, s.layout, SPREAD)
        for n in range(12):
            item = await orders.upsert_item(order(n))
            written = (item.get_response_headers()["x-ms-session-token"], item, Identity(Key.of(f"c{n % 9}"), str(n)))
            await lookup.wait_for(written[n % 3], timeout=20)
            assert n in [entry["n"] for entry in (await lookup.entries("open")).entries]
        changed = await orders.upsert_item(order(3, status="paid"))
        await lookup.wait_for(changed.get_response_headers()["x-ms-session-token"], timeout=20)
        assert [entry["n"] for entry in (await lookup.entries("paid")).entries] == [3]


async def test_waiting_says_how_far_behind_a_stopped_worker_is(emulator: Emulator, shop: OpenShop) -> None:
    s = await shop(CATALOG)
    async with customer(emulator, s) as orders:
        await orders.upsert_item(order(1))
        await s.run()
        lookup = Lookup(s.store, s.layout, SPREAD)
        item = await orders.upsert_item(order(1, status="paid"))
        token = item.get_response_headers()["x-ms-session-token"]
        with pytest.raises(BehindError, match=r"\(LSN\) behind the write; its oldest pending change is"):
            await lookup.wait_for(token, timeout=0.2)
        await s.run()
        await lookup.wait_for(token, timeout=0)


async def test_a_deletion_and_a_write_before_a_split_are_passed(emulator: Emulator, shop: OpenShop) -> None:
    s = await shop(CATALOG)
    async with customer(emulator, s) as orders:
        items = [await orders.upsert_item(order(n)) for n in range(9)]
        tokens = [item.get_response_headers()["x-ms-session-token"] for item in items]
        await s.run()
        await orders.replace_throughput(60_000)
        lookup = Lookup(s.store, s.layout, SPREAD)
        for token in tokens:
            await lookup.wait_for(token, timeout=0)
        late = [await orders.upsert_item(order(n, status="paid")) for n in range(9)]
        with pytest.raises(BehindError):
            await lookup.wait_for(late[0], timeout=0)
        await s.run()
        for item in late:
            await lookup.wait_for(item.get_response_headers()["x-ms-session-token"], timeout=0)
        place = Place("4", Key.of("c4"))
        source = s.layout.source(SPREAD)
        etag = (await s.store.read(source, [place]))[place]["_etag"]
        await s.store.write(source, place.key, [Delete("4", etag)])
        await lookup.wait_for(await s.store.session(source, place.key), timeout=0)


async def test_the_readme_reads(emulator: Emulator, shop: OpenShop, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(from projections import Span.*?)```", readme, re.DOTALL)
    by_day = Index(name="by-day", source=ORDERS, key=RandomSuffix(TimeBucket("/orderedAt", "day"), count=10))
    s = await shop(Catalog(projections=(by_day,)))
    await s.put(*(order(n, orderedAt=f"2026-11-{30 - n % 2}", total=n) for n in range(120)))
    await s.run()
    monkeypatch.setenv("COSMOS", emulator.connection_string)
    names: dict[str, Any] = {}
    code = code.replace('"shop"', repr(s.layout.database)).replace("print(page.entries", "every.append((page.entries")
    code = code.replace("page.request_units)", "page.request_units))")
    exec(f"async def main(catalog, every):\n{indent(code, '    ')}    return found, page", names)
    every: list[Any] = []
    found, _ = await names["main"](s.catalog, every)
    assert [entry["total"] for entry in found.entries] == list(range(119, -1, -1))
    assert sum(len(entries) for entries, _ in every) == 60


# the command


@pytest.fixture
async def terminal(emulator: Emulator, shop: OpenShop, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command on forty orders that are projected."""
    s = await shop(CATALOG)
    await s.put(*(order(n, region=("north", "south")[n % 2], status=("open", 7)[n % 3 == 0]) for n in range(40)))
    await s.run()
    monkeypatch.setenv("COSMOS", emulator.connection_string)
    monkeypatch.setenv("COSMOS_DATABASE", s.layout.database)
    monkeypatch.setenv("PROJECTIONS_CATALOG", "tests_reading_catalog:catalog")
    monkeypatch.setitem(__import__("sys").modules, "tests_reading_catalog", type("Module", (), {"catalog": CATALOG}))

    async def run(*arguments: str, code: int = 0) -> Any:
        result = await asyncio.to_thread(CliRunner().invoke, app, ["lookup", *arguments])
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return run


def shown(result: Any) -> list[int]:
    return [json.loads(line)["n"] for line in result.stdout.splitlines()]


OPEN = [n for n in range(40) if n % 3]


async def test_lookup_asks_every_suffix_and_sorts(terminal: Callable[..., Any]) -> None:
    found = await terminal("spread", "open", "--order-by", "/n", "--descending")
    assert shown(found) == OPEN[::-1]
    assert f"{len(OPEN)} entries; " in found.stderr
    assert sorted(shown(await terminal("spread", "7"))) == [n for n in range(40) if n % 3 == 0]
    nothing = await terminal("spread", "8")
    assert "asked for [8]; for text that looks so, add --text" in nothing.stderr


async def test_lookup_goes_on_with_a_token(terminal: Callable[..., Any]) -> None:
    first = json.loads((await terminal("spread", "open", "--order-by", "/n", "--page-size", "10", "--json")).stdout)
    assert [entry["n"] for entry in first["entries"]] == OPEN[:10]
    second = await terminal("spread", "open", "--order-by", "/n", "--page-size", "10", "--token", first["token"])
    assert shown(second) == OPEN[10:20]
    assert "there is more; go on with --token" in second.stderr
    wrong = await terminal("spread", "open", "--token", first["token"], code=2)
    assert "the token is not of this lookup" in wrong.stderr


async def test_lookup_by_levels_and_names(terminal: Callable[..., Any]) -> None:
    south = [n for n in range(40) if n % 2]
    for key in (("south",), ("south", "..."), ("/region=south",)):
        assert sorted(shown(await terminal("levels", *key))) == south
    named = json.loads((await terminal("levels", "/status=7", "/region=south", "--json")).stdout)
    assert sorted(entry["n"] for entry in named["entries"]) == [n for n in south if n % 3 == 0]
    assert named["key"] == [{"/status": 7, "/region": "south"}]
    for key in (("/status=7",), ("...", "7")):
        skipped = await terminal("levels", *key, code=2)
        assert "/region cannot be left open while /status is given" in skipped.stderr
        assert "hint: give /region, too" in skipped.stderr
    assert "entries(" in (await terminal("levels", "a", "b", "c", code=2)).stderr


async def test_lookup_waits_for_a_write(terminal: Callable[..., Any]) -> None:
    assert len(shown(await terminal("spread", "open", "--wait", "0:-1#3"))) == len(OPEN)
    late = await terminal("spread", "open", "--wait", "0:-1#999999", "--timeout", "0")
    assert len(shown(late)) == len(OPEN)  # nothing is pending
    assert "no session token" in (await terminal("spread", "open", "--wait", "now", code=2)).stderr
