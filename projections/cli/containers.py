"""`init` and `load`: what has to be there before a projection can run."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from projections.cli.console import emit, err, out, say, table
from projections.cli.session import FOUND_WRONG, GOOD, AsJson, complete, opened
from projections.cosmos import connect
from projections.errors import MissingContainerError
from projections.load import Loaded, Step
from projections.load import load as load_file
from projections.native import State, candidates
from projections.native import create as create_native
from projections.patience import PatientStore
from projections.provision import Layout, initialise, own, sources
from projections.settings import Settings
from projections.store import Container, Store
from projections.template import Needed, az, bicep


class Template(StrEnum):
    """What --template writes."""

    BICEP = "bicep"
    AZ = "az"


def init(
    native: Annotated[
        bool, typer.Option("--native", help="Global secondary indexes of the account, for projections that can be one.")
    ] = False,
    template: Annotated[
        Template | None, typer.Option("--template", help="Create nothing: print what does, Bicep or an az script.")
    ] = None,
    with_sources: Annotated[
        bool, typer.Option("--with-sources", help="Sources, too; without it they are created on an emulator only.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create the containers that the catalog needs: targets, and the worker's own.

    What exists is left as it is, so running it twice is safe. Whether what exists fits is what `doctor` looks at.
    Sources are yours: on an account one that is not there is an error (a misspelled name would become an empty
    container), unless --with-sources says to create it; an emulator gets them in any case.

    With --native, a projection that a native index can stand in for gets that in place of a target, and needs no
    worker; the others are listed with the reason. A managed identity creates no containers: --template prints what
    somebody with rights over the account runs.

    Exit codes: 0 everything is there; 1 something else is where a native index should be; 2 it could not be done.
    """
    if template and with_sources:
        raise typer.BadParameter("a template would reset sources that exist", param_hint="--with-sources")
    complete(_template(template, native, as_json) if template else _init(native, with_sources, as_json))


async def _init(native: bool, with_sources: bool, as_json: bool) -> int:
    async with opened() as session:
        chosen = list(candidates(session.layout)) if native else []
        indexes = {one.container: one.wanted for one in chosen if one.wanted}
        emulated = session.settings.emulator
        found = await initialise(
            session.store, session.layout, with_sources=with_sources or emulated, emulated=emulated, leave=indexes
        )
        states = {container: await create_native(session.store, wanted) for container, wanted in indexes.items()}
    reasons = {one.container: one.reason for one in chosen if not one.wanted}
    if as_json:
        for container, created in found:
            emit({"container": str(container), "created": created} | _why_plain(reasons.get(container)))
        for container, state in states.items():
            emit({"container": str(container), "created": state is State.CREATED, "native": state.value})
    else:
        rows = [(str(c), "created" if new else "exists", _not_native(reasons.get(c))) for c, new in found]
        rows += [(str(container), state.value, "native index") for container, state in states.items()]
        out().print(
            table(("container", "", "") if native else ("container", ""), [r if native else r[:2] for r in rows])
        )
    return FOUND_WRONG if {State.PLAIN, State.OTHER} & set(states.values()) else GOOD


def _why_plain(reason: str | None) -> dict[str, str]:
    return {"not_native": reason} if reason else {}


def _not_native(reason: str | None) -> str:
    return f"no native index: {reason}" if reason else ""


async def _template(template: Template, native: bool, as_json: bool) -> int:
    settings = Settings.read()
    layout = Layout(settings.load_catalog(), settings.database)
    indexes = {one.container: one.wanted for one in candidates(layout) if one.wanted} if native else {}
    containers = [indexes.get(one.container, one) for one in own(layout)]
    versions = {layout.source(part) for part in layout.catalog.parts if part.source.all_versions}
    needed = Needed(containers, [one.container for one in sources(layout)], versions)
    text = bicep(needed) if template is Template.BICEP else az(needed)
    if as_json:
        emit({"template": text})
    else:
        print(text, end="")  # noqa: T201 - a file, not a table
    return GOOD


def load(
    container: Annotated[str, typer.Argument(help="The container to load into.")],
    file: Annotated[Path, typer.Argument(help="JSON Lines, plain or gzipped.")],
    database: Annotated[str | None, typer.Option(help="Its database; the catalog's when not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Load items from a file of JSON Lines into a container, replacing those that exist.

    The whole file is checked first: a broken line is reported by its number and nothing is written. Of two items with
    one identity the later one in the file wins. Loading again is safe.

    Exit codes: 0 loaded; 2 the file is broken or it could not be done.
    """
    complete(_load(container, file, database, as_json))


async def _load(name: str, file: Path, database: str | None, as_json: bool) -> int:
    settings = Settings.read()
    database = database or settings.load_catalog().database or settings.database
    container = Container(database, name)
    async with connect(settings) as store:
        loaded = await load_with_progress(PatientStore(store), container, file)
    if as_json:
        emit({"container": str(container), "lines": loaded.lines, "items": loaded.items})
    else:
        say(f"loaded {loaded.items:,} items into {container}")
    return GOOD


async def load_with_progress(store: Store, container: Container, file: Path) -> Loaded:
    """Load a file into a container that exists; a bar shows how far it is, on a terminal.

    Raises:
        MissingContainerError: the container does not exist.
        LoadError: the file is broken.
    """
    description = await store.describe(container)
    if description is None:
        raise MissingContainerError(
            f"there is no container {container}",
            hint="check the name; `projections init` creates the containers that the catalog names",
        )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[items]:,}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err(), transient=True, disable=not sys.stderr.isatty()) as progress:
        tasks = {name: progress.add_task(name, total=None, items=0) for name in ("checking", "loading")}

        def show(step: Step) -> None:
            progress.update(tasks[step.name], total=step.size, completed=step.done, items=step.items)

        return await load_file(store, container, description.key_paths, file, show)
