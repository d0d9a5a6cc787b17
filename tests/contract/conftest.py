"""One contract, every store: in memory, on the embedded emulator, and on COSMOS_TEST_ENDPOINT where that is set."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator

import pytest

from projections.cosmos import connect
from projections.emulator import Emulator
from projections.memory import MemoryStore
from projections.settings import Settings, emulator_connection
from projections.store import Container, Description, Store

REAL = "COSMOS_TEST_ENDPOINT" in os.environ


@pytest.fixture(
    params=["memory", "emulator", pytest.param("real", marks=pytest.mark.skipif(not REAL, reason="no endpoint set"))]
)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    if request.param == "emulator":
        async with (
            Emulator() as emulator,
            connect(Settings(emulator.url, emulator.connection_string)) as opened,
        ):
            yield opened
        return
    endpoint = os.environ["COSMOS_TEST_ENDPOINT"]
    connection = os.environ.get("COSMOS_TEST_CONNECTION", emulator_connection(endpoint))
    async with connect(Settings(endpoint, connection)) as opened:
        yield opened


@pytest.fixture
def database() -> str:
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def container(store: Store, database: str) -> Container:
    """A container keyed by /k, with expiry on."""
    container = Container(database, "things")
    await store.create_container(Description(container, ("/k",), default_ttl=-1))
    return container
