"""`audit`, and the audit that runs beside a worker."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from projections.audit import BEHIND_SECONDS, Audit, AuditReport
from projections.cli.console import emit, out, table
from projections.cli.logs import log_to_stderr
from projections.cli.session import FOUND_WRONG, GOOD, SIGNALLED, AsJson, Session, complete, named, opened, stopping
from projections.declare import Projection
from projections.embed import Header
from projections.errors import ProjectionsError, TransientError
from projections.feed import LostRangeError
from projections.provision import Layout
from projections.store import Store
from projections.worker import Engine, Worker, open_fan_out

log = logging.getLogger("projections")

WATCH_SECONDS: Final = 30.0
"""Between two audits that had nothing left to look at."""
BUSY_SECONDS: Final = 5.0
"""Between two pages of an audit while live work is busy."""
TURN_SECONDS: Final = 20.0
"""How long one projection is audited before the next one has its turn."""
LAST_SECONDS: Final = 5.0
"""For the page under way when the worker stops; after that it is left to the next audit."""


def audit(
    name: Annotated[list[str] | None, typer.Argument(help="Projections to audit; all when none is named.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on auditing what has become old enough.")] = False,
    behind: Annotated[
        float, typer.Option("--behind", min=0, metavar="SECONDS", help="How old a change is when it is looked at.")
    ] = BEHIND_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Go over the feed again, some minutes behind live, and repair what is neither reflected nor parked.

    It has checkpoints of its own: each change is looked at once, from the beginning the first time. Safe beside a
    running worker, whose own audit it replaces while it runs. What is repaired is logged. SIGINT (Ctrl-C) and SIGTERM
    stop it after the page under way. With --json one object a projection.

    Exit codes: 0 nothing had to be repaired; 1 something was repaired; 2 it could not be done; 130 Ctrl-C; 143 SIGTERM
    before everything was looked at.
    """
    log_to_stderr(as_json=as_json)
    complete(_audit(name or [], watch, behind, as_json))


@dataclass
class Audited:
    """An audit of one projection, from its start to its end."""

    projection: Projection
    report: AuditReport
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "projection": self.projection.label,
            "examined": self.report.examined,
            "repaired": self.report.repaired.to_stored()["outcomes"],
            "caughtUp": self.report.caught_up,
            "seconds": round(self.seconds, 2),
        }

    def row(self) -> tuple[Any, ...]:
        """For people."""
        repaired = ", ".join(f"{name} {n:,}" for name, n in sorted(self.report.repaired.outcomes.items()))
        return self.projection.label, self.report.examined, repaired or 0, self.report.caught_up


async def _audit(names: Sequence[str], watch: bool, behind: float, as_json: bool) -> int:
    stopped = asyncio.Event()
    repaired = False
    async with opened() as session:
        projections = named(session.layout, names)
        with stopping(stopped.set) as received:
            while True:
                found = [await _audited(session, one, behind, stopped.is_set) for one in projections]
                repaired |= any(one.report.repaired.total for one in found)
                _show(found, as_json)
                if not watch or stopped.is_set() or not await _wait(stopped, WATCH_SECONDS):
                    break
    if signal.SIGINT in received:
        return SIGNALLED + signal.SIGINT
    if received and not watch and not all(one.report.caught_up for one in found):
        return SIGNALLED + signal.SIGTERM
    return FOUND_WRONG if repaired else GOOD


async def _audited(session: Session, projection: Projection, behind: float, stop: Callable[[], bool]) -> Audited:
    started = time.monotonic()
    if stop():
        return Audited(projection, AuditReport(caught_up=False))
    engine = await Engine.open(session.store, session.layout, projection)
    try:
        report = await Audit(session.store, session.layout, engine, behind=behind).run(stop=stop)
    except LostRangeError as error:
        error.projection = projection.label
        error.message = "another audit is at work on it"
        error.hint = "a running worker audits by itself: leave it to that one, or run the worker with --no-audit"
        raise
    if isinstance(projection, Header) and not stop():  # a header that was repaired
        await (await open_fan_out(session.store, session.layout, projection)).run(stop)
    return Audited(projection, report, time.monotonic() - started)


def _show(found: Sequence[Audited], as_json: bool) -> None:
    if as_json:
        for one in found:
            emit(one.to_json())
    else:
        out().print(table(("projection", "examined", "repaired", "caught up"), [one.row() for one in found]))


async def _wait(stopped: asyncio.Event, seconds: float) -> bool:
    """Wait; whether to go on."""
    try:
        await asyncio.wait_for(stopped.wait(), seconds)
    except TimeoutError:
        return True
    return False


class BackgroundAudit:
    """Audits the projections of a running worker in turn: freely while it is idle, a page now and then while not.

    `rests`: seconds between two rounds, while there is more to look at and when there is not.
    """

    def __init__(
        self, store: Store, layout: Layout, worker: Worker, *, behind: float = BEHIND_SECONDS,
        rests: tuple[float, float] = (BUSY_SECONDS, WATCH_SECONDS),
    ) -> None:  # fmt: skip
        self._store = store
        self._behind = behind
        self._rests = rests
        self._layout = layout
        self._worker = worker
        self._stopped = asyncio.Event()
        self._given_up: set[str] = set()

    def stop(self) -> None:
        """Return from `run` after the page under way."""
        self._stopped.set()

    async def run(self) -> None:
        """Until stopped. What goes wrong is logged, and holds up nobody."""
        rest = self._rests[0]
        while await _wait(self._stopped, rest):
            turns = [await self._turn(name) for name in self._worker.progress if self._wanted(name)]
            rest = self._rests[1] if all(turns) else self._rests[0]

    def _wanted(self, name: str) -> bool:
        return not self._stopped.is_set() and name not in self._given_up and name not in self._worker.alarms

    async def _turn(self, name: str) -> bool:
        """Audit one projection for a while; whether there is nothing more to look at."""
        progress, started = self._worker.progress[name], time.monotonic()

        def stop() -> bool:
            late = time.monotonic() - started > TURN_SECONDS
            return late or self._stopped.is_set() or not progress.caught_up

        try:
            engine = await Engine.open(self._store, self._layout, progress.projection)
            report = await Audit(self._store, self._layout, engine, behind=self._behind).run(stop=stop)
        except (TransientError, LostRangeError) as error:
            log.info("audit waits", extra={"projection": name, "reason": error.message})
            return True
        except ProjectionsError as error:
            self._given_up.add(name)
            log.error("audit stopped", extra={"projection": name, "reason": error.message, "hint": error.hint})
            return True
        _log(progress.projection, report)
        return report.caught_up


def _log(projection: Projection, report: AuditReport) -> None:
    if report.examined:
        fields = {"projection": projection.label, "examined": report.examined, "repaired": report.repaired.total}
        log.info("audited", extra=fields)


async def audit_all(session: Session, projections: Sequence[Projection], stop: Callable[[], bool]) -> None:
    """Audit projections one after the other, each to its end."""
    for projection in projections:
        _log(projection, (await _audited(session, projection, BEHIND_SECONDS, stop)).report)


@asynccontextmanager
async def auditing(background: BackgroundAudit) -> AsyncIterator[None]:
    """An audit that goes on meanwhile."""
    task = asyncio.create_task(background.run())
    try:
        yield
    finally:
        background.stop()
        done, _ = await asyncio.wait([task], timeout=LAST_SECONDS)
        if not done:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
