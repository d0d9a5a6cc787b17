"""What a Functions app registers with the host: one Cosmos DB trigger a projection, each with leases of its own."""

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
DRAIN: Final = "0 * * * * *"
"""When deferred items are drained: every minute."""
AUDIT: Final = "30 */5 * * * *"
"""When the feed is audited: every five minutes. A run that takes longer is never joined by a second one."""


@dataclass(frozen=True)
class Trigger:
    """What is registered for one projection."""

    projection: Projection
    function: str  # the function's name
    source: Container
    leases: Container
    lease_prefix: str  # no other projection's, and no other version's

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
            "start_from_beginning": True,  # counts while there are no leases: a projection is built from all there is
            "max_items_per_invocation": MAX_ITEMS,
        }


def triggers(layout: Layout) -> Iterator[Trigger]:
    """One trigger a projection: each reads the feed for itself and holds up no other."""
    names = {projection.full_name: _function_name(projection.full_name) for projection in layout.catalog.parts}
    taken = [name.casefold() for name in names.values()]
    for projection in layout.catalog.parts:
        name = names[projection.full_name]
        if taken.count(name.casefold()) > 1:  # "a.b" beside "a-b", or "A" beside "a"
            name += f"-{hashlib.sha256(projection.full_name.encode()).hexdigest()[:8]}"
        yield Trigger(projection, name, layout.source(projection), layout.leases, lease_prefix(projection))


def lease_prefix(projection: Projection) -> str:
    """What the ids of a projection's leases begin with. Stored; a new one starts the feed from its beginning."""
    return f"{projection.name}-{projection.version}-"


def _function_name(full_name: str) -> str:
    """A letter, then letters, digits, _ and -: "orders.by id@1" -> "orders-by-id-1"."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", full_name)
    return name if name[0].isalpha() else f"p-{name}"
