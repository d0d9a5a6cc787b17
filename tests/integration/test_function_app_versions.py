"""Sources in all-versions mode in the Functions app, under the official worker library."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from projections.feed import Checkpoint, Checkpoints
from projections.store import Description, Document
from tests.functions_runtime.catalog import versions
from tests.functions_runtime.payload import as_delivered
from tests.functions_runtime.site import Site

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        importlib.util.find_spec("azure_functions_runtime") is None,
        reason="azure-functions-runtime is not installed; `make test` installs it",
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with Site(versions, "versions") as site:
        yield site


def order(id_: str, **fields: Any) -> Document:
    return {"id": id_, "customerId": "c1", "status": "open", **fields}


def as_net_writes(change: Document) -> Document:
    """A change as .NET's ChangeFeedItem is written: every field of the metadata, and no document of a delete."""
    metadata = {"previousImageLSN": 0, "timeToLiveExpired": False, "id": None, **change["metadata"]}
    return {"current": change["current"] or None, "metadata": metadata, "previous": None}


def as_read(change: Document) -> Document:
    """A change as it is read from the service."""
    return change


FORMS = pytest.mark.parametrize("form", [as_read, as_net_writes])


async def deliver(site: Site, function: str, changes: list[Document], form: Any = as_read) -> None:
    answer = await site.host.deliver(function, as_delivered([form(change) for change in changes], hours_east=2))
    assert answer.ok, answer.exception


async def test_a_second_trigger_reads_all_versions_from_now_on(site: Site) -> None:
    functions = await site.host.functions()

    assert {name for name in functions if name.startswith("by-status")} == {"by-status-1", "by-status-1-versions"}
    [latest], [all_versions] = (functions[name]["bindings"] for name in ("by-status-1", "by-status-1-versions"))
    assert all_versions == {
        "type": "cosmosDBTrigger",
        "direction": "IN",
        "name": "documents",
        "connection": "COSMOS",
        "databaseName": "site",
        "containerName": "orders",
        "leaseDatabaseName": "site",
        "leaseContainerName": "projections-leases",
        "leaseContainerPrefix": "by-status-1-versions-",
        "createLeaseContainerIfNotExists": False,
        "maxItemsPerInvocation": 200,
        "changeFeedMode": "AllVersionsAndDeletes",
    }
    assert latest["startFromBeginning"] is True
    assert "changeFeedMode" not in latest
    assert {"named-buyer-1", "named-buyer-1-versions"} <= set(functions)
    assert functions["by-status-1-versions"]["retry"]["max_retry_count"] == -1


@FORMS
async def test_a_delete_removes_the_entry(site: Site, form: Any) -> None:
    start = await site.now("orders")
    await site.put("orders", "customerId", order("gone"), order("stays"))
    await deliver(site, "by-status-1", await site.feed("orders", "gone", "stays"))
    await site.remove("orders", "c1", "gone")
    await deliver(site, "by-status-1-versions", await site.versions("orders", start), form)
    assert [entry["_source"]["id"] for entry in await site.entries("by-status", "gone", "stays")] == ["stays"]


@FORMS
async def test_a_delete_takes_copies_along(site: Site, form: Any) -> None:
    start = await site.now("customers")
    await site.put("customers", "id", {"id": "c7", "name": "Ann"})
    await deliver(site, "named-buyer-1", await site.feed("customers", "c7"))
    await site.put("orders", "customerId", order("o7", customerId="c7"))
    await deliver(site, "named-1", await site.feed("orders", "o7"))
    [entry] = await site.entries("named", "o7")
    assert entry["buyer"]["name"] == "Ann"
    await site.remove("customers", "c7", "c7")
    await deliver(site, "named-buyer-1-versions", await site.versions("customers", start), form)
    [entry] = await site.entries("named", "o7")
    assert "buyer" not in entry


