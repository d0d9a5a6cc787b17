"""Requests on items: which operation they are, and the reply."""

from __future__ import annotations

from projections.emulator import batch, charges, feed, items, queries, rids, sessions
from projections.emulator.account import Account
from projections.emulator.catalog import Container
from projections.emulator.errors import STALE_CONTAINER, ServiceError, bad_request, key_mismatch, not_found
from projections.emulator.exchange import Reply, Request
from projections.emulator.items import Answer, Preconditions, change
from projections.emulator.jsontext import document_of, from_json
from projections.emulator.keys import Key, key_from_header, key_of
from projections.emulator.scopes import KEY_HEADER

RETURN_MINIMAL = "return=minimal"


def check_headers(container: Container, request: Request) -> None:
    """What every request below a container has to get right."""
    headers = request.headers
    intended = headers.get("x-ms-cosmos-intended-collection-rid")
    if intended is not None and intended != container.rid:
        raise ServiceError(
            400, "The container was deleted and created anew: its resource id has changed.", STALE_CONTAINER
        )
    session = headers.get("x-ms-session-token")
    if session:
        sessions.check(session)


def on_feed(account: Account, container: Container, request: Request) -> Reply:
    """GET .../docs: the change feed, or all items."""
    if feed.FEED_HEADER in request.headers:
        return feed.read(account.storage, container, request)
    return queries.QueryRun(account.storage, container, request, account.queries).read_all()


def on_post(account: Account, container: Container, request: Request) -> Reply:
    """POST .../docs: a query, a plan, a batch, an upsert or a create."""
    kind = request.headers.get("content-type", "").lower()
    if request.flag("x-ms-cosmos-is-query-plan-request"):
        return queries.plan(container, request)
    if request.flag("x-ms-documentdb-isquery") or request.flag("x-ms-documentdb-query") or "query+json" in kind:
        return queries.QueryRun(account.storage, container, request, account.queries).query()
    if request.flag("x-ms-cosmos-is-batch-request"):
        return _batch(account, container, request)
    document = document_of(request.body)
    key = _key(container, request)
    when = _preconditions(request)
    with change(account.storage, container) as one:
        if request.flag("x-ms-documentdb-is-upsert"):
            operation, answer = "upsert_item", one.upsert(key, document, when)
        else:
            operation, answer = "create_item", one.create(key, document, when)
    return _written(operation, container, request, key or key_of(container.key, document), answer)


def on_read(account: Account, container: Container, request: Request, item_id: str) -> Reply:
    """GET .../docs/z"""
    key = _required_key(container, request)
    found = account.storage.item(container.number, key.epk, item_id)
    if found is None or items.expired(found, container, items.milliseconds()):
        raise not_found(f"item {item_id}")
    size = len(found.body)
    if request.headers.get("if-none-match") == found.etag:
        return _reply("read_item", container, key, Answer(304, b"", found.etag, charges.point_read(0)))
    return _reply("read_item", container, key, Answer(200, found.body, found.etag, charges.point_read(size)))


def on_replace(account: Account, container: Container, request: Request, item_id: str) -> Reply:
    """PUT .../docs/z"""
    document = document_of(request.body)
    key = _key(container, request)
    with change(account.storage, container) as one:
        answer = one.replace(key, item_id, document, _preconditions(request))
    return _written("replace_item", container, request, key or key_of(container.key, document), answer)


def on_patch(account: Account, container: Container, request: Request, item_id: str) -> Reply:
    """PATCH .../docs/z"""
    key = _required_key(container, request)
    operations = from_json(request.body)
    with change(account.storage, container) as one:
        answer = one.patch(key, item_id, operations, _preconditions(request))
    return _written("patch_item", container, request, key, answer)


def on_delete(account: Account, container: Container, request: Request, item_id: str) -> Reply:
    """DELETE .../docs/z"""
    key = _required_key(container, request)
    with change(account.storage, container) as one:
        answer = one.delete(key, item_id, _preconditions(request))
    return _reply("delete_item", container, key, answer)


def on_delete_key(account: Account, container: Container, request: Request) -> Reply:
    """POST .../operations/partitionkeydelete"""
    key = _required_key(container, request)
    with change(account.storage, container) as one:
        one.delete_key(key)
    return _reply("delete_partition_key", container, key, Answer(200, b"", "", 1.0))


def item_id_of_rid(account: Account, container: Container, rid: str) -> str:
    """The id behind a ``_self`` link."""
    sequence = rids.sequence_of(container.raw_rid, rid)
    found = None if sequence is None else account.storage.id_at(container.number, sequence)
    if found is None:
        raise not_found(f"item {rid}")
    return found


def _batch(account: Account, container: Container, request: Request) -> Reply:
    if request.headers.get("x-ms-cosmos-batch-atomic", "true").lower() != "true":
        raise bad_request("A batch that is not atomic is not supported by this emulator.")
    key = _required_key(container, request)
    status, body, charge = batch.run(account.storage, container, key, request.body)
    return _reply("batch", container, key, Answer(status, body, "", charge))


def _key(container: Container, request: Request) -> Key | None:
    text = request.headers.get(KEY_HEADER)
    return None if text is None else key_from_header(container.key, text)


def _required_key(container: Container, request: Request) -> Key:
    key = _key(container, request)
    if key is None:
        raise bad_request("PartitionKey value must be supplied for this operation.")
    if not key.full:
        raise key_mismatch()
    return key


def _preconditions(request: Request) -> Preconditions:
    return Preconditions(request.headers.get("if-match"), request.headers.get("if-none-match"))


def _written(operation: str, container: Container, request: Request, key: Key, answer: Answer) -> Reply:
    """The reply to a write, without body for clients that want none."""
    reply = _reply(operation, container, key, answer)
    if request.headers.get("prefer", "").lower() == RETURN_MINIMAL:
        reply.body = b""
    return reply


def _reply(operation: str, container: Container, key: Key, answer: Answer) -> Reply:
    headers = {"etag": answer.etag} if answer.etag else {}
    ranges = (container.partitions.find(key.epk).id,)
    return Reply(operation, answer.status, answer.body, answer.charge, headers, container, ranges)
