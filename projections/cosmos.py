"""The store on a real account, through azure-cosmos. The only module that knows the SDK; its errors end here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

from aiohttp import ClientError
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.cosmos import PartitionKey, ThroughputProperties
from azure.cosmos.aio import ContainerProxy, CosmosClient
from azure.cosmos.exceptions import (
    CosmosBatchOperationError,
    CosmosHttpResponseError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue

from projections.declare import Throughput
from projections.errors import (
    ConflictError,
    FatalError,
    ItemError,
    MissingContainerError,
    PartitionFullError,
    ProjectionsError,
    SettingsError,
    ThrottledError,
    TooLargeError,
    TransientError,
    UnauthorizedError,
    UnreachableError,
)
from projections.identity import Place
from projections.keys import Key, Undefined, at, parse_path
from projections.metering import charge
from projections.settings import Settings
from projections.store import (
    Container,
    Create,
    Delete,
    Description,
    Document,
    FeedRange,
    Operation,
    Page,
    Replace,
    Start,
    Store,
    Upsert,
    WriteError,
)

T = TypeVar("T")

ERRORS: Final[Mapping[tuple[int, int | None], type[ProjectionsError]]] = {
    (400, None): ItemError,
    (401, None): UnauthorizedError,
    (403, None): UnauthorizedError,
    (403, 3): TransientError,  # a write region has moved
    (403, 1008): TransientError,  # the account is not in this region at the moment
    (403, 1014): PartitionFullError,
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


CONNECT_SECONDS: Final = 6.0
"""For the first answer of an account."""
CONNECT_SECONDS_IDENTITY: Final = 30.0
"""The same where a token has to be had first."""
CREDENTIALS_HINT: Final = "check COSMOS, or the identity's data-plane role, with `projections doctor`"
HINTS: Final[Mapping[tuple[int, int | None], str]] = {
    (401, None): CREDENTIALS_HINT,
    (403, None): CREDENTIALS_HINT,
    # facts.md 10
    (
        403,
        5300,
    ): "a managed identity creates no databases or containers: create them beforehand (README, Deploying)",
    (404, 1003): "create it with `projections init`",
}
AWKWARD: Final = re.compile(r"[/\\?#%\t\r\n]|\s$")
"""Ids that other clients can store, but that do not survive in an address (case 7)."""


def _meaning(status: int, sub_status: int | None, headers: Mapping[str, Any] | None) -> ProjectionsError:
    kind = ERRORS.get((status, sub_status)) or ERRORS.get((status, None)) or FatalError
    text = f"the store answered {status}" + (f"/{sub_status}" if sub_status else "")
    if issubclass(kind, TransientError):
        wait = float((headers or {}).get("x-ms-retry-after-ms") or 0) / 1000
        return kind(text, retry_after=wait)
    if kind is UnauthorizedError:
        text = f"the account refused the credentials ({text.removeprefix('the store answered ')})"
    return kind(text, hint=HINTS.get((status, sub_status)) or HINTS.get((status, None)))


async def _calling(call: Awaitable[T]) -> T:
    """Await a call of the SDK; what it raises comes out translated."""
    try:
        return await call
    except ProjectionsError:
        raise
    except (AzureError, ClientError, OSError, TimeoutError) as error:
        raise translate(error) from error


def _count(response: Any) -> None:
    """Called by the SDK's pipeline for every answer, those that it retries included."""
    headers = response.http_response.headers
    charge(float(headers.get("x-ms-request-charge") or 0))


