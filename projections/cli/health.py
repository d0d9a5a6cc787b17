"""`status` and `doctor`: how things stand, and what is wrong with the set-up."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Annotated, Any, Final

import typer
from rich.live import Live

from projections.cli.console import emit, out, table
from projections.cli.durations import ago
from projections.cli.session import FOUND_WRONG, GOOD, AsJson, Session, complete, opened
from projections.doctor import Finding, examine
from projections.feed import Span
from projections.provision import Layout
from projections.status import Health, Status
from projections.status import status as status_of
from projections.store import Store

WATCH_SECONDS: Final = 2.0


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every two seconds, until Ctrl-C.")] = False,
    max_lag: Annotated[float | None, typer.Option("--max-lag", help="Seconds of lag that are still good.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show how each projection stands: entries, gap, lag, dead letters, deferred items, its audit, and all outcomes.

    Health is ok (nothing pending), behind, not started (no position stored), alarm (it stopped, since everything was
    being parked) or missing (a container is not there). The gap is 0, or at least the number of feed ranges with
    something pending. Dead letters come with the age of the oldest, and so do deferred items: what a call of the
    Functions app had no time for, until its timer drains it. The audit is behind by the age of the first change that
    it has not looked at: some minutes at best. Of the last verify it is said what differed, or what its repair has
    left. With --json one object a projection.

    Exit codes: 0 ok or behind; 1 not started, alarm, missing, or behind by more than --max-lag; 2 it could not be done.
    """
    complete(_status(watch, max_lag, as_json))


async def _status(watch: bool, max_lag: float | None, as_json: bool) -> int:
    async with opened() as session:
        if watch:
            await _watch(session, as_json)
        found = await statuses(session.store, session.layout)
    _print(found, as_json)
    return FOUND_WRONG if any(_is_wrong(one, max_lag) for one in found) else GOOD


async def _watch(session: Session, as_json: bool) -> None:
    """Until interrupted."""
    console = out()
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not as_json else None
    with live or nullcontext():
        while True:
            found = await statuses(session.store, session.layout)
            if live:
                live.update(status_table(found), refresh=True)
            else:
                _print(found, as_json)
            await asyncio.sleep(WATCH_SECONDS)


def _print(found: list[Status], as_json: bool) -> None:
    if as_json:
        for one in found:
            emit(one.to_json())
    else:
        out().print(status_table(found))


async def statuses(store: Store, layout: Layout) -> list[Status]:
    """How every projection of the catalog stands."""
    return [await status_of(store, layout, projection) for projection in layout.catalog.parts]


def status_table(found: list[Status]) -> Any:
    """One row a projection."""
    rows = [
        (
            one.label, one.health.value, one.entries, one.gap, one.lag,
            _waiting(one.deadletters, one.oldest_deadletter), _waiting(one.deferred, one.oldest_deferred),
            _audited(one), _verified(one),
            ", ".join(f"{name} {count:,}" for name, count in sorted(one.tally.outcomes.items()))
            + "".join(f"; no {container}" for container in one.missing)
            + (f"; {one.fan_outs}" if one.fan_outs else "")
            + (f"; replay due: {', '.join(one.due)}" if one.due else "")
            + (f"; alarm: {one.alarm.items:,} in a row parked ({one.alarm.error})" if one.alarm else "")
            + ("; hand-over under way" if one.handing_over else "")
            + "".join(f"; deletes may have been missed from {span}" for span in _missed(one)),
        )
        for one in found
    ]  # fmt: skip
    columns = (
        "projection",
        "health",
        "entries",
        "gap",
        "lag s",
        "dead letters",
        "deferred",
        "audit",
        "verify",
        "outcomes",
    )
    return table(columns, rows)


def _missed(one: Status) -> tuple[Span, ...]:
    """The positions of the Functions host are not known here; those of the audit are."""
    return one.missed if one.ranges or one.audit is None else one.audit.missed


def _waiting(count: int | None, oldest: float | None) -> str | int | None:
    return count if not count or oldest is None else f"{count:,}, oldest {ago(oldest)}"


def _audited(one: Status) -> str | None:
    return f"{ago(one.audit.lag)} behind, {one.audit.repaired:,} repaired" if one.audit else None


def _verified(one: Status) -> str | None:
    if one.verify is None:
        return None
    how = "clean" if not one.verify.differences else f"{one.verify.differences:,} differ"
    when = f"{ago(one.verify.age)} ago" if one.verify.phase == "done" else f"not done ({one.verify.phase})"
    return f"{how}, {when}" if one.verify.phase == "done" or one.verify.differences else when


def _is_wrong(one: Status, max_lag: float | None) -> bool:
    late = max_lag is not None and one.lag is not None and one.lag > max_lag
    return late or one.health in (Health.NOT_STARTED, Health.ALARM, Health.MISSING)


def doctor(as_json: AsJson = False) -> None:
    """Look over settings, catalog, account and containers: what is wrong, why it matters, what to do.

    With --json one object a finding: severity (ok, warning, error), subject, reason, remedy.

    Exit codes: 0 no errors (warnings are allowed); 1 errors were found.
    """
    complete(_doctor(as_json))


async def _doctor(as_json: bool) -> int:
    found = [finding async for finding in examine()]
    if as_json:
        for finding in found:
            emit(finding.to_json())
    else:
        out().print(table(("", "subject", "finding"), [(f.severity, f.subject, _sentence(f)) for f in found]))
    return FOUND_WRONG if any(finding.severity == "error" for finding in found) else GOOD


def _sentence(finding: Finding) -> str:
    return f"{finding.reason} -> {finding.remedy}" if finding.remedy else finding.reason
