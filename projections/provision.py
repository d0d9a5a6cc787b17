"""The containers a catalog needs: what they should be like, whether they are there, and creating them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from difflib import get_close_matches

from projections.aggregate import Aggregate
from projections.deadletters import DeadLetters
from projections.declare import Catalog, Projection, Source
from projections.embed import Embed
from projections.errors import IdentityError, MissingContainerError, NoVersionsError, UnsafeError
from projections.store import VERSIONS, Container, Description, Store

STATE_KEY_PATH = "/pk"
# Read by id and key alone, so nothing but the key is indexed: that halves what a write of state costs.
STATE_INDEXING = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": "/pk/?"}],
    "excludedPaths": [{"path": "/*"}],
}


RETENTION = 7 * 24 * 60
"""Minutes for which a source keeps all versions on an emulator: as an account with the shorter continuous backup."""


@dataclass(frozen=True)
class Layout:
    """Where everything of a catalog is, in an account."""

    catalog: Catalog
    database: str  # where a declaration names none

    def _at(self, database: str | None, name: str) -> Container:
        return Container(database or self.catalog.database or self.database, name)

    def source(self, projection: Projection) -> Container:
        return self._at(projection.source.database, projection.source.container)

    def target(self, projection: Projection) -> Container:
        return self._at(projection.target.database, projection.container)

    def refs(self, projection: Projection) -> Container | None:
        """The refs container, of an Embed."""
        if not isinstance(projection, Embed):
            return None
        return self._at(projection.target.database, projection.refs_container)

    @property
    def state(self) -> Container:
        return self._at(None, self.catalog.state)

    @property
    def deadletters(self) -> Container:
        return self._at(None, self.catalog.deadletters)

    @property
    def leases(self) -> Container:
        return self._at(None, self.catalog.leases)


def sources(layout: Layout, *, emulated: bool = False) -> Iterator[Description]:
    """The source containers, as declared. Teams have theirs; a local emulator needs them made.

    How long all versions are kept is said by an account's backup, and only on an emulator by the container.
    """
    found: dict[Container, list[Source]] = {}
    for projection in layout.catalog.parts:
        found.setdefault(layout.source(projection), []).append(projection.source)
    for container, declared in found.items():
        retention = RETENTION if emulated and any(source.all_versions for source in declared) else None
        yield Description(container, declared[0].key.paths, default_ttl=-1, retention=retention)


def own(layout: Layout) -> Iterator[Description]:
    """The containers that belong to the worker: targets, state, dead letters, and the Functions host's leases."""
    made = [part for part in layout.catalog.parts if not part.fills_source]
    yield from {layout.target(part): target(layout, part) for part in made}.values()
    yield Description(layout.state, (STATE_KEY_PATH,), default_ttl=-1, indexing=STATE_INDEXING)
    yield DeadLetters.description(layout.deadletters)
    yield Description(layout.leases, ("/id",))


def target(layout: Layout, projection: Projection) -> Description:
    """The target container of a projection, as declared."""
    declared = projection.target
    indexing = declared.indexing
    if isinstance(projection, Aggregate) and indexing is None:
        indexing = projection.indexing
    return Description(
        layout.target(projection), projection.key.paths, declared.default_ttl, indexing, declared.unique_keys,
        declared.throughput,
    )  # fmt: skip


async def initialise(
    store: Store,
    layout: Layout,
    *,
    with_sources: bool = True,
    emulated: bool = True,
    leave: Collection[Container] = (),
) -> list[tuple[Container, bool]]:
    """Create what is missing; for each container whether it was created. Never changes an existing one.

    Those to `leave` are not looked at. Without `with_sources` the sources have to be there. `emulated`: sources keep
    all versions by a policy of their own, where they are declared to.

    Raises:
        MissingContainerError: a source is not there, and is not to be created either; nothing was.
        IdentityError: something is missing, and a managed identity cannot create it; names all that is missing.
    """
    if not with_sources:
        await _check_sources(store, layout)
    everything = [*(sources(layout, emulated=emulated) if with_sources else ()), *own(layout)]
    wanted = [description for description in everything if description.container not in leave]
    try:
        return [(description.container, await store.create_container(description)) for description in wanted]
    except IdentityError as error:
        raise await _beforehand(store, wanted, error) from error


