"""`demo` and `emulator`: trying things on without an account."""

from __future__ import annotations

import asyncio
import signal
import textwrap
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from projections.cli.console import emit, err, out, say, table
from projections.cli.session import FOUND_WRONG, GOOD, AsJson, complete
from projections.cosmos import connect
from projections.demo import demo as tell_story
from projections.errors import ProjectionsError
from projections.patience import PatientStore
from projections.settings import Settings


def emulator(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8081,
    https: Annotated[bool, typer.Option("--https", help="Serve HTTPS with a self-made certificate.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder to keep everything in; memory when not given.")] = None,
    throttle: Annotated[bool, typer.Option("--throttle", help="Answer 429 beyond the containers' throughput.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the embedded Cosmos DB emulator until stopped.

    Prints "ready URL" on stdout once it accepts connections; with --json an object with url and connectionString.

    Exit codes: 0 stopped; 2 it could not start.
    """
    complete(_emulator(host, port, https, data, throttle, as_json))


async def _emulator(host: str, port: int, https: bool, data: Path | None, throttle: bool, as_json: bool) -> int:
    from projections.emulator import Emulator  # an extra of its own, see __main__.EXTRAS

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    running = Emulator(data, host, port, https, throttle=throttle)
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
    complete(_demo(as_json))


async def _demo(as_json: bool) -> int:
    from projections.emulator import Emulator  # an extra of its own, see __main__.EXTRAS

    started = time.monotonic()
    async with Emulator() as emulator, connect(Settings.read({"COSMOS": emulator.connection_string})) as store:
        with _Teller(err() if as_json else out()) as teller:
            story = await tell_story(PatientStore(store), teller)
    if as_json:
        emit(story.to_json())
    seconds = time.monotonic() - started
    if story.holds:
        say(f"\nEvery change arrived and every target equals a rebuild from the source. {seconds:.0f} s in all.")
        say("next: `projections emulator` in one terminal; `projections init`, `load`, `run`, `lookup` in another")
        return GOOD
    say("That did not hold: a change did not arrive, or a target differs from a rebuild from the source.")
    return FOUND_WRONG


class _Teller:
    """Tells the demo's story; with bars where there is a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("   {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=self._console, transient=True, disable=not self._console.is_terminal,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        width = min(self._console.width, 100)
        self._console.print("\n" + textwrap.fill(text, width, subsequent_indent="   "))

    def progress(self, label: str, done: int, total: int) -> None:
        if label not in self._tasks:
            self._tasks[label] = self._bars.add_task(label, total=total)
        self._bars.update(self._tasks[label], completed=done, visible=done < total)
        if done == total and not self._console.is_terminal:
            self._console.print(f"   {label}: {done:,} done")

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self._console.print(f"\n   {title}")
        self._console.print(Padding(table(columns, rows), (0, 0, 0, 3), expand=False))
