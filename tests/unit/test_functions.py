"""What the Functions app registers, how long a call may take, and how it meets a busy store."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from projections.declare import Catalog, Source
from projections.errors import MissingContainerError, SettingsError, TransientError, UnreachableError
from projections.functions import Trigger, TriggeredWorker, _with_fields, seconds_to_work, triggers
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import Container, Upsert
from tests.support import index

SETTINGS = Settings("http://nowhere/", "…")


def registered(*projections: Any, **catalog: Any) -> list[Trigger]:
    return list(triggers(Layout(Catalog(projections=projections, **catalog), "shop")))


# what is registered


def test_a_trigger_is_named_after_projection_and_version() -> None:
    (trigger,) = registered(index(name="orders.by id".replace(" ", "_"), version=3))

    assert trigger.function == "orders-by_id-3"
    assert trigger.lease_prefix == "orders.by_id-3-"
    assert trigger.binding["container_name"] == "orders"
    assert trigger.binding["lease_container_name"] == "projections-leases"


def test_names_that_the_host_takes_for_one_are_told_apart() -> None:
    found = registered(index(name="a.b"), index(name="a-b"), index(name="A.B", target={"container": "other"}), index())
    names = [trigger.function.casefold() for trigger in found]

    assert len(set(names)) == 4
    assert names[3] == "by-status-1"
    assert all(name.startswith("a-b-1-") for name in names[:3])


def test_a_name_begins_with_a_letter() -> None:
    assert registered(index(name="2024-orders"))[0].function == "p-2024-orders-1"


def test_versions_and_projections_have_leases_of_their_own() -> None:
    found = registered(index(), index(version=2), index(name="by-status-1"), index(name="by-status-1", version=11))
    prefixes = [trigger.lease_prefix for trigger in found]

    assert len(set(prefixes)) == 4


def test_databases_are_where_the_catalog_says() -> None:
    projection = index(source=Source(container="orders", key="/shop", database="theirs"))
    (trigger,) = registered(projection, database="ours")

    assert trigger.binding["database_name"] == "theirs"
    assert trigger.binding["lease_database_name"] == "ours"


# how long a call may take


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:05:00", 240), ("00:10:00", 480), ("01:00:00", 480), ("1.00:00:00", 480), ("-1", 480), ("00:00:10", 8)],
)
def test_a_call_ends_before_the_host_ends_it(tmp_path: Path, text: str, seconds: float) -> None:
    (tmp_path / "host.json").write_text(json.dumps({"functionTimeout": text}))

    assert seconds_to_work({}, tmp_path / "host.json") == seconds
    setting = {"AzureFunctionsJobHost__functionTimeout": "00:01:00"}
    assert seconds_to_work(setting, tmp_path / "host.json") == 48


def test_without_a_time_out_the_shortest_default_counts(tmp_path: Path) -> None:
    assert seconds_to_work({}, tmp_path / "host.json") == 240
    (tmp_path / "host.json").write_text("{}")
    assert seconds_to_work({}, tmp_path / "host.json") == 240


def test_a_time_out_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no time span"):
        seconds_to_work({"AzureFunctionsJobHost__functionTimeout": "10 minutes"}, tmp_path / "host.json")


def test_the_shipped_host_json_is_what_the_code_counts_on() -> None:
    path = Path(__file__).parents[2] / "host.json"
    host = json.loads(path.read_text())

    assert seconds_to_work({}, path) == 480
    assert "retry" not in host  # set in code, for every trigger
    excluded = host["logging"]["applicationInsights"]["samplingSettings"]["excludedTypes"]
    assert set(excluded.split(";")) == {"Request", "Exception"}


# a call


class Shop:
    """A worker on a store in memory that fails as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float = 5.0) -> None:
        catalog = Catalog(projections=(index(),))
        monkeypatch.setattr(Settings, "load_catalog", lambda _: catalog)
        self.failures: list[Exception] = []
        self.opened = 0
        self.unreachable = 0
        self.store = MemoryStore(before=self._before)
        self.worker = TriggeredWorker(SETTINGS, seconds, self._open)
        self.projection = catalog.projections[0]

    async def _before(self, name: str, container: Container) -> None:
        if self.failures and name == "read" and container.name == "orders":
            raise self.failures.pop(0)

    async def _open(self, _: Settings) -> MemoryStore:
        self.opened += 1
        if self.unreachable:
            self.unreachable -= 1
            raise UnreachableError("cannot reach http://nowhere/")
        return self.store

    async def notice(self) -> list[dict[str, Any]]:
        """An order, and its change."""
        await initialise(self.store, self.worker.layout)
        order = {"id": "o1", "shop": "s1", "status": "open"}
        [etag] = await self.store.write(Container("shop", "orders"), Key.of("s1"), [Upsert(order)])
        return [{**order, "_rid": "r==", "_etag": etag, "_ts": 1}]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(monkeypatch)


