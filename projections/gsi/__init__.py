"""Native global secondary indexes: their definition text, and whether one could do what a projection does."""

from __future__ import annotations

from typing import Any, Final, cast

from projections.declare import Index, Projection, Source
from projections.errors import CatalogError
from projections.gsi.language import parse, refusal, render
from projections.gsi.obstacles import Obstacle, obstacles, selected
from projections.keys import parse_path

__all__ = ["MOST_PER_SOURCE", "Obstacle", "definition", "index", "native_key", "obstacles"]

MOST_PER_SOURCE: Final = 5
"""facts.md 30."""


def index(definition: str, *, name: str, source: Source, key: str | tuple[str, ...], **fields: Any) -> Index:
    """The Index that holds what a native one of this definition would.

    `key` is the partition key of the native container. There a selected property goes by its last name: with
    `SELECT c.ship.city FROM c` the key is "/city". The Index copies /ship/city as it is, and is keyed by that path.
    Items whose key is missing or null have entries, as they would natively; `fields` are those of Index.

    Raises:
        CatalogError: the service would refuse it, or an Index cannot be the same.
    """
    include = parse(definition)
    keys = (key,) if isinstance(key, str) else key
    if include is not None:
        by_name = {f"/{parse_path(path)[-1]}": path for path in include}
        for path in keys:
            if path not in by_name:
                raise refusal(
                    f"the key {path} is not selected, so that all entries would be under null",
                    f"select it, or use one of {', '.join(by_name)}", name,
                )  # fmt: skip
        keys = tuple(by_name[path] for path in keys)
    # facts.md 30: natively, nothing is left out for want of a key
    rules = {"missing": "keep", "null": "keep"} | fields
    return Index(name=name, source=source, key=keys[0] if len(keys) == 1 else keys, include=include, **rules)


def definition(projection: Projection, database: str | None = None) -> str:
    """The definition of the native index that could stand in for this projection.

    `database` is where the catalog's containers are when a declaration names none.

    Raises:
        CatalogError: none could.
    """
    found = obstacles(projection, database)
    if found:
        raise CatalogError(
            "no native index can do this: " + "; ".join(f"{one.feature}: {one.reason}" for one in found),
            projection=projection.name,
            hint=f"see `projections gsi explain {projection.name}`",
        )
    return render(selected(cast(Index, projection)))


def native_key(projection: Projection) -> tuple[str, ...]:
    """The partition key of that native index: a selected property goes by its last name there."""
    if not isinstance(projection, Index) or projection.include is None:
        return tuple(projection.key.copied)
    return tuple([f"/{parse_path(path)[-1]}" for path in projection.key.copied])
