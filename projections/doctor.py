"""Looking over a set-up before it runs: what is wrong, why that matters, and what to do about it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from projections.alarm import Alarm
from projections.audit import audit_name
from projections.cosmos import connect
from projections.deadletters import DeadLetters
from projections.declare import Catalog, Index, Projection, Throughput
from projections.definitions import Definitions
from projections.drift import differences
from projections.errors import MissingContainerError, ProjectionsError, UnsafeError
from projections.feed import Checkpoint, Checkpoints
from projections.hosting import functions_findings, leases_findings
from projections.provision import STATE_KEY_PATH, Layout, check, expiry_problems, own, target_problems
from projections.provision import target as declared
from projections.settings import Settings
from projections.status import missed_deletes
from projections.store import Container, Description, Store

INIT: Final = "create it with `projections init`"
PERMANENT: Final = "remove it if it is empty and run `projections init`, or name another one in the catalog"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    severity: Literal["ok", "warning", "error"]
    subject: str
    reason: str
    remedy: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """For programs."""
        return {"severity": self.severity, "subject": self.subject, "reason": self.reason, "remedy": self.remedy}


async def examine(environment: Mapping[str, str] | None = None) -> AsyncIterator[Finding]:
    """Settings, catalog, account and containers, in this order, as far as one allows to look at the next."""
    try:
        settings = Settings.read(environment)
        yield Finding("ok", "settings", f"account {settings.endpoint}, database {settings.database}")
    except ProjectionsError as error:
        yield _failed("settings", error)
        return
    try:
        catalog = settings.load_catalog()
    except ProjectionsError as error:
        yield _failed("catalog", error)
        return
    for finding in examine_catalog(catalog, settings.catalog):
        yield finding
    layout = Layout(catalog, settings.database)
    folders = list(app_folders(settings))
    for folder in folders:
        for finding in examine_app(folder, layout, environment):
            yield finding
    try:
        async with connect(settings) as store:
            yield Finding("ok", "account", f"{settings.endpoint} answers")
            async for finding in examine_containers(store, layout):
                yield finding
            async for finding in examine_work(store, layout):
                yield finding
            if folders and await store.describe(layout.leases):
                for finding in _unsafe(f"leases {layout.leases}", await leases_findings(store, layout)):
                    yield finding
    except ProjectionsError as error:
        yield _failed("account", error)


def examine_catalog(catalog: Catalog, name: str) -> Iterator[Finding]:
    """What can be said without an account."""
    names = ", ".join(projection.label for projection in catalog)
    if not names:
        yield Finding("warning", "catalog", f"{name} declares no projections", "add one, or set PROJECTIONS_CATALOG")
        return
    yield Finding("ok", "catalog", f"{name}: {names}")
    for projection in catalog:
        if not projection.strict:
            yield Finding(
                "warning", f"projection {projection.label}", "strict=False: a source item that flips back to an "
                "earlier content can leave a stale entry", "leave strict=True unless items never do",
            )  # fmt: skip
        yield from _reserved(catalog, projection)


def _reserved(catalog: Catalog, projection: Projection) -> Iterator[Finding]:
    include = projection.include if isinstance(projection, Index) else None
    paths = (*(include or ()), *projection.key.inputs, *projection.key.paths)
    if any(path.split("/")[1] == catalog.reserved for path in paths):
        yield Finding(
            "error", f"projection {projection.label}", f"it uses {catalog.reserved}, which marks entries: items that "
            "have it are parked", "choose another Catalog(reserved=...)",
        )  # fmt: skip


def app_folders(settings: Settings) -> Iterator[Path]:
    """Where there is a Functions app: the folder one is in, and the catalog's, each once."""
    module = sys.modules.get(settings.catalog.partition(":")[0])
    beside = Path(module.__file__).parent if module and module.__file__ else None
    for folder in dict.fromkeys(path.resolve() for path in (Path.cwd(), beside) if path):
        if (folder / "host.json").exists():
            yield folder


