"""`deadletters`: items that could not be projected, seen, tried again, or let go."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from projections.cli.console import emit, err, out, say, table
from projections.cli.durations import ago, seconds
from projections.cli.session import FAILED, FOUND_WRONG, GOOD, AsJson, Session, complete, opened
from projections.deadletters import Choice, DeadLetter, DeadLetters
from projections.declare import Projection
from projections.deferred import Deferral, Deferred
from projections.outcomes import Outcome, Result
from projections.worker import Engine

AT_ONCE: Final = 500
"""Items that are retried together."""
MAX_IDS: Final = 250
"""That a query names."""

deadletters = typer.Typer(
    name="deadletters",
    help="Items that cannot be projected: see them, try them again, or let them go.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Reason: TypeAlias = Annotated[str | None, typer.Option("--reason", help="Part of the reason, in any case.")]
Error: TypeAlias = Annotated[str | None, typer.Option("--error", help="The class of the error, as list shows it.")]
OlderThan: TypeAlias = Annotated[
    float | None, typer.Option("--older-than", parser=seconds, metavar="DURATION", help="Parked last so long ago.")
]
NewerThan: TypeAlias = Annotated[
    float | None, typer.Option("--newer-than", parser=seconds, metavar="DURATION", help="Parked last since then.")
]
Name: TypeAlias = Annotated[str, typer.Argument(help="The projection.")]
AnyName: TypeAlias = Annotated[str | None, typer.Argument(help="The projection; all when not given.")]
Ids: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Letters, as list shows them.")]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")]


def choose(
    reason: str | None, error: str | None, older: float | None, newer: float | None, ids: Sequence[str] = ()
) -> Choice:
    """A choice as typed."""
    now = time.time()
    return Choice(
        ids=tuple(dict.fromkeys(ids)),
        reason=reason,
        error=error,
        until=None if older is None else now - older,
        since=None if newer is None else now - newer,
    )


@dataclass(frozen=True)
class Asked:
    """Which letters of which projections, and those asked for by id that were not there."""

    session: Session
    projections: Sequence[Projection]
    choice: Choice

    @staticmethod
    def of(session: Session, name: str | None, choice: Choice) -> Asked:
        """All projections where none is named.

        Raises:
            CatalogError: there is no such projection.
        """
        catalog = session.layout.catalog
        return Asked(session, catalog.versions(name) if name is not None else list(catalog), choice)

    def letters(self, projection: Projection) -> DeadLetters:
        """All letters of a projection."""
        return DeadLetters(self.session.store, self.session.layout.deadletters, projection.full_name)

    async def pages(self, projection: Projection, found: set[str]) -> AsyncIterator[list[DeadLetter]]:
        """The letters that were asked for, some hundred at a time; which of the ids were there is noted."""
        letters, ids = self.letters(projection), self.choice.ids
        for start in range(0, len(ids) or 1, MAX_IDS):
            part = Choice(**{**vars(self.choice), "ids": ids[start : start + MAX_IDS]})
            async for page in letters.chosen(part):
                if ids:
                    found.update(letter.id for letter in page)
                if page:
                    yield page

    def missing(self, found: set[str]) -> bool:
        """Say which ids have no letter, or none that fits; whether there is one."""
        missing = [id_ for id_ in self.choice.ids if id_ not in found]
        for id_ in missing:
            say(f"there is no such dead letter: {id_}")
        return bool(missing)


# list


@deadletters.command("list")
def list_(
    name: AnyName = None,
    reason: Reason = None,
    error: Error = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    deferred: Annotated[bool, typer.Option("--deferred", help="Deferred items in place of dead letters.")] = False,
    as_json: AsJson = False,
) -> None:
    """List dead letters, page by page as they are read.

    Of each: id (to choose it by), item, error, reason, attempts, when it was parked first and last. With --json one
    object a letter, with the version of the state that failed and the failing path where it is known.

    With --deferred, the items that a call of the Functions app had no time for: identity, reason, attempts, ages. They
    are not at fault, so there is no error to choose by; the app's timer drains them every minute.

    Exit codes: 0 also when there are none; 2 it could not be done.
    """
    if deferred and error is not None:
        raise typer.BadParameter("deferred items have no error; choose by --reason", param_hint="--error")
    listing = _list_deferred if deferred else _list
    complete(listing(name, choose(reason, error, older_than, newer_than), as_json))


async def _list(name: str | None, choice: Choice, as_json: bool) -> int:
    async with opened() as session:
        asked = Asked.of(session, name, choice)
        count = 0
        for projection in asked.projections:
            async for page in asked.pages(projection, set()):
                _show(page, as_json)
                count += len(page)
    say(f"{count:,} dead letter{'' if count == 1 else 's'}")
    return GOOD


def _show(page: Sequence[DeadLetter], as_json: bool) -> None:
    if as_json:
        for letter in page:
            emit(letter.to_json())
        return
    now = time.time()
    rows = [
        (one.id, one.projection, str(one.identity), one.error, one.reason, one.attempts, ago(now - one.first),
         ago(now - one.last))
        for one in page
    ]  # fmt: skip
    columns = ("id", "projection", "item", "error", "reason", "attempts", "first parked", "last")
    out().print(table(columns, rows))


async def _list_deferred(name: str | None, choice: Choice, as_json: bool) -> int:
    async with opened() as session:
        count = 0
        for projection in Asked.of(session, name, choice).projections:
            deferred = Deferred(session.store, session.layout.deadletters, projection.full_name)
            async for page in deferred.pages(choice):
                _show_deferred(projection, page, as_json)
                count += len(page)
    say(f"{count:,} deferred item{'' if count == 1 else 's'}")
    return GOOD


def _show_deferred(projection: Projection, page: Sequence[Deferral], as_json: bool) -> None:
    if as_json:
        for one in page:
            emit({"projection": projection.full_name, **one.to_json()})
        return
    now = time.time()
    rows = [
        (projection.full_name, str(one.identity), one.reason, one.attempts, ago(now - one.first), ago(now - one.last))
        for one in page
    ]
    out().print(table(("projection", "item", "reason", "attempts", "first deferred", "last"), rows))


# show


@deadletters.command()
def show(
    name: Name,
    id_: Annotated[list[str], typer.Argument(metavar="ID...", help="Letters, as list shows them.")],
    as_json: AsJson = False,
) -> None:
    """Show all of some dead letters, the item itself included where the projection keeps it.

    Exit codes: 0 shown; 1 one of them does not exist; 2 it could not be done.
    """
    complete(_show_all(name, id_, as_json))


async def _show_all(name: str, ids: Sequence[str], as_json: bool) -> int:
    async with opened() as session:
        asked = Asked.of(session, name, Choice(ids=tuple(dict.fromkeys(ids))))
        letters = [await asked.letters(projection).read(asked.choice.ids) for projection in asked.projections]
        found = [letter for of_one in letters for letter in of_one]
    for letter in found:
        if as_json:
            emit(letter.to_json())
        else:
            out().print(table(("", letter.id), _fields(letter)))
    return FOUND_WRONG if asked.missing({letter.id for letter in found}) else GOOD


def _fields(letter: DeadLetter) -> list[tuple[str, Any]]:
    fields = {"item": str(letter.identity), **letter.to_json()}
    del fields["id"]
    fields["item"] = str(letter.identity)
    for name in ("first", "last"):
        fields[name] = datetime.fromtimestamp(fields[name], UTC).isoformat().replace("+00:00", "Z")
    for name in ("version", "payload"):
        if name in fields:
            fields[name] = json.dumps(fields[name], ensure_ascii=False)
    return [(name, value) for name, value in fields.items() if value is not None]


# retry


@deadletters.command()
def retry(
    name: AnyName = None,
    ids: Ids = None,
    reason: Reason = None,
    error: Error = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Try parked items again, each in the state that the source has now: after mending the catalog, or the items.

    Safe beside a running worker, and safe to repeat. What becomes of an item: projected (it has its entry, and the
    letter is gone), left out (by a rule, letter gone), gone (from the source, letter gone), or parked (still; one
    attempt more). With --json one object an item. With --dry-run what the declaration would make of them now.

    Exit codes: 0 none is parked any more; 1 some still are, or an ID has no letter; 2 it could not be done.
    """
    complete(_retry(name, choose(reason, error, older_than, newer_than, ids or ()), dry_run, as_json))


