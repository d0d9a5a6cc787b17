"""Which version of a projection readers use: an alias, switched by promote and rollback.

Without an alias it is the lowest version that the catalog declares, so that nobody reads a version that is added beside
it before that is promoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from projections.declare import Projection
from projections.errors import CatalogError, ConflictError, MissingContainerError
from projections.identity import Place
from projections.keys import Key
from projections.provision import Layout
from projections.store import Create, Delete, Document, Replace, Store, WriteError

PARTITION: Final = Key.of("aliases")
MOST_HISTORY: Final = 50
"""Switches that are kept of one alias."""


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One time that readers were switched."""

    version: int
    before: int  # the version until then
    at: int  # epoch seconds
    who: str
    why: str | None = None
    forced: bool = False  # although something stood against it
    back: bool = False  # a rollback

    def to_json(self) -> dict[str, Any]:
        """For programs, and as it is stored."""
        # stored; change with a version
        return {
            "version": self.version, "from": self.before, "at": self.at, "who": self.who, "why": self.why,
            "forced": self.forced, "back": self.back,
        }  # fmt: skip

    @staticmethod
    def from_stored(stored: Mapping[str, Any]) -> Switch:
        return Switch(
            version=stored["version"], before=stored["from"], at=stored["at"], who=stored["who"], why=stored["why"],
            forced=stored["forced"], back=stored["back"],
        )  # fmt: skip


@dataclass(frozen=True)
class Alias:
    """The version of one projection that readers use, and how it came to that."""

    name: str
    version: int
    history: tuple[Switch, ...] = ()  # the last one is how it stands
    etag: str | None = None  # None: it is not stored

    @property
    def last(self) -> Switch | None:
        return self.history[-1] if self.history else None

    def switched(self, switch: Switch) -> Alias:
        history = (*self.history, switch)[-MOST_HISTORY:]
        return replace(self, version=switch.version, history=history)

    def to_stored(self) -> Document:
        # stored; change with a version
        return {
            "id": self.name,
            "pk": PARTITION.values[0],
            "version": self.version,
            "history": [switch.to_json() for switch in self.history],
        }

    @staticmethod
    def from_stored(document: Mapping[str, Any]) -> Alias:
        history = tuple(map(Switch.from_stored, document["history"]))
        return Alias(document["id"], document["version"], history, document["_etag"])


class Aliases:
    """The aliases of a catalog's projections."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self._store = store
        self._layout = layout

    async def read(self, name: str) -> Alias:
        """The alias of a projection; one that is not stored where nobody has switched yet.

        Raises:
            CatalogError: there is none, and no such projection either.
        """
        return await self.stored(name) or Alias(name, self._layout.catalog[name].version)

    async def stored(self, name: str) -> Alias | None:
        """The alias as somebody has switched it; None where nobody has, or nothing has ever run."""
        place = Place(name, PARTITION)
        try:
            document = (await self._store.read(self._layout.state, [place])).get(place)
        except MissingContainerError:
            return None
        return Alias.from_stored(document) if document else None

    async def forget(self, alias: Alias) -> None:
        """Take an alias away, unless somebody has switched it meanwhile."""
        try:
            await self._store.write(self._layout.state, PARTITION, [Delete(alias.name, alias.etag or "")])
        except WriteError as error:
            if not isinstance(error.cause, ConflictError):
                raise

    async def switch(self, alias: Alias, switch: Switch) -> Alias:
        """Have readers use another version, unless somebody has switched them since the alias was read.

        Raises:
            ConflictError: somebody has; it says to which version.
        """
        wanted = alias.switched(switch)
        operation = Replace(wanted.to_stored(), alias.etag) if alias.etag else Create(wanted.to_stored())
        try:
            [etag] = await self._store.write(self._layout.state, PARTITION, [operation])
        except WriteError as error:
            if not isinstance(error.cause, ConflictError):
                raise
            present = await self.read(alias.name)
            if present.last == switch:
                return present  # only the answer was lost
            by = f", by {present.last.who}" if present.last else ""
            raise ConflictError(
                f"readers of {alias.name} have been switched to version {present.version} meanwhile{by}",
                hint="look at `projections status`, and do it again if it is still wanted",
            ) from error
        return replace(wanted, etag=etag)

    async def in_use(self, name: str) -> Projection:
        """The projection that readers of a name use; of a name@version that one.

        Raises:
            CatalogError: there is no such projection, or the catalog does not have the version that readers use.
        """
        declared = self._layout.catalog.versions(name)
        if name != declared[0].name or declared[0] not in self._layout.catalog.projections:
            return declared[0]
        alias = await self.read(name)
        for projection in declared:
            if projection.version == alias.version:
                return projection
        raise CatalogError(
            f"readers use version {alias.version} of {name}, which the catalog does not have "
            f"({', '.join(str(one.version) for one in declared)})",
            hint=f"deploy the catalog that has it; or `projections rollback {name}`, where that was there before",
        )  # fmt: skip
