"""`replay`: what is in the source, applied anew."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from projections.cli.console import emit, err, out, say, table
from projections.cli.durations import seconds as span
from projections.cli.logs import log_to_stderr
from projections.cli.reading import parse_key
from projections.cli.session import GOOD, SIGNALLED, AsJson, Session, complete, named, opened, stopping
from projections.declare import Projection
from projections.embed import Header
from projections.errors import AskError
from projections.keys import Key, parse_path
from projections.outcomes import Result
from projections.pace import PacedStore
from projections.rehearsal import Rehearsal
from projections.replay import Replay, Report, Selection
from projections.resumption import From
from projections.store import Container, Delete, Document, Operation, Patch
from projections.worker import Engine, open_fan_out

SAMPLES: Final = 5
"""Differences that a dry run shows of each kind."""


def replay(
    name: Annotated[list[str] | None, typer.Argument(help="Projections to replay; all when none is named.")] = None,
    begin: Annotated[
        str, typer.Option("--from", metavar="FROM", help="beginning, checkpoint, a time, or a span ago such as 2h.")
    ] = "beginning",
    ru: Annotated[float | None, typer.Option("--ru", min=1, help="Request units per second to use at most.")] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", help="Items of this source key; a JSON array where it has levels.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="/PATH=VALUE", help="Items that have this value there.")
    ] = None,
    parked: Annotated[bool, typer.Option("--parked", help="Items that have dead letters.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew, though another one is unfinished.")] = False,
    as_json: AsJson = False,
) -> None:
    """Apply what is in the source anew, through the same guarded writes as live work, which may go on meanwhile.

    It reads every range of the feed at once: from its beginning, from where the last replay ended ("checkpoint"), or
    changes since a time (ISO 8601, epoch seconds, or 2h for two hours ago). Positions are stored; a replay that was
    stopped or killed goes on when it is asked for the same again. --key and --parked read those items alone, and store
    no position. --where (which may be repeated) reads all and applies those that have all of these values.

    --dry-run takes the same way and writes nothing: what would be written, moved, removed, parked, with examples, and
    what that would cost. SIGINT (Ctrl-C) and SIGTERM end it after the pages under way. With --json one object a
    projection.

    Exit codes: 0 done; 2 it could not be done; 130 Ctrl-C, 143 SIGTERM before the end.
    """
    log_to_stderr(as_json=as_json)
    selection = Selection(tuple(map(_key, key or ())), tuple(map(_condition, where or ())), parked)
    complete(_replay(name or [], _begin(begin), ru, selection, dry_run, restart, as_json))


def _begin(text: str) -> From:
    """Where to begin, as typed."""
    if text in ("beginning", "checkpoint"):
        return text  # type: ignore[return-value]
    if re.fullmatch(r"\d{9,}", text, re.ASCII):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return int(time.time() - span(text))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _key(text: str) -> Key:
    """A key of the source, or the first levels of one, as typed."""
    value = parse_key(text)
    if isinstance(value, str) and value.startswith("["):
        try:
            return Key.of(*json.loads(value))
        except (ValueError, TypeError):
            raise typer.BadParameter(f"{text!r} is no JSON array of key values", param_hint="--key") from None
    return Key.of(value)


def _condition(text: str) -> tuple[str, Any]:
    path, equals, value = text.partition("=")
    if not equals or not path.startswith("/"):
        raise typer.BadParameter(f"{text!r}: give /path=value, such as /status=open", param_hint="--where")
    parse_path(path)
    return path, parse_key(value)


@dataclass
class Samples:
    """Differences that a rehearsal has come upon, a few of each kind."""

    layout_target: Container
    reserved: str
    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, container: Container, key: Key, operation: Operation, before: Document | None) -> None:
        if container != self.layout_target:
            return
        kind = "remove" if isinstance(operation, Delete) else "create" if before is None else "replace"
        listed = self.found.setdefault(kind, [])
        if len(listed) < SAMPLES:
            sample: dict[str, Any] = {"id": operation.id, "key": key.to_list()}
            if kind == "replace":
                sample["fields"] = self._changed(operation, before or {})
            listed.append(sample)

    def _changed(self, operation: Operation, before: Document) -> list[str]:
        """The names of the fields at the top that would be others."""
        if isinstance(operation, Patch):
            return sorted((*operation.values, *operation.removed))
        assert not isinstance(operation, Delete)
        after = operation.document
        names = {name for name in before.keys() | after.keys() if not name.startswith("_")}
        return sorted(name for name in names if before.get(name) != after.get(name))


@dataclass
class Replayed:
    """A replay of one projection, to its end or to where it was stopped."""

    projection: Projection
    report: Report
    samples: Samples | None = None
    estimate: float = 0.0  # request units that the writes of a dry run would cost

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        report = self.report
        told: dict[str, Any] = {
            "projection": self.projection.label,
            "dryRun": self.samples is not None,
            "finished": report.finished,
            "resumed": report.resumed,
            "read": report.read,
            **report.applied.to_stored(),
            "requestUnits": round(report.cost.request_units, 2),
            "calls": report.cost.calls,
            "seconds": round(report.seconds, 2),
        }
        if self.samples is not None:
            told |= {"estimatedWriteRequestUnits": round(self.estimate, 2), "samples": self.samples.found}
        return told


async def _replay(
    names: Sequence[str], begin: From, ru: float | None, selection: Selection, dry_run: bool, restart: bool,
    as_json: bool,
) -> int:  # fmt: skip
    stopped = asyncio.Event()
    done: list[Replayed] = []
    async with opened() as session:
        with stopping(stopped.set) as received:
            for projection in named(session.layout, names):
                if not stopped.is_set():
                    asked = Asked(projection, begin, ru, selection, dry_run, restart, as_json)
                    done.append(await asked.run(session, stopped.is_set))
    _tell(done, ru, as_json)
    if received and not all(one.report.finished for one in done):
        return SIGNALLED + max(received)
    return GOOD


@dataclass(frozen=True)
class Asked:
    """One projection's replay, as it was asked for."""

    projection: Projection
    begin: From
    ru: float | None
    selection: Selection
    dry_run: bool
    restart: bool
    quiet: bool

    async def run(self, session: Session, stop: Callable[[], bool]) -> Replayed:
        store = PacedStore.below(session.store, request_units=self.ru)
        target = session.layout.target(self.projection)
        samples = Samples(target, session.layout.catalog.reserved) if self.dry_run else None
        rehearsal = Rehearsal(store, samples.add) if samples else None
        engine = await Engine.open(rehearsal or store, session.layout, self.projection, dry_run=self.dry_run)
        with _showing(self.projection.label, self.ru, quiet=self.quiet) as show:
            replaying = Replay(
                rehearsal or store, session.layout, engine, begin=self.begin, selection=self.selection,
                rehearsal=rehearsal, request_units=self.ru, on_progress=show,
            )  # fmt: skip
            try:
                report = await replaying.run(restart=self.restart, stop=stop)
            except AskError as error:
                error.projection = error.projection or self.projection.label
                raise
        if isinstance(self.projection, Header) and not self.dry_run and not stop():
            await (await open_fan_out(store, session.layout, self.projection)).run(stop)
        return Replayed(self.projection, report, samples, rehearsal.request_units if rehearsal else 0.0)


