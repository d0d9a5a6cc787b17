"""The Functions app as the host runs it: it is indexed, and called with what the trigger delivers."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from projections.emulator import Emulator
from tests.functions_runtime.catalog import catalog
from tests.functions_runtime.client import ROOT, FunctionsHost
from tests.functions_runtime.site import Site

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        importlib.util.find_spec("azure_functions_runtime") is None,
        reason="azure-functions-runtime is not installed; `make test` installs it",
    ),
]

OTHERS = {"drain", "audit", "health"}
NOBODY = "AccountEndpoint=http://127.0.0.1:9/;AccountKey=a2V5;"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with Site() as site:
        yield site


def order(id_: str, **fields: Any) -> dict[str, Any]:
    own = {"id": id_, "orderId": id_, "customerId": "c1", "status": "open", "region": "north", "total": 900.0}
    return {**own, "createdAt": "2023-07-04T12:00:00.1200000+02:00", **fields}


async def change(site: Site, item: dict[str, Any], *projections: str) -> None:
    """Write an order and deliver its change."""
    await site.put("orders", "customerId", item)
    for projection in projections:
        assert (await site.deliver(projection, await site.feed("orders", item["id"]))).ok


# indexing


async def test_every_projection_has_a_trigger_of_its_own(site: Site) -> None:
    functions = await site.host.functions()

    health = functions.pop("health")
    timers = [functions.pop(name)["bindings"] for name in ("drain", "audit")]
    assert [[binding["type"], binding["schedule"]] for (binding,) in timers] == [
        ["timerTrigger", "0 * * * * *"],
        ["timerTrigger", "30 */5 * * * *"],
    ]
    assert set(functions) == {"orders-by-id-1", "orders-by-status-1", "big-open-orders-1", "readings-by-device-1"}
    bindings = {name: function["bindings"] for name, function in functions.items()}
    assert all(len(of_one) == 1 for of_one in bindings.values())
    assert bindings["readings-by-device-1"][0] == {
        "type": "cosmosDBTrigger",
        "direction": "IN",
        "name": "documents",
        "connection": "COSMOS",
        "databaseName": "site",
        "containerName": "readings",
        "leaseDatabaseName": "site",
        "leaseContainerName": "projections-leases",
        "leaseContainerPrefix": "readings.by-device-1-",
        "createLeaseContainerIfNotExists": False,
        "startFromBeginning": True,
        "maxItemsPerInvocation": 200,
    }
    prefixes = {of_one[0]["leaseContainerPrefix"] for of_one in bindings.values()}
    assert len(prefixes) == len(bindings)
    assert health["bindings"][0] | {"type": "httpTrigger", "route": "health"} == health["bindings"][0]
    assert health["bindings"][0]["authLevel"] == "ANONYMOUS"


async def test_every_trigger_is_retried_without_end(site: Site) -> None:
    functions = await site.host.functions()
    retries = [function["retry"] for name, function in functions.items() if name not in OTHERS]
    assert len(retries) == 4

    for retry in retries:
        assert retry == {
            "max_retry_count": -1,
            "retry_strategy": "exponential_backoff",
            "minimum_interval": "0:00:05",
            "maximum_interval": "0:05:00",
        }


async def test_indexing_needs_no_settings_and_no_network() -> None:
    async with FunctionsHost({}) as host:
        assert host.indexed["ok"], host.indexed
        assert host.indexed["seconds"] < 3  # 0.4 on an idle machine
        assert set(await host.functions()) == {"orders-by-id-1", "orders-by-status-1", "big-open-orders-1", *OTHERS}


async def test_a_catalog_that_is_not_there_fails_indexing_and_says_so() -> None:
    async with FunctionsHost({"PROJECTIONS_CATALOG": "no.such:catalog"}) as host:
        assert not host.indexed["ok"]
        assert "cannot import no.such" in host.indexed["exception"]["message"]


async def test_what_is_deployed_is_enough(tmp_path: Path) -> None:
    """.funcignore leaves out the emulator, the command line and everything for development."""
    app = copied(tmp_path)

    async with FunctionsHost({"COSMOS": NOBODY}, app) as host:
        assert host.indexed["ok"], host.indexed
        assert not (app / "tests").exists()
        assert not (app / "projections" / "emulator").exists()


def copied(folder: Path) -> Path:
    """What would be deployed."""
    ignored = [line.strip("/") for line in (ROOT / ".funcignore").read_text().split()]
    return Path(shutil.copytree(ROOT, folder / "app", ignore=_leave_out(ignored)))


def _leave_out(patterns: list[str]) -> Any:
    def names(folder: str, names: list[str]) -> set[str]:
        inside = Path(folder).relative_to(ROOT)
        paths = {name: inside / name for name in names}
        matched = {name for name, path in paths.items() if any(path.match(p) or str(path) == p for p in patterns)}
        return matched | {"__pycache__"} & set(names)

    return names


# changes in, entries out


async def test_a_created_order_gets_its_entries(site: Site) -> None:
    await change(site, order("created"), "orders-by-id", "orders-by-status", "big-open-orders")

    (by_id,) = await site.entries("orders-by-id", "created")
    (by_status,) = await site.entries("orders-by-status", "created")
    (big,) = await site.entries("big-open-orders", "created")
    assert (by_id["orderId"], by_status["status"], big["region"]) == ("created", "open", "north")


async def test_what_the_host_has_rewritten_reaches_no_entry(site: Site) -> None:
    texts = {
        "a": "2023-07-04T12:00:00+00:00", "b": "2021-08-23T06:23:40+02:00", "c": "2014-09-15T23:14:25.7251170Z",
        "d": "0001-01-01T00:00:00Z", "e": "2020-01-03", "f": "1e5", "g": "NaN", "h": "true", "i": "007", "j": "null",
        "k2": " x ", "l": "a\r\nb", "m": "e\u0301",
    }  # fmt: skip
    await change(site, order("texts", **texts), "orders-by-id")

    (entry,) = await site.entries("orders-by-id", "texts")
    assert {name: entry[name] for name in texts} == texts
    assert entry["createdAt"] == "2023-07-04T12:00:00.1200000+02:00"


async def test_an_update_replaces_the_entry(site: Site) -> None:
    await change(site, order("updated", total=1.0), "orders-by-id")
    await change(site, order("updated", total=2.0), "orders-by-id")

    (entry,) = await site.entries("orders-by-id", "updated")
    assert entry["total"] == 2.0


async def test_a_new_key_moves_the_entry(site: Site) -> None:
    await change(site, order("moved"), "orders-by-status")
    await change(site, order("moved", status="paid"), "orders-by-status")

    (entry,) = await site.entries("orders-by-status", "moved")
    assert entry["status"] == "paid"


async def test_a_soft_delete_removes_the_entry(site: Site) -> None:
    await change(site, order("soft"), "orders-by-id")
    await change(site, order("soft", deleted=True), "orders-by-id")

    assert await site.entries("orders-by-id", "soft") == []


async def test_an_item_that_is_gone_when_read_again_loses_its_entry(site: Site) -> None:
    await change(site, order("hard"), "orders-by-id")
    notices = await site.feed("orders", "hard")
    await site.remove("orders", "c1", "hard")

    assert (await site.deliver("orders-by-id", notices)).ok
    assert await site.entries("orders-by-id", "hard") == []


async def test_a_batch_delivered_again_changes_nothing(site: Site) -> None:
    await change(site, order("twice"), "orders-by-status")
    before = await site.entries("orders-by-status", "twice")
    old = await site.feed("orders", "twice")

    assert (await site.deliver("orders-by-status", old)).ok
    assert await site.entries("orders-by-status", "twice") == before

    await change(site, order("twice", status="paid"), "orders-by-status")
    after = await site.entries("orders-by-status", "twice")
    assert (await site.deliver("orders-by-status", old)).ok
    assert await site.entries("orders-by-status", "twice") == after


async def test_an_empty_batch_does_nothing(site: Site) -> None:
    before = site.emulator.statistics.requests

    assert (await site.host.deliver("orders-by-id-1", [])).ok
    assert (await site.host.deliver("orders-by-id-1", None)).ok is False  # a document, and it is none
    assert site.emulator.statistics.requests == before


async def test_a_bad_item_is_parked_and_holds_up_nobody(site: Site) -> None:
    await site.put("orders", "customerId", order("bad", region=""), order("good"))

    assert (await site.deliver("big-open-orders", await site.feed("orders", "bad", "good"))).ok
    assert [entry["_source"]["id"] for entry in await site.entries("big-open-orders", "bad", "good")] == ["good"]
    (letter,) = await site.letters("bad")
    assert letter["projection"] == "big-open-orders@1"
    assert letter["source"] == {"id": "bad", "key": ["c1"]}


async def test_the_log_says_what_happened_and_no_content(site: Site) -> None:
    await change(site, order("logged", note="a-secret-note"), "orders-by-id")

    line = next(line for line in reversed(site.host.log.splitlines()) if "projections: applied" in line)
    fields = json.loads(line.partition("applied ")[2])
    assert fields["projection"] == "orders-by-id@1"
    assert fields["outcomes"] == {"written": 1}
    assert "a-secret-note" not in site.host.log
    assert "AccountKey" not in site.host.log
    assert "HTTP" not in site.host.log.upper().replace("HTTPTRIGGER", "").replace("'HTTP'", "")


async def test_many_changes_at_once(site: Site) -> None:
    ids = [f"many-{n}" for n in range(150)]
    await site.put("orders", "customerId", *(order(id_, customerId=f"c{n % 7}") for n, id_ in enumerate(ids)))

    assert (await site.deliver("orders-by-id", await site.feed("orders", *ids))).ok
    assert len(await site.entries("orders-by-id", *ids)) == 150


# health


async def test_health_is_terse(site: Site) -> None:
    answer = await site.host.get("health", "/api/health")

    http = answer.value["http"]
    assert http["status_code"] == "200"
    names = [projection.full_name for projection in catalog]
    assert json.loads(http["body"]["bytes"]) == {"status": "ok", "projections": names}


async def test_the_example_of_local_settings_works_on_an_emulator() -> None:
    """With HTTPS, as the host needs it; the worker does not mind that the certificate is nobody's."""
    values = json.loads((ROOT / "local.settings.example.json").read_text())["Values"]
    async with Emulator(https=True) as emulator:
        settings = values | {"COSMOS": values["COSMOS"].replace("https://127.0.0.1:8081/", emulator.url)}
        assert settings["COSMOS"] != values["COSMOS"]
        async with FunctionsHost(settings) as host:
            health = await host.get("health", "/api/health")

    assert json.loads(health.value["http"]["body"]["bytes"])["status"] == "not ready"  # it answers, and is empty


