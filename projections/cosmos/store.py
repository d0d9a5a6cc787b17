"""The store on an account or an emulator, through azure-cosmos."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from aiohttp import ClientError
from azure.core import MatchConditions
from azure.core.exceptions import AzureError
from azure.cosmos.aio import ContainerProxy, CosmosClient
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosResourceNotFoundError

from projections.cosmos.arguments import argument, batched, feed_scope
from projections.cosmos.containers import create, delete, described, throughput
from projections.cosmos.errors import calling, feed_refused, refused, translate
from projections.cosmos.reads import AWKWARD, by_ids, divided
from projections.cosmos.sessions import behind
from projections.declare import Throughput
from projections.errors import FatalError, ItemError, MissingContainerError
from projections.identity import Place
from projections.keys import Key, Undefined, at, parse_path
from projections.store import (
    Container,
    Create,
    Delete,
    Description,
    Document,
    FeedRange,
    Operation,
    Page,
    Patch,
    Replace,
    Rows,
    Start,
    Upsert,
    from_time,
)

T = TypeVar("T")

SIDE_BY_SIDE: Final = 16
"""Calls of one bulk read that are under way at a time, beside the SDK's own."""


class CosmosStore:
    """A store on an account or an emulator. Made by `connect`."""

    def __init__(self, client: CosmosClient, credential: Any = None) -> None:
        self._client = client
        self._credential = credential
        self._known: dict[Container, tuple[ContainerProxy, Description]] = {}
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        await self._client.close()
        if self._credential is not None:
            await self._credential.close()

    async def _open(self, container: Container) -> tuple[ContainerProxy, Description]:
        """The container, known to exist, and what it is like: from here on a 404 is about a document."""
        known = self._known.get(container)
        if known is None:
            async with self._opening:
                description = await self.describe(container)
                if description is None:
                    raise MissingContainerError(
                        f"there is no container {container}", hint="create it with `projections init`"
                    )
                known = (self._proxy(container), description)
                self._known[container] = known
        return known

    def _proxy(self, container: Container) -> ContainerProxy:
        return self._client.get_database_client(container.database).get_container_client(container.name)

    # documents

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        proxy, description = await self._open(container)
        paths = description.key_paths
        reads = divided(places, paths)
        bulk = [(place.id, argument(place.key)) for place in reads.bulk]
        documents = list(await calling(proxy.read_items(bulk))) if bulk else []
        others = [self._read_ids(container, key, ids) for key, ids in reads.queries]
        others += [self._read_one(container, proxy, place) for place in reads.single]
        documents += [document for found in await _side_by_side(others) for document in found]
        # facts.md 24: the SDK leaves out what is missing and orders by id alone
        names = [parse_path(path) for path in paths]
        at_place: dict[Place, Document] = {
            Place(doc["id"], Key.of(*(at(doc, name) for name in names))): dict(doc) for doc in documents
        }
        return {place: at_place[place] for place in places if place in at_place}

    async def _read_ids(self, container: Container, key: Key, ids: Sequence[str]) -> list[Document]:
        text, parameters = by_ids(ids)
        return [document async for page in self.query(container, text, parameters, key) for document in page]

    async def _read_one(self, container: Container, proxy: ContainerProxy, place: Place) -> list[Document]:
        if AWKWARD.search(place.id):
            return await self._read_ids(container, place.key, [place.id])
        try:
            return [dict(await proxy.read_item(place.id, partition_key=argument(place.key)))]
        except CosmosResourceNotFoundError as error:
            if error.sub_status not in (0, None):
                raise translate(error) from error
            return []
        except (AzureError, ClientError, OSError) as error:
            raise translate(error) from error

    async def write(self, container: Container, key: Key, operations: Sequence[Operation]) -> list[str | None]:
        proxy, _ = await self._open(container)
        # the SDK sends null for a missing level of a hierarchical key; in a batch the key is ours to say
        partial_key = len(key.values) > 1 and any(isinstance(v, Undefined) for v in key.values)
        try:
            if len(operations) == 1 and not partial_key:
                return [await self._write_one(proxy, key, operations[0])]
            results = await proxy.execute_item_batch([batched(o) for o in operations], partition_key=argument(key))
            return [result.get("eTag") for result in results]
        except CosmosBatchOperationError as error:
            raise refused(translate(error), error.error_index or 0) from error
        except (AzureError, ClientError, OSError) as error:
            raise refused(translate(error), 0) from error

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
            case Patch(id_, etag):
                answer = await proxy.patch_item(
                    id_, argument(key), operation.operations, no_response=True, etag=etag,
                    match_condition=MatchConditions.IfNotModified,
                )  # fmt: skip
            case Delete(id_, etag):
                await proxy.delete_item(
                    id_, partition_key=argument(key), etag=etag, match_condition=MatchConditions.IfNotModified
                )
                return None
        return cast(str, answer.get_response_headers()["etag"])

    async def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key | None = None, *,
        after: str | None = None, page_size: int | None = None,
    ) -> AsyncIterator[Rows]:  # fmt: skip
        proxy, description = await self._open(container)
        paths = description.key_paths
        options: dict[str, Any] = {"partition_key": argument(key, len(paths))} if key is not None else {}
        given = [{"name": name, "value": value} for name, value in parameters.items()]
        # facts.md 19, 20: the pager's own token may be another reader's; the headers of the last answer to this query
        # have the right one, after the page. Over all partitions there is none.
        answer: dict[str, Any] = {}
        options["response_hook"] = lambda headers, _: answer.update(latest=headers)
        options["max_item_count"] = page_size
        pages = aiter(proxy.query_items(text, parameters=given, **options).by_page(after))
        while True:
            try:
                page = [item async for item in await calling(anext(pages))]
            except StopAsyncIteration:
                return
            yield Rows(page, answer["latest"].get("x-ms-continuation") if key is not None else None)

    # the feed

    async def session(self, container: Container, key: Key) -> str:
        proxy, description = await self._open(container)
        paths = description.key_paths
        answer: dict[str, Any] = {}
        query = proxy.query_items(
            "SELECT TOP 1 VALUE c.id FROM c", partition_key=argument(key, len(paths)),
            response_hook=lambda headers, _: answer.update(latest=headers),
        )  # fmt: skip
        await calling(_list(query))
        return str(answer["latest"]["x-ms-session-token"])

    async def behind(self, container: Container, feed_range: FeedRange, position: str | None, token: str) -> int:
        await self._open(container)
        link = f"dbs/{container.database}/colls/{container.name}"
        ranges = self._client.client_connection._ReadPartitionKeyRanges(link)  # the only place that has their ids
        return behind(feed_range, position, token, await calling(_list(ranges)))

    async def feed_ranges(self, container: Container) -> list[FeedRange]:
        proxy, _ = await self._open(container)
        found = await calling(_list(proxy.read_feed_ranges()))
        return sorted((FeedRange(r["Range"]["min"], r["Range"]["max"]) for r in found), key=lambda r: r.low)

    async def changes(
        self, container: Container, feed_range: FeedRange, since: str | Start, page_size: int
    ) -> AsyncIterator[Page]:
        proxy, description = await self._open(container)
        # facts.md 19, 20: the pager's own token may be another reader's, and an idle read has no page to carry one.
        # The headers handed to the hook get the right one, after the page.
        headers: dict[str, Any] = {}
        time = from_time(
            since
        )  # facts.md 17: the token of a feed from a start time cannot be resumed, another time can
        pages = aiter(
            proxy.query_items_change_feed(
                max_item_count=page_size,
                response_hook=lambda given, _: headers.update(latest=given),
                **feed_scope(feed_range, since, description.rid),
            ).by_page()
        )
        while True:
            try:
                page = await calling(anext(pages))
            except StopAsyncIteration:
                yield Page((), headers["latest"]["etag"] if time is None else f"@{time}")
                return
            except ItemError as error:
                raise feed_refused(error, container, since) from error
            except ValueError as error:  # the SDK compares the container's own id in the position with the present one
                raise FatalError(
                    f"{container} is not the container whose feed was read: it was created anew, or restored",
                    hint="to the projection it is another source: raise its version, and build it from the beginning",
                ) from error
            items = [dict(item) async for item in page]
            if time is not None and items:
                time = items[-1]["_ts"]
            yield Page(items, headers["latest"]["etag"] if time is None else f"@{time}")

    # containers

    async def describe(self, container: Container) -> Description | None:
        try:
            found = await self._proxy(container).read()
        except CosmosResourceNotFoundError:
            return None
        except (AzureError, ClientError, OSError) as error:
            raise translate(error) from error
        return described(container, found)

    async def throughput(self, container: Container) -> Throughput | None:
        proxy, _ = await self._open(container)
        return await throughput(proxy)

    async def containers(self, database: str) -> list[str]:
        try:
            return [found["id"] async for found in self._client.get_database_client(database).list_containers()]
        except CosmosResourceNotFoundError:
            return []
        except (AzureError, ClientError, OSError) as error:
            raise translate(error) from error

    async def create_container(self, wanted: Description) -> bool:
        if await self.describe(wanted.container):
            return False
        if wanted.native is not None:  # then the database has the source in it already
            return await create(self._client.get_database_client(wanted.container.database), wanted)
        return await create(
            await calling(self._client.create_database_if_not_exists(wanted.container.database)), wanted
        )

    async def delete_container(self, container: Container) -> bool:
        self._known.pop(container, None)
        return await delete(self._client.get_database_client(container.database), container)


async def _side_by_side(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The answers of calls, a few of which are under way at a time; all are at their end, also when one has failed."""
    gate = asyncio.Semaphore(SIDE_BY_SIDE)

    async def at_its_turn(call: Coroutine[Any, Any, T]) -> T:
        async with gate:
            return await call

    answers = await asyncio.gather(*map(at_its_turn, calls), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return cast(list[T], answers)


async def _list(pages: Any) -> list[Any]:
    return [item async for item in pages] if hasattr(pages, "__aiter__") else list(await pages)
