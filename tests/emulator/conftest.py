"""A fresh emulator for each test, the SDK's client on it, and a raw HTTP caller for what the SDK cannot say."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.aio import ContainerProxy, CosmosClient, DatabaseProxy

from projections.emulator import EMULATOR_KEY, Emulator
from projections.emulator.auth import signature, signed_resource, signed_text


@pytest.fixture
async def emulator() -> AsyncIterator[Emulator]:
    async with Emulator() as running:
        yield running


@pytest.fixture
async def client(emulator: Emulator) -> AsyncIterator[CosmosClient]:
    async with CosmosClient(emulator.url, EMULATOR_KEY) as made:
        yield made


@pytest.fixture
async def database(client: CosmosClient) -> DatabaseProxy:
    return await client.create_database("shop")


@pytest.fixture
async def container(database: DatabaseProxy) -> ContainerProxy:
    """One range, keyed by /pk."""
    return await database.create_container("items", PartitionKey("/pk"))


@pytest.fixture
async def wide(database: DatabaseProxy) -> ContainerProxy:
    """Three ranges, keyed by /pk."""
    return await database.create_container("wide", PartitionKey("/pk"), offer_throughput=30_000)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Call = Callable[..., Awaitable[Answer]]


@pytest.fixture
async def call(emulator: Emulator) -> AsyncIterator[Call]:
    """``await call("GET", "/dbs", headers..., body)``: signed, whatever it says."""
    async with aiohttp.ClientSession() as session:

        async def one(
            method: str, path: str, body: Any = b"", headers: dict[str, str] | None = None, sign: bool = True
        ) -> Answer:
            date = formatdate(usegmt=True)
            sent = {"x-ms-date": date, "x-ms-version": "2020-07-15"}
            if sign:
                parts = tuple(part for part in path.split("/") if part)
                text = signed_text(method, *signed_resource(parts, method), date)
                sent["authorization"] = quote(f"type=master&ver=1.0&sig={signature(text).decode()}", safe="")
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            url = emulator.url.rstrip("/") + quote(path)
            async with session.request(method, url, data=data, headers=sent | (headers or {})) as response:
                lowered = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, lowered, await response.read())

        yield one


async def listed(pages: Any) -> list[Any]:
    """Everything an SDK iterator gives."""
    return [one async for one in pages]
