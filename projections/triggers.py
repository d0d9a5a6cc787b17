"""What a Functions app registers with the host: Cosmos DB triggers, each with leases of its own.

A projection has one, and a second one if its source is in all-versions mode. A trigger in that mode starts now, at the
earliest (facts.md 6, 15), so the first one goes on reading the latest versions from the beginning: it does the first
load and brings creates and updates, the second one deletes. What both tell of is left alone the second time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from projections.declare import Projection
from projections.provision import Layout
from projections.store import Container

CONNECTION: Final = "COSMOS"
"""The app setting, or the prefix of app settings, that says where the account is; `Settings.read` reads the same."""
MAX_ITEMS: Final = 200
"""Changes a call is given, unless one transaction has more; also what the host scales out by."""
RETRY: Final[dict[str, Any]] = {
    "strategy": "exponential_backoff",  # facts.md 5: any other spelling makes the functions vanish
    "max_retry_count": "-1",
    "minimum_interval": "00:00:05",
    "maximum_interval": "00:05:00",
}
"""Without end: when retries run out the host moves on and the batch is lost (facts.md 2)."""
ALL_VERSIONS: Final = "AllVersionsAndDeletes"
"""The host's word for the mode; as text it suits every version of azure-functions (facts.md 9)."""
VERSIONS_SUFFIX: Final = "-versions"
"""What tells the trigger of a source's second feed from the first one's."""
DRAIN: Final = "0 * * * * *"
"""When deferred items are drained: every minute."""
AUDIT: Final = "30 */5 * * * *"
"""When the feed is audited: every five minutes. A run that takes longer is never joined by a second one."""


@dataclass(frozen=True)
class Trigger:
    """What is registered for one projection, in one mode of its source's feed."""

    projection: Projection
    function: str  # the function's name
    source: Container
    leases: Container
    lease_prefix: str  # no other projection's, no other version's, and not of the other mode
    all_versions: bool = False

    @property
    def binding(self) -> dict[str, Any]:
        """The arguments of the host's trigger."""
        return {
            "connection": CONNECTION,
            "database_name": self.source.database,
            "container_name": self.source.name,
            "lease_database_name": self.leases.database,
            "lease_container_name": self.leases.name,
            "lease_container_prefix": self.lease_prefix,
            "create_lease_container_if_not_exists": False,  # a managed identity could not (facts.md 10)
            "max_items_per_invocation": MAX_ITEMS,
            **self._start,
        }

    @property
    def _start(self) -> dict[str, Any]:
        if self.all_versions:
            return {"change_feed_mode": ALL_VERSIONS}  # facts.md 6: with any start setting it would be rejected
        return {"start_from_beginning": True}  # counts while there are no leases: all there is is projected


def triggers(layout: Layout) -> Iterator[Trigger]:
    """The triggers of each projection: each reads the feed for itself and holds up no other."""
    wanted = [
        (one, mode) for one in layout.catalog.parts for mode in ((False, True) if one.source.all_versions else (False,))
    ]
    names = [_function_name(f"{projection.full_name}{VERSIONS_SUFFIX * mode}") for projection, mode in wanted]
    taken = [name.casefold() for name in names]
    for (projection, mode), name in zip(wanted, names, strict=True):
        if taken.count(name.casefold()) > 1:  # "a.b" beside "a-b", or "A" beside "a"
            name += f"-{hashlib.sha256(projection.full_name.encode()).hexdigest()[:8]}"
        prefix = lease_prefix(projection, all_versions=mode)
        yield Trigger(projection, name, layout.source(projection), layout.leases, prefix, mode)


def lease_prefix(projection: Projection, *, all_versions: bool = False) -> str:
    """What the ids of a projection's leases begin with. Stored; a new one starts the feed anew."""
    return f"{projection.name}-{projection.version}-{f'{VERSIONS_SUFFIX[1:]}-' * all_versions}"


def _function_name(full_name: str) -> str:
    """A letter, then letters, digits, _ and -: "orders.by id@1" -> "orders-by-id-1"."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", full_name)
    return name if name[0].isalpha() else f"p-{name}"