# trouble


async def test_an_account_that_does_not_answer_fails_the_call() -> None:
    async with FunctionsHost({"COSMOS": NOBODY}) as host:
        answer = await host.deliver("orders-by-id-1", [{"id": "o", "_rid": "r", "_etag": "e", "_ts": 1}])
        health = await host.get("health", "/api/health")

    assert not answer.ok
    assert "cannot reach http://127.0.0.1:9/" in answer.exception["message"]
    assert health.value["http"]["status_code"] == "503"
    assert json.loads(health.value["http"]["body"]["bytes"])["status"] == "unreachable"


async def test_a_failed_start_is_tried_again_by_the_next_call() -> None:
    async with Site() as site:
        port = site.emulator.port
        await change(site, order("before"))
        notices = await site.feed("orders", "before")
        await site.emulator.stop()
        assert not (await site.deliver("orders-by-id", notices)).ok

        site.emulator.port = port
        await site.emulator.start()  # on the same port, and empty: the containers are missing
        answer = await site.deliver("orders-by-id", notices)
        assert not answer.ok
        assert "there is no container" in answer.exception["message"]


# settings that would lose changes


async def test_settings_that_would_lose_changes_are_refused_by_every_function() -> None:
    """And the functions are there all the same, since functions that vanish tell nobody why."""
    async with Site(AzureFunctionsJobHost__functionTimeout="00:00:02") as site:
        assert set(await site.host.functions()) == {*site.functions.values(), *OTHERS}
        await site.put("orders", "customerId", order("refused"))
        answers = [
            await site.deliver("orders-by-id", await site.feed("orders", "refused")),
            await site.host.tick("drain"),
            await site.host.tick("audit"),
        ]
        health = await site.host.get("health", "/api/health")

        assert await site.entries("orders-by-id", "refused") == []
    for answer in answers:
        assert not answer.ok
        assert "functionTimeout 00:00:02 is too short" in answer.exception["message"]
        assert (
            'set functionTimeout in host.json (or AzureFunctionsJobHost__functionTimeout) to "00:10:00"'
            in (answer.exception["message"])
        )
    assert health.value["http"]["status_code"] == "503"
    body = json.loads(health.value["http"]["body"]["bytes"])
    assert body["status"] == "refused"
    assert "too short" in body["problems"][0]["reason"]