class CosmosStore:
    """A store on an account or an emulator. Made by `connect`."""

    def __init__(self, client: CosmosClient, credential: Any = None) -> None:
        self._client = client
        self._credential = credential
        self._known: dict[Container, tuple[ContainerProxy, tuple[str, ...]]] = {}
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        await self._client.close()
        if self._credential is not None:
            await self._credential.close()

    async def _open(self, container: Container) -> tuple[ContainerProxy, tuple[str, ...]]:
        """The container, known to exist, and its key paths: from here on a 404 is about a document."""
        known = self._known.get(container)
        if known is None:
            async with self._opening:
                description = await self.describe(container)
                if description is None:
                    raise MissingContainerError(
                        f"there is no container {container}", hint="create it with `projections init`"
                    )
                known = (self._proxy(container), description.key_paths)
                self._known[container] = known
        return known

    def _proxy(self, container: Container) -> ContainerProxy:
        return self._client.get_database_client(container.database).get_container_client(container.name)

    # documents

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        proxy, paths = await self._open(container)
        plain = [place for place in places if _is_plain(place)]
        odd = [place for place in places if place not in set(plain)] if len(plain) < len(places) else []
        documents = list(await _calling(proxy.read_items([(p.id, _argument(p.key)) for p in plain]))) if plain else []
        documents += [found for place in odd if (found := await self._read_one(container, proxy, place)) is not None]
        # facts.md 24: the SDK leaves out what is missing and orders by id alone
        names = [parse_path(path) for path in paths]
        at_place: dict[Place, Document] = {
            Place(doc["id"], Key.of(*(at(doc, name) for name in names))): dict(doc) for doc in documents
        }
        return {place: at_place[place] for place in places if place in at_place}

    async def _read_one(self, container: Container, proxy: ContainerProxy, place: Place) -> Document | None:
        """The SDK's bulk read takes 1 for true and null for a missing level, so keys with those are read singly."""
        if AWKWARD.search(place.id):
            pages = self.query(container, "SELECT * FROM c WHERE c.id = @id", {"@id": place.id}, place.key)
            return next(iter([document async for page in pages for document in page]), None)
        try:
            return dict(await proxy.read_item(place.id, partition_key=_argument(place.key)))
        except CosmosResourceNotFoundError as error:
            if error.sub_status not in (0, None):
                raise translate(error) from error
            return None
        except (AzureError, ClientError, OSError) as error:
            raise translate(error) from error

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        proxy, _ = await self._open(container)
        # the SDK sends null for a missing level of a hierarchical key; in a batch the key is ours to say
        partial_key = len(key.values) > 1 and any(isinstance(v, Undefined) for v in key.values)
        try:
            if len(operations) == 1 and not partial_key:
                return [await self._write_one(proxy, key, operations[0])]
            results = await proxy.execute_item_batch([_batched(o) for o in operations], partition_key=_argument(key))
            return [result.get("eTag") for result in results]
        except CosmosBatchOperationError as error:
            raise _refused(translate(error), error.error_index or 0) from error
        except (AzureError, ClientError, OSError) as error:
            raise _refused(translate(error), 0) from error

    async def _write_one(self, proxy: ContainerProxy, key: Key, operation: Operation) -> str | None:
        match operation:
            case Create(document):
                answer = await proxy.create_item(document, no_response=True)
            case Upsert(document):
                answer = await proxy.upsert_item(document, no_response=True)
            case Replace(document, etag):
                answer = await proxy.replace_item(
                    document["id"], document, no_response=True, etag=etag, match_condition=MatchConditions.IfNotModified
                )
            case Delete(id_, etag):
                await proxy.delete_item(
                    id_, partition_key=_argument(key), etag=etag, match_condition=MatchConditions.IfNotModified
                )
                return None
        return cast(str, answer.get_response_headers()["etag"])

    async def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key | None = None
    ) -> AsyncIterator[list[Any]]:
        proxy, paths = await self._open(container)
        scope = {"partition_key": _argument(key, len(paths))} if key is not None else {}
        given = [{"name": name, "value": value} for name, value in parameters.items()]
        pages = aiter(proxy.query_items(text, parameters=given, **scope).by_page())
        while True:
            try:
                page = [item async for item in await _calling(anext(pages))]
            except StopAsyncIteration:
                return
            yield page

    # the feed

    async def feed_ranges(self, container: Container) -> list[FeedRange]:
        proxy, _ = await self._open(container)
        found = await _calling(_list(proxy.read_feed_ranges()))
        return sorted((FeedRange(r["Range"]["min"], r["Range"]["max"]) for r in found), key=lambda r: r.low)

    async def changes(
        self, container: Container, feed_range: FeedRange, since: str | Start, page_size: int
    ) -> AsyncIterator[Page]:
        proxy, _ = await self._open(container)
        # facts.md 19, 20: the pager's own token may be another reader's, and an idle read has no page to carry one.
        # The headers handed to the hook get the right one, after the page.
        headers: dict[str, Any] = {}
        pages = aiter(
            proxy.query_items_change_feed(
                max_item_count=page_size,
                response_hook=lambda given, _: headers.update(latest=given),
                **_feed_scope(feed_range, since),
            ).by_page()
        )
        while True:
            try:
                page = await _calling(anext(pages))
            except StopAsyncIteration:
                yield Page((), headers["latest"]["etag"])
                return
            items = [dict(item) async for item in page]
            yield Page(items, headers["latest"]["etag"])

    # containers

    async def describe(self, container: Container) -> Description | None:
        try:
            found = await self._proxy(container).read()
        except CosmosResourceNotFoundError:
            return None
        except (AzureError, ClientError, OSError) as error:
            raise translate(error) from error
        return Description(
            container,
            tuple(found["partitionKey"]["paths"]),
            found.get("defaultTtl"),
            found.get("indexingPolicy"),
            tuple(tuple(k["paths"]) for k in found.get("uniqueKeyPolicy", {}).get("uniqueKeys", ())),
        )

    async def create_container(self, wanted: Description) -> bool:
        if await self.describe(wanted.container):
            return False
        database = await _calling(self._client.create_database_if_not_exists(wanted.container.database))
        paths = list(wanted.key_paths)
        key = PartitionKey(paths, kind="MultiHash") if len(paths) > 1 else PartitionKey(paths[0])
        options: dict[str, Any] = {
            "default_ttl": wanted.default_ttl,
            "indexing_policy": wanted.indexing,
            "unique_key_policy": {"uniqueKeys": [{"paths": list(p)} for p in wanted.unique_keys]}
            if wanted.unique_keys
            else None,
            "offer_throughput": _offer(wanted.throughput),
        }
        try:
            await database.create_container(
                wanted.container.name, key, **{name: value for name, value in options.items() if value is not None}
            )
        except CosmosResourceExistsError:
            return False
        except (AzureError, ClientError, OSError) as error:
            raise translate(error) from error
        return True


