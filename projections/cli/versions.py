"""`promote`, `rollback` and `drop`: which version of a projection readers use, and letting one go."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, Any, TypeAlias

import typer

from projections.cli.console import emit, out, say, table
from projections.cli.session import FAILED, GOOD, AsJson, complete, opened
from projections.dropping import Drop, Going
from projections.promotion import Order, Outcome, Promotion

Name: TypeAlias = Annotated[str, typer.Argument(help="The projection.")]
Version: TypeAlias = Annotated[int, typer.Option("--version", min=1, help="The version.")]
Why: TypeAlias = Annotated[str | None, typer.Option("--why", help="The reason, for the record.")]
Who: TypeAlias = Annotated[str | None, typer.Option("--who", help="Who does it, for the record; by default the login.")]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")]


def _login() -> str:
    """Who is at the terminal; nobody is known in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def promote(
    name: Name,
    version: Version,
    why: Why = None,
    who: Who = None,
    force: Annotated[bool, typer.Option("--force", help="Whatever stands against it.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Have readers use a version of a projection: those that read it by its name, within seconds.

    Refused, unless with --force, as long as the version is not whole: what was written before the call has to arrive
    (it is waited for, 30 s at most), with nothing deferred, no alarm, no more dead letters than the version before, no
    replay due, and a verification of the last day that found no difference. The other version stays live, so that
    `rollback` loses nothing. Who, when and why is on record. Safe to repeat.

    Exit codes: 0 readers use it, or would with --dry-run; 2 something stands against it, or it could not be done.
    """
    order = Order(who=who or _login(), why=why, force=force, dry_run=dry_run)
    complete(_promote(name, version, order, as_json))


async def _promote(name: str, version: int, order: Order, as_json: bool) -> int:
    async with opened() as session:
        outcome = await Promotion(session.store, session.layout).promote(name, version, order)
    return _told(name, outcome, order, as_json)


def rollback(
    name: Name,
    why: Why = None,
    who: Who = None,
    force: Annotated[bool, typer.Option("--force", help="Also to a version that is far behind.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Undo the last promote: readers use the version before again, at once.

    Refused where that is gone or, unless with --force, more than five minutes behind its source. Repeating it goes back
    no further: a rollback is undone by `promote`.

    Exit codes: 0 readers use it, or would with --dry-run; 2 something stands against it, or it could not be done.
    """
    order = Order(who=who or _login(), why=why, force=force, dry_run=dry_run)
    complete(_rollback(name, order, as_json))


async def _rollback(name: str, order: Order, as_json: bool) -> int:
    async with opened() as session:
        outcome = await Promotion(session.store, session.layout).rollback(name, order)
    return _told(name, outcome, order, as_json)


def _told(name: str, outcome: Outcome, order: Order, as_json: bool) -> int:
    if as_json:
        emit(_plain(name, outcome))
    else:
        for objection in outcome.objections:
            say(f"{'against it' if order.dry_run else 'forced, although'}: {objection}")
        now, version = outcome.alias.version, outcome.version
        if order.dry_run and now != version:
            say(f"readers of {name} would be switched from version {now} to {version}; nothing was done")
        else:
            say(f"readers of {name} use version {now}{'' if outcome.switched else ' already'}")
    stopped = order.dry_run and outcome.objections and not order.force
    return FAILED if stopped else GOOD


def _plain(name: str, outcome: Outcome) -> dict[str, Any]:
    return {
        "projection": name,
        "version": outcome.alias.version,
        "switched": outcome.switched,
        "objections": list(outcome.objections),
        "history": [switch.to_json() for switch in outcome.alias.history],
    }


def drop(
    name: Name,
    version: Version,
    yes: Annotated[bool, typer.Option("--yes", help="Without asking.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Although the catalog still declares it.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove a version of a projection: its target, and all that is kept about it.

    Shows what goes, and asks. The version that readers use is not dropped; neither is, unless with --force, one that
    the catalog declares (a worker would build it again) or that readers were switched from a minute ago. Nothing of a
    source is touched, nor a container that another projection uses. Stopped anywhere, it goes on when repeated.

    Exit codes: 0 dropped, or shown with --dry-run; 2 it was not wanted or could not be done.
    """
    complete(_drop(name, version, yes, force, dry_run, as_json))


async def _drop(name: str, version: int, yes: bool, force: bool, dry_run: bool, as_json: bool) -> int:
    async with opened() as session:
        drop = await Drop.of(session.store, session.layout, name, version, force=force)
        going = [one async for one in drop.going()]
        _show(going, as_json)
        for container in drop.staying():
            say(f"{container} stays: another projection uses it")
        if dry_run or not (yes or _asked(name, version)):
            say("nothing was dropped")
            return GOOD if dry_run else FAILED
        await drop.run(_login())
    say(f"dropped version {version} of {name}")
    return GOOD


def _show(going: list[Going], as_json: bool) -> None:
    if as_json:
        for one in going:
            emit(one.to_json())
    else:
        out().print(table(("goes", "in", "documents"), [(one.what, str(one.where), one.documents) for one in going]))


def _asked(name: str, version: int) -> bool:
    """Whether somebody at the terminal wants it so."""
    if not sys.stdin.isatty():
        say("hint: add --yes to drop all this")
        return False
    return typer.confirm(f"Drop all this of version {version} of {name}?", err=True)