async def test_creates_and_updates_are_only_notices_too(site: Site) -> None:
    start = await site.now("orders")
    await site.put("orders", "customerId", order("u1"))
    await site.put("orders", "customerId", order("u1", status="paid"))
    created, replaced = await site.versions("orders", start)
    for outdated in ([created], [created, replaced], [created]):
        await deliver(site, "by-status-1-versions", outdated)
        [entry] = await site.entries("by-status", "u1")
        assert entry["status"] == "paid"


@FORMS
async def test_a_late_delete_removes_nothing_that_was_created_anew(site: Site, form: Any) -> None:
    start = await site.now("orders")
    await site.put("orders", "customerId", order("anew"))
    await site.remove("orders", "c1", "anew")
    await site.put("orders", "customerId", order("anew", status="again"))
    changes = await site.versions("orders", start)
    await deliver(site, "by-status-1-versions", changes, form)
    await deliver(site, "by-status-1-versions", [changes[1]], form)
    [entry] = await site.entries("by-status", "anew")
    assert entry["status"] == "again"


@pytest.mark.parametrize(
    ("id_", "day"),
    [
        ("plain", "2023-07-04T12:00:00+00:00"),
        ("2021-08-23T06:23:40.100+02:00", "d1"),
        ("2021-08-23T06:23:41.100Z", "2021-08-23T00:00:00.000Z"),
        ("2021-08-23T06:23:43.100Z", None),
    ],
)
async def test_a_delete_of_an_identity_that_the_host_rewrites(site: Site, id_: str, day: Any) -> None:
    start = await site.now("readings")
    await site.put(
        "readings", "day", {"id": id_, "day": day, "device": "d1"}, {"id": f"other {id_}", "day": day, "device": "d1"}
    )
    await deliver(site, "by-device-1", await site.feed("readings", id_, f"other {id_}"))
    assert len(await site.entries("by-device", id_, f"other {id_}")) == 2
    await site.remove("readings", day, id_)
    await deliver(site, "by-device-1-versions", [(await site.versions("readings", start))[-1]], as_net_writes)
    [left] = await site.entries("by-device", id_, f"other {id_}")
    assert left["_source"]["id"] == f"other {id_}"


async def test_a_position_is_noted_before_anything_is_projected(site: Site) -> None:
    """What is deleted before the second trigger has read anything is found by the audit, from there on."""
    [checkpoint] = await _audit(site, "by-status@1")
    assert checkpoint.versions
    assert checkpoint.versions.then
    await site.put("orders", "customerId", order("unheard"))
    await deliver(site, "by-status-1", await site.feed("orders", "unheard"))
    await site.remove("orders", "c1", "unheard")
    since = await site.versions("orders", checkpoint.versions.then)
    assert since[-1]["metadata"]["id"] == "unheard"
    assert (await site.host.tick("audit")).ok


async def _audit(site: Site, projection: str) -> list[Checkpoint]:
    return await Checkpoints(site.store, site.layout.state, f"{projection} audit").load([])


@pytest.mark.parametrize(
    "document",
    [
        {"current": {}, "metadata": {"operationType": "delete", "lsn": 1, "crts": 1}},
        {"current": {"id": "x"}, "metadata": {"operationType": "create", "lsn": 1, "crts": 1}},
        {"metadata": {}},
    ],
)
async def test_what_is_no_change_is_refused(site: Site, document: Document) -> None:
    answer = await site.host.deliver("by-status-1-versions", [document])
    assert not answer.ok
    assert "no item" in answer.exception["message"]


async def test_a_source_that_keeps_no_versions_is_refused() -> None:
    async with Site(versions, "versions") as site:
        database = site.store._client.get_database_client("site")
        await database.delete_container("orders")
        await site.store.create_container(Description(site.container("orders"), ("/customerId",), default_ttl=-1))
        await site.put("orders", "customerId", order("refused"))
        answer = await site.host.deliver("by-status-1", await site.feed("orders", "refused"))
        assert not answer.ok
        assert "keeps no feed of all versions and deletes" in answer.exception["message"]
        health = await site.host.get("health", "/api/health")
        assert "continuous backup" in str(health.value)