def examine_app(folder: Path, layout: Layout, environment: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """What the Functions app in a folder would refuse at its start."""
    subject = f"app {folder}"
    problems = functions_findings(folder, layout, os.environ if environment is None else environment)
    yield from _unsafe(subject, problems)
    if not problems:
        yield Finding("ok", subject, "host.json and triggers are safe")


async def examine_work(store: Store, layout: Layout) -> AsyncIterator[Finding]:
    """What is stored of work so far, and whether each projection may start: the very checks of the worker."""
    for projection in layout.catalog.parts:
        try:
            problems = [finding async for finding in _start(store, layout, projection)]
        except MissingContainerError:
            continue  # already found
        for finding in problems or [Finding("ok", f"projection {projection.label}", "may start")]:
            yield finding
        async for finding in _parked(store, layout, projection):
            yield finding
        async for finding in _missed(store, layout, projection):
            yield finding


async def _start(store: Store, layout: Layout, projection: Projection) -> AsyncIterator[Finding]:
    subject = f"projection {projection.label}"
    try:
        await check(store, layout, projection)
        definition = await Definitions(store, layout).check(projection)
        due = [one.change.field for one in definition.due] if definition and projection in layout.catalog else []
        if due:
            yield Finding(
                "warning", subject, f"was changed ({', '.join(due)}): what was made before is not in line",
                f"`projections replay {projection.full_name}`; `projections plan` shows the changes",
            )  # fmt: skip
        for name in (projection.full_name, audit_name(projection)):
            await Checkpoints(store, layout.state, name).load([])
    except UnsafeError as error:
        yield Finding("error", subject, f"will not start: {error.message}", error.hint)
    raised = await Alarm(store, layout.state, projection).raised()
    if raised:
        yield Finding(
            "error", subject, f"stopped by its alarm: {raised.items:,} items in a row could not be projected "
            f"({raised.error})", "mend the catalog, then run it again or retry its dead letters; or raise alarm_after",
        )  # fmt: skip


async def _parked(store: Store, layout: Layout, projection: Projection) -> AsyncIterator[Finding]:
    letters = DeadLetters(store, layout.deadletters, projection.full_name)
    count, oldest = await letters.count(), await letters.oldest()
    if count and oldest is not None:
        days = (time.time() - oldest) / 86_400
        yield Finding(
            "warning", f"dead letters of {projection.label}", f"{count:,} parked, the oldest {days:.1f} days ago",
            f"see `projections deadletters list {projection.label}`; mend, then `projections deadletters retry`",
        )  # fmt: skip


async def _missed(store: Store, layout: Layout, projection: Projection) -> AsyncIterator[Finding]:
    stored: list[Checkpoint] = []
    for name in (projection.full_name, audit_name(projection)):  # in Functions it is the audit that has positions
        try:
            stored = stored or await Checkpoints(store, layout.state, name).load([])
        except UnsafeError:
            return  # already found
    for span in missed_deletes(stored):
        yield Finding(
            "warning", f"projection {projection.label}", f"deletes may have been missed from {span}: its "
            "position was older than what the source keeps", "items deleted then may have entries still: raise its "
            "version to build it anew, or leave such entries out with `projections lookup --fresh`",
        )  # fmt: skip


def _unsafe(subject: str, problems: Iterable[UnsafeError]) -> Iterator[Finding]:
    for problem in problems:
        yield Finding("error", subject, problem.message, problem.hint)


async def examine_containers(store: Store, layout: Layout) -> AsyncIterator[Finding]:
    """What the catalog's containers are like."""
    for projection in layout.catalog.parts:
        source = await store.describe(layout.source(projection))
        target = await store.describe(layout.target(projection))
        for finding in _source(layout.source(projection), source, projection):
            yield finding
        if projection.fills_source:
            continue
        for finding in _target(layout.target(projection), target, source, projection):
            yield finding
        harm = target and source and any(expiry_problems(target, projection, source))
        async for finding in _drift(
            store, declared(layout, projection), "target", {"key", "default TTL"} if harm else {"key"}
        ):
            yield finding
    for finding in _state(layout.state, await store.describe(layout.state)):
        yield finding
    for finding in _keyed("dead letters", layout.deadletters, await store.describe(layout.deadletters), "/projection"):
        yield finding
    for finding in _keyed("leases", layout.leases, await store.describe(layout.leases), "/id"):
        yield finding
    roles = {layout.state: "state", layout.deadletters: "dead letters", layout.leases: "leases"}
    for wanted in own(layout):
        if wanted.container in roles:  # their keys and expiry are looked at above
            async for finding in _drift(store, wanted, roles[wanted.container], {"key", "default TTL"}):
                yield finding


async def _drift(store: Store, wanted: Description, role: str, known: set[str]) -> AsyncIterator[Finding]:
    """Where a container is not as declared; not again what is `known`, and told with what follows from it."""
    found = await store.describe(wanted.container)
    if found is None or found.native is not None:
        return
    subject = f"{role} {wanted.container}"
    asked = wanted.throughput != Throughput()
    throughput = await store.throughput(wanted.container) if asked else None
    if asked and throughput is None:
        yield Finding("ok", subject, "throughput not compared: the account does not tell it to a managed identity")
    for one in differences(wanted, found, throughput):
        if one.setting not in known:
            remedy = one.remedy if role == "target" else PERMANENT if one.permanent else "set it on the container"
            yield Finding("warning", subject, f"not as declared; {one}", remedy)


def _source(container: Container, found: Description | None, projection: Projection) -> Iterator[Finding]:
    subject = f"source {container} of {projection.label}"
    if found is None:
        yield Finding("error", subject, "does not exist", f"{INIT}, or correct Source(container=...)")
    elif found.key_paths != projection.source.key.paths:
        yield Finding(
            "error", subject, f"is keyed {_paths(found.key_paths)}, declared {_paths(projection.source.key.paths)}",
            "declare Source(key=...) as the container has it",
        )  # fmt: skip
    else:
        told = ", read in mode AllVersionsAndDeletes" if projection.source.all_versions else ""
        yield Finding("ok", subject, f"keyed {_paths(found.key_paths)}{told}")


def _target(
    container: Container, found: Description | None, source: Description | None, projection: Projection
) -> Iterator[Finding]:
    subject = f"target {container}"
    if found is None:
        yield Finding("error", subject, "does not exist", INIT)
        return
    like_source = source or Description(container, projection.source.key.paths)
    problems: list[UnsafeError] = list(target_problems(found, projection, like_source))
    for problem in problems:
        yield Finding("error", subject, problem.message, problem.hint)
    yield from _unique_keys(subject, found, projection)
    if not problems:
        yield Finding("ok", subject, f"keyed {_paths(found.key_paths)}")


def _unique_keys(subject: str, found: Description, projection: Projection) -> Iterator[Finding]:
    """Two items of different source partitions may well have the same value: one of them would be parked."""
    identity = {*projection.source.key.paths}
    for paths in found.unique_keys:
        if not identity <= {*paths, *projection.key.paths}:
            yield Finding(
                "warning", subject, f"unique key {_paths(paths)} does not hold the source's key "
                f"{_paths(projection.source.key.paths)}: of two items with equal values one is parked",
                f"add {_paths(tuple(sorted(identity)))} to the unique key if the source does not keep them apart",
            )  # fmt: skip


def _state(container: Container, found: Description | None) -> Iterator[Finding]:
    findings = list(_keyed("state", container, found, STATE_KEY_PATH))
    if found is not None and found.default_ttl != -1:
        findings = [finding for finding in findings if finding.severity != "ok"]
        if found.default_ttl is None:
            yield Finding(
                "warning", f"state {container}", "expiry is off: records of items that are gone stay for ever",
                "set its default TTL to -1 (on, no default)",
            )  # fmt: skip
        else:
            yield Finding(
                "error", f"state {container}", f"expires checkpoints and placement records after {found.default_ttl} s",
                "set its default TTL to -1 (on, no default)",
            )  # fmt: skip
    yield from findings


def _keyed(what: str, container: Container, found: Description | None, path: str) -> Iterator[Finding]:
    subject = f"{what} {container}"
    if found is None:
        yield Finding("error", subject, "does not exist", INIT)
    elif found.key_paths != (path,):
        yield Finding(
            "error", subject, f"is keyed {_paths(found.key_paths)}; {path} is needed",
            PERMANENT,
        )  # fmt: skip
    elif what != "state" and found.default_ttl is not None and found.default_ttl > 0:
        yield Finding(
            "error", subject, f"expires its documents after {found.default_ttl} s", "switch its default TTL off"
        )
    else:
        yield Finding("ok", subject, f"keyed {path}")


def _failed(subject: str, error: ProjectionsError) -> Finding:
    return Finding("error", subject, str(error), error.hint)


def _paths(paths: tuple[str, ...]) -> str:
    return ", ".join(paths)
