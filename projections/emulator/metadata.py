"""The account, databases, containers, partition ranges and offers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from projections.emulator import charges, offers
from projections.emulator.account import Account
from projections.emulator.catalog import Container, Database
from projections.emulator.errors import bad_request, not_found, precondition_failed
from projections.emulator.exchange import Reply, Request, feed_body
from projections.emulator.jsontext import from_json, to_json
from projections.emulator.queries import CROSS_PARTITION_HEADER, CROSS_PARTITION_TEXT, parse_body
from projections.emulator.query import QueryError, compile_query
from projections.emulator.scopes import KEY_HEADER

REGION = "Local"
_QUERY_ENGINE = {
    "maxSqlQueryInputLength": 262144,
    "maxJoinsPerSqlQuery": 10,
    "maxLogicalAndPerSqlQuery": 2000,
    "maxLogicalOrPerSqlQuery": 2000,
    "maxUdfRefPerSqlQuery": 10,
    "maxInExpressionItemsCount": 16000,
    "queryMaxGroupByTableCellCount": 500000,
    "queryMaxInMemorySortDocumentCount": 500,
    "maxQueryRequestTimeoutFraction": 0.9,
    "sqlAllowNonFiniteNumbers": False,
    "sqlAllowAggregateFunctions": True,
    "sqlAllowSubQuery": True,
    "sqlAllowScalarSubQuery": True,
    "allowNewKeywords": True,
    "sqlAllowLike": True,
    "sqlAllowGroupByClause": True,
    "sqlAllowTop": True,
    "enableSpatialIndexing": False,
}


def read_account(request: Request) -> Reply:
    """What a client asks first. All later requests go to the address it finds here: the one it came by."""
    here = [{"name": REGION, "databaseAccountEndpoint": request.base_url}]
    replication = {"asyncReplication": False, "minReplicaSetSize": 1, "maxReplicasetSize": 4}
    body = {
        "_self": "",
        "id": "emulator",
        "_rid": "emulator.documents.local",
        "media": "//media/",
        "addresses": "//addresses/",
        "_dbs": "//dbs/",
        "writableLocations": here,
        "readableLocations": here,
        "enableMultipleWriteLocations": False,
        "userReplicationPolicy": replication,
        "userConsistencyPolicy": {"defaultConsistencyLevel": "Session"},
        "systemReplicationPolicy": replication,
        "readPolicy": {"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
        "queryEngineConfiguration": json.dumps(_QUERY_ENGINE),
    }
    return Reply("read_account", body=to_json(body))


# -- databases --


def create_database(account: Account, request: Request) -> Reply:
    """POST /dbs"""
    sent = _object(request)
    made = account.catalog.create_database(sent, offers.content_from_headers(request.headers))
    return _single("create_database", 201, made.body, charges.METADATA_WRITE)


def read_database(database: Database) -> Reply:
    """GET /dbs/x"""
    return _single("read_database", 200, database.body, charges.METADATA_READ)


def delete_database(account: Account, database: Database, request: Request) -> Reply:
    """DELETE /dbs/x"""
    _check_match(database.body, request)
    account.catalog.delete_database(database)
    return Reply("delete_database", 204, charge=charges.METADATA_WRITE)


def list_databases(account: Account, request: Request) -> Reply:
    """GET /dbs, or a query over them."""
    bodies = [one.body for one in account.catalog.databases.values()]
    return _listed("list_databases", "", "Databases", bodies, request)


# -- containers --


def create_container(account: Account, database: Database, request: Request) -> Reply:
    """POST /dbs/x/colls"""
    sent = _object(request)
    made = account.catalog.create_container(database, sent, offers.content_from_headers(request.headers))
    return _container("create_container", 201, made, charges.METADATA_WRITE)


def read_container(account: Account, container: Container, request: Request) -> Reply:
    """GET /dbs/x/colls/y, with quota and statistics where asked for."""
    reply = _container("read_container", 200, container, charges.METADATA_READ)
    quota = request.flag("x-ms-documentdb-populatequotainfo")
    statistics = request.flag("x-ms-documentdb-populatepartitionstatistics")
    if not quota and not statistics:
        return reply
    count, size = account.storage.count(container.number)
    if quota:
        reply.headers["x-ms-resource-quota"] = (
            "documentSize=10240;documentsSize=10485760;documentsCount=-1;collectionSize=10485760;"
        )
        reply.headers["x-ms-resource-usage"] = (
            f"documentSize={size // 1024};documentsSize={size // 1024};documentsCount={count};"
            f"collectionSize={size // 1024};"
        )
    if statistics:
        ranges = container.partitions.live
        each = {"sizeInKB": size // 1024 // len(ranges), "documentCount": count // len(ranges), "partitionKeys": []}
        reply.body = to_json(container.body | {"statistics": [{"id": one.id} | each for one in ranges]})
    return reply


def replace_container(account: Account, container: Container, request: Request) -> Reply:
    """PUT /dbs/x/colls/y"""
    _check_match(container.body, request)
    account.catalog.replace_container(container, _object(request))
    return _container("replace_container", 200, container, charges.METADATA_WRITE)


def delete_container(account: Account, container: Container, request: Request) -> Reply:
    """DELETE /dbs/x/colls/y"""
    _check_match(container.body, request)
    account.catalog.delete_container(container)
    return Reply("delete_container", 204, charge=charges.METADATA_WRITE)


def list_containers(database: Database, request: Request) -> Reply:
    """GET /dbs/x/colls, or a query over them."""
    bodies = [one.body for one in database.containers.values()]
    return _listed("list_containers", database.rid, "DocumentCollections", bodies, request)


def read_ranges(container: Container, request: Request) -> Reply:
    """The routing map: all live ranges, or those that came after a version, and a literal 304 when there are none."""
    partitions = container.partitions
    etag = f'"{partitions.version}"'
    seen = request.headers.get("if-none-match")
    if seen == etag:
        return Reply("read_ranges", 304, charge=0.0, headers={"etag": etag}, container=container)
    try:
        version = int(seen.strip('"')) if seen is not None else 0
    except ValueError:
        version = 0
    share = 1 / len(partitions.live)
    listed = [
        {
            "_rid": container.rid,
            "id": one.id,
            "_etag": etag,
            "minInclusive": one.minimum,
            "maxExclusive": one.maximum,
            "ridPrefix": int(one.id),
            "_self": f"{container.link}pkranges/{one.id}/",
            "throughputFraction": share,
            "status": "online",
            "parents": list(one.parents),
            "_ts": container.body["_ts"],
            "_lsn": container.lsn,
        }
        for one in partitions.since(version)
    ]
    body = feed_body(container.rid, "PartitionKeyRanges", [to_json(one) for one in listed])
    headers = {"etag": etag, "x-ms-item-count": str(len(listed))}
    return Reply("read_ranges", body=body, headers=headers, container=container)


def conflicts(container: Container, request: Request, conflict: list[str]) -> Reply:
    """The conflicts feed, which is empty: only accounts with several write regions have conflicts."""
    if conflict:
        raise not_found(f"conflict {conflict[0]}")
    if request.method == "POST" and KEY_HEADER not in request.headers and not request.flag(CROSS_PARTITION_HEADER):
        raise bad_request(CROSS_PARTITION_TEXT)
    return _listed("list_conflicts", container.rid, "Conflicts", [], request)


# -- offers --


def list_offers(account: Account, request: Request) -> Reply:
    """GET /offers, or a query over them."""
    return _listed("list_offers", "", "Offers", account.catalog.offers.values(), request)


def read_offer(account: Account, rid: str) -> Reply:
    """GET /offers/r"""
    return _single("read_offer", 200, account.catalog.offer(rid), charges.METADATA_READ)


def replace_offer(account: Account, rid: str, request: Request) -> Reply:
    """PUT /offers/r: a new throughput, and a split where it needs more ranges."""
    changed = account.catalog.replace_offer(rid, _object(request))
    return _single("replace_offer", 200, changed, charges.METADATA_WRITE)


# -- parts --


def _object(request: Request) -> dict[str, Any]:
    sent = from_json(request.body)
    if not isinstance(sent, dict):
        raise bad_request("The request body has to be a JSON object.")
    return sent


def _check_match(body: dict[str, Any], request: Request) -> None:
    wanted = request.headers.get("if-match")
    if wanted is not None and wanted not in ("*", body["_etag"]):
        raise precondition_failed("Operation cannot be performed because one of the specified precondition is not met.")


def _single(operation: str, status: int, body: dict[str, Any], charge: float) -> Reply:
    return Reply(operation, status, to_json(body), charge, {"etag": body["_etag"]})


def _container(operation: str, status: int, container: Container, charge: float) -> Reply:
    reply = _single(operation, status, container.body, charge)
    reply.container = container
    reply.headers["x-ms-documentdb-collection-index-transformation-progress"] = "100"
    return reply


def _listed(operation: str, rid: str, name: str, bodies: Iterable[dict[str, Any]], request: Request) -> Reply:
    """A list in pages; queries over metadata run like those over items."""
    rows: list[Any] = list(bodies)
    if request.method == "POST":
        text, parameters = parse_body(request.body)
        try:
            rows = list(compile_query(text).bind(parameters).rows(rows))
        except QueryError as error:
            raise bad_request(str(error)) from None
    token = request.headers.get("x-ms-continuation", "")
    start = int(token) if token.isascii() and token.isdigit() else 0
    limit = request.number("x-ms-max-item-count", -1)
    end = start + limit if limit > 0 else len(rows)
    page = rows[start:end]
    headers = {"x-ms-item-count": str(len(page))}
    if end < len(rows):
        headers["x-ms-continuation"] = str(end)
    body = feed_body(rid, name, [to_json(one) for one in page])
    return Reply(operation, body=body, charge=charges.METADATA_READ, headers=headers)
