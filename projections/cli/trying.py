"""`demo` and `emulator`: trying things on without an account."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer

from projections.cli.console import emit, say
from projections.cli.session import GOOD, AsJson, complete
from projections.errors import ProjectionsError


def emulator(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8081,
    https: Annotated[bool, typer.Option("--https", help="Serve HTTPS with a self-made certificate.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder to keep everything in; memory when not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the embedded Cosmos DB emulator until stopped.

    Prints "ready URL" on stdout once it accepts connections; with --json an object with url and connectionString.

    Exit codes: 0 stopped; 2 it could not start.
    """
    complete(_emulator(host, port, https, data, as_json))


async def _emulator(host: str, port: int, https: bool, data: Path | None, as_json: bool) -> int:
    from projections.emulator import Emulator  # an extra of its own, see __main__.EXTRAS

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    running = Emulator(data, host, port, https)
    try:
        await running.start()
    except OSError as error:
        raise ProjectionsError(f"cannot start on {host}:{port}", hint="try --port 0 for a free port") from error
    try:
        if as_json:
            emit({"url": running.url, "connectionString": running.connection_string})
        else:
            print(f"ready {running.url}", flush=True)  # noqa: T201
            say(f"to use it: export COSMOS='{running.connection_string}'")
        await stop.wait()
    finally:
        await running.stop()
    return GOOD


def demo(as_json: AsJson = False) -> None:
    """The whole story in under a minute, on an emulator of its own: nothing else is needed and nothing is left.

    Exit codes: 0 every target equals a rebuild from the source; 1 one does not; 2 it could not be done.
    """
    say(f"coming {as_json}")
