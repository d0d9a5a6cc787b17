"""Transactional batches: up to 100 operations on one logical partition, all or none."""

from __future__ import annotations

from typing import Any

from projections.emulator.catalog import Container
from projections.emulator.errors import ServiceError, bad_request, key_mismatch
from projections.emulator.items import Answer, Change, Preconditions, change
from projections.emulator.jsontext import from_json, to_json
from projections.emulator.keys import Key
from projections.emulator.storage import Storage

MAX_OPERATIONS = 100
MAX_BYTES = 2 * 1024 * 1024
FAILED_DEPENDENCY = 424


class _FailedError(Exception):
    def __init__(self, index: int, error: ServiceError) -> None:
        self.index = index
        self.error = error


def run(storage: Storage, container: Container, key: Key, body: bytes) -> tuple[int, bytes, float]:
    """Status, body and charge of a batch: 200, or 207 with the failure in its place and 424 around it."""
    if len(body) > MAX_BYTES:
        raise ServiceError(413, "Request size is too large: a batch may have 2 MB at most.")
    operations = _operations(from_json(body))
    if not key.full:
        raise key_mismatch()
    results: list[bytes] = []
    charge = 0.0
    try:
        with change(storage, container) as one:
            for index, operation in enumerate(operations):
                answer = _run_one(one, key, index, operation)
                charge += answer.charge
                results.append(_result(answer))
    except _FailedError as failed:
        return 207, _failure(len(operations), failed), max(1.0, round(charge, 2))
    return 200, b"[" + b",".join(results) + b"]", round(charge, 2)


def _operations(body: Any) -> list[dict[str, Any]]:
    if not isinstance(body, list) or not all(isinstance(one, dict) for one in body):
        raise bad_request("A batch has to be an array of operations.")
    if not body:
        raise bad_request("Batch request has no operations.")
    if len(body) > MAX_OPERATIONS:
        raise bad_request("Batch request has more operations than what is supported.")
    return body


def _run_one(one: Change, key: Key, index: int, operation: dict[str, Any]) -> Answer:
    try:
        answer = _dispatch(one, key, operation)
    except ServiceError as error:
        raise _FailedError(index, error) from None
    return answer


def _dispatch(one: Change, key: Key, operation: dict[str, Any]) -> Answer:
    when = Preconditions(operation.get("ifMatch"), operation.get("ifNoneMatch"))
    document = operation.get("resourceBody")
    match operation.get("operationType"):
        case "Create":
            return one.create(key, document, when)
        case "Upsert":
            return one.upsert(key, document, when)
        case "Read":
            return one.read(key, _id(operation), when)
        case "Delete":
            return one.delete(key, _id(operation), when)
        case "Replace":
            return one.replace(key, _id(operation), document, when)
        case "Patch":
            return one.patch(key, _id(operation), document, when)
        case other:
            raise bad_request(f"The batch operation '{other}' is not known.")


def _id(operation: dict[str, Any]) -> str:
    item_id = operation.get("id")
    if not isinstance(item_id, str) or not item_id:
        raise bad_request("A batch operation on an item needs its id.")
    return item_id


def _result(answer: Answer) -> bytes:
    parts = [b'{"statusCode":%d,"requestCharge":%.2f' % (answer.status, answer.charge)]
    if answer.etag:
        parts.append(b',"eTag":' + to_json(answer.etag))
    if answer.body:
        parts.append(b',"resourceBody":' + answer.body)
    parts.append(b"}")
    return b"".join(parts)


def _failure(count: int, failed: _FailedError) -> bytes:
    results: list[dict[str, Any]] = [{"statusCode": FAILED_DEPENDENCY, "requestCharge": 0.0} for _ in range(count)]
    at = results[failed.index]
    at["statusCode"] = failed.error.status
    at["message"] = failed.error.message
    if failed.error.substatus:
        at["subStatusCode"] = failed.error.substatus
    return to_json(results)
