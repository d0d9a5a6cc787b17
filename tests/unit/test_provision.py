"""Which containers `init` creates, and which have to be there."""

from __future__ import annotations

import pytest

from projections.declare import Catalog, Source
from projections.errors import MissingContainerError
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.settings import EMULATOR_ENDPOINT, Settings, emulator_connection
from projections.store import Container, Description
from tests.support import index

LAYOUT = Layout(Catalog(projections=(index(source=Source(container="order-events", key="/shop")),)), "shop")


async def with_containers(*names: str) -> MemoryStore:
    store = MemoryStore()
    for name in names:
        await store.create_container(Description(Container("shop", name), ("/shop",)))
    return store


async def refused(store: MemoryStore, layout: Layout = LAYOUT) -> tuple[str, str]:
    before = await store.containers("shop")
    with pytest.raises(MissingContainerError) as caught:
        await initialise(store, layout, with_sources=False)
    assert await store.containers("shop") == before, "nothing is created"
    return caught.value.message, caught.value.hint or ""


async def test_a_source_under_a_like_name_is_named() -> None:
    store = await with_containers("orderevents", "customers", "order_events")
    message, hint = await refused(store)
    assert message == "there is no source shop/order-events"
    assert hint.startswith("is it shop/order")
    assert "shop/orderevents" in hint
    assert "shop/order_events" in hint
    assert "customers" not in hint
    assert hint.endswith("correct Source(container=...), or create it with `projections init --with-sources`")


async def test_where_nothing_is_like_it_there_is_no_guess() -> None:
    _, hint = await refused(await with_containers("customers"))
    assert hint.startswith("correct Source(")


async def test_a_target_is_never_taken_for_the_source() -> None:
    layout = Layout(Catalog(projections=(index(name="orders-by-id"), index(name="orders2"))), "shop")
    message, hint = await refused(await with_containers("orders-by-id", "orders2"), layout)
    assert (message, "is it" in hint) == ("there is no source shop/orders", False)


async def test_an_empty_database_is_likely_to_be_the_wrong_one() -> None:
    _, hint = await refused(MemoryStore())
    assert hint.startswith("nothing is in database shop: check COSMOS_DATABASE and the catalog; ")


async def test_all_sources_that_are_missing_are_named_once() -> None:
    other = index(name="other", source=Source(container="lines", key="/shop", database="theirs"))
    layout = Layout(Catalog(projections=(index(), index(name="again"), other)), "shop")
    message, _ = await refused(await with_containers("customers"), layout)
    assert message == "there is no source shop/orders, theirs/lines"


async def test_beside_a_source_that_is_there_everything_is_created() -> None:
    store = await with_containers("order-events")
    created = await initialise(store, LAYOUT, with_sources=False)
    assert [container.name for container, new in created if new] == [
        "by-status", "projections-state", "projections-deadletters", "projections-leases",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "emulator"),
    [
        ({}, True),
        ({"COSMOS": emulator_connection(EMULATOR_ENDPOINT)}, True),
        ({"COSMOS": emulator_connection("http://cosmos:8081/")}, True),  # in another container, with the known key
        ({"COSMOS": "AccountEndpoint=https://localhost:8081/;AccountKey=YQ==;"}, True),
        ({"COSMOS": "AccountEndpoint=https://shop.documents.azure.com:443/;AccountKey=YQ==;"}, False),
        ({"COSMOS__accountEndpoint": "https://shop.documents.azure.com:443/"}, False),
        ({"COSMOS__accountEndpoint": "https://localhost.example.com/"}, False),
    ],
)
def test_what_counts_as_an_emulator(environment: dict[str, str], emulator: bool) -> None:
    assert Settings.read(environment).emulator is emulator


async def test_a_source_keeps_all_versions_on_an_emulator_where_one_of_its_projections_reads_them() -> None:
    """On an account that is its backup's affair."""
    versions = Source(container="orders", key="/shop", mode="AllVersionsAndDeletes")
    layout = Layout(Catalog(projections=(index(), index(name="second", source=versions))), "shop")
    for emulated, retention in ((True, 7 * 24 * 60), (False, None)):
        store = MemoryStore()
        await initialise(store, layout, emulated=emulated)
        found = await store.describe(Container("shop", "orders"))
        assert found
        assert found.retention == retention
