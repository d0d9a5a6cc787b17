"""Database and container definitions: what is allowed in them, and what the service fills in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from projections.emulator.errors import ServiceError, bad_request
from projections.emulator.keys import split_path

MAX_NAME = 255
MAX_ITEM_ID = 1023
MAX_KEY_LEVELS = 3
_FORBIDDEN = frozenset("/\\?#\t\r\n")

# The parts of a container definition that come back as they were sent.
_ECHOED = (
    "defaultTtl",
    "uniqueKeyPolicy",
    "analyticalStorageTtl",
    "computedProperties",
    "vectorEmbeddingPolicy",
    "fullTextPolicy",
    "changeFeedPolicy",
)
_INDEX_DEFINITIONS = ("globalSecondaryIndexDefinition", "materializedViewDefinition")
_ETAG_PATH = {"path": '/"_etag"/?'}


def check_name(name: Any) -> str:
    """The id of a database or container."""
    if not isinstance(name, str) or not name or len(name) >= MAX_NAME:
        raise bad_request(
            f"The input name '{name}' is invalid. Ensure to provide a unique non-empty string less than "
            f"'{MAX_NAME}' characters."
        )
    return _without_forbidden(name)


def check_item_id(document: Mapping[str, Any]) -> str:
    """The id of an item."""
    if "id" not in document:
        raise bad_request("The input content is invalid because the required properties - 'id; ' - are missing")
    item_id = document["id"]
    if not isinstance(item_id, str):
        raise bad_request("The input content is invalid because the property 'id' has to be a string.")
    if not item_id or len(item_id.encode("utf-8", "surrogatepass")) > MAX_ITEM_ID:
        raise bad_request(
            f"The input name '{item_id}' is invalid. Ensure to provide a unique non-empty string less than "
            f"'{MAX_ITEM_ID + 1}' characters."
        )
    return _without_forbidden(item_id)


def _without_forbidden(name: str) -> str:
    if not _FORBIDDEN.isdisjoint(name):
        raise bad_request(
            f"The input name '{name}' is invalid: it may not contain '/', '\\', '?', '#', tab or newline."
        )
    if name.endswith(" "):
        raise bad_request(f"The input name '{name}' is invalid: it may not end with a space.")
    if name.isascii():
        return name
    try:
        name.encode()
    except UnicodeEncodeError:
        raise bad_request("The input name is invalid: it is not valid Unicode.") from None
    return name


def complete_container(sent: Mapping[str, Any]) -> dict[str, Any]:
    """A container definition with all that the service adds to it; 400 when it is not valid."""
    # left out without a word, one of these would come to a plain container that nothing ever fills
    if any(sent.get(name) is not None for name in _INDEX_DEFINITIONS):
        raise bad_request("Global secondary indexes are not supported by this emulator.")
    made: dict[str, Any] = {"id": check_name(sent.get("id")), "partitionKey": _partition_key(sent.get("partitionKey"))}
    made["indexingPolicy"] = _indexing_policy(sent.get("indexingPolicy"))
    for name in _ECHOED:
        if sent.get(name) is not None:
            made[name] = sent[name]
    _check_ttl(made.get("defaultTtl"))
    _check_unique_keys(made.get("uniqueKeyPolicy"))
    _check_change_feed_policy(made.get("changeFeedPolicy"))
    made["conflictResolutionPolicy"] = _conflict_policy(sent.get("conflictResolutionPolicy"))
    made["geospatialConfig"] = sent.get("geospatialConfig") or {"type": "Geography"}
    return made


def _partition_key(sent: Any) -> dict[str, Any]:
    if sent is None:
        return {"paths": ["/_partitionKey"], "kind": "Hash", "version": 1, "systemKey": True}
    paths = sent.get("paths") if isinstance(sent, dict) else None
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise bad_request("The partition key definition needs an array of paths.")
    kind = sent.get("kind", "Hash")
    if kind not in ("Hash", "MultiHash"):
        raise bad_request(f"The partition key kind '{kind}' is not supported. Use Hash or MultiHash.")
    allowed = MAX_KEY_LEVELS if kind == "MultiHash" else 1
    if len(paths) > allowed:
        raise bad_request(f"Too many partition key paths: {len(paths)}. A {kind} key has at most {allowed}.")
    for path in paths:
        if not all(split_path(path)):
            raise bad_request(f"The partition key path '{path}' is invalid.")
    version = sent.get("version", 2 if kind == "MultiHash" else 1)
    if version not in (1, 2) or (kind == "MultiHash" and version != 2):
        raise bad_request(f"The partition key version {version} is not supported for kind {kind}.")
    made = {"paths": paths, "kind": kind, "version": version}
    if sent.get("systemKey"):
        made["systemKey"] = True
    return made


def _indexing_policy(sent: Any) -> dict[str, Any]:
    if sent is not None and not isinstance(sent, dict):
        raise bad_request("The indexing policy has to be an object.")
    sent = sent or {}
    mode = str(sent.get("indexingMode", "consistent")).lower()
    if mode not in ("consistent", "none", "lazy"):
        raise bad_request(f"The indexing mode '{mode}' is not supported.")
    made: dict[str, Any] = {"indexingMode": mode, "automatic": sent.get("automatic", True)}
    if mode == "none":
        return {**made, "automatic": False, "includedPaths": [], "excludedPaths": []}
    excluded = _paths(sent, "excludedPaths")
    included = [_without_old_kinds(one) for one in _paths(sent, "includedPaths")]
    if not included and not any(one.get("path") == "/*" for one in excluded):
        included = [{"path": "/*"}]
    if _ETAG_PATH not in excluded:
        excluded.append(_ETAG_PATH)
    made |= {"includedPaths": included, "excludedPaths": excluded}
    for name in ("compositeIndexes", "spatialIndexes", "vectorIndexes", "fullTextIndexes"):
        if sent.get(name):
            made[name] = sent[name]
    return made


def _paths(policy: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    paths = policy.get(name) or []
    if not isinstance(paths, list) or not all(
        isinstance(one, dict) and isinstance(one.get("path"), str) for one in paths
    ):
        raise bad_request(f"The indexing policy's {name} has to be an array of objects with a 'path'.")
    return list(paths)


def _without_old_kinds(path: dict[str, Any]) -> dict[str, Any]:
    """Hash and range indexes of single types are a thing of the past: the service takes them and drops them."""
    kept = [one for one in path.get("indexes") or [] if isinstance(one, dict) and one.get("kind") == "Spatial"]
    made = {name: value for name, value in path.items() if name != "indexes"}
    return made | {"indexes": kept} if kept else made


def _conflict_policy(sent: Any) -> dict[str, Any]:
    if not sent:
        return {"mode": "LastWriterWins", "conflictResolutionPath": "/_ts", "conflictResolutionProcedure": ""}
    if not isinstance(sent, dict):
        raise bad_request("The conflict resolution policy has to be an object.")
    return {"mode": "LastWriterWins", "conflictResolutionPath": "", "conflictResolutionProcedure": ""} | sent


def _check_ttl(ttl: Any) -> None:
    if ttl is not None and not valid_ttl(ttl):
        raise bad_request(
            "The input ttl '" + str(ttl) + "' is invalid. Ensure to provide a nonzero positive integer, or -1."
        )


def valid_ttl(ttl: Any) -> bool:
    """-1 (never) or a positive number of seconds."""
    return isinstance(ttl, int) and not isinstance(ttl, bool) and (ttl == -1 or 0 < ttl < 2**31)


def _check_unique_keys(policy: Any) -> None:
    if policy is None:
        return
    keys = policy.get("uniqueKeys") if isinstance(policy, dict) else None
    if not isinstance(keys, list) or not all(
        isinstance(key, dict) and isinstance(key.get("paths"), list) and key["paths"] for key in keys
    ):
        raise bad_request("The unique key policy needs 'uniqueKeys', each with an array of 'paths'.")
    for key in keys:
        for path in key["paths"]:
            split_path(str(path))


def _check_change_feed_policy(policy: Any) -> None:
    if policy is None:
        return
    minutes = policy.get("retentionDuration") if isinstance(policy, dict) else None
    if not isinstance(minutes, int) or isinstance(minutes, bool) or minutes < 0:
        raise bad_request("The change feed policy needs 'retentionDuration' in whole minutes.")


def check_replacement(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """What a container replace may not change."""
    if new["id"] != old["id"]:
        raise bad_request("The id of a container cannot be changed.")
    if new["partitionKey"] != old["partitionKey"]:
        raise bad_request("The partition key of a container cannot be changed.")
    if new.get("uniqueKeyPolicy", {}) != old.get("uniqueKeyPolicy", {}):
        raise ServiceError(400, "The unique key policy of a container cannot be changed.")
