"""`verify`: is everything there that follows from the source, and nothing else."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from projections.cli.console import emit, err, out, say, table
from projections.cli.logs import log_to_stderr
from projections.cli.session import FOUND_WRONG, GOOD, SIGNALLED, AsJson, Session, complete, named, opened, stopping
from projections.declare import Projection
from projections.differences import Difference
from projections.errors import AskError
from projections.store import FeedRange
from projections.verification import Report, Run, Scope
from projections.verify import EXAMPLES, Verify

RANGE = re.compile("([0-9A-Fa-f]*)-([0-9A-Fa-f]+)")


def verify(
    name: Annotated[list[str] | None, typer.Argument(help="Projections to verify; all when none is named.")] = None,
    sample: Annotated[
        float | None, typer.Option("--sample", min=0.01, max=100, metavar="PERCENT", help="Of the keys on both sides.")
    ] = None,
    within: Annotated[
        str | None, typer.Option("--range", metavar="LOW-HIGH", help="Only hashed keys in this range, in hex.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="audit", help="Only what has changed after the audit's positions.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what differs, and look again.")] = False,
    ru: Annotated[
        float | None, typer.Option("--ru", min=1, metavar="N", help="Request units per second that it may use.")
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", min=0, metavar="N", help="Differences of each class to show.")
    ] = EXAMPLES,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew where a verify was cut off.")] = False,
    empty_source: Annotated[
        bool, typer.Option("--empty-source", help="Repair even if the source is empty: remove every entry.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare projections with their sources, both ways: what is missing, and what should not be there.

    Both sides are read once and compared as sums; only where these differ, items are looked at one by one. What differs
    and is only in flight is looked at again; what a projection has not come to yet is pending, and no difference.
    Safe beside running workers. A verify that is cut off goes on where it was when it is started again.

    --repair applies the present states of the items that differ, as a worker would, and looks again. It never removes
    what the source was not asked about by itself, leaves foreign documents alone, and refuses an empty source. With
    --sample, --range and --since less is read, and items are looked at one by one. With --json one object a
    projection.

    Exit codes: 0 nothing differs; 1 something does, or did before the repair; 2 nobody can tell; 130 Ctrl-C; 143
    SIGTERM before the end.
    """
    log_to_stderr(as_json=as_json)
    options = {"repair": repair, "examples": examples, "empty_source": empty_source, "request_units": ru}
    complete(_verify(name or [], sample, within, since, options, restart, as_json))


async def _verify(
    names: Sequence[str], sample: float | None, within: str | None, since: str | None, options: dict[str, Any],
    restart: bool, as_json: bool,
) -> int:  # fmt: skip
    scope = chosen_scope(sample, within, since)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True

    found: list[Report] = []
    async with opened() as session:
        with stopping(stop) as received, _showing(as_json) as show:
            for projection in named(session.layout, names):
                if not stopped:
                    found.append(await _verified(session, projection, scope, options, restart, show, lambda: stopped))
    _print(found, as_json)
    if received:
        return SIGNALLED + (signal.SIGINT if signal.SIGINT in received else signal.SIGTERM)
    return GOOD if all(report.clean for report in found) else FOUND_WRONG


async def _verified(
    session: Session, projection: Projection, scope: Scope, options: dict[str, Any], restart: bool,
    show: Callable[[Run], None], stop: Callable[[], bool],
) -> Report:  # fmt: skip
    verify = await Verify.open(session.store, session.layout, projection, scope=scope, on_progress=show, **options)
    return await verify.run(stop=stop, restart=restart)


def chosen_scope(sample: float | None, within: str | None, since: str | None) -> Scope:
    """How much is to be looked at.

    Raises:
        AskError: this says nothing, or too much at once.
    """
    if sum(given is not None for given in (sample, within, since)) > 1:
        raise AskError("--sample, --range and --since each say how much to verify", hint="give one of them")
    if since is not None and since != "audit":
        raise AskError(f"--since {since}: only the audit's positions are known", hint="write --since audit")
    if within is None:
        return Scope(sample=sample, since_audit=since is not None)
    found = RANGE.fullmatch(within)
    if found is None:
        raise AskError(f"--range {within} is no range", hint="write it as in `status`: two numbers in hex, as 0-1FFF")
    return Scope(feed_range=FeedRange(found[1].upper(), found[2].upper()))


def _print(found: Sequence[Report], as_json: bool) -> None:
    if as_json:
        for report in found:
            emit(report.to_json())
        return
    out().print(report_table(found))
    for report in found:
        for difference in report.examples:
            out().print(f"{report.projection}: {line(difference)}")
        if not report.complete:
            say(f"hint: {report.projection} is not done; start the same verify again to go on with it")


def report_table(found: Sequence[Report]) -> Any:
    """One row a projection."""
    columns = ("projection", "verified", "items", "entries", "differences", "pending", "left", "RU", "calls", "s")
    return table(columns, [_row(report) for report in found])


def _row(report: Report) -> tuple[Any, ...]:
    left = None if report.repaired is None else _counts(report.left)
    return (
        report.projection, report.scope, report.examined, report.entries, _counts(report.differences), report.pending,
        left, report.request_units, report.calls, report.seconds,
    )  # fmt: skip


def _counts(counted: Any) -> str | int:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counted.items())) or 0


def line(difference: Difference) -> str:
    """A difference in words: ids and keys, never content."""
    told = [difference.fault.value]
    if difference.what:
        told.append(f"({difference.what})")
    if difference.identity:
        told.append(f"item {difference.identity}")
    if difference.place:
        told.append(f"at {difference.place.id} under {difference.place.key}")
    if difference.expected:
        told.append(f"expected {difference.expected}")
    if difference.found:
        told.append(f"found {difference.found}")
    return " ".join(told)


@contextmanager
def _showing(as_json: bool) -> Iterator[Callable[[Run], None]]:
    """A moving line on a terminal."""
    if as_json or not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=err(), transient=True) as bars:
        task = bars.add_task("verify", total=None, said="")

        def show(run: Run) -> None:
            report = run.report
            said = f"{run.phase}: {report.examined:,} items, {report.entries:,} entries"
            bars.update(task, description=report.projection, said=f"{said}, {report.differences.total():,} differences")

        yield show
