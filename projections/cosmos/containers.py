"""Containers as the SDK makes and describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import ClientError
from azure.core.exceptions import AzureError
from azure.cosmos import PartitionKey
from azure.cosmos.aio import ContainerProxy, DatabaseProxy
from azure.cosmos.exceptions import (
    CosmosHttpResponseError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)

from projections.cosmos.arguments import offer
from projections.cosmos.errors import calling, translate
from projections.declare import Throughput
from projections.errors import IdentityError, MissingContainerError, NativeIndexError
from projections.store import Container, Description, Native

NATIVE_HINT: Final = (
    "an account needs continuous backup and the feature switched on (Settings > Features), the source in the same "
    "database, and at most five native indexes of it; no emulator has them (README, Global secondary indexes)"
)


def described(container: Container, found: Mapping[str, Any]) -> Description:
    """What the service says of a container."""
    key = found["partitionKey"]
    native = found.get("globalSecondaryIndexDefinition")
    return Description(
        container,
        tuple(key["paths"]),
        found.get("defaultTtl"),
        found.get("indexingPolicy"),
        tuple(tuple(one["paths"]) for one in (found.get("uniqueKeyPolicy") or {}).get("uniqueKeys", ())),
        key_version=key.get("version", 1),  # the service leaves the field out where it is 1
        key_kind=key.get("kind"),
        rid=found.get("_rid"),
        retention=(found.get("changeFeedPolicy") or {}).get("retentionDuration"),
        native=Native(native["sourceCollectionId"], native["definition"], native.get("status")) if native else None,
    )


async def create(database: DatabaseProxy, wanted: Description) -> bool:
    """Create a container in a database that exists; False where there is one of this name."""
    paths = list(wanted.key_paths)
    key = PartitionKey(paths, kind="MultiHash") if len(paths) > 1 else PartitionKey(paths[0])
    given = {name: value for name, value in _options(wanted).items() if value is not None}
    try:
        _, found = await database.create_container(wanted.container.name, key, return_properties=True, **given)
    except CosmosResourceExistsError:
        return False
    except (AzureError, ClientError, OSError) as error:
        raise _refused(error, wanted) from error
    if wanted.native is not None and described(wanted.container, found).native is None:
        # whoever does not know the property makes a plain container, which nothing would ever fill
        await calling(database.delete_container(wanted.container.name))
        raise NativeIndexError("what answers does not know native indexes", hint=NATIVE_HINT)
    return True


async def delete(database: DatabaseProxy, container: Container) -> bool:
    """Delete a container; False where there is none."""
    try:
        await database.delete_container(container.name)
    except CosmosResourceNotFoundError:
        return False
    except (AzureError, ClientError, OSError) as error:
        raise translate(error) from error
    return True


def _options(wanted: Description) -> dict[str, Any]:
    unique = {"uniqueKeys": [{"paths": list(paths)} for paths in wanted.unique_keys]}
    return {
        "default_ttl": wanted.default_ttl,
        "indexing_policy": wanted.indexing,
        "unique_key_policy": unique if wanted.unique_keys else None,
        "offer_throughput": offer(wanted.throughput),
        "change_feed_policy": {"retentionDuration": wanted.retention} if wanted.retention else None,
        "global_secondary_index": _native(wanted.native) if wanted.native else None,
    }


def _native(native: Native) -> Any:
    try:
        from azure.cosmos import GlobalSecondaryIndexDefinition  # provisional in 4.17: it may go again
    except ImportError as error:
        raise NativeIndexError(
            "this azure-cosmos makes no native index", hint="install azure-cosmos 4.17.1, or one that has them"
        ) from error
    return GlobalSecondaryIndexDefinition(native.source, native.definition)


def _refused(error: BaseException, wanted: Description) -> Exception:
    if wanted.native is not None and isinstance(error, CosmosResourceNotFoundError):
        # the SDK looks the source up before it asks
        source = Container(wanted.container.database, wanted.native.source)
        return MissingContainerError(f"there is no source {source}", hint="create the source first")
    if wanted.native is not None and isinstance(error, CosmosHttpResponseError) and error.status_code == 400:
        return NativeIndexError(f"the account refuses {wanted.container} as a native index", hint=NATIVE_HINT)
    return translate(error)


async def throughput(proxy: ContainerProxy) -> Throughput | None:
    """What a container has for its own; None where a managed identity asks, to whom the service does not say."""
    try:
        found = await proxy.get_throughput()
    except AttributeError:
        return Throughput()  # where there is none, azure-cosmos 4.17.1 trips over its own retry of the 404
    except CosmosHttpResponseError as error:
        if error.status_code == 404 or (error.status_code == 400 and "serverless" in str(error).lower()):
            return Throughput()
        meaning = translate(error)
        if isinstance(meaning, IdentityError):
            return None
        raise meaning from error
    except (AzureError, ClientError, OSError) as error:
        raise translate(error) from error
    if found.auto_scale_max_throughput is not None:
        return Throughput(autoscale=found.auto_scale_max_throughput)
    return Throughput(manual=found.offer_throughput)
