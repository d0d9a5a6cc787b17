"""What a catalog asks for beside what is deployed: which projections are new, changed or gone, and what that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from projections.aggregate import Aggregate
from projections.aliases import Aliases
from projections.audit import audit_name
from projections.declare import Projection
from projections.definitions import Definition, Definitions
from projections.embed import Embed
from projections.feed import Checkpoints
from projections.provision import Layout
from projections.revision import Change, Need, gravest
from projections.store import Container, Store

READ_UNITS: Final = 1.0
"""Request units to read an item of 1 KB, from the feed or by its place."""
ENTRY_UNITS: Final = 6.0
"""To write an entry, a record or a contribution of 1 KB, with the service's default indexing; measured: 5 to 7."""
COUNT: Final = "SELECT VALUE COUNT(1) FROM c"


class Stage(StrEnum):
    NEW = "new"
    CHANGED = "changed"
    GONE = "gone"  # from the catalog; what it has made is there
    DUE = "due"  # deployed as declared, and a replay is due
    UNRECORDED = "not on record"  # at work since before there were definitions
    UNCHANGED = "unchanged"


TO_DO: Final = frozenset({Stage.NEW, Stage.CHANGED, Stage.GONE, Stage.DUE})


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An estimate: what has to be read, and what of request units that takes, for items and entries of about 1 KB."""

    items: int
    least: float  # where every entry is right already
    most: float  # where every one has to be written

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {"items": self.items, "requestUnitsLeast": self.least, "requestUnitsMost": self.most}


@dataclass(frozen=True, kw_only=True)
class Step:
    """What becomes of one version of a projection."""

    projection: str
    version: int
    stage: Stage
    changes: tuple[Change, ...] = ()
    does: tuple[str, ...]  # what will happen, or has to be done, in this order
    create: tuple[Container, ...] = ()  # containers that are missing
    cost: Cost | None = None

    @property
    def label(self) -> str:
        return self.projection if self.version == 1 else f"{self.projection}@{self.version}"

    @property
    def need(self) -> Need:
        return gravest(self.changes)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "projection": self.projection,
            "version": self.version,
            "state": self.stage.value,
            "changes": [change.to_json() for change in self.changes],
            "needs": self.need.value,
            "does": list(self.does),
            "create": [str(container) for container in self.create],
            "estimate": self.cost.to_json() if self.cost else None,
        }


class Deployment:
    """Compares a catalog with what is deployed. Reads only; the items of sources are counted, not read."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self._store = store
        self._layout = layout
        self._items: dict[Container, int] = {}

    async def steps(self) -> list[Step]:
        """What becomes of every version, declared or deployed."""
        recorded = {one.full_name: one for one in await self._recorded()}
        steps = [await self._declared(one, recorded.get(one.full_name)) for one in self._layout.catalog]
        declared = {one.full_name for one in self._layout.catalog}
        return steps + [await self._gone(one) for name, one in recorded.items() if name not in declared]

    async def _recorded(self) -> list[Definition]:
        if await self._store.describe(self._layout.state) is None:
            return []
        return await Definitions(self._store, self._layout).all()

    async def _declared(self, projection: Projection, definition: Definition | None) -> Step:
        if definition is None:
            return await self._unknown(projection)
        changes = tuple(definition.changes(self._layout, projection))
        if changes:
            return await self._changed(projection, changes)
        due = tuple(one.change for one in definition.due)
        if not due:
            return self._step(projection, Stage.UNCHANGED)
        return self._step(projection, Stage.DUE, due, _remedies(projection, due), cost=await self._replay(projection))

    def _step(
        self, projection: Projection, stage: Stage, changes: tuple[Change, ...] = (), does: Sequence[str] = (),
        **fields: Any,
    ) -> Step:  # fmt: skip
        return Step(
            projection=projection.name, version=projection.version, stage=stage, changes=changes, does=tuple(does),
            **fields,
        )  # fmt: skip

    async def _unknown(self, projection: Projection) -> Step:
        for name in (projection.full_name, audit_name(projection)):
            state = self._layout.state
            if await self._store.describe(state) and await Checkpoints(self._store, state, name).load([]):
                on_record = ("the next start puts its definition on record",)
                return self._step(projection, Stage.UNRECORDED, does=on_record)
        missing = await self._missing(projection)
        does = [
            *(["`projections init` creates its containers"] if missing else []),
            "built from all items of its source",
            *await self._beside(projection),
        ]
        return self._step(projection, Stage.NEW, does=does, create=missing, cost=await self._build(projection))

    async def _beside(self, projection: Projection) -> list[str]:
        """What a version that is built beside others means for readers."""
        alone = len(self._layout.catalog.versions(projection.name)) == 1
        if alone or projection.fills_source or await self._store.describe(self._layout.state) is None:
            return []
        used = (await Aliases(self._store, self._layout).read(projection.name)).version
        if used == projection.version:
            return []
        promote = f"`projections promote {projection.name} --version {projection.version}`"
        return [f"readers stay at version {used} until {promote}"]

    async def _changed(self, projection: Projection, changes: tuple[Change, ...]) -> Step:
        need = gravest(changes)
        if need is Need.VERSION:
            does = (
                "refused at the start",
                f"leave version {projection.version} as it was, and declare this beside it with "
                f"version={_next(self._layout, projection)}",
            )
            return self._step(projection, Stage.CHANGED, changes, does, cost=await self._build(projection))
        cost = None if need is Need.NOTHING else await self._replay(projection)
        return self._step(projection, Stage.CHANGED, changes, _remedies(projection, changes), cost=cost)

    async def _gone(self, definition: Definition) -> Step:
        does = [f"`projections drop {definition.name} --version {definition.version}` removes it"]
        if definition.dropped_by is not None:
            does = [f"{definition.dropped_by} has begun to drop it; " + does[0]]
        return Step(projection=definition.name, version=definition.version, stage=Stage.GONE, does=tuple(does))

    async def _missing(self, projection: Projection) -> tuple[Container, ...]:
        needed = dict.fromkeys(
            self._layout.target(part) for part in (*projection.parts, projection) if not part.fills_source
        )
        return tuple([one for one in needed if await self._store.describe(one) is None])

    # what it costs

    async def _build(self, projection: Projection) -> Cost:
        parts = (*projection.parts, projection)
        counts = {part.full_name: await self._count(self._layout.source(part)) for part in parts}
        units = sum(counts[part.full_name] * (READ_UNITS * 2 + _writes(part)) for part in parts)
        return Cost(items=sum(counts.values()), least=units, most=units)

    async def _replay(self, projection: Projection) -> Cost:
        """Item, record and entry are read in any case."""
        parts = (*projection.parts, projection)
        counts = {part.full_name: await self._count(self._layout.source(part)) for part in parts}
        least = sum(counts.values()) * READ_UNITS * 3
        most = least + sum(counts[part.full_name] * _writes(part) for part in parts)
        return Cost(items=sum(counts.values()), least=least, most=most)

    async def _count(self, source: Container) -> int:
        if source not in self._items:
            there = await self._store.describe(source) is not None
            pages = self._store.query(source, COUNT, {}) if there else None
            self._items[source] = sum([n async for page in pages for n in page]) if pages is not None else 0
        return self._items[source]


def _writes(projection: Projection) -> float:
    """Request units that it takes to write what one item has, once."""
    documents = 1 + (projection.placement == "tracked")
    if isinstance(projection, Embed):
        documents += len(projection.references)
    if isinstance(projection, Aggregate):
        documents += 1  # the share of a total, which is written with many
    return documents * ENTRY_UNITS


def _next(layout: Layout, projection: Projection) -> int:
    return max(one.version for one in layout.catalog.versions(projection.name)) + 1


def _remedies(projection: Projection, changes: Sequence[Change]) -> list[str]:
    """What to do about changes that the worker starts with."""
    needs = {change.need for change in changes}
    found = []
    if Need.NOTHING in needs:
        found.append("holds from the next start on")
    if Need.REPLAY in needs:
        found.append(f"`projections replay {projection.full_name}` once it has started: older entries are not in line")
    if Need.JUDGEMENT in needs:
        found.append(
            f"code may have changed, and nobody but you can tell what it does: where entries change, a replay or a new "
            f"version; where they do not, `projections plan --accept {projection.full_name}`"
        )
    return found
