"""What a native index would gain and lose beside a projection that it could stand in for, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from projections.declare import Index

OVERVIEW: Final = "https://learn.microsoft.com/azure/cosmos-db/global-secondary-indexes"
HOW_TO: Final = "https://learn.microsoft.com/azure/cosmos-db/how-to-configure-global-secondary-indexes"
SDK: Final = "https://learn.microsoft.com/python/api/azure-cosmos/azure.cosmos.globalsecondaryindexdefinition"
EMULATOR: Final = "https://github.com/Azure/azure-cosmos-db-emulator-docker/issues/354"


@dataclass(frozen=True)
class Point:
    """One thing that would be better or worse, and who says so."""

    text: str
    source: str

    def to_json(self) -> dict[str, str]:
        """For programs."""
        return {"text": self.text, "source": self.source}


GAINS: Final = (
    Point("the service keeps it in step: no code to run, no worker to watch", OVERVIEW),
    Point("creates, updates and deletes arrive, hard deletes included", HOW_TO),
    Point("its lag is a metric of the account (Global Secondary Index Propagation Latency in Seconds)", OVERVIEW),
)

LOSSES: Final = (
    Point("it is in preview, without a service level agreement", OVERVIEW),
    Point("the account needs continuous backup before the feature can be switched on", HOW_TO),
    Point("its throughput is autoscale: not in a serverless account, not shared with the database", OVERVIEW),
    Point("at most five of them a source, in the database of the source", SDK),
    Point("source and definition are fixed: a change is a new index; all go before their source can be deleted", SDK),
    Point("readers cannot insist on fresh entries: it is eventually consistent, whatever the account is", OVERVIEW),
    Point("properties that are missing in an item are null in its entry", OVERVIEW),
    Point("no emulator has it: not for tests on a laptop or in CI", EMULATOR),
)


def losses(projection: Index) -> tuple[Point, ...]:
    """What would be worse, or at least otherwise."""
    return (*_of_keys(projection), *_of_content(projection), *LOSSES)


def _of_keys(projection: Index) -> list[Point]:
    """Declared rules for items without a key, which a native index does not have."""
    ruled = [name for name in ("missing", "null") if getattr(projection, name) != "keep"]
    if not ruled:
        return []
    rules = " and ".join(f"{name}={getattr(projection, name)!r}" for name in ruled)
    return [
        Point(f"{rules} would be gone: items without the key are entries under null, 20 GB of them at most", OVERVIEW)
    ]


def _of_content(projection: Index) -> list[Point]:
    ids = Point("an entry's id is generated; the item's own is its _id", OVERVIEW)
    if projection.include is None:
        return [ids]
    found = [] if "/id" in projection.include else [
        Point("entries would not say which item they are of: include \"id\" makes it their _id", OVERVIEW)
    ]  # fmt: skip
    nested = [path for path in (*projection.include, *projection.key.copied) if path.count("/") > 1]
    if nested:
        found.append(Point(f"{', '.join(dict.fromkeys(nested))} would come out flat, under the last name", OVERVIEW))
    return [ids, *found] if "/id" in projection.include else found


SAME_KEYS: Final = (
    'missing="keep", null="keep": entries for items without the key, as natively. Here those with null are under null '
    "and those without it under no value; natively all are under null"
)
"""How a projection keeps what a native index would keep."""
