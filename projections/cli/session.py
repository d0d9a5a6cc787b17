"""What every command starts from: settings, catalog, a store; and how it ends: with an exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

import typer

from projections.cli.console import say, tell
from projections.cosmos import connect
from projections.declare import Projection
from projections.errors import ProjectionsError
from projections.patience import PatientStore
from projections.provision import Layout
from projections.settings import Settings
from projections.store import Store

log = logging.getLogger("projections")

GOOD: Final = 0
FOUND_WRONG: Final = 1
FAILED: Final = 2
INTERRUPTED: Final = 130
SIGNALLED: Final = 128
"""What the exit code of a process adds to the number of the signal that ended it."""

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]


@dataclass(frozen=True)
class Session:
    """An account, and the catalog to work on."""

    settings: Settings
    layout: Layout
    store: Store


@asynccontextmanager
async def opened() -> AsyncIterator[Session]:
    """A session on what the environment names, patient with a busy account.

    Raises:
        ProjectionsError: the settings, the catalog or the account do not allow it.
    """
    settings = Settings.read()
    layout = Layout(settings.load_catalog(), settings.database)
    async with connect(settings) as store:
        yield Session(settings, layout, PatientStore(store))


@contextmanager
def stopping(end: Callable[[], None]) -> Iterator[set[signal.Signals]]:
    """The first SIGINT or SIGTERM ends things in good order, the second one at once. Gives those received."""
    loop = asyncio.get_running_loop()
    received: set[signal.Signals] = set()
    both = (signal.SIGINT, signal.SIGTERM)

    def stop(number: signal.Signals) -> None:
        received.add(number)
        log.info("stopping", extra={"signal": number.name})
        for one in both:
            loop.remove_signal_handler(one)
        end()

    for number in both:
        loop.add_signal_handler(number, stop, number)
    try:
        yield received
    finally:
        for number in both:
            loop.remove_signal_handler(number)


def named(layout: Layout, names: Sequence[str]) -> list[Projection]:
    """The projections of these names, in all their versions, with what they rest on, each once; all without names.

    Raises:
        CatalogError: there is no such projection.
    """
    chosen = [one for name in names for one in layout.catalog.versions(name)] or list(layout.catalog)
    return list({part.full_name: part for one in chosen for part in (*one.parts, one)}.values())


def complete(command: Coroutine[Any, Any, int]) -> None:
    """Run a command to its end and leave with its exit code; errors are told, not traced.

    Raises:
        typer.Exit: always.
    """
    try:
        code = asyncio.run(command)
    except ProjectionsError as error:
        tell(error)
        code = FAILED
    except KeyboardInterrupt:
        say("interrupted")
        code = INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = GOOD
    raise typer.Exit(code)
