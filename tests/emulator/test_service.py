"""What every request meets: the signature, the common headers, the limits of what is served; never a 500."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import aiohttp
import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.aio import ContainerProxy, CosmosClient, DatabaseProxy
from azure.cosmos.exceptions import CosmosHttpResponseError

from projections.emulator import EMULATOR_KEY, Emulator

from .conftest import Call, listed

DOCS = "/dbs/shop/colls/items/docs"
KEY_A = {"x-ms-documentdb-partitionkey": '["a"]'}


async def test_the_account_names_the_address_it_was_reached_by(emulator: Emulator, call: Call) -> None:
    answer = await call("GET", "/")
    assert answer.json["writableLocations"][0]["databaseAccountEndpoint"] == emulator.url
    assert answer.json["userConsistencyPolicy"]["defaultConsistencyLevel"] == "Session"
    named = await call("GET", "/", headers={"Host": "cosmos.test:1234"})
    assert named.json["readableLocations"][0]["databaseAccountEndpoint"] == "http://cosmos.test:1234/"
    assert emulator.connection_string == f"AccountEndpoint={emulator.url};AccountKey={EMULATOR_KEY};"


@pytest.mark.parametrize(
    "authorization",
    [None, "", "x", "type%3Dmaster%26ver%3D1.0%26sig%3Dxxxx", "type%3Daad%26ver%3D1.0%26sig%3Dxxxx"],
)
async def test_a_request_without_a_good_signature_is_a_401(emulator: Emulator, authorization: str | None) -> None:
    headers = {"x-ms-date": "Mon, 30 Nov 2026 09:38:27 GMT"}
    if authorization is not None:
        headers["authorization"] = authorization
    async with (
        aiohttp.ClientSession() as session,
        session.get(emulator.url + "dbs", headers=headers) as response,
    ):
        assert response.status == 401
        assert (await response.json())["code"] == "Unauthorized"


async def test_another_key_is_a_401(emulator: Emulator) -> None:
    client = CosmosClient(emulator.url, EMULATOR_KEY[:-4] + "AA==")
    with pytest.raises(CosmosHttpResponseError) as refused:
        await client.__aenter__()
    await client.close()
    assert refused.value.status_code == 401


async def test_names_of_any_script_are_signed_and_found(client: CosmosClient) -> None:
    database = await client.create_database("dö b+c 日本")
    container = await database.create_container("c ä%20&=", PartitionKey("/pk"))
    await container.create_item({"id": "né +%2F 日本", "pk": "ключ"})
    assert (await container.read_item("né +%2F 日本", "ключ"))["pk"] == "ключ"
    assert [one["id"] for one in await listed(container.query_items_change_feed(start_time="Beginning"))]


async def test_every_answer_below_a_container_says_where_and_how_much(container: ContainerProxy, call: Call) -> None:
    rid = (await container.read())["_rid"]
    made = await call("POST", DOCS, {"id": "1", "pk": "a"}, KEY_A | {"x-ms-activity-id": "my-activity"})
    headers = made.headers
    assert headers["x-ms-activity-id"] == "my-activity"
    assert float(headers["x-ms-request-charge"]) > 0
    assert headers["content-type"].startswith("application/json")
    assert headers["x-ms-session-token"] == "0:-1#1"
    assert headers["x-ms-documentdb-partitionkeyrangeid"] == "0"
    assert headers["lsn"] == "1"
    assert headers["x-ms-alt-content-path"] == "dbs/shop/colls/items"
    assert headers["x-ms-content-path"] == rid
    assert headers["etag"] == made.json["_etag"]


async def test_a_client_asks_for_the_ranges_once(container: ContainerProxy, emulator: Emulator) -> None:
    """An answer without its range id makes the SDK drop its routing map after each write."""
    for n in range(20):
        await container.upsert_item({"id": str(n), "pk": "a"})
        await container.read_item(str(n), "a")
    assert emulator.statistics.requests["read_ranges"] <= 2
    assert emulator.statistics.total_requests < 50


async def test_compound_session_tokens_are_taken_and_broken_ones_refused(container: ContainerProxy, call: Call) -> None:
    await container.create_item({"id": "1", "pk": "a"})
    for token, status in (("0:-1#29,2:-1#30,1:-1#23", 200), ("0:1#9#4=8#5=7", 200), ("nonsense", 400)):
        answer = await call("GET", f"{DOCS}/1", headers=KEY_A | {"x-ms-session-token": token})
        assert answer.status == status


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("POST", "/dbs/shop/colls/items/sprocs", 400, "stored procedure is not supported"),
        ("GET", "/dbs/shop/colls/items/triggers", 400, "trigger is not supported"),
        ("POST", "/dbs/shop/colls/items/udfs", 400, "user-defined function is not supported"),
        ("GET", "/dbs/shop/users", 400, "user is not supported"),
        ("GET", "/dbs/shop/colls/items/docs/1/attachments", 400, "attachment is not supported"),
        ("GET", "/dbs/shop/colls/items/conflicts", 200, '"Conflicts":[]'),
        ("GET", "/dbs/shop/colls/items/conflicts/x", 404, "conflict"),
        ("GET", "/nothing", 404, "nothing"),
        ("DELETE", "/dbs", 405, "not allowed"),
        ("PUT", "/dbs/shop", 405, "not allowed"),
        ("PATCH", "/dbs/shop/colls/items", 405, "not allowed"),
        ("GET", "/dbs/shop/colls/items/pkranges", 200, "PartitionKeyRanges"),
        ("GET", "/offers/xxxx", 404, "offer"),
    ],
)
async def test_what_is_not_there_says_so(
    container: ContainerProxy, call: Call, method: str, path: str, status: int, says: str
) -> None:
    answer = await call(method, path)
    assert answer.status == status
    assert says in answer.body.decode()


async def test_a_throughput_bucket_is_1_to_5(container: ContainerProxy, call: Call) -> None:
    await container.create_item({"id": "1", "pk": "a"})
    for bucket, status in (("1", 200), ("5", 200), ("0", 400), ("256", 400), ("x", 400)):
        answer = await call("GET", f"{DOCS}/1", headers=KEY_A | {"x-ms-cosmos-throughput-bucket": bucket})
        assert answer.status == status


async def test_statistics_count_requests_and_charge(container: ContainerProxy, emulator: Emulator) -> None:
    emulator.statistics.clear()
    await container.create_item({"id": "1", "pk": "a"})
    await container.read_item("1", "a")
    await container.read_item("1", "a")
    assert emulator.statistics.requests["read_item"] == 2
    assert emulator.statistics.charges["read_item"] == pytest.approx(2.0)
    assert emulator.statistics.charges["create_item"] > 4


VALUES: list[Any] = [None, True, -1, 0, 1, 2.5, 10**30, "", "x", "/a", "/*", "ü\ud800", [], [1], ["/a"], {}, {"a": 1}]


async def test_no_body_and_no_header_makes_it_fail(container: ContainerProxy, emulator: Emulator, call: Call) -> None:
    """Random bodies and headers on every route: refused or served, never a 500."""
    chance = random.Random(11)
    names = {
        "/dbs": ["id"],
        "/dbs/shop/colls": [
            *("id", "partitionKey", "indexingPolicy", "uniqueKeyPolicy", "defaultTtl", "changeFeedPolicy"),
            *("conflictResolutionPolicy", "computedProperties"),
        ],
        DOCS: ["id", "pk", "ttl", "query", "parameters", "x"],
        f"{DOCS}/1": ["id", "pk", "operations", "condition", "ttl"],
        "/offers": ["query", "parameters"],
    }
    headers = {
        "x-ms-documentdb-partitionkey": ["[]", "[1]", '["a"]', "{}", "[[]]", "x", "[1e999]", '["\\ud800"]'],
        "x-ms-max-item-count": ["-1", "0", "x", "9" * 30],
        "x-ms-continuation": ["x", "W10=", "-RID:x", "9" * 30],
        "x-ms-documentdb-isquery": ["true", "x"],
        "x-ms-cosmos-is-batch-request": ["true"],
        "x-ms-documentdb-is-upsert": ["true"],
        "x-ms-cosmos-is-query-plan-request": ["True"],
        "x-ms-documentdb-query-enablecrosspartition": ["true"],
        "x-ms-offer-throughput": ["x", "-1", "400", "99999999999"],
        "x-ms-cosmos-offer-autopilot-settings": ["x", "[]", "{}", '{"maxThroughput":"x"}', '{"autoUpgradePolicy":1}'],
        "A-IM": ["Incremental Feed", "Full-Fidelity Feed", "x"],
        "If-None-Match": ["*", '"x"', "9" * 30],
        "If-Match": ["*", '"x"'],
        "If-Modified-Since": ["x", "Mon, 99 Nov 2026 09:38:27 GMT"],
        "x-ms-read-key-type": ["EffectivePartitionKeyRange"],
        "x-ms-start-epk": ["zz", "00"],
        "x-ms-end-epk": ["", "FF"],
        "x-ms-documentdb-partitionkeyrangeid": ["0", "9", ","],
        "x-ms-session-token": ["0:-1#1", "x"],
    }
    for _ in range(400):
        path = chance.choice(list(names))
        fields = chance.sample(names[path], chance.randint(0, len(names[path])))
        body: Any = {name: chance.choice(VALUES) for name in fields}
        if chance.random() < 0.2:
            body = [{"operationType": chance.choice(["Create", "Read", "Patch", "x", 5]), "id": chance.choice(VALUES)}]
            body[0]["resourceBody"] = chance.choice(VALUES)
        sent = {name: chance.choice(headers[name]) for name in chance.sample(list(headers), 4)}
        method = chance.choice(["GET", "POST", "PUT", "PATCH"])
        answer = await call(method, path, json.dumps(body).encode(), sent)
        assert answer.status < 500, (method, path, body, sent, answer.body)
    assert not [one for one in emulator.statistics.statuses if one[1] >= 500]


async def test_a_client_that_waits_for_100_continue_gets_it(container: ContainerProxy, emulator: Emulator) -> None:
    async with aiohttp.ClientSession() as session:
        request = session.post(emulator.url + "dbs", data=b"{}", expect100=True)
        async with asyncio.timeout(60), request as response:
            assert response.status == 401


async def test_https_serves_with_a_certificate_of_its_own(database: DatabaseProxy) -> None:
    async with Emulator(https=True) as secure, CosmosClient(secure.url, EMULATOR_KEY) as client:
        assert secure.url.startswith("https://127.0.0.1:")
        assert (await client.create_database("x")).id == "x"
