"""What every command starts from: settings, catalog, a store; and how it ends: with an exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

import typer

from projections.cli.console import say, tell
from projections.cosmos import connect
from projections.errors import ProjectionsError
from projections.patience import PatientStore
from projections.provision import Layout
from projections.settings import Settings
from projections.store import Store

GOOD: Final = 0
FOUND_WRONG: Final = 1
FAILED: Final = 2
INTERRUPTED: Final = 130

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