async def _check_sources(store: Store, layout: Layout) -> None:
    """A source that is not there has a wrong name rather than a wrong account: an empty one would hide that."""
    missing = [one.container for one in sources(layout) if await store.describe(one.container) is None]
    if not missing:
        return
    own_names = {description.container for description in own(layout)}
    hints = []
    for container in missing:
        there = await store.containers(container.database)
        near = get_close_matches(
            container.name, [n for n in there if Container(container.database, n) not in own_names]
        )
        if not there:
            hints.append(f"nothing is in database {container.database}: check COSMOS_DATABASE and the catalog")
        elif near:
            hints.append(f"is it {' or '.join(str(Container(container.database, name)) for name in near)}?")
    raise MissingContainerError(
        f"there is no source {', '.join(map(str, missing))}",
        hint="; ".join(
            [
                *dict.fromkeys(hints),
                "correct Source(container=...), or create it with `projections init --with-sources`",
            ]
        ),
    )


async def _beforehand(store: Store, wanted: Sequence[Description], error: IdentityError) -> IdentityError:
    missing = [one for one in wanted if await store.describe(one.container) is None]
    if not missing:
        return error
    named = "; ".join(f"{one.container} keyed {', '.join(one.key_paths)}" for one in missing)
    return IdentityError(
        f"a managed identity creates no containers, and these have to exist beforehand: {named}",
        hint="have them created with what `projections init --template bicep` (or az) prints",
    )


async def check(store: Store, layout: Layout, projection: Projection) -> int | None:
    """Refuse a set-up that would lose or misplace entries; returns the source's default TTL in seconds.

    Raises:
        MissingContainerError: a container is not there.
        UnsafeError: a container is not as the declaration needs it.
    """
    source = await _present(store, layout.source(projection), projection)
    if source.key_paths != projection.source.key.paths:
        raise UnsafeError(
            f"source {source.container} is keyed {source.key_paths}, declared {projection.source.key.paths}",
            projection=projection.label,
            hint="declare Source(key=...) as the container has it: identities are read from these paths",
        )
    if not projection.fills_source:
        found = await _present(store, layout.target(projection), projection)
        for problem in target_problems(found, projection, source):
            raise problem
    await _present(store, layout.state, projection)
    await _present(store, layout.deadletters, projection)
    if projection.source.all_versions:
        await _check_versions(store, source.container, projection)
    return source.default_ttl


async def _check_versions(store: Store, source: Container, projection: Projection) -> None:
    """Whether all versions are kept: an account tells only those who ask for them."""
    [feed_range, *_] = await store.feed_ranges(source)
    try:
        async with aclosing(store.changes(source, feed_range, VERSIONS, 1)) as pages:  # type: ignore[type-var]
            await anext(pages)
    except NoVersionsError as error:
        error.projection = projection.label
        raise


def target_problems(found: Description, projection: Projection, source: Description) -> Iterator[UnsafeError]:
    """What about an existing target would damage the projection."""
    if found.native is not None:
        yield UnsafeError(
            f"target {found.container} is a native index: the service keeps it, and nobody else writes there",
            projection=projection.label,
            hint="take the projection out of the catalog, or name the others: `projections run NAME ...`",
        )
        return
    if found.key_paths != projection.key.paths:
        yield UnsafeError(
            f"target {found.container} is keyed {found.key_paths}, declared {projection.key.paths}",
            projection=projection.label,
            hint="a container's key is permanent: raise the projection's version to build a new one",
        )
    yield from expiry_problems(found, projection, source)


def expiry_problems(found: Description, projection: Projection, source: Description) -> Iterator[UnsafeError]:
    """What about an existing target would let entries live too long, or not long enough."""
    stays = isinstance(projection, Aggregate)  # nothing in its target expires by itself
    if not stays and projection.ttl == "mirror" and source.default_ttl is not None and found.default_ttl is None:
        yield UnsafeError(
            f"target {found.container} has expiry off, so entries would outlive the items that expire in the source",
            projection=projection.label,
            hint='set its default TTL to -1 (on, no default), or declare ttl="ignore"',
        )
    if found.default_ttl is not None and found.default_ttl > 0:
        yield UnsafeError(
            f"target {found.container} expires entries after {found.default_ttl} s whatever the source says",
            projection=projection.label,
            hint="set its default TTL to -1 (on, no default)",
        )


async def _present(store: Store, container: Container, projection: Projection) -> Description:
    description = await store.describe(container)
    if description is None:
        raise MissingContainerError(
            f"there is no container {container}", projection=projection.label, hint="create it with `projections init`"
        )
    return description
