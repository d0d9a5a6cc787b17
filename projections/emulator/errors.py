"""What the service says when it refuses: an HTTP status, a code word, a sub-status and a message."""

from __future__ import annotations

import json

CODES = {
    304: "NotModified",
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    409: "Conflict",
    410: "Gone",
    412: "PreconditionFailed",
    413: "RequestEntityTooLarge",
    424: "FailedDependency",
    429: "TooManyRequests",
    449: "RetryWith",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}

KEY_MISMATCH = 1001
RANGE_GONE = 1002
OWNER_NOT_FOUND = 1003
CROSS_PARTITION_NOT_SERVABLE = 1004
STALE_CONTAINER = 1024
CONDITION_FALSE = 1110

KEY_MISMATCH_TEXT = (
    "Partition key provided either doesn't correspond to definition in the collection or doesn't match "
    "partition key field values specified in the document."
)


class ServiceError(Exception):
    """A refusal of the service, as it goes to the client."""

    def __init__(
        self, status: int, message: str, substatus: int = 0, headers: dict[str, str] | None = None, charge: float = 1.0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.substatus = substatus
        self.headers = headers or {}
        self.charge = charge

    @property
    def code(self) -> str:
        """The code word of the body, such as ``NotFound``."""
        return CODES.get(self.status, "Error")

    def body(self) -> bytes:
        """The JSON body: SDKs read ``code`` and ``message`` from it."""
        return json.dumps({"code": self.code, "message": self.message}).encode()


def bad_request(message: str, substatus: int = 0) -> ServiceError:
    """400: the request itself is wrong."""
    return ServiceError(400, message, substatus)


def unsupported(what: str) -> ServiceError:
    """400: the service has it, this emulator does not."""
    return ServiceError(400, f"{what} is not supported by this emulator.")


def not_found(what: str, substatus: int = 0) -> ServiceError:
    """404: the resource, or with 1003 its parent, does not exist."""
    return ServiceError(404, f"Entity with the specified id does not exist in the system: {what}", substatus)


def conflict(message: str = "Entity with the specified id already exists in the system.") -> ServiceError:
    """409: the id or a unique key is taken."""
    return ServiceError(409, message)


def precondition_failed(message: str, substatus: int = 0) -> ServiceError:
    """412: an If-Match or a patch condition does not hold."""
    return ServiceError(412, message, substatus)


def key_mismatch() -> ServiceError:
    """400/1001: the partition key header does not fit the container or the document."""
    return ServiceError(400, KEY_MISMATCH_TEXT, KEY_MISMATCH)


def range_gone(range_id: str) -> ServiceError:
    """410/1002: the partition range was split (or never existed); the client refreshes its routing map."""
    return ServiceError(410, f"The requested partition key range {range_id} is gone.", RANGE_GONE)
