"""Dropping a version of a projection: everything that is kept of it, and nothing else.

The definition says where its things are, in the catalog or no more. It goes last, so that a drop that was stopped
anywhere finds the rest when it is repeated; and it says from the first moment on that the version is being dropped, so
that no worker starts it meanwhile. The target goes before the checkpoints: a worker that went on from these with an
empty target would leave it empty.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from projections.aliases import Aliases
from projections.batches import Write, write_all
from projections.declare import Projection
from projections.definitions import Definition, Definitions
from projections.errors import CatalogError, ConflictError, IdentityError, ProjectionsError
from projections.keys import Key
from projections.named import REFRESH_SECONDS
from projections.provision import Layout
from projections.store import Container, Delete, Store
from projections.triggers import lease_prefix

READERS_SECONDS: Final = 12 * REFRESH_SECONDS
"""After a switch, how long readers may still be at the version before; with their longest readings."""
AT_ONCE: Final = 500
WRITES_AT_ONCE: Final = 4
COUNT: Final = "SELECT VALUE COUNT(1) FROM c"
# The state container is indexed by /pk, so that neither looks at what is not asked for.
OF_STATE: Final = "c.pk = @name OR STARTSWITH(c.pk, @spaced) OR STARTSWITH(c.pk, @barred)"
OF_LETTERS: Final = "c.projection = @name OR STARTSWITH(c.projection, @spaced) OR STARTSWITH(c.projection, @barred)"
OF_LEASES: Final = "STARTSWITH(c.id, @prefix)"


class KeptError(ProjectionsError):
    """This version is not to be dropped; nothing was."""


@dataclass(frozen=True)
class Going:
    """One kind of thing that a drop removes."""

    what: str
    where: Container
    documents: int  # 0: there is none, or none any more

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {"what": self.what, "container": str(self.where), "documents": self.documents}


@dataclass(frozen=True)
class _Part:
    """Documents in a container that is not dropped itself."""

    what: str
    container: Container
    condition: str
    parameters: dict[str, Any]
    key: str  # the property that the container is keyed by


class Drop:
    """Drops one version of a projection. What is to go can be asked for first."""

    def __init__(self, store: Store, layout: Layout, definition: Definition, others: Sequence[Definition] = ()) -> None:
        self.definition = definition
        self._recorded = others
        self._store = store
        self._layout = layout
        self._definitions = Definitions(store, layout)
        self._aliases = Aliases(store, layout)

    @staticmethod
    async def of(
        store: Store, layout: Layout, name: str, version: int, *, force: bool = False,
        now: Callable[[], float] = time.time,
    ) -> Drop:  # fmt: skip
        """A drop that nothing stands against.

        Raises:
            CatalogError: nothing is known of such a version.
            KeptError: readers use it, or may; or the catalog declares it, and nobody forces it.
        """
        full_name = f"{name}@{version}"
        declared = next((one for one in layout.catalog.projections if one.full_name == full_name), None)
        recorded = {one.full_name: one for one in await Definitions(store, layout).all()}
        definition = recorded.pop(full_name, None)
        if definition is None and declared is not None:
            definition = Definition.of(layout, declared, now())
        if definition is None:
            raise CatalogError(
                f"nothing is known of version {version} of {name}: it was dropped, or never there",
                hint="`projections plan` shows which versions there are",
            )
        await _unused(store, layout, definition, declared, now(), force)
        return Drop(store, layout, definition, list(recorded.values()))

    async def going(self) -> AsyncIterator[Going]:
        """What there is to remove, with the number of documents."""
        for what, container in self._containers():
            if await self._store.describe(container) is not None:
                yield Going(what, container, await self._count(container, COUNT, {}))
        for part in self._parts():
            if await self._store.describe(part.container) is not None:
                text = f"{COUNT} WHERE {part.condition}"
                yield Going(part.what, part.container, await self._count(part.container, text, part.parameters))

    def staying(self) -> list[Container]:
        """Containers of this version that somebody else uses, too."""
        used = (self.definition.target, self.definition.refs)
        return [one for one in used if one is not None and one in self._others]

    async def run(self, who: str) -> None:
        """Remove everything. Stopped anywhere, it goes on when it is repeated.

        Raises:
            IdentityError: a container cannot be deleted with a managed identity; it says which.
        """
        await self._definitions.dropping(self.definition, who)
        for _, container in self._containers():
            await self._delete(container)
        for part in self._parts():
            if await self._store.describe(part.container) is not None:
                await self._remove(part)
        alias = await self._aliases.stored(self.definition.name)
        if alias is not None and alias.version == self.definition.version:
            await self._aliases.forget(alias)
        await self._definitions.forget(self.definition.full_name)

    # what it has

    @property
    def _others(self) -> set[Container | None]:
        """Containers that are not this version's alone."""
        layout = self._layout
        declared = [one for one in layout.catalog.parts if one.full_name not in self._names]
        return {
            *(layout.state, layout.deadletters, layout.leases, self.definition.source),
            *(use(one) for one in declared for use in (layout.source, layout.target)),
            *(use for one in self._recorded for use in (one.source, one.target, one.refs)),
        }

    def _longer(self, prefix: str) -> dict[str, str]:
        """Prefixes of others' leases that begin with one of ours: "a-1-1-" with "a-1-"."""
        declared = [lease_prefix(one) for one in self._layout.catalog.parts]
        every = {*declared, *(one for other in self._recorded for one in other.leases)} - {*self.definition.leases}
        return {f"@other{n}": one for n, one in enumerate(sorted(every)) if one.startswith(prefix)}

    @property
    def _names(self) -> tuple[str, ...]:
        return (*self.definition.parts, self.definition.full_name)

    def _containers(self) -> list[tuple[str, Container]]:
        named = (("target", self.definition.target), ("references", self.definition.refs))
        return [(what, one) for what, one in named if one is not None and one not in self._others]

    def _parts(self) -> list[_Part]:
        state, letters, leases = self._layout.state, self._layout.deadletters, self._layout.leases
        found = []
        for name in self._names:
            given = {"@name": name, "@spaced": f"{name} ", "@barred": f"{name}|"}
            found.append(_Part(f"placement records and positions of {name}", state, OF_STATE, given, "pk"))
            found.append(_Part(f"dead letters and deferred items of {name}", letters, OF_LETTERS, given, "projection"))
        for prefix in self.definition.leases:
            longer = self._longer(prefix)
            condition = OF_LEASES + "".join(f" AND NOT STARTSWITH(c.id, {name})" for name in longer)
            found.append(_Part(f"leases {prefix}", leases, condition, {"@prefix": prefix, **longer}, "id"))
        return found

    async def _count(self, container: Container, text: str, parameters: dict[str, Any]) -> int:
        return sum([n async for page in self._store.query(container, text, parameters) for n in page])

    # removing it

    async def _delete(self, container: Container) -> None:
        try:
            await self._store.delete_container(container)
        except IdentityError as error:
            error.message = f"a managed identity deletes no containers, and this one has to go first: {container}"
            error.hint = (
                f"have it deleted (az cosmosdb sql container delete -d {container.database} -n {container.name} ...), "
                "and do this again for the rest"
            )
            raise

    async def _remove(self, part: _Part) -> None:
        text = f'SELECT c.id, c["{part.key}"] AS owner, c._etag FROM c WHERE {part.condition}'
        while True:  # a query that goes on while its answer is being deleted may leave some out
            found = 0
            async for page in self._store.query(part.container, text, part.parameters, page_size=AT_ONCE):
                found += len(page)
                await self._delete_all(part.container, page)
            if not found:
                return

    async def _delete_all(self, container: Container, page: list[dict[str, Any]]) -> None:
        writes = [Write(Key.of(one["owner"]), Delete(one["id"], one["_etag"])) for one in page]
        for result in await write_all(self._store, container, writes, asyncio.Semaphore(WRITES_AT_ONCE)):
            if isinstance(result, ProjectionsError) and not isinstance(result, ConflictError):
                raise result


async def _unused(
    store: Store, layout: Layout, definition: Definition, declared: Projection | None, now: float, force: bool
) -> None:
    name, version = definition.name, definition.version
    there = any(one.name == name for one in layout.catalog.projections)
    aliases = Aliases(store, layout)
    alias = await aliases.read(name) if there else await aliases.stored(name)
    if alias is not None and alias.version == version and (there or not force):
        remedy = f"first have them use another one: `projections promote {name} --version V`"
        raise KeptError(
            f"readers use version {version}", projection=name,
            hint=remedy if there else "the catalog has no other; --force, if there are no readers any more",
        )  # fmt: skip
    if force:
        return
    if declared is not None:
        raise KeptError(
            f"the catalog declares version {version}: a worker would build it again", projection=name,
            hint="take it out of the catalog and deploy that first, to workers and readers; or --force",
        )  # fmt: skip
    last = alias.last if alias else None
    if last is not None and last.before == version and now - last.at < READERS_SECONDS:
        raise KeptError(
            f"readers were switched from version {version} a moment ago, and some may still be at it", projection=name,
            hint=f"wait {READERS_SECONDS:g} s after a switch; or --force",
        )  # fmt: skip
