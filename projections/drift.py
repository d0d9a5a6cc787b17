"""Where a container is not as declared. It is told, never changed: which of the two is right is for people to say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from projections.declare import Throughput
from projections.store import Description

ETAG_PATH: Final = "/_etag/?"
"""Left out of every index by the service, as '/"_etag"/?', whatever a policy says."""


@dataclass(frozen=True)
class Difference:
    """One setting of a container that is not as declared."""

    setting: str
    declared: str
    found: str
    remedy: str  # for a target
    permanent: bool = False

    def __str__(self) -> str:
        return f"{self.setting}: declared {self.declared}, found {self.found}"


def differences(wanted: Description, found: Description, throughput: Throughput | None = None) -> Iterator[Difference]:
    """All settings that differ. What the service adds by itself is no difference.

    `throughput` is what the container has; None where nobody could tell. No declared throughput means whatever the
    account gives, so nothing differs from it.
    """
    yield from _key(wanted, found)
    if wanted.default_ttl != found.default_ttl:
        yield Difference(
            "default TTL", _ttl(wanted.default_ttl), _ttl(found.default_ttl),
            "set it on the container, or declare Target(default_ttl=...) as it is",
        )  # fmt: skip
    if {frozenset(paths) for paths in wanted.unique_keys} != {frozenset(paths) for paths in found.unique_keys}:
        yield Difference(
            "unique keys", _unique(wanted.unique_keys), _unique(found.unique_keys),
            "they are permanent: declare Target(unique_keys=...) as it is, or raise the projection's version",
            permanent=True,
        )  # fmt: skip
    if normalised(wanted.indexing) != normalised(found.indexing):
        yield Difference(
            "indexing", _policy(wanted.indexing), _policy(found.indexing),
            "set it on the container, or declare Target(indexing=...) as it is",
        )  # fmt: skip
    if throughput is not None and wanted.throughput != Throughput() and wanted.throughput != throughput:
        yield Difference(
            "throughput", _offer(wanted.throughput), _offer(throughput),
            "set it on the container, or declare Target(throughput=...) as it is",
        )  # fmt: skip


def _key(wanted: Description, found: Description) -> Iterator[Difference]:
    if wanted.key_paths != found.key_paths:
        yield Difference(
            "key", ", ".join(wanted.key_paths), ", ".join(found.key_paths),
            "it is permanent: declare it as it is, or raise the projection's version", permanent=True,
        )  # fmt: skip
    elif found.key_kind not in (None, kind(wanted)):
        yield Difference(
            "key kind",
            kind(wanted),
            str(found.key_kind),
            "it is permanent: raise the projection's version",
            permanent=True,
        )
    if found.key_version < wanted.key_version:
        yield Difference(
            "key version", str(wanted.key_version), str(found.key_version),
            "it is permanent. Keys that begin with the same 101 bytes are one logical partition there; "
            "where they may, raise the projection's version", permanent=True,
        )  # fmt: skip


def kind(description: Description) -> str:
    """Of the partition key."""
    return description.key_kind or ("MultiHash" if len(description.key_paths) > 1 else "Hash")


def normalised(policy: Mapping[str, Any] | None) -> dict[str, Any]:
    """An indexing policy with all that the service adds, and without what makes no difference to it."""
    policy = policy or {}
    mode = str(policy.get("indexingMode", "consistent")).lower()
    if mode == "none":
        return {"indexingMode": mode}
    included, excluded = _paths(policy, "includedPaths"), _paths(policy, "excludedPaths") - {ETAG_PATH}
    if not included and "/*" not in excluded:
        included = {"/*"}
    rest = {name: _ordered(policy[name]) for name in policy if name not in PLAIN and policy[name]}
    return {"indexingMode": mode, "includedPaths": included, "excludedPaths": excluded} | rest


PLAIN: Final = frozenset({"indexingMode", "automatic", "includedPaths", "excludedPaths"})


def _paths(policy: Mapping[str, Any], name: str) -> set[str]:
    """What they are is in the path: kinds and types of an index are of the past, and "a" and a are one name."""
    return {re.sub(r'/"(\w+)"', r"/\1", str(one["path"])) for one in policy.get(name) or ()}


def _ordered(indexes: Sequence[Any]) -> list[str]:
    """Composite, spatial, vector and text indexes, in any order; a composite one's own paths keep theirs."""
    return sorted(json.dumps(_whole(one), sort_keys=True) for one in indexes)


def _whole(index: Any) -> Any:
    if isinstance(index, list):
        return [{"order": "ascending"} | one for one in index]
    return index


def _ttl(seconds: int | None) -> str:
    return "off" if seconds is None else "on, no default (-1)" if seconds == -1 else f"{seconds} s"


def _unique(keys: Sequence[Sequence[str]]) -> str:
    return "; ".join(", ".join(paths) for paths in keys) or "none"


def _policy(policy: Mapping[str, Any] | None) -> str:
    shown = {name: sorted(value) if isinstance(value, set) else value for name, value in normalised(policy).items()}
    return "the service's default" if shown == _DEFAULT else json.dumps(shown, sort_keys=True)


_DEFAULT: Final = {"indexingMode": "consistent", "includedPaths": ["/*"], "excludedPaths": []}


def _offer(throughput: Throughput) -> str:
    if throughput.autoscale is not None:
        return f"autoscale, {throughput.autoscale} RU/s at most"
    return f"{throughput.manual} RU/s" if throughput.manual is not None else "none of its own (serverless or shared)"
