"""Opening a store on the account that the settings name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from azure.cosmos.aio import CosmosClient

from projections.cosmos.errors import calling
from projections.cosmos.store import CosmosStore
from projections.errors import ConflictError, SettingsError, TransientError, UnreachableError
from projections.metering import charge
from projections.settings import Settings
from projections.store import Store

CONNECT_SECONDS: Final = 6.0
"""For the first answer of an account."""
CONNECT_SECONDS_IDENTITY: Final = 30.0
"""The same where a token has to be had first."""


def _count(response: Any) -> None:
    """Called by the SDK's pipeline for every answer, those that it retries included."""
    headers = response.http_response.headers
    charge(float(headers.get("x-ms-request-charge") or 0))


def _client(settings: Settings) -> tuple[CosmosClient, Any]:
    options: dict[str, Any] = {
        "raw_response_hook": _count,
        "user_agent_suffix": "cosmos-projections",
        "retry_throttle_total": 1,  # facts.md 23: 429 is ours to answer (pace.py); 0 would not switch it off
    }
    if settings.connection_string is not None:
        try:
            return CosmosClient.from_connection_string(settings.connection_string, **options), None
        except (ValueError, KeyError, TypeError) as error:
            raise SettingsError(
                "COSMOS is not a connection string", hint='it reads "AccountEndpoint=https://...;AccountKey=...;"'
            ) from error
    from azure.identity.aio import DefaultAzureCredential  # slow to import, and only needed here

    credential = DefaultAzureCredential(managed_identity_client_id=settings.client_id)
    return CosmosClient(settings.endpoint, credential=credential, **options), credential


@asynccontextmanager
async def connect(settings: Settings) -> AsyncIterator[Store]:
    """A store on the account that the settings name.

    Raises:
        SettingsError: the settings name no account.
        UnreachableError: nobody answers there.
        UnauthorizedError: the account refused the credentials.
    """
    store = await open_store(settings)
    try:
        yield store
    finally:
        await store.close()


async def open_store(settings: Settings) -> CosmosStore:
    """Like `connect`, for those who close the store themselves."""
    client, credential = _client(settings)
    store = CosmosStore(client, credential)
    try:
        # the SDK alone would wait for minutes for a host that takes connections and says nothing
        async with asyncio.timeout(CONNECT_SECONDS if credential is None else CONNECT_SECONDS_IDENTITY):
            await calling(client.__aenter__())
    except (TransientError, TimeoutError) as error:
        await store.close()
        raise UnreachableError(f"cannot reach {settings.endpoint}", hint=settings.unreachable_hint) from error
    except ConflictError as error:
        await store.close()
        raise UnreachableError(f"what answers at {settings.endpoint} is no Cosmos DB account",
                               hint=settings.unreachable_hint) from error  # fmt: skip
    except BaseException:
        await store.close()
        raise
    return store