async def test_a_misspelled_retry_strategy_fails_indexing_and_says_so(tmp_path: Path) -> None:
    """The host alone would drop all functions without a word (facts.md 5)."""
    app = copied(tmp_path)
    path = app / "projections" / "triggers.py"
    path.write_text(path.read_text().replace('"strategy": "exponential_backoff"', '"strategy": "exponentialBackoff"'))
    async with FunctionsHost({"COSMOS": NOBODY}, app) as host:
        assert not host.indexed["ok"]
        assert "there is no retry strategy 'exponentialBackoff'" in host.indexed["exception"]["message"]


async def test_without_unlimited_retries_a_batch_is_deferred_before_it_is_refused(tmp_path: Path) -> None:
    app = copied(tmp_path)
    path = app / "projections" / "triggers.py"
    path.write_text(path.read_text().replace('"max_retry_count": "-1"', '"max_retry_count": "5"'))
    async with Site() as site:
        await site.put("orders", "customerId", order("unheld"))
        settings = site.settings | {"PROJECTIONS_CATALOG": "projections.example:catalog"}
        async with FunctionsHost(settings, app) as host:
            answer = await host.deliver("orders-by-id-1", await site.feed("orders", "unheld"))
        (deferral,) = await site.letters("unheld")
        assert not answer.ok
        assert "a retry policy that ends" in answer.exception["message"]
        assert deferral["projection"] == "orders-by-id@1 deferred"

        assert (await site.host.tick("drain")).ok  # the app as it should be
        assert len(await site.entries("orders-by-id", "unheld")) == 1
        assert await site.letters("unheld") == []


# the timers


async def test_audit_finds_nothing_to_do_where_all_is_young(site: Site) -> None:
    assert (await site.host.tick("audit")).ok
    assert (await site.host.tick("drain")).ok
    line = next(line for line in reversed(site.host.log.splitlines()) if "projections: audited" in line)
    assert json.loads(line.partition("audited ")[2])["repaired"] == {}


async def test_what_is_no_item_is_refused(site: Site) -> None:
    answer = await site.host.deliver("orders-by-id-1", [{"current": {}, "metadata": {"operationType": "delete"}}])

    assert not answer.ok
    assert "no item" in answer.exception["message"]