BECAME: Final = ("projected", "left out", "gone", "parked")


def became(result: Result) -> str:
    """What a retry made of an item."""
    if result.outcome is Outcome.PARKED:
        return "parked"
    if result.reason == "gone":
        return "gone"
    return "left out" if result.outcome in (Outcome.SKIPPED, Outcome.REMOVED) else "projected"


async def _retry(name: str | None, choice: Choice, dry_run: bool, as_json: bool) -> int:
    found: set[str] = set()
    counts: dict[str, Counter[str]] = {}
    async with opened() as session:
        asked = Asked.of(session, name, choice)
        with _bars() as bars:
            for projection in asked.projections:
                counts[projection.label] = counted = Counter[str]()
                bar = bars.add_task(projection.label, total=None, done=0)
                engine = await Engine.open(session.store, session.layout, projection, dry_run=dry_run)
                async for letters in _batches(asked.pages(projection, found)):
                    results = await (engine.foresee(letters) if dry_run else engine.retry(letters))
                    counted.update(map(became, results))
                    bars.update(bar, done=counted.total())
                    if as_json:
                        _emit_results(projection, results)
    if not as_json:
        rows = [(one, c.total(), *(c[what] for what in BECAME)) for one, c in counts.items()]
        out().print(table(("projection", "would be tried" if dry_run else "tried", *BECAME), rows))
    still = sum(counted["parked"] for counted in counts.values())
    return FOUND_WRONG if asked.missing(found) or still else GOOD


