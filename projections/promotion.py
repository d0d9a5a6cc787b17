"""Having readers use another version: promote and rollback. Both versions stay live, so that nothing is lost.

Either is one conditional write of the alias: whoever is stopped before it has done nothing, and after it all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from projections.aliases import Alias, Aliases, Switch
from projections.deadletters import DeadLetters
from projections.declare import Projection
from projections.definitions import Definitions
from projections.embed import Header
from projections.errors import CatalogError, ProjectionsError
from projections.fanout import Jobs
from projections.feed import Checkpoint, Checkpoints
from projections.leases import feeds
from projections.provision import Layout
from projections.status import Status, pending_ages, status
from projections.store import Store
from projections.verified import LastVerified, last_verified

CATCH_UP_SECONDS: Final = 30.0
"""How long promote waits until what was written before it was called has arrived."""
FAR_BEHIND_SECONDS: Final = 300.0
"""Lag of a version to which nobody is switched back without being asked."""
VERIFIED_SECONDS: Final = 24 * 3600.0
"""How old a verification may be."""
REST_SECONDS: Final = 0.25


class NotReadyError(ProjectionsError):
    """Something stands against having readers use this version; nothing was switched."""


@dataclass(frozen=True)
class Outcome:
    """What a promote or rollback came to."""

    alias: Alias  # as it is now
    version: int  # that was asked for
    objections: tuple[str, ...] = ()  # what stood against it
    switched: bool = True  # False: it was so already, or it was a dry run


@dataclass(frozen=True, kw_only=True)
class Order:
    """Who wants readers to be switched, and how."""

    who: str
    why: str | None = None
    force: bool = False  # whatever stands against it
    dry_run: bool = False


class Promotion:
    """Switches readers of projections between versions. `wait`: seconds that a version is given to catch up."""

    def __init__(
        self, store: Store, layout: Layout, *, verified: LastVerified = last_verified, wait: float = CATCH_UP_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._store = store
        self._layout = layout
        self._aliases = Aliases(store, layout)
        self._verified = verified
        self._wait = wait
        self._now = now

    async def promote(self, name: str, version: int, order: Order) -> Outcome:
        """Have readers use a version that is caught up and verified.

        Raises:
            CatalogError: the catalog has no such version.
            NotReadyError: it is not, and nobody forces it; it says what is missing.
            ConflictError: somebody else has switched readers meanwhile.
        """
        candidate = self._declared(name, version)
        alias = await self._aliases.read(name)
        if alias.version == version:
            return Outcome(alias, version, switched=False)
        objections = [one async for one in self._against(candidate, alias)]
        return await self._switch(alias, version, objections, order)

    async def rollback(self, name: str, order: Order) -> Outcome:
        """Undo the last promote.

        Raises:
            NotReadyError: there is none to undo; or the version before is gone or far behind, and nobody forces it.
            ConflictError: somebody else has switched readers meanwhile.
        """
        self._layout.catalog.versions(name)
        alias = await self._aliases.read(name)
        last = alias.last
        if last is None or last.back:
            since = f" since the last rollback, by {last.who}" if last else ""
            raise NotReadyError(
                f"readers use version {alias.version}, and nothing was promoted{since}", projection=name,
                hint=f"to have them use another one: `projections promote {name} --version V`",
            )  # fmt: skip
        objections = [one async for one in self._against_going_back(self._declared(name, last.before))]
        return await self._switch(alias, last.before, objections, order, back=True)

    async def _switch(
        self, alias: Alias, version: int, objections: list[str], order: Order, *, back: bool = False
    ) -> Outcome:
        if order.dry_run:
            return Outcome(alias, version, tuple(objections), switched=False)
        if objections and not order.force:
            verb = "rollback" if back else "promote"
            raise NotReadyError(
                f"version {version} is not ready: {'; '.join(objections)}", projection=alias.name,
                hint=f"when that is done, `projections {verb}` again; or --force, whatever readers then miss",
            )  # fmt: skip
        switch = Switch(
            version=version, before=alias.version, at=int(self._now()), who=order.who, why=order.why,
            forced=bool(objections), back=back,
        )  # fmt: skip
        return Outcome(await self._aliases.switch(alias, switch), version, tuple(objections))

    def _declared(self, name: str, version: int) -> Projection:
        for projection in self._layout.catalog.versions(name):
            if projection.version == version and projection in self._layout.catalog.projections:
                if projection.fills_source:
                    raise CatalogError(
                        "its copies are in the items themselves: there are no versions to read", projection=name,
                        hint="declare it as it should be, and raise its version so that it is built anew",
                    )  # fmt: skip
                return projection
        known = ", ".join(str(one.version) for one in self._layout.catalog.versions(name))
        raise CatalogError(
            f"the catalog has no version {version} of it; it has {known}", projection=name,
            hint=f"declare it with version={version} beside the others, and have it built",
        )  # fmt: skip

    # what stands against it

    async def _against(self, candidate: Projection, alias: Alias) -> AsyncIterator[str]:
        began = self._now()
        parts = (*candidate.parts, candidate)
        late = [(part, why) for part in parts if (why := await self._late(part, began)) is not None]
        for part in parts:
            for objection in _wrong(await status(self._store, self._layout, part)):
                yield _about(part, candidate, objection)
        for part, why in late:
            yield _about(part, candidate, why)
        async for objection in self._parked(candidate, alias):
            yield objection
        async for objection in self._unverified(candidate):
            yield objection

    async def _late(self, projection: Projection, began: float) -> str | None:
        """What is missing until everything has been applied that was written before a moment; it is given some time.

        Under load there is always something pending; what is, is younger then.
        """
        needed = (self._layout.state, self._layout.source(projection))
        if None in [await self._store.describe(container) for container in needed]:
            return None  # what is missing is told by its status
        deadline = asyncio.get_running_loop().time() + self._wait
        while True:
            stands = [one async for one in self._stands(projection)]
            pending = [[made async for made in self._made(projection, one)] for one in stands]
            if any(all(made > began for made in one) for one in pending):
                return None
            if asyncio.get_running_loop().time() > deadline:
                nobody = "nobody has left word of a position in its feed: is it running?"
                return "it is behind its source (`projections status`)" if stands else nobody
            await asyncio.sleep(REST_SECONDS)

    async def _stands(self, projection: Projection) -> AsyncIterator[list[Checkpoint]]:
        """How far the pull worker is, and the Functions host: whoever of them is further counts (waiting.py).

        Of a source in all-versions mode that is the host's first trigger, which brings what is created and updated.
        """
        stored = await Checkpoints(self._store, self._layout.state, projection.full_name).load([])
        if stored:
            yield stored
        for way in (await feeds(self._store, self._layout, projection))[0]:
            yield way

    async def _made(self, projection: Projection, stand: list[Checkpoint]) -> AsyncIterator[float]:
        """When the first pending change of each range was made, and the fan-outs under way were begun."""
        now = self._now()
        for age in await pending_ages(self._store, self._layout.source(projection), stand, now):
            yield now - age
        if isinstance(projection, Header):
            for job in await Jobs(self._store, self._layout.state, projection).pending():
                yield job.began

    async def _parked(self, candidate: Projection, alias: Alias) -> AsyncIterator[str]:
        """More dead letters than the version that readers use has: what they would miss."""
        if await self._store.describe(self._layout.deadletters) is None:
            return
        for new, now in zip((*candidate.parts, candidate), self._in_use(candidate, alias), strict=False):
            letters, known = [
                await DeadLetters(self._store, self._layout.deadletters, one.full_name).count() for one in (new, now)
            ]
            if letters > known:
                listed = f"`projections deadletters list {new.full_name}`"
                yield _about(
                    new, candidate, f"{letters:,} dead letters, and version {now.version} has {known:,} ({listed})"
                )

    def _in_use(self, candidate: Projection, alias: Alias) -> tuple[Projection, ...]:
        for one in self._layout.catalog.projections:
            if (one.name, one.version) == (candidate.name, alias.version) and len(one.parts) == len(candidate.parts):
                return (*one.parts, one)
        return ()

    async def _unverified(self, candidate: Projection) -> AsyncIterator[str]:
        definition = await Definitions(self._store, self._layout).read(candidate.full_name)
        if definition is not None and definition.due:
            yield f"it was changed, and a replay is due (`projections replay {candidate.full_name}`)"
        found = await self._verified(self._store, self._layout, candidate)
        hint = f"run `projections verify {candidate.full_name}`"
        if found is None:
            yield f"it is not verified: {hint}"
        elif found.differences:
            differences = "difference" if found.differences == 1 else "differences"
            yield f"verify found {found.differences:,} {differences}: {hint} --repair"
        elif self._now() - found.at > VERIFIED_SECONDS or (definition is not None and found.at < definition.since):
            yield f"it was not verified in the last 24 hours, or not since it is declared as it is: {hint}"

    async def _against_going_back(self, before: Projection) -> AsyncIterator[str]:
        for part in (*before.parts, before):
            found = await status(self._store, self._layout, part)
            for objection in _wrong(found, settled=False):
                yield _about(part, before, objection)
            if found.lag is not None and found.lag > FAR_BEHIND_SECONDS:
                yield _about(part, before, f"it is {found.lag:,.0f} s behind its source: is anybody running it?")


def _about(part: Projection, whole: Projection, objection: str) -> str:
    return objection if part is whole else f"{part.name}: {objection}"


def _wrong(found: Status, *, settled: bool = True) -> Iterator[str]:
    """What is wrong with how a version stands. `settled`: nothing may be under way, either."""
    for container in found.missing:
        yield f"there is no {container} (`projections init`)"
    if found.alarm:
        yield f"its alarm has stopped it: {found.alarm.items:,} items in a row were parked ({found.alarm.error})"
    if settled and found.deferred:
        yield f"{found.deferred:,} items are deferred"
