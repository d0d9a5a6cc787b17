"""The worker inside Azure Functions: what the triggers, the timers and the health route of function_app.py do.

The host moves a lease forward even when a call fails (facts.md 1), so a call returns only when every item of its batch
is reflected, left out by a rule, parked, or deferred. What cannot even be deferred raises, and the unlimited retry
policy holds the range (facts.md 2). A timer drains what is deferred; another audits what the host itself may have lost.

An app whose settings would lose changes is *refused*: it is indexed all the same (functions that vanish tell nobody
why), but every call raises and says what to change, so that the retry policy holds every range where it is, and health
is 503 with the same words. Two cases differ. Without an unlimited retry policy to raise would itself lose the batch: it
is deferred first. With a misspelled one the host would drop all functions without a word: indexing fails with ours.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from projections.audit import Audit, AuditReport
from projections.changes import is_version
from projections.declare import Projection
from projections.deferred import Deferred, Drain, DrainReport, Pending, notice
from projections.embed import Header
from projections.errors import (
    AlarmError,
    FatalError,
    MissingContainerError,
    ProjectionsError,
    TransientError,
    UnreachableError,
    UnsafeError,
)
from projections.feed import LostRangeError
from projections.hosting import (
    UnheldError,
    function_timeout,
    functions_findings,
    leases_findings,
    misspelled,
    read_host,
    registered,
    registration_findings,
    sharing,
)
from projections.identity import Place
from projections.keys import Key
from projections.outcomes import Tally
from projections.patience import PatientStore
from projections.provision import Layout
from projections.settings import Settings
from projections.store import Store
from projections.worker import Engine

log = logging.getLogger("projections")

WORK: Final = 0.8
"""The part of `functionTimeout` that work may take: a call that the host cuts off has not been seen to fail."""
PARKING: Final = 0.15
"""The part that deferring what is left may take after that."""
CALL_SECONDS: Final = 15.0
"""How long a single call to the store is tried again before what is left starts anew, from fresh states."""
HEALTH_SECONDS: Final = 5.0
"""How long the account may take to answer the health route, and how long an answer is good for."""


@dataclass(frozen=True)
class Health:
    """What the health route answers."""

    status: str  # ok, refused, not ready, unreachable
    problems: tuple[UnsafeError | MissingContainerError, ...] = ()  # of the set-up: no secrets, no addresses


class TriggeredWorker:
    """The worker of a Functions app: opened by the first call, in its event loop, and kept until the process ends.

    Making one reads settings and catalog and touches no network: the host indexes functions wherever it likes.
    `timeout` is what the host gives a call, in seconds; `now` gives epoch seconds.
    """

    def __init__(
        self,
        settings: Settings,
        timeout: float,
        open_store: Callable[[Settings], Awaitable[Store]] | None = None,
        *,
        refused: Iterable[UnsafeError] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._open_store = open_store or _open_store
        self.layout = Layout(settings.load_catalog(), settings.database)
        self.refused = list(refused)
        self._settings = settings
        self._work = timeout * WORK
        self._parking = timeout * PARKING
        self._now = now
        self._store: Store | None = None
        self._engines: dict[str, Engine] = {}
        self._noted: set[str] = set()  # projections whose audit knows where it begins
        self._opening = asyncio.Lock()
        self._checking: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # one slow look keeps no other waiting
        self._health: tuple[float, Health] | None = None  # when it was asked
        self._leases_are_good = False

    @staticmethod
    def from_environment(folder: Path, environment: Mapping[str, str] | None = None) -> TriggeredWorker:
        """The worker of the app in a folder.

        Raises:
            SettingsError, CatalogError: nobody can say what to register; the host shows it as a failure to index.
        """
        environment = os.environ if environment is None else environment
        log.addFilter(_with_fields)
        for noisy in ("azure.core", "azure.cosmos", "azure.identity"):  # a line for every request otherwise
            logging.getLogger(noisy).setLevel(logging.WARNING)
        timeout = function_timeout(read_host(folder)[0], environment)
        worker = TriggeredWorker(Settings.read(environment), timeout)
        worker.refuse(functions_findings(folder, worker.layout, environment))
        return worker

    def examine(self, functions: Iterable[Any]) -> None:
        """Look over what an app has registered (`FunctionApp.get_functions()`); what is unsafe is refused.

        Raises:
            UnsafeError: with these the host would drop every function without a word.
        """
        found = registered(functions)
        for problem in misspelled(found):
            raise problem
        self.refuse(registration_findings(found))

    def refuse(self, problems: Iterable[UnsafeError]) -> None:
        """From now on every call raises and says what to change."""
        for problem in problems:
            log.error("refused", extra={"reason": problem.message, "hint": problem.hint})
            self.refused.append(problem)

    # a batch

    async def apply(self, projection: Projection, documents: Iterable[Mapping[str, Any]] | None) -> Tally:
        """Bring a projection in step with the items of which these documents tell; what happened to them.

        Raises:
            TransientError: the store was busy until the time was up, and too busy to defer what is left.
            FatalError, UnsafeError: nothing can work until somebody mends the set-up.
        """
        pending = Pending([notice(projection, item) for item in _items(documents)])
        with _told(projection, pending, self._engines):
            if self.refused:
                await self._refuse(projection, pending)
            if not pending.left:
                return Tally()
            started = self._clock()
            reason = await self._settle(projection, pending)
            deferred = pending.left
            if deferred:
                await self._defer(projection, pending, reason)
            elif isinstance(projection, Header):
                await self._fan_out(projection, self._work - (self._clock() - started))
        tally = Tally()
        tally.add(pending.results)
        fields = {"projection": projection.full_name, "seconds": round(self._clock() - started, 3)}
        log.info("applied", extra={**fields, **tally.to_stored(), "deferred": deferred or None})
        return tally

    async def _settle(self, projection: Projection, pending: Pending) -> str:
        """Work on a batch until nothing is left or the time for work is up; what kept it then."""
        reasons = ["the store did not answer"]

        async def attempt() -> None:
            await pending.settle(await self._at_work(projection))

        try:
            async with asyncio.timeout(self._work):
                await _insist(attempt, projection, reasons)
        except TimeoutError:
            log.warning("out of time", extra={"projection": projection.full_name, "items": pending.left})
        return reasons[-1]

    async def _fan_out(self, header: Header, seconds: float) -> None:
        """Carry out what fan-outs are on record, as far as time allows; the drain timer goes on with the rest."""
        store = PatientStore(await self._opened(), self._patience(self._work))
        entries = await self._at_work(header.embed)
        fan_out = (await self._at_work(header)).fan_out(store, self.layout, entries)
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                looked_at = await fan_out.run(self._after(seconds * WORK))
        except (TimeoutError, TransientError):
            log.warning("out of time", extra={"projection": header.full_name})
            return
        if looked_at:
            log.info("fanned out", extra={"projection": header.full_name, "items": looked_at})

    async def _defer(self, projection: Projection, pending: Pending, reason: str) -> None:
        reasons = ["the store did not answer"]

        async def attempt() -> None:
            store = PatientStore(await self._opened(), self._patience(self._parking))
            deferred = Deferred(store, self.layout.deadletters, projection.full_name, self._now)
            await deferred.defer(pending, reason)

        try:
            async with asyncio.timeout(self._parking):
                await _insist(attempt, projection, reasons)
        except TimeoutError:
            raise TransientError(
                f"not done within {self._work:g} s ({reason}), and not deferred ({reasons[-1]})",
                hint="raise the throughput, or wait for the account; the host keeps trying this batch",
            ) from None
        log.warning("deferred", extra={"projection": projection.full_name, "items": pending.left, "reason": reason})

    async def _refuse(self, projection: Projection, pending: Pending) -> None:
        """Raise; where that would lose the batch, defer it first."""
        if pending.left and any(isinstance(problem, UnheldError) for problem in self.refused):
            await self._defer(projection, pending, "the app is refused")
        raise _together(self.refused)

    @staticmethod
    def _patience(seconds: float) -> float:
        """How long one call to the store is tried again, where there is so much time: the reason has to come out."""
        return min(CALL_SECONDS, seconds / 4)

    @staticmethod
    def _clock() -> float:
        return asyncio.get_running_loop().time()

    # the timers

    async def drain(self) -> dict[str, DrainReport | None]:
        """Apply the present states of deferred items, projections side by side, until the time is up.

        Raises:
            ProjectionsError: of one projection, after all have had their turn.
        """
        return await self._in_turn(self._drain, at_once=True)

    async def audit(self) -> dict[str, AuditReport | None]:
        """Go over changes that are some minutes old, one projection after the other, each with its share of the time.

        Raises:
            ProjectionsError: of one projection, after all have had their turn.
        """
        done = await self._in_turn(self._audit, at_once=False)
        with suppress(TransientError):
            for problem in await self._leases(await self._opened()):  # without leases no trigger is called: a timer is
                log.error("not ready", extra={"reason": problem.message, "hint": problem.hint})
        return done

    async def _in_turn(self, work: Callable[[Projection, float], Awaitable[Any]], *, at_once: bool) -> dict[str, Any]:
        if self.refused:
            raise _together(self.refused)
        end = self._clock() + self._work
        projections = list(self.layout.catalog.parts)
        if at_once:
            done = await asyncio.gather(*(self._turn(work, projection, self._work) for projection in projections))
        else:
            done = []
            for number, projection in enumerate(projections):
                share = (end - self._clock()) / (len(projections) - number)
                done.append(await self._turn(work, projection, share))
        for outcome in done:
            if isinstance(outcome, Exception):
                raise outcome
        return {projection.full_name: outcome for projection, outcome in zip(projections, done, strict=True)}

    async def _turn(
        self, work: Callable[[Projection, float], Awaitable[Any]], projection: Projection, seconds: float
    ) -> Any:
        """What a projection's turn came to: a report, None where it was cut short, or an error."""
        try:
            with _told(projection, Pending(), self._engines):
                async with asyncio.timeout(seconds):
                    return await work(projection, seconds)
        except TimeoutError:
            log.warning("out of time", extra={"projection": projection.full_name})
            return None
        except TransientError:  # logged; the next run is soon enough for a busy store
            return None
        except LostRangeError:
            log.info("another one is at work", extra={"projection": projection.full_name})
            return None
        except Exception as error:  # raised when the others have had their turns
            return error

    async def _drain(self, projection: Projection, seconds: float) -> DrainReport:
        stop = self._after(seconds * WORK)
        engine = await self._at_work(projection)
        store = PatientStore(await self._opened(), self._patience(self._work))
        drain = Drain(Deferred(store, self.layout.deadletters, projection.full_name, self._now), engine)
        report = await drain.run(stop=stop)
        if isinstance(projection, Header) and not stop():
            await self._fan_out(projection, seconds * WORK)
        report.tally.add(await engine.sweep(stop))
        if report.tally.total or not report.finished:
            fields = {"projection": projection.full_name, "reason": report.reason}
            log.info("drained", extra={**fields, **report.tally.to_stored()})
        return report

    async def _audit(self, projection: Projection, seconds: float) -> AuditReport:
        stop = self._after(seconds * WORK)
        engine = await self._engine(projection)
        store = PatientStore(await self._opened(), self._patience(self._work))
        report = await Audit(store, self.layout, engine, now=self._now).run(stop=stop)
        fields = {"projection": projection.full_name, "examined": report.examined, "caught_up": report.caught_up}
        log.info("audited", extra={**fields, "repaired": report.repaired.to_stored()["outcomes"]})
        return report

    def _after(self, seconds: float) -> Callable[[], bool]:
        end = self._clock() + seconds
        return lambda: self._clock() >= end

    # what is opened once

    async def _engine(self, projection: Projection) -> Engine:
        name = projection.full_name
        if name not in self._engines:
            store = PatientStore(await self._opened(), self._patience(self._work))
            async with self._checking[name]:
                if name not in self._engines:
                    self._engines[name] = await Engine.open(store, self.layout, projection)
        return self._engines[name]

    async def _at_work(self, projection: Projection) -> Engine:
        """An engine that may project: where the audit goes over all versions from is on record before anything is."""
        engine = await self._engine(projection)
        if projection.full_name not in self._noted:
            store = PatientStore(await self._opened(), self._patience(self._work))
            await Audit(store, self.layout, engine, now=self._now).note()
            self._noted.add(projection.full_name)
        return engine

    async def _opened(self) -> Store:
        """The store. An opening that fails is forgotten, and the next call tries again."""
        async with self._opening:
            if self._store is None:
                self._store = await self._open_store(self._settings)
            return self._store

    # health

    async def health(self) -> tuple[int, str]:
        """The status code and JSON text for whoever watches the app. Everybody may ask: nothing of account or items."""
        now = self._clock()
        if self._health is None or now - self._health[0] > HEALTH_SECONDS:
            self._health = now, await self._look()
        health = self._health[1]
        body: dict[str, Any] = {
            "status": health.status,
            "projections": [projection.full_name for projection in self.layout.catalog.parts],
        }
        if health.problems:
            body["problems"] = [{"reason": str(problem), "remedy": problem.hint} for problem in health.problems]
        return 200 if health.status == "ok" else 503, json.dumps(body)

    async def _look(self) -> Health:
        if self.refused:
            return Health("refused", tuple(self.refused))
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                return await self._status()
        except (TimeoutError, TransientError, UnreachableError):
            return Health("unreachable")
        except (UnsafeError, MissingContainerError) as error:
            return Health("not ready", (error,))
        except ProjectionsError as error:
            log.error("not ready", extra={"reason": str(error), "hint": error.hint})
            return Health("not ready")

    async def _status(self) -> Health:
        store = await self._opened()
        await store.read(self.layout.state, [Place("health", Key.of("health"))])  # absent: 1 RU
        problems = await self._leases(store)
        for projection in self.layout.catalog.parts:
            engine = await self._engine(projection)
            raised = await engine.alarm.raised()
            if raised:
                text = f"{raised.items:,} items in a row cannot be projected ({raised.error})"
                hint = f"see `projections deadletters list {projection.label}`, and mend the catalog"
                problems.append(AlarmError(text, projection=projection.label, hint=hint))
        return Health("not ready", tuple(problems)) if problems else Health("ok")

    async def _leases(self, store: Store) -> list[UnsafeError]:
        """What is unsafe about the leases, until they are found good; then whether others work with them is told."""
        if self._leases_are_good:
            return []
        problems = await leases_findings(store, self.layout)
        self._leases_are_good = not problems
        for found in await sharing(store, self.layout, self._now()) if self._leases_are_good else ():
            log.warning(
                "leases with several owners or feeds: is a second app, or a laptop, at work with them?",
                extra={"prefix": found.prefix, "owners": found.owners, "feeds": found.feeds},
            )
        return problems


