"""What about a Functions app is found unsafe: its host.json, its settings, what it registers, its leases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest

from projections.declare import Catalog, Source
from projections.hosting import (
    UnheldError,
    function_timeout,
    functions_findings,
    leases_findings,
    misspelled,
    registered,
    registration_findings,
    sharing,
)
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout
from projections.store import Container, Description, Upsert
from projections.triggers import RETRY, triggers
from tests.support import NOW, index

ROOT = Path(__file__).parents[2]
LAYOUT = Layout(Catalog(projections=(index(),)), "shop")


def findings(folder: Path, environment: dict[str, str] | None = None, **host: Any) -> list[str]:
    """What is found about the shipped host.json with these changes; None takes a key out."""
    shipped = json.loads((ROOT / "host.json").read_text())
    changed = {name: value for name, value in {**shipped, **host}.items() if value is not None}
    (folder / "host.json").write_text(json.dumps(changed))
    found = functions_findings(folder, LAYOUT, environment)
    assert all(problem.hint for problem in found)
    return [problem.message for problem in found]


# host.json


def test_what_is_shipped_is_safe() -> None:
    assert functions_findings(ROOT, LAYOUT, {}) == []
    host = json.loads((ROOT / "host.json").read_text())
    excluded = host["logging"]["applicationInsights"]["samplingSettings"]["excludedTypes"]
    assert set(excluded.split(";")) == {"Request", "Exception"}


def test_no_host_json_and_no_json(tmp_path: Path) -> None:
    assert "there is no host.json" in functions_findings(tmp_path, LAYOUT)[0].message
    for text, message in (("{", "no JSON"), ("[]", "no object")):
        (tmp_path / "host.json").write_text(text)
        assert message in functions_findings(tmp_path, LAYOUT)[0].message


@pytest.mark.parametrize(
    ("text", "message"),
    [("-1", "would hold its changes for ever"), ("10 minutes", "is no time span"), ("00:00:59", "is too short")],
)
def test_a_time_out_that_does_not_do(tmp_path: Path, text: str, message: str) -> None:
    (found,) = findings(tmp_path, functionTimeout=text)
    assert message in found
    (found,) = findings(tmp_path, {"AzureFunctionsJobHost__functionTimeout": text})
    assert message in found


@pytest.mark.parametrize("text", ["00:01:00", "00:10:00", "1.00:00:00", None])
def test_a_time_out_that_does(tmp_path: Path, text: str | None) -> None:
    assert findings(tmp_path, functionTimeout=text) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:05:00", 300), ("00:10:00", 600), ("01:00:00", 600), ("1.00:00:00", 600), ("-1", 300), (None, 300)],
)
def test_how_long_a_call_may_take(text: str | None, seconds: float) -> None:
    assert function_timeout({"functionTimeout": text}, {}) == seconds
    assert function_timeout({"functionTimeout": text}, {"AzureFunctionsJobHost__functionTimeout": "00:01:00"}) == 60


def test_retries_beside_those_in_code(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, retry={"strategy": "fixedDelay", "maxRetryCount": 3})
    assert "host.json has `retry`" in found
    (found,) = findings(tmp_path, {"AzureFunctionsJobHost__retry__maxRetryCount": "3"})
    assert "AzureFunctionsJobHost__retry__maxRetryCount" in found


@pytest.mark.parametrize("text", ["[4.26.0, 5.0.0)", "[4.*, 5.0.0)", "[4.0.0, 4.26.0]", "[4.30.1]", "(4.0, )"])
def test_a_bundle_that_is_new_enough(tmp_path: Path, text: str) -> None:
    assert findings(tmp_path, extensionBundle={"id": "b", "version": text}) == []


@pytest.mark.parametrize("text", ["[3.*, 4.0.0)", "[4.0.0, 4.26.0)", "[2.*, 3.0.0)", "[4.25.1]", "4", "", None])
def test_a_bundle_that_is_too_old(tmp_path: Path, text: str | None) -> None:
    (found,) = findings(tmp_path, extensionBundle={"id": "b", "version": text})
    assert "allows none from 4.26.0 on" in found


def test_no_bundle(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, extensionBundle=None)
    assert "no Cosmos DB trigger" in found
    (tmp_path / "extensions.csproj").write_text("<Project/>")
    assert findings(tmp_path, extensionBundle=None) == []


# what is registered


def app(retry: dict[str, Any] | None = RETRY, **binding: Any) -> list[Any]:
    """An app of one function, as the host is told of it."""
    app = func.FunctionApp()
    (trigger,) = triggers(LAYOUT)

    def changes(documents: func.DocumentList) -> None: ...

    builder = app.cosmos_db_trigger(arg_name="documents", **{**trigger.binding, **binding})(changes)
    if retry is not None:
        app.retry(**retry)(builder)
    app.timer_trigger(arg_name="timer", schedule="0 * * * * *")(lambda timer: None)
    return list(app.get_functions())


def about(functions: list[Any]) -> list[Any]:
    return registration_findings(registered(functions))


def test_what_the_app_registers_is_safe() -> None:
    assert about(app()) == []
    assert misspelled(registered(app())) == []


@pytest.mark.parametrize("retry", [None, {**RETRY, "max_retry_count": "5"}])
def test_retries_that_end_lose_changes(retry: dict[str, Any] | None) -> None:
    (found,) = about(app(retry))
    assert isinstance(found, UnheldError)
    assert "its changes would be lost" in found.message
    assert "@app.retry" in str(found.hint)


def test_a_strategy_that_the_host_does_not_know() -> None:
    (found,) = misspelled(registered(app({**RETRY, "strategy": "exponentialBackoff"})))
    assert "'exponentialBackoff'" in found.message


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ({"change_feed_mode": "Incremental"}, "which the host does not have"),
        ({"start_from_beginning": False}, "items from before would be missing"),
        ({"start_from_time": "2026-01-01T00:00:00Z"}, "items from before would be missing"),
    ],
)
def test_a_feed_that_does_not_tell_of_every_item(binding: dict[str, Any], message: str) -> None:
    (found,) = about(app(**binding))
    assert message in found.message


ALL = {"change_feed_mode": "AllVersionsAndDeletes", "start_from_beginning": None, "lease_container_prefix": "v-"}


def test_all_versions_are_read_beside_the_latest_ones() -> None:
    assert about([*app(), *app(**ALL)]) == []
    (found,) = about(app(**ALL))
    assert "no function reads the latest ones from the beginning" in found.message
    (found,) = about([*app(), *app(**{**ALL, "container_name": "other"})])
    assert "reads all versions of shop/other from now on" in found.message


@pytest.mark.parametrize("start", [{"start_from_beginning": True}, {"start_from_time": "2026-01-01T00:00:00Z"}])
def test_all_versions_with_a_start_setting(start: dict[str, Any]) -> None:
    (found,) = about([*app(), *app(**{**ALL, **start})])
    assert "with which the host does not start it" in found.message


def test_two_functions_with_the_same_leases() -> None:
    (found,) = about([*app(), *app()])
    assert "each would get only a part" in found.message
    assert about([*app(), *app(lease_container_prefix="other-")]) == []
    assert about([*app(), *app(container_name="other")]) == []


# leases


async def leases(*documents: dict[str, Any], **description: Any) -> MemoryStore:
    store = MemoryStore(clock=lambda: NOW)
    fields = {"key_paths": ("/id",), **description}
    await store.create_container(Description(LAYOUT.leases, **fields))
    for document in documents:
        await store.write(LAYOUT.leases, Key.of(document["id"]), [Upsert(document)])
    return store


def lease(number: int, **fields: Any) -> dict[str, Any]:
    own = {"LeaseToken": str(number), "Owner": "host-a", "ContinuationToken": '"7"', "Mode": "Incremental Feed"}
    return {"id": f"by-status-1-acct.documents.azure.com_aa==_bb==..{number}", **own, **fields}


async def test_leases_as_they_should_be() -> None:
    other = {"id": "by-status-1-acct.documents.azure.com_aa==_bb==.info"}
    store = await leases(lease(0), lease(1), other, lease(2, id="somebody-elses..0", Mode="Full-Fidelity Feed"))
    assert await leases_findings(store, LAYOUT) == []
    assert await sharing(store, LAYOUT, NOW) == []


async def test_no_leases_container() -> None:
    (found,) = await leases_findings(MemoryStore(), LAYOUT)
    assert "there is no container shop/projections-leases" in found.message


async def test_a_leases_container_that_does_not_do() -> None:
    store = MemoryStore()
    await store.create_container(Description(Container("shop", "projections-leases"), ("/pk",), default_ttl=60))
    found = [problem.message for problem in await leases_findings(store, LAYOUT)]
    assert ["/id is needed" in found[0], "forgets its leases" in found[1]] == [True, True]


async def test_leases_of_the_other_mode() -> None:
    store = await leases(lease(0, Mode="Full-Fidelity Feed"))
    (found,) = await leases_findings(store, LAYOUT)
    assert "which cannot be changed" in found.message


async def test_leases_of_both_feeds_are_told_apart() -> None:
    source = Source(container="orders", key="/shop", mode="AllVersionsAndDeletes")
    layout = Layout(Catalog(projections=(index(source=source),)), "shop")
    versions = "by-status-1-versions-acct.documents.azure.com_aa==_bb==..0"
    good = await leases(lease(0), lease(1, id=versions, Mode="Full-Fidelity Feed", Owner="host-b"))
    assert await leases_findings(good, layout) == []
    assert await sharing(good, layout, NOW) == []
    (found,) = await leases_findings(await leases(lease(1, id=versions)), layout)
    assert "is of the LatestVersion mode" in found.message


async def test_other_owners_are_told_of() -> None:
    store = await leases(lease(0), lease(1, Owner="host-b"))
    (found,) = await sharing(store, LAYOUT, NOW)
    assert (found.owners, found.feeds) == (2, 1)
    assert await sharing(store, LAYOUT, NOW + 100) == []


async def test_leases_of_a_container_that_was_made_anew() -> None:
    store = await leases(lease(0), lease(1, id="by-status-1-acct.documents.azure.com_aa==_cc==..0"))
    (found,) = await sharing(store, LAYOUT, NOW)
    assert (found.owners, found.feeds) == (1, 2)
