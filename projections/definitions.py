"""What is deployed: the stored definition of each projection, written when a worker opens it first.

A worker that opens a projection compares the declaration with the definition. A change that needs a new version is
refused: entries under two keys, or totals of two sets of measures, are no read model. With one that needs a replay the
worker goes on, and the replay is on record as due until it has brought in line what was made before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from projections.declare import Projection
from projections.describing import completed, described
from projections.embed import Header
from projections.errors import ConflictError, UnsafeError
from projections.identity import Place
from projections.keys import Key
from projections.provision import Layout
from projections.revision import Change, Need, compare
from projections.store import Container, Create, Delete, Document, Replace, Store, WriteError
from projections.triggers import lease_prefix

log = logging.getLogger("projections")

PARTITION: Final = Key.of("definitions")
TRIES: Final = 10
"""Before a definition that others keep changing counts as trouble."""


def library() -> str:
    """Which release this is; a Functions app has the package beside it, and not installed."""
    try:
        return version("cosmos-projections")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class Due:
    """A change for which a replay is due, or somebody's judgement, and when it was first at work (epoch seconds)."""

    change: Change
    at: int


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What is on record of one version of a projection: how it is declared, and where its things are."""

    name: str
    version: int
    fields: Mapping[str, Any]
    target: Container | None  # None: its copies are in the items of its source
    refs: Container | None
    parts: tuple[str, ...]  # full names of what it rests on
    leases: tuple[str, ...]  # what the ids of the Functions host's leases begin with
    since: int  # epoch seconds: declared like this
    library: str  # that wrote it
    due: tuple[Due, ...] = ()
    dropped_by: str | None = None  # who is dropping it
    etag: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def label(self) -> str:
        """What people call it."""
        return self.name if self.version == 1 else self.full_name

    @property
    def source(self) -> Container:
        source = self.fields["source"]
        return Container(source["database"], source["container"])

    @staticmethod
    def of(layout: Layout, projection: Projection, now: float) -> Definition:
        """As it would be stored of a declaration."""
        return Definition(
            name=projection.name,
            version=projection.version,
            fields=described(layout, projection),
            target=None if projection.fills_source else layout.target(projection),
            refs=layout.refs(projection),
            parts=tuple(part.full_name for part in projection.parts),
            leases=tuple(lease_prefix(part) for part in (*projection.parts, projection)),
            since=int(now),
            library=library(),
        )

    @staticmethod
    def from_stored(document: Mapping[str, Any]) -> Definition:
        return Definition(
            name=document["name"],
            version=document["version"],
            fields=document["fields"],
            target=_container(document["target"]),
            refs=_container(document["refs"]),
            parts=tuple(document["parts"]),
            leases=tuple(document["leases"]),
            since=document["since"],
            library=document["library"],
            due=tuple(Due(Change.from_stored(one), one["at"]) for one in document["due"]),
            dropped_by=document["droppedBy"],
            etag=document["_etag"],
        )

    def to_stored(self) -> Document:
        # stored; change with a version
        return {
            "id": self.full_name,
            "pk": PARTITION.values[0],
            "name": self.name,
            "version": self.version,
            "fields": dict(self.fields),
            "target": _stored(self.target),
            "refs": _stored(self.refs),
            "parts": list(self.parts),
            "leases": list(self.leases),
            "since": self.since,
            "library": self.library,
            "due": [one.change.to_json() | {"at": one.at} for one in self.due],
            "droppedBy": self.dropped_by,
        }

    def changes(self, layout: Layout, projection: Projection) -> list[Change]:
        """What has been declared otherwise since."""
        return list(compare(completed(self.fields), described(layout, projection)))


def _container(stored: Sequence[str] | None) -> Container | None:
    return Container(*stored) if stored else None


def _stored(container: Container | None) -> list[str] | None:
    return [container.database, container.name] if container else None


class Definitions:
    """The stored definitions of a catalog's projections, and of those that were in it once."""

    def __init__(self, store: Store, layout: Layout, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._layout = layout
        self._now = now

    async def all(self) -> list[Definition]:
        """Every one, by name and version."""
        pages = self._store.query(self._layout.state, "SELECT * FROM c", {}, PARTITION)
        found = [Definition.from_stored(document) async for page in pages for document in page]
        return sorted(found, key=lambda one: (one.name, one.version))

    async def read(self, full_name: str) -> Definition | None:
        place = Place(full_name, PARTITION)
        document = (await self._store.read(self._layout.state, [place])).get(place)
        return Definition.from_stored(document) if document else None

    async def check(self, projection: Projection) -> Definition | None:
        """Refuse a declaration that does not fit what is deployed; the definition, where there is one. Writes nothing.

        Raises:
            UnsafeError: it needs a new version, or this one is being dropped.
        """
        projection = whole(projection)
        found = await self.read(projection.full_name)
        if found is not None:
            _refuse(found, found.changes(self._layout, projection))
        return found

    async def settle(self, projection: Projection) -> None:
        """Write down that a projection is at work as it is declared, and what is due on account of that.

        Raises:
            UnsafeError: it needs a new version, or this one is being dropped.
        """
        projection = whole(projection)
        for _ in range(TRIES):
            found = await self.check(projection)
            if found is not None:
                changes = found.changes(self._layout, projection)
                if not changes:
                    return
                _tell(found, changes)
            if await self._write(found, self._declared(projection, found)):
                return
        raise _restless(projection.label)

    def _declared(self, projection: Projection, before: Definition | None) -> Definition:
        now = int(self._now())
        definition = Definition.of(self._layout, projection, now)
        if before is None:
            return definition
        changes = before.changes(self._layout, projection)
        due = [Due(one, now) for one in changes if one.need in (Need.REPLAY, Need.JUDGEMENT)]
        return replace(definition, due=_merged([*before.due, *due]))

    async def replayed(self, projection: Projection, began: float) -> None:
        """A replay of a projection has been completed that began at this time: what was due until then is done."""
        await self._settled(whole(projection), lambda due: due.at > began)

    async def accept(self, projection: Projection) -> list[Change]:
        """Somebody says that nothing has to be done about what has changed or is due; what that was.

        Raises:
            UnsafeError: it needs a new version, whatever anybody says, or this one is being dropped.
        """
        projection = whole(projection)
        for _ in range(TRIES):
            found = await self.check(projection)
            if found is None:
                return []  # it is new
            changes = [*(due.change for due in found.due), *found.changes(self._layout, projection)]
            if not changes or await self._write(found, Definition.of(self._layout, projection, self._now())):
                return changes
        raise _restless(projection.label)

    async def _settled(self, projection: Projection, stays: Callable[[Due], bool]) -> None:
        for _ in range(TRIES):
            found = await self.read(projection.full_name)
            if found is None or all(map(stays, found.due)):
                return
            if await self._write(found, replace(found, due=tuple(filter(stays, found.due)))):
                return

    async def dropping(self, definition: Definition, who: str) -> Definition:
        """Put on record that a version is being dropped, so that nobody starts it meanwhile; as it is on record now."""
        for _ in range(TRIES):
            found = await self.read(definition.full_name)
            if found is not None and found.dropped_by is not None:
                return found
            await self._write(found, replace(found or definition, dropped_by=who))
        raise _restless(definition.label)

    async def forget(self, full_name: str) -> None:
        """Take a definition away; safe to repeat."""
        found = await self.read(full_name)
        if found is not None:
            await _unless_changed(self._store.write(self._layout.state, PARTITION, [Delete(full_name, found.etag)]))

    async def _write(self, before: Definition | None, definition: Definition) -> bool:
        """Write a definition in place of the one that was read; whether nobody was quicker."""
        document = definition.to_stored()
        operation = Create(document) if before is None else Replace(document, before.etag)
        return await _unless_changed(self._store.write(self._layout.state, PARTITION, [operation]))


def whole(projection: Projection) -> Projection:
    """What is declared: of a part the projection that rests on it."""
    return projection.embed if isinstance(projection, Header) else projection


def _merged(due: Iterable[Due]) -> tuple[Due, ...]:
    """One a field: from what it was first to what it is now, at work since the last change."""
    found: dict[str, Due] = {}
    for one in due:
        before = found.get(one.change.field)
        found[one.change.field] = replace(one, change=replace(one.change, old=before.change.old)) if before else one
    return tuple(found.values())


def _refuse(definition: Definition, changes: Sequence[Change]) -> None:
    if definition.dropped_by is not None:
        raise UnsafeError(
            f"it is being dropped, by {definition.dropped_by}", projection=definition.label,
            hint=f"finish that with `projections drop {definition.name} --version {definition.version}`; to have it "
            "again, declare a higher version",
        )  # fmt: skip
    fatal = [str(change) for change in changes if change.need is Need.VERSION]
    if fatal:
        raise UnsafeError(
            f"it was deployed with another declaration: {'; '.join(fatal)}", projection=definition.label,
            hint=f"leave version {definition.version} as it was and declare the change beside it with "
            f"version={definition.version + 1}, which is built while this one goes on; `projections plan` shows what "
            "that takes",
        )  # fmt: skip


def _restless(label: str) -> UnsafeError:
    return UnsafeError(
        "its definition is being changed by others all the time", projection=label,
        hint="are two catalogs at work that declare it differently? Deploy one",
    )  # fmt: skip


def _tell(definition: Definition, changes: Iterable[Change]) -> None:
    for change in changes:
        extra = {"projection": definition.label, "field": change.field}
        if change.need is Need.REPLAY:
            log.warning(f"changed; due: projections replay {definition.label}", extra=extra)
        elif change.need is Need.JUDGEMENT:
            log.warning(f"code may have changed; yours to judge: projections plan {definition.name}", extra=extra)
        else:
            log.info("changed", extra=extra)


async def _unless_changed(write: Any) -> bool:
    """Carry out a write; False where somebody was quicker."""
    try:
        await write
    except WriteError as error:
        if not isinstance(error.cause, ConflictError):
            raise
        return False
    return True