def _emit_results(projection: Projection, results: Sequence[Result]) -> None:
    for one in results:
        emit({"id": one.identity.entry_id, "projection": projection.full_name, "item": one.identity.to_stored(),
              "became": became(one), "outcome": one.outcome.value, "reason": one.reason})  # fmt: skip


async def _batches(pages: AsyncIterator[list[DeadLetter]]) -> AsyncIterator[list[DeadLetter]]:
    """Pages put together, for bulk calls that pay."""
    waiting: list[DeadLetter] = []
    async for page in pages:
        waiting += page
        while len(waiting) >= AT_ONCE:
            yield waiting[:AT_ONCE]
            waiting = waiting[AT_ONCE:]
    if waiting:
        yield waiting


def _bars() -> Bars:
    return Bars(
        SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.fields[done]:,}"), TimeElapsedColumn(),
        console=err(), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip


# drop


@deadletters.command()
def drop(
    name: Name,
    ids: Ids = None,
    reason: Reason = None,
    error: Error = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    yes: Annotated[bool, typer.Option("--yes", help="Drop letters that were not chosen one by one.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let dead letters go. Only the letter goes: its item stays without a projection until it changes.

    Shows what goes. Letters that are not chosen by ID are dropped with --yes only. The item's placement record keeps
    saying that this state of it is parked, so that no audit brings the letter back (there is none with
    placement="append_only").

    Exit codes: 0 dropped, or shown with --dry-run; 1 an ID has no letter; 2 nothing was dropped for want of --yes, or
    it could not be done.
    """
    choice = choose(reason, error, older_than, newer_than, ids or ())
    complete(_drop(name, choice, bool(ids) or yes, dry_run, as_json))


async def _drop(name: str, choice: Choice, sure: bool, dry_run: bool, as_json: bool) -> int:
    found: set[str] = set()
    count = dropped = 0
    async with opened() as session:
        asked = Asked.of(session, name, choice)
        for projection in asked.projections:
            async for page in asked.pages(projection, found):
                _show(page, as_json)
                count += len(page)
                if sure and not dry_run:
                    dropped += await asked.letters(projection).remove(page)
    if dry_run or not sure:
        say(f"{count:,} would be dropped; nothing was")
        if not dry_run and count:
            say("hint: add --yes to drop them, or name them by id")
            return FAILED
    else:
        say(f"{dropped:,} dropped")
    return FOUND_WRONG if asked.missing(found) else GOOD
