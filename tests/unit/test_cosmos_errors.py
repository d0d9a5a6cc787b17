"""What every answer of the service means to the worker; nothing of the SDK gets past the one table."""

from __future__ import annotations

import pytest
from aiohttp import ClientConnectionError
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError
from azure.cosmos.http_constants import StatusCodes

from projections.cosmos import ERRORS, translate
from projections.errors import (
    ConflictError,
    FatalError,
    IdentityError,
    ItemError,
    MissingContainerError,
    PartitionFullError,
    ThrottledError,
    TooLargeError,
    TransientError,
    UnauthorizedError,
)


def answer(status: int, sub_status: int | None = None, **headers: str) -> CosmosHttpResponseError:
    error = CosmosHttpResponseError(status_code=status, message="a body that may hold a document")
    error.sub_status = sub_status
    error.headers = headers
    return error


@pytest.mark.parametrize(
    ("status", "sub_status", "meaning"),
    [
        (400, None, ItemError), (401, None, UnauthorizedError), (403, None, UnauthorizedError),
        (403, 5300, IdentityError), (403, 3, TransientError), (403, 1008, TransientError),
        (403, 1014, PartitionFullError), (404, None, ConflictError), (404, 1002, TransientError),
        (404, 1003, MissingContainerError), (408, None, TransientError), (409, None, ConflictError),
        (410, 1002, TransientError), (412, 1110, ConflictError), (413, None, TooLargeError),
        (424, None, ConflictError), (429, 3200, ThrottledError), (449, None, TransientError),
        (500, None, TransientError), (503, 21015, TransientError),
    ],
)  # fmt: skip
def test_an_answer_means_what_the_table_says(status: int, sub_status: int | None, meaning: type[Exception]) -> None:
    assert type(translate(answer(status, sub_status))) is meaning


def test_the_table_knows_every_failure_that_the_sdk_knows() -> None:
    """All but those that a client of ours cannot get: they name no mistake of an item, and stop the worker."""
    known = {v for n, v in vars(StatusCodes).items() if n.isupper() and isinstance(v, int) and v >= 400}
    cannot_be = {405, 406, 501, 422}  # a method or a form of answer that the SDK never asks for
    assert known - cannot_be <= {status for status, _ in ERRORS} | {v for v in known if v > 599}


def test_an_answer_that_nobody_knows_stops_the_worker() -> None:
    assert type(translate(answer(418))) is FatalError
    assert type(translate(RuntimeError("?"))) is FatalError


@pytest.mark.parametrize(
    "error",
    [
        ServiceRequestError("x"),
        ServiceResponseError("x"),
        ClientConnectionError(),
        ConnectionResetError(),
        TimeoutError(),
    ],
)
def test_no_answer_is_worth_another_try(error: Exception) -> None:
    assert type(translate(error)) is TransientError


def test_credentials_that_cannot_be_had_are_not_worth_another_try() -> None:
    assert type(translate(ClientAuthenticationError("x"))) is UnauthorizedError


def test_the_time_to_wait_is_kept_in_seconds() -> None:
    found = translate(answer(429, **{"x-ms-retry-after-ms": "120"}))
    assert isinstance(found, ThrottledError)
    assert found.retry_after == 0.12


def test_a_failed_batch_is_read_like_a_failed_call() -> None:
    error = CosmosBatchOperationError(error_index=3, headers={}, status_code=412, message="m", operation_responses=[])
    assert type(translate(error)) is ConflictError


def test_what_the_service_said_is_not_passed_on() -> None:
    """Its text may quote a document."""
    assert "document" not in str(translate(answer(400)))


def test_a_managed_identity_that_may_not_create_is_told_so() -> None:
    assert "create them beforehand" in str(translate(answer(403, 5300)).hint)