@contextmanager
def _showing(name: str, ru: float | None, *, quiet: bool) -> Iterator[Callable[[Report, Sequence[Result]], None]]:
    """A bar on a terminal: rate, time that is left, request units per second."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn(),
    )  # fmt: skip
    hidden = quiet or not sys.stderr.isatty()
    with Bars(*columns, console=err(), transient=True, disable=hidden) as bars:
        task, began = bars.add_task(name, total=None, said=""), time.monotonic()

        def show(report: Report, _: Sequence[Result]) -> None:
            elapsed = max(0.001, time.monotonic() - began)
            used = report.cost.request_units / elapsed
            of = f" of {ru:,.0f}" if ru else ""
            said = f"{report.read:,} read, {report.read / elapsed:,.0f}/s, {used:,.0f}{of} RU/s"
            bars.update(task, completed=report.read, total=report.total, said=said)

        yield show


def _tell(done: Sequence[Replayed], ru: float | None, as_json: bool) -> None:
    if as_json:
        for one in done:
            emit(one.to_json())
        return
    columns = ("projection", "read", "outcomes", "RU", "RU to write", "calls", "seconds", "to its end")
    rows = [
        (
            one.projection.label, one.report.read,
            ", ".join(f"{name} {n:,}" for name, n in sorted(one.report.applied.outcomes.items())) or "-",
            round(one.report.cost.request_units), round(one.estimate) if one.samples else None,
            one.report.cost.calls, round(one.report.seconds, 1), one.report.finished,
        )
        for one in done
    ]  # fmt: skip
    out().print(table(columns, rows))
    for one in done:
        if one.samples is not None:
            _tell_samples(one, ru)


def _tell_samples(one: Replayed, ru: float | None) -> None:
    """Of a dry run: examples, and what the real run would take."""
    assert one.samples
    rows = [
        (kind, sample["id"], json.dumps(sample["key"]), ", ".join(sample.get("fields", ())))
        for kind, listed in one.samples.found.items()
        for sample in listed
    ]
    if rows:
        out().print(table(("would", "entry", "key", "fields that differ"), rows))
    units = one.report.cost.request_units + one.estimate
    at_cap = f", {units / ru:,.0f} s at {ru:,.0f} RU per second" if ru else ""
    say(
        f"{one.projection.label}: nothing was written; it would take some {units:,.0f} RU{at_cap}, "
        "of which writes are estimated"
    )
