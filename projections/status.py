"""How a projection stands: what it holds, what it has done, and how far behind its source it is."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from projections.alarm import Alarm, Raised
from projections.audit import AS_IT_SHOULD_BE, audit_name
from projections.deadletters import DeadLetters
from projections.declare import Projection
from projections.deferred import Deferred
from projections.definitions import Definitions, whole
from projections.embed import Header
from projections.fanout import Job, Jobs
from projections.feed import Checkpoint, Checkpoints, Span, oldest
from projections.identity import Place
from projections.keys import Key
from projections.outcomes import Tally
from projections.provision import Layout
from projections.store import Container, Store
from projections.verification import LAST_ID, RUN_ID, Report


class Health(StrEnum):
    OK = "ok"  # nothing is pending
    BEHIND = "behind"
    NOT_STARTED = "not started"  # no position is stored yet
    ALARM = "alarm"  # stopped: everything was being parked
    MISSING = "missing"  # a container is not there


@dataclass(frozen=True, kw_only=True)
class AuditStatus:
    """How far the audit of a projection is, and what it has found so far."""

    lag: float  # seconds since the oldest change was made that it has not looked at; 0 when there is none
    examined: int
    repaired: int
    missed: tuple[Span, ...] = ()  # when deletes may have been missed

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        missed = [list(span) for span in self.missed]
        return {
            "lagSeconds": self.lag, "examined": self.examined, "repaired": self.repaired, "missedDeletes": missed,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class VerifyStatus:
    """The verify of a projection that is under way or was cut off, or the last one that came to its end."""

    phase: str  # "done" at its end
    scope: str
    differences: int  # so far; those that a repair has left, where there was one
    age: float  # seconds since it ended, or began

    @staticmethod
    def of(document: Mapping[str, Any], now: float) -> VerifyStatus:
        report = Report.from_json(document.get("report", document))
        found = report.differences if report.repaired is None else report.left
        began = document["at"] if "at" in document else document["began"]
        return VerifyStatus(
            phase=document.get("phase", "done"),
            scope=report.scope,
            differences=found.total(),
            age=max(0.0, now - began),
        )

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        told = {"phase": self.phase, "scope": self.scope, "differences": self.differences}
        return told | {"ageSeconds": round(self.age, 1)}


@dataclass(frozen=True, kw_only=True)
class FanOutStatus:
    """The fan-outs under way of one reference."""

    jobs: int  # referenced items whose copies are being brought up to date
    done: int  # entries looked at
    total: int | None  # entries to look at; None while they are not counted, as long as they may be few
    oldest: float  # seconds since the first of them began

    @staticmethod
    def of(jobs: Sequence[Job], now: float) -> FanOutStatus | None:
        if not jobs:
            return None
        totals = [job.total for job in jobs if job.total is not None]
        done, oldest = sum(job.done for job in jobs), max(0.0, now - min(job.began for job in jobs))
        return FanOutStatus(jobs=len(jobs), done=done, total=sum(totals) if totals else None, oldest=oldest)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {"jobs": self.jobs, "done": self.done, "total": self.total, "oldestSeconds": self.oldest}

    def __str__(self) -> str:
        progress = f", {self.done:,} of {self.total:,} entries" if self.total is not None else ""
        return f"{self.jobs:,} {'fan-out' if self.jobs == 1 else 'fan-outs'} under way{progress}"


@dataclass(frozen=True, kw_only=True)
class Status:
    """How one projection stands."""

    projection: str
    version: int
    target: Container
    health: Health
    missing: tuple[Container, ...] = ()
    entries: int | None = None  # in the target
    ranges: int = 0  # feed ranges with a checkpoint
    pending_ranges: int = 0  # of these, with changes pending
    gap: str | None = None  # changes pending: "0", or ">=n" where only the first of each range is known
    lag: float | None = None  # seconds since the oldest pending change was made; 0 when there is none
    deadletters: int | None = None
    oldest_deadletter: float | None = None  # seconds since the first of these items was parked
    deferred: int | None = None
    oldest_deferred: float | None = None  # seconds since the first of these items was deferred
    fan_outs: FanOutStatus | None = None  # of a reference: None where there are none
    alarm: Raised | None = None
    audit: AuditStatus | None = None  # None: none has run yet
    handing_over: int = 0  # feed ranges whose latest versions are being read before all versions are
    missed: tuple[Span, ...] = ()  # when deletes may have been missed, in epoch seconds: the feed had forgotten them
    verify: VerifyStatus | None = None
    due: tuple[str, ...] = ()  # fields that were changed, for which a replay is due
    tally: Tally = field(default_factory=Tally)  # of all work before the checkpoints

    @property
    def label(self) -> str:
        """What people call the projection."""
        return self.projection if self.version == 1 else f"{self.projection}@{self.version}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "projection": self.projection,
            "version": self.version,
            "target": str(self.target),
            "health": self.health.value,
            "missing": [str(container) for container in self.missing],
            "entries": self.entries,
            "ranges": self.ranges,
            "gap": self.gap,
            "lagSeconds": self.lag,
            "deadLetters": self.deadletters,
            "oldestDeadLetterSeconds": self.oldest_deadletter,
            "deferred": self.deferred,
            "oldestDeferredSeconds": self.oldest_deferred,
            "fanOuts": self.fan_outs.to_json() if self.fan_outs else None,
            "alarm": {"error": self.alarm.error, "items": self.alarm.items, "at": self.alarm.at}
            if self.alarm
            else None,
            "audit": self.audit.to_json() if self.audit else None,
            "handingOver": self.handing_over,
            "missedDeletes": [list(span) for span in self.missed],
            "verify": self.verify.to_json() if self.verify else None,
            "replayDue": list(self.due),
            **self.tally.to_stored(),
        }


async def status(store: Store, layout: Layout, projection: Projection, *, now: float | None = None) -> Status:
    """How a projection stands at a time (epoch seconds; the present when None)."""
    now = time.time() if now is None else now
    source, target = layout.source(projection), layout.target(projection)
    needed = (source, target, layout.state, layout.deadletters)
    missing = tuple([container for container in needed if await store.describe(container) is None])
    stored = (
        await Checkpoints(store, layout.state, projection.full_name).load([]) if layout.state not in missing else []
    )
    pending = await pending_ages(store, source, stored, now) if not missing else []
    alarm = await Alarm(store, layout.state, projection).raised() if layout.state not in missing else None
    there = layout.deadletters not in missing
    parked, oldest = await _waiting(DeadLetters(store, layout.deadletters, projection.full_name), now, there)
    deferred, oldest_deferred = await _waiting(Deferred(store, layout.deadletters, projection.full_name), now, there)
    jobs: list[Job] = []
    if isinstance(projection, Header) and layout.state not in missing:
        jobs = await Jobs(store, layout.state, projection).pending()
    tally = Tally()
    for checkpoint in stored:
        tally.merge(checkpoint.tally)
    return Status(
        projection=projection.name,
        version=projection.version,
        target=target,
        health=_health(missing, alarm, stored, bool(pending or jobs)),
        missing=missing,
        entries=None if target in missing or projection.fills_source else await _count(store, target),
        ranges=len(stored),
        pending_ranges=len(pending),
        gap=None if missing or not stored else f">={len(pending)}" if pending else "0",
        lag=None if missing or not stored else max(pending, default=0.0),
        deadletters=parked,
        oldest_deadletter=oldest,
        deferred=deferred,
        oldest_deferred=oldest_deferred,
        fan_outs=FanOutStatus.of(jobs, now),
        alarm=alarm,
        audit=await _audit(store, layout, projection, now) if not missing else None,
        handing_over=sum(one.loading for one in stored),
        missed=missed_deletes(stored),
        verify=await _verify(store, layout, projection, now) if layout.state not in missing else None,
        due=await _due(store, layout, projection) if not missing else (),
        tally=tally,
    )


async def _waiting(items: DeadLetters | Deferred, now: float, there: bool) -> tuple[int | None, float | None]:
    """How many items are parked, or deferred, and the age of the first; nothing where their container is missing."""
    if not there:
        return None, None
    count, oldest = await items.count(), await items.oldest()
    return count, None if oldest is None else max(0.0, now - oldest)


def _health(missing: tuple[Container, ...], alarm: Raised | None, stored: list[Checkpoint], pending: bool) -> Health:
    if missing:
        return Health.MISSING
    if alarm:
        return Health.ALARM
    if not stored:
        return Health.NOT_STARTED
    return Health.BEHIND if pending else Health.OK


async def _due(store: Store, layout: Layout, projection: Projection) -> tuple[str, ...]:
    definition = await Definitions(store, layout).read(whole(projection).full_name)
    return tuple(one.change.field for one in definition.due) if definition else ()


async def _audit(store: Store, layout: Layout, projection: Projection, now: float) -> AuditStatus | None:
    checkpoints = await Checkpoints(store, layout.state, audit_name(projection)).load([])
    if not checkpoints:
        return None
    tally = Tally()
    for checkpoint in checkpoints:
        tally.merge(checkpoint.tally)
    good = sum(tally.outcomes[outcome.value] for outcome in AS_IT_SHOULD_BE)
    pending = await pending_ages(store, layout.source(projection), checkpoints, now)
    return AuditStatus(
        lag=max(pending, default=0.0), examined=tally.total, repaired=tally.total - good,
        missed=missed_deletes(checkpoints),
    )  # fmt: skip


def missed_deletes(checkpoints: Sequence[Checkpoint]) -> tuple[Span, ...]:
    """When deletes may have been missed, in any of these ranges."""
    return tuple(sorted({span for one in checkpoints if one.versions for span in one.versions.missed}))


async def _verify(store: Store, layout: Layout, projection: Projection, now: float) -> VerifyStatus | None:
    under_way, last = (Place(id_, Key.of(projection.full_name)) for id_ in (RUN_ID, LAST_ID))
    found = await store.read(layout.state, [under_way, last])
    document = found.get(under_way) or found.get(last)
    return VerifyStatus.of(document, now) if document else None


async def pending_ages(store: Store, source: Container, checkpoints: list[Checkpoint], now: float) -> list[float]:
    """For each feed range that has changes pending, the age of the first of them in seconds."""
    ages = [await oldest(store, source, checkpoint, now) for checkpoint in checkpoints]
    return [age for age in ages if age is not None]


async def _count(store: Store, target: Container) -> int:
    return sum([n async for page in store.query(target, "SELECT VALUE COUNT(1) FROM c", {}) for n in page])
