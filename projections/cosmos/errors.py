"""What errors of the SDK and of the network mean: one table, and nothing of them gets past it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeVar

from aiohttp import ClientError
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

from projections.errors import (
    ConflictError,
    FatalError,
    IdentityError,
    ItemError,
    LostPositionError,
    MissingContainerError,
    NoVersionsError,
    PartitionFullError,
    ProjectionsError,
    ThrottledError,
    TooLargeError,
    TransientError,
    UnauthorizedError,
)
from projections.store import Container, Start, WriteError

T = TypeVar("T")

ERRORS: Final[Mapping[tuple[int, int | None], type[ProjectionsError]]] = {
    (400, None): ItemError,
    (401, None): UnauthorizedError,
    (403, None): UnauthorizedError,
    (403, 3): TransientError,  # a write region has moved
    (403, 1008): TransientError,  # the account is not in this region at the moment
    (403, 1014): PartitionFullError,
    (403, 5300): IdentityError,
    (404, None): ConflictError,
    (404, 1002): TransientError,  # the replica has not caught up with the session yet
    (404, 1003): MissingContainerError,
    (408, None): TransientError,
    (409, None): ConflictError,
    (410, None): TransientError,
    (412, None): ConflictError,
    (413, None): TooLargeError,
    (423, None): TransientError,
    (424, None): ConflictError,  # another operation of the batch failed
    (429, None): ThrottledError,
    (449, None): TransientError,
    (500, None): TransientError,
    (502, None): TransientError,
    (503, None): TransientError,
    (504, None): TransientError,
}
"""(status, sub-status) -> what it means to us; None stands for any other sub-status."""


def translate(error: BaseException) -> ProjectionsError:
    """What an error of the SDK or of the network means."""
    if isinstance(error, CosmosHttpResponseError | CosmosBatchOperationError):
        return _meaning(error.status_code or 0, error.sub_status, getattr(error, "headers", None))
    if isinstance(error, ClientAuthenticationError):
        return UnauthorizedError(f"no credentials ({type(error).__name__})", hint=CREDENTIALS_HINT)
    if isinstance(error, AzureError | ClientError | OSError | TimeoutError):
        return TransientError(f"no answer from the account ({type(error).__name__})")
    return FatalError(f"unexpected {type(error).__name__}")


CREDENTIALS_HINT: Final = "check COSMOS, or the identity's data-plane role, with `projections doctor`"
HINTS: Final[Mapping[tuple[int, int | None], str]] = {
    (401, None): CREDENTIALS_HINT,
    (403, None): CREDENTIALS_HINT,
    # facts.md 10
    (403, 5300): "create them beforehand, with what `projections init --template bicep` (or az) prints",
    (404, 1003): "create it with `projections init`",
}


def _meaning(status: int, sub_status: int | None, headers: Mapping[str, Any] | None) -> ProjectionsError:
    kind = ERRORS.get((status, sub_status)) or ERRORS.get((status, None)) or FatalError
    text = f"the store answered {status}" + (f"/{sub_status}" if sub_status else "")
    if issubclass(kind, TransientError):
        wait = float((headers or {}).get("x-ms-retry-after-ms") or 0) / 1000
        return kind(text, retry_after=wait)
    if kind is IdentityError:
        text = f"a managed identity creates no databases and no containers ({status}/{sub_status})"
    if kind is UnauthorizedError:
        text = f"the account refused the credentials ({text.removeprefix('the store answered ')})"
    return kind(text, hint=HINTS.get((status, sub_status)) or HINTS.get((status, None)))


async def calling(call: Awaitable[T]) -> T:
    """Await a call of the SDK; what it raises comes out translated."""
    try:
        return await call
    except ProjectionsError:
        raise
    except (AzureError, ClientError, OSError, TimeoutError) as error:
        raise translate(error) from error
    except UnicodeEncodeError as error:
        raise ItemError("the SDK cannot ask for half a character (a lone surrogate)", hint="mend the text") from error


def feed_refused(error: ItemError, container: Container, since: str | Start) -> ProjectionsError:
    """What a refusal (400) of a feed means, which says nothing of items.

    Without the feature the service refuses in so many words (wire.md 6, 9); any position of ours that is refused
    otherwise is outside the retention (the documentation of .NET's ChangeFeedPolicy: "an error (Status Code 400)").
    """
    if (isinstance(since, Start) and since.all_versions) or "must be enabled" in str(error.__cause__):
        return NoVersionsError(f"{container} keeps no feed of all versions and deletes")
    if isinstance(since, str):
        return LostPositionError(
            f"{container} refuses the position: what came after it is told in full no longer (400)",
            hint="raise the projection's version to build it from the beginning",
        )
    return FatalError(f"{container} refuses to give its feed: {error.message}")


def refused(error: ProjectionsError, index: int) -> ProjectionsError:
    return WriteError(index, error) if isinstance(error, ConflictError | ItemError) else error