async def test_the_store_is_opened_once(shop: Shop) -> None:
    notice = await shop.notice()

    assert (await shop.worker.apply(shop.projection, notice)).outcomes == {"written": 1}
    assert (await shop.worker.apply(shop.projection, notice)).outcomes == {"unchanged": 1}
    assert shop.opened == 1


async def test_an_empty_batch_opens_nothing(shop: Shop) -> None:
    assert (await shop.worker.apply(shop.projection, [])).total == 0
    assert (await shop.worker.apply(shop.projection, None)).total == 0
    assert shop.opened == 0


async def test_a_store_that_was_away_is_opened_by_the_next_call(shop: Shop) -> None:
    notice = await shop.notice()
    shop.unreachable = 1

    with pytest.raises(UnreachableError):
        await shop.worker.apply(shop.projection, notice)
    assert (await shop.worker.apply(shop.projection, notice)).outcomes == {"written": 1}


async def test_containers_that_were_missing_are_looked_for_again(shop: Shop) -> None:
    item = {"id": "o1", "shop": "s1", "_rid": "r==", "_etag": "e", "_ts": 1}
    with pytest.raises(MissingContainerError) as caught:
        await shop.worker.apply(shop.projection, [item])
    assert caught.value.projection in ("by-status", "by-status@1")

    assert (await shop.worker.apply(shop.projection, await shop.notice())).outcomes == {"written": 1}


async def test_trouble_that_passes_is_waited_for_within_the_call(shop: Shop) -> None:
    notice = await shop.notice()
    shop.failures = [TransientError("busy (429)")] * 3

    assert (await shop.worker.apply(shop.projection, notice)).outcomes == {"written": 1}


async def test_trouble_that_stays_fails_the_call_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, seconds=0.4)
    notice = await shop.notice()
    shop.failures = [TransientError("busy (429)")] * 10_000

    with pytest.raises(TransientError, match=r"not done within 0.4 s"):
        await shop.worker.apply(shop.projection, notice)


async def test_health_asks_the_account_once_in_a_while(shop: Shop) -> None:
    await shop.notice()
    shop.unreachable = 1

    code, text = await shop.worker.health()
    assert (code, json.loads(text)) == (503, {"status": "unreachable", "projections": ["by-status@1"]})
    assert (await shop.worker.health())[0] == 503
    assert shop.opened == 1


async def test_health_of_an_account_without_the_containers(shop: Shop) -> None:
    code, text = await shop.worker.health()
    assert (code, json.loads(text)["status"]) == (503, "not ready")


async def test_health_is_ok(shop: Shop) -> None:
    await shop.notice()
    assert (await shop.worker.health())[0] == 200


# the log


def test_fields_travel_in_the_message() -> None:
    record = logging.LogRecord("projections", logging.INFO, "f.py", 1, "applied %s", ("now",), None)
    record.projection = "by-status@1"
    record.hint = None

    assert _with_fields(record)
    assert record.getMessage() == 'applied now {"projection": "by-status@1"}'


def test_a_record_without_fields_stays() -> None:
    record = logging.LogRecord("projections", logging.INFO, "f.py", 1, "100 %", None, None)
    assert _with_fields(record)
    assert record.getMessage() == "100 %"