@contextmanager
def _told(projection: Projection, pending: Pending, engines: dict[str, Engine]) -> Iterator[None]:
    """A failure says of which projection, and is logged. After one of the set-up, that is looked at again."""
    try:
        yield
    except ProjectionsError as error:
        if not isinstance(error, TransientError):
            engines.pop(projection.full_name, None)
        error.projection = error.projection or projection.full_name
        if not isinstance(error, LostRangeError):
            fields = {"projection": projection.full_name, "items": pending.left or None}
            log.error("failed", extra={**fields, "reason": error.message, "hint": error.hint})
        raise


async def _insist(attempt: Callable[[], Awaitable[None]], projection: Projection, reasons: list[str]) -> None:
    """Try again while the store is busy, for as long as one is let; the reasons are added to a list."""

    def note(state: RetryCallState) -> None:
        reasons.append(str(state.outcome.exception()) if state.outcome else reasons[-1])
        log.warning("waiting", extra={"projection": projection.full_name, "reason": reasons[-1]})

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(TransientError), wait=wait_random_exponential(max=10), before_sleep=note
    )
    await retrying(attempt)


def _together(problems: Iterable[UnsafeError]) -> UnsafeError:
    """Several problems as one error, each with its remedy."""
    problems = list(problems)
    text = "; ".join(f"{problem.message} ({problem.hint})" for problem in problems)
    return UnsafeError(f"refused: {text}", hint="change this and restart the app; until then no change is lost")


async def _open_store(settings: Settings) -> Store:
    from projections.cosmos import open_store  # half a second to import, and indexing needs nothing of it

    return await open_store(settings)


def _items(documents: Iterable[Mapping[str, Any]] | None) -> Iterator[dict[str, Any]]:
    for document in documents or ():
        change = dict(document) if document is not None else {}
        if not _is_change(change):
            raise FatalError(
                "the trigger was given something that is no item, and no change of one",
                hint="register what `projections.triggers` says",
            )
        yield change


def _is_change(change: Mapping[str, Any]) -> bool:
    """Whether it says of which item it is; of a delete there may be no more than its metadata."""
    item = (change.get("current") or change.get("previous")) if is_version(change) else change
    if item:
        return {"id", "_rid", "_etag", "_ts"} <= item.keys()
    return "id" in change.get("metadata", ())


_OWN_FIELDS: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def _with_fields(record: logging.LogRecord) -> bool:
    """The host forwards nothing of a record but its message, so the fields go in there."""
    fields = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS and value is not None}
    if fields:
        record.msg, record.args = f"{record.getMessage()} {json.dumps(fields, default=str)}", None
    return True
