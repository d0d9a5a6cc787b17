"""`init` and `load`: what has to be there before a projection can run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from projections.cli.console import emit, err, out, say, table
from projections.cli.session import GOOD, AsJson, complete, opened
from projections.cosmos import connect
from projections.errors import MissingContainerError
from projections.load import Loaded, Step
from projections.load import load as load_file
from projections.patience import PatientStore
from projections.provision import initialise
from projections.settings import Settings
from projections.store import Container, Store


def init(as_json: AsJson = False) -> None:
    """Create the containers that the catalog needs: sources, targets, and the worker's own.

    What exists is left as it is, so running it twice is safe. Whether what exists fits is what `doctor` looks at.

    Exit codes: 0 everything is there; 2 it could not be done.
    """
    complete(_init(as_json))


async def _init(as_json: bool) -> int:
    async with opened() as session:
        found = await initialise(session.store, session.layout)
    if as_json:
        for container, created in found:
            emit({"container": str(container), "created": created})
    else:
        out().print(table(("container", ""), [(str(c), "created" if created else "exists") for c, created in found]))
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
