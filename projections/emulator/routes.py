"""From method and path to the handler."""

from __future__ import annotations

from projections.emulator import documents, metadata
from projections.emulator.account import Account
from projections.emulator.catalog import Container
from projections.emulator.errors import OWNER_NOT_FOUND, ServiceError, bad_request, not_found, unsupported
from projections.emulator.exchange import Reply, Request
from projections.emulator.rids import is_database_rid

BUCKET_HEADER = "x-ms-cosmos-throughput-bucket"
_BUCKETS = frozenset("12345")
_UNSUPPORTED = {
    "sprocs": "A stored procedure",
    "triggers": "A trigger",
    "udfs": "A user-defined function",
    "users": "A user",
    "permissions": "A permission",
    "clientencryptionkeys": "A client encryption key",
    "attachments": "An attachment",
    "schemas": "A schema",
}


def dispatch(account: Account, request: Request) -> Reply:
    """Runs a request; a refusal comes as a ServiceError."""
    bucket = request.headers.get(BUCKET_HEADER)
    if bucket is not None and bucket not in _BUCKETS:
        raise bad_request(f"The value '{bucket}' specified for the header '{BUCKET_HEADER}' is invalid.")
    match request.path:
        case ():
            return _account(request)
        case ("dbs", *rest):
            return _databases(account, request, rest)
        case ("offers",):
            return metadata.list_offers(account, _only(request, "GET", "POST"))
        case ("offers", rid):
            if request.method == "PUT":
                return metadata.replace_offer(account, rid, request)
            _only(request, "GET")
            return metadata.read_offer(account, rid)
    raise not_found("/" + "/".join(request.path))


def _account(request: Request) -> Reply:
    return metadata.read_account(_only(request, "GET"))


def _databases(account: Account, request: Request, rest: list[str]) -> Reply:
    if not rest:
        if request.method == "POST" and not _is_query(request):
            return metadata.create_database(account, request)
        return metadata.list_databases(account, _only(request, "GET", "POST"))
    if len(rest) == 1:
        database = account.catalog.database(rest[0])
        if request.method == "DELETE":
            return metadata.delete_database(account, database, request)
        _only(request, "GET")
        return metadata.read_database(database)
    if rest[1] != "colls":
        raise _no_route(request, rest[1])
    if len(rest) > 2:
        return _containers(account, request, account.catalog.container(rest[0], rest[2]), rest)
    try:
        database = account.catalog.database(rest[0])
    except ServiceError:
        raise not_found(f"database {rest[0]}", OWNER_NOT_FOUND) from None
    if request.method == "POST" and not _is_query(request):
        return metadata.create_container(account, database, request)
    return metadata.list_containers(database, _only(request, "GET", "POST"))


def _containers(account: Account, request: Request, container: Container, rest: list[str]) -> Reply:
    match rest[3:]:
        case []:
            return _container(account, request, container)
        case ["docs", *item]:
            documents.check_headers(container, request)
            if len(item) > 1:
                raise _no_route(request, item[1])
            account.throttle.admit(container, request)
            if not item:
                return account.throttle.spend(_items(account, request, container))
            by_rid = is_database_rid(rest[0])
            item_id = documents.item_id_of_rid(account, container, item[0]) if by_rid else item[0]
            return account.throttle.spend(_item(account, request, container, item_id))
        case ["pkranges"]:
            documents.check_headers(container, request)
            return metadata.read_ranges(container, _only(request, "GET"))
        case ["conflicts", *conflict]:
            return metadata.conflicts(container, _only(request, "GET", "POST", "DELETE"), conflict)
        case ["operations", "partitionkeydelete"]:
            documents.check_headers(container, request)
            return documents.on_delete_key(account, container, _only(request, "POST"))
        case [name, *_]:
            raise _no_route(request, name)
    raise not_found("/" + "/".join(request.path))


def _container(account: Account, request: Request, container: Container) -> Reply:
    match request.method:
        case "GET":
            return metadata.read_container(account, container, request)
        case "PUT":
            return metadata.replace_container(account, container, request)
        case "DELETE":
            return metadata.delete_container(account, container, request)
    raise _not_allowed(request)


def _items(account: Account, request: Request, container: Container) -> Reply:
    match request.method:
        case "GET":
            return documents.on_feed(account, container, request)
        case "POST":
            return documents.on_post(account, container, request)
    raise _not_allowed(request)


def _item(account: Account, request: Request, container: Container, item_id: str) -> Reply:
    match request.method:
        case "GET":
            return documents.on_read(account, container, request, item_id)
        case "PUT":
            return documents.on_replace(account, container, request, item_id)
        case "PATCH":
            return documents.on_patch(account, container, request, item_id)
        case "DELETE":
            return documents.on_delete(account, container, request, item_id)
    raise _not_allowed(request)


def _is_query(request: Request) -> bool:
    kind = request.headers.get("content-type", "").lower()
    return request.flag("x-ms-documentdb-isquery") or request.flag("x-ms-documentdb-query") or "query+json" in kind


def _only(request: Request, *methods: str) -> Request:
    if request.method not in methods:
        raise _not_allowed(request)
    return request


def _not_allowed(request: Request) -> ServiceError:
    return ServiceError(405, f"The method {request.method} is not allowed for /{'/'.join(request.path)}.")


def _no_route(request: Request, name: str) -> ServiceError:
    what = _UNSUPPORTED.get(name)
    return unsupported(what) if what else bad_request(f"The path /{'/'.join(request.path)} is not known.")
