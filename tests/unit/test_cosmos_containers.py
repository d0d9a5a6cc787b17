"""Containers at the edge to the SDK: what no emulator answers, played by a few lines in its place."""

from __future__ import annotations

from typing import Any

import azure.cosmos
import pytest
from azure.cosmos.aio import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError, CosmosResourceNotFoundError

from projections.cosmos import connect
from projections.cosmos.containers import create, throughput
from projections.declare import Throughput
from projections.emulator import Emulator
from projections.errors import (
    FatalError,
    IdentityError,
    ItemError,
    MissingContainerError,
    NativeIndexError,
)
from projections.settings import Settings
from projections.store import Container, Description, Native

INDEX = Description(
    Container("db", "by-email"), ("/email",), throughput=Throughput(autoscale=1000),
    native=Native("orders", "SELECT c.id, c.email FROM c"),
)  # fmt: skip


def answer(status: int, message: str = "", sub_status: int | None = None) -> CosmosHttpResponseError:
    error = CosmosHttpResponseError(status_code=status, message=message)
    error.sub_status = sub_status
    return error


class Account:
    """A database, or a container, of an account that answers as a test says."""

    def __init__(self, answers: Any) -> None:
        self._answers = answers
        self.sent: dict[str, Any] = {}
        self.deleted: list[str] = []

    async def create_container(self, name: str, key: Any, **given: Any) -> tuple[None, dict[str, Any]]:
        self.sent = {"name": name, "key": key, **given}
        if isinstance(self._answers, Exception):
            raise self._answers
        return None, {"id": name, "partitionKey": dict(key)} | self._answers

    async def delete_container(self, name: str) -> None:
        self.deleted.append(name)

    async def get_throughput(self) -> Any:
        raise self._answers


def shown(native: Native) -> dict[str, Any]:
    definition = {"sourceCollectionId": native.source, "definition": native.definition, "status": "Initializing"}
    return {"globalSecondaryIndexDefinition": definition}


async def test_a_native_index_is_asked_for_with_source_definition_and_autoscale() -> None:
    assert INDEX.native
    account = Account(shown(INDEX.native))
    assert await create(account, INDEX)  # type: ignore[arg-type]
    asked = account.sent["global_secondary_index"]
    assert (asked.source_container_id, asked.definition) == ("orders", "SELECT c.id, c.email FROM c")
    assert account.sent["offer_throughput"].auto_scale_max_throughput == 1000
    assert account.deleted == []


async def test_an_account_that_makes_a_plain_container_of_it_is_found_out() -> None:
    account = Account({})
    with pytest.raises(NativeIndexError, match="does not know native indexes") as raised:
        await create(account, INDEX)  # type: ignore[arg-type]
    assert account.deleted == ["by-email"]
    assert "continuous backup" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("answered", "meaning", "says"),
    [
        (answer(400, "not enabled"), NativeIndexError, "refuses db/by-email as a native index"),
        (CosmosResourceNotFoundError(status_code=404, message=""), MissingContainerError, "no source db/orders"),
        (answer(403, "", 5300), IdentityError, "creates no databases and no containers"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_refusal_says_what_is_refused(answered: Exception, meaning: type[FatalError], says: str) -> None:
    with pytest.raises(meaning, match=says) as raised:
        await create(Account(answered), INDEX)  # type: ignore[arg-type]
    assert raised.value.hint


async def test_an_sdk_without_native_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(azure.cosmos, "GlobalSecondaryIndexDefinition")
    with pytest.raises(NativeIndexError, match="this azure-cosmos makes no native index") as raised:
        await create(Account({}), INDEX)  # type: ignore[arg-type]
    assert "4.17" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("answered", "found"),
    [
        (answer(404), Throughput()),
        (answer(400, "Reading or replacing offers is not supported for serverless accounts."), Throughput()),
        (answer(403, "cannot be authorized by AAD token in data plane", 5300), None),
    ],
    ids=["shared", "serverless", "identity"],
)
async def test_throughput_that_is_not_the_containers_own(answered: Exception, found: Throughput | None) -> None:
    assert await throughput(Account(answered)) == found  # type: ignore[arg-type]


async def test_throughput_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ItemError):
        await throughput(Account(answer(400, "something else")))  # type: ignore[arg-type]


async def test_a_container_that_shares_the_databases_throughput_has_none_of_its_own() -> None:
    async with Emulator() as emulator:
        async with CosmosClient.from_connection_string(emulator.connection_string) as client:
            await client.create_database("shared", offer_throughput=1000)
        async with connect(Settings(emulator.url, emulator.connection_string)) as store:
            wanted = Description(Container("shared", "c"), ("/k",))
            assert await store.create_container(wanted)
            assert await store.throughput(wanted.container) == Throughput()
            own = Description(Container("shared", "own"), ("/k",), throughput=Throughput(autoscale=2000))
            assert await store.create_container(own)
            assert await store.throughput(own.container) == Throughput(autoscale=2000)