def _is_plain(place: Place) -> bool:
    return all(type(v) in (str, int, float) for v in place.key.values) and not AWKWARD.search(place.id)


def _refused(error: ProjectionsError, index: int) -> ProjectionsError:
    return WriteError(index, error) if isinstance(error, ConflictError | ItemError) else error


async def _list(pages: Any) -> list[Any]:
    return [item async for item in pages] if hasattr(pages, "__aiter__") else list(await pages)


def _feed_scope(feed_range: FeedRange, since: str | Start) -> dict[str, Any]:
    if isinstance(since, str):
        return {"continuation": since}
    bounds = {"min": feed_range.low, "max": feed_range.high, "isMinInclusive": True, "isMaxInclusive": False}
    # facts.md 17: a token from a start time cannot be resumed, so a feed starts at its beginning or now
    return {"feed_range": {"Range": bounds}, "start_time": "Now" if since.now else "Beginning"}


def _argument(key: Key, levels: int = 1) -> Any:
    """A key as the SDK takes it; for queries also the prefix of a key of so many levels."""
    if max(levels, len(key.values)) > 1:
        return [{} if isinstance(value, Undefined) else value for value in key.values]
    (value,) = key.values
    if isinstance(value, Undefined):
        return NonePartitionKeyValue
    return NullPartitionKeyValue if value is None else value


def _batched(operation: Operation) -> tuple[Any, ...]:
    match operation:
        case Create(document):
            return ("create", (document,))
        case Upsert(document):
            return ("upsert", (document,))
        case Replace(document, etag):
            return ("replace", (document["id"], document), {"if_match_etag": etag})
        case Delete(id_, etag):
            return ("delete", (id_,), {"if_match_etag": etag})


def _offer(throughput: Throughput) -> Any:
    if throughput.autoscale is not None:
        return ThroughputProperties(auto_scale_max_throughput=throughput.autoscale)
    return throughput.manual


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
            await _calling(client.__aenter__())
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


__all__ = ["ERRORS", "CosmosStore", "connect", "open_store", "translate"]
