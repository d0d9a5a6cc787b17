"""`run`: the pull worker at a terminal or in a container."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any, Final

import typer
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from projections.cli.auditing import BackgroundAudit, audit_all, auditing
from projections.cli.console import emit, err, out, table
from projections.cli.logs import log_to_stderr
from projections.cli.session import GOOD, SIGNALLED, AsJson, Session, complete, named, opened, stopping
from projections.errors import ProjectionsError
from projections.outcomes import Outcome
from projections.provision import Layout
from projections.store import Store
from projections.worker import Progress, Worker

log = logging.getLogger("projections")

REPORT_SECONDS: Final = 10.0
"""Between two lines of progress where there is no terminal."""


def run(
    name: Annotated[list[str] | None, typer.Argument(help="Projections to run; all when none is named.")] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End when everything in the source has been seen.")
    ] = False,
    audit: Annotated[
        bool | None,
        typer.Option("--audit/--no-audit", help="Audit too; by default unless --until-caught-up is given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep projections in step with their sources, from where they were left, until stopped.

    SIGINT (Ctrl-C) and SIGTERM stop it in good order: pages under way are finished and positions stored. A second
    one stops it at once, which is safe too: unfinished work is done again. At the end it shows what happened to how
    many items; with --json one object a projection. The log goes to stderr, one line an action.

    An audit goes over the same feed some minutes later and repairs what was left wrong; it gives way to live work, and
    comes after it with --until-caught-up --audit. A projection that its alarm stops (see alarm_after) leaves the others
    running, and ends the command with 2.

    Exit codes: 0 caught up, or stopped by SIGTERM as a worker is; 2 it could not be done; 130 Ctrl-C; 143 SIGTERM
    before --until-caught-up was reached.
    """
    log_to_stderr(as_json=as_json)
    complete(_run(name or [], until_caught_up, not until_caught_up if audit is None else audit, as_json))


async def _run(names: list[str], until_caught_up: bool, audit: bool, as_json: bool) -> int:
    async with opened() as session:
        with _showing(as_json) as show:
            worker = make_worker(session.store, session.layout, names, show)
            started = time.monotonic()
            with stopping(worker.stop) as received:
                try:
                    await _work(session, worker, until_caught_up, audit, received)
                except ProjectionsError:
                    if any(one.tally.total for one in worker.progress.values()):
                        _tell(worker, time.monotonic() - started, as_json)
                    raise
    _tell(worker, time.monotonic() - started, as_json)
    if signal.SIGINT in received:
        return SIGNALLED + signal.SIGINT
    if until_caught_up and received and not all(one.caught_up for one in worker.progress.values()):
        return SIGNALLED + signal.SIGTERM
    return GOOD


async def _work(session: Session, worker: Worker, until_caught_up: bool, audit: bool, received: set[Any]) -> None:
    if until_caught_up:
        await worker.run(until_caught_up=True)
        if audit:
            await audit_all(session, [one.projection for one in worker.progress.values()], lambda: bool(received))
        return
    async with auditing(BackgroundAudit(session.store, session.layout, worker)) if audit else nullcontext():
        await worker.run()


def _tell(worker: Worker, seconds: float, as_json: bool) -> None:
    """What was done."""
    progress = list(worker.progress.values())
    if as_json:
        for one in progress:
            emit(report(one, seconds))
    else:
        out().print(tally_table(progress))


def make_worker(
    store: Store, layout: Layout, names: Sequence[str], show: Callable[[Progress], None] = lambda _: None
) -> Worker:
    """A worker for the named projections, or for all.

    Raises:
        CatalogError: there is no such projection.
    """
    return Worker(store, layout, named(layout, names), on_progress=show)


def report(progress: Progress, seconds: float) -> dict[str, Any]:
    """For programs."""
    return {
        "projection": progress.projection.label,
        "caughtUp": progress.caught_up,
        **progress.tally.to_stored(),
        "seconds": round(seconds, 2),
    }


def tally_table(progress: Sequence[Progress]) -> Any:
    """What happened to how many items, and why to those that have no entry."""
    seen = [o.value for o in Outcome if any(one.tally.outcomes[o.value] for one in progress)]
    return table(
        ("projection", "items", *seen, "reasons"),
        [
            (one.projection.label, one.tally.total, *(one.tally.outcomes[name] for name in seen), _reasons(one))
            for one in progress
        ],
    )


def _reasons(progress: Progress) -> str:
    return "; ".join(f"{reason} {count:,}" for reason, count in sorted(progress.tally.reasons.items()))


@contextmanager
def _showing(as_json: bool) -> Iterator[Callable[[Progress], None]]:
    """Progress as it is made: moving lines on a terminal, a log line now and then elsewhere."""
    if as_json or not sys.stderr.isatty():
        yield _Reporter()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=err(), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(progress: Progress) -> None:
            name = progress.projection.label
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=None, said="")
            bars.update(tasks[name], said=f"{progress.tally.total:,}{', caught up' if progress.caught_up else ''}")

        yield show


class _Reporter:
    """Logs progress at intervals."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}

    def __call__(self, progress: Progress) -> None:
        name, now = progress.projection.label, time.monotonic()
        last, items = self._last.setdefault(name, (now, 0))
        if now - last >= REPORT_SECONDS and progress.tally.total > items:
            self._last[name] = (now, progress.tally.total)
            log.info("progress", extra={"projection": name, "items": progress.tally.total,
                                        "caught_up": progress.caught_up})  # fmt: skip
