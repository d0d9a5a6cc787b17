"""Native global secondary indexes in place of targets: making them, where a projection can be one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from projections import gsi
from projections.declare import Index, Throughput
from projections.gsi import Obstacle
from projections.provision import Layout, target
from projections.store import Container, Description, Native, Store

LEAST_AUTOSCALE: Final = Throughput(autoscale=1_000)
"""What a native index gets where no throughput is declared: it cannot do without."""


class State(StrEnum):
    """What became of a native index."""

    CREATED = "created"
    EXISTS = "exists"
    PLAIN = "is a container like any other"
    OTHER = "is a native index of another definition"


@dataclass(frozen=True)
class Candidate:
    """A projection, and the native index that it could be, or why it cannot."""

    projection: str
    container: Container
    wanted: Description | None
    obstacles: tuple[Obstacle, ...] = ()

    @property
    def reason(self) -> str:
        """Why it cannot; empty where it can."""
        return "; ".join(f"{one.feature}: {one.reason}" for one in self.obstacles)


def candidates(layout: Layout) -> Iterator[Candidate]:
    """Every projection of the catalog. Of one source, those that come first are the ones that fit."""
    taken: dict[Container, int] = {}
    for projection in layout.catalog:
        container, source = layout.target(projection), layout.source(projection)
        obstacles = gsi.obstacles(projection, layout.catalog.database or layout.database)
        if not obstacles and taken.get(source, 0) == gsi.MOST_PER_SOURCE:
            obstacles = (
                Obstacle(
                    "source", f"a source has {gsi.MOST_PER_SOURCE} native indexes at most, and {source} has them",
                    "one of the others would have to go",
                ),
            )  # fmt: skip
        if obstacles or not isinstance(projection, Index):
            yield Candidate(projection.name, container, None, obstacles)
            continue
        taken[source] = taken.get(source, 0) + 1
        yield Candidate(projection.name, container, description(layout, projection))


def description(layout: Layout, projection: Index) -> Description:
    """The native index that stands in for a projection's target."""
    declared = target(layout, projection)
    native = Native(
        layout.source(projection).name, gsi.definition(projection, layout.catalog.database or layout.database)
    )
    return replace(
        declared,
        key_paths=gsi.native_key(projection),
        default_ttl=None,  # entries go with their items
        throughput=declared.throughput if declared.throughput != Throughput() else LEAST_AUTOSCALE,
        native=native,
    )


async def create(store: Store, wanted: Description) -> State:
    """Make a native index where there is nothing yet. What exists is left as it is, whatever it is.

    Raises:
        NativeIndexError: the account makes none.
        MissingContainerError: its source does not exist.
    """
    if await store.create_container(wanted):
        return State.CREATED
    found = await store.describe(wanted.container)
    if found is None or found.native is None:
        return State.PLAIN
    assert wanted.native is not None
    same = (found.native.source, found.native.definition) == (wanted.native.source, wanted.native.definition)
    return State.EXISTS if same and found.key_paths == wanted.key_paths else State.OTHER
