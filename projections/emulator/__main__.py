"""``python -m projections.emulator``: runs the emulator until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from projections.emulator.server import Emulator

DEFAULT_PORT = 8081


async def serve(
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    https: bool = False,
    data: Path | None = None,
    merge_by_client: bool = False,
    throttle: bool = False,
) -> None:
    """Runs an emulator until SIGINT or SIGTERM; prints ``ready URL`` once it accepts connections."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Emulator(data, host, port, https, merge_by_client=merge_by_client, throttle=throttle) as emulator:
        print(f"ready {emulator.url}", flush=True)  # noqa: T201
        await stop.wait()
        print("stopping", file=sys.stderr)  # noqa: T201


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="emulator", description="An embedded Azure Cosmos DB emulator.")
    made.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    made.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 takes a free one (default: 8081)")
    made.add_argument("--https", action="store_true", help="serve HTTPS with a self-made certificate")
    made.add_argument("--data", type=Path, help="folder to keep everything in (default: memory)")
    made.add_argument(
        "--merge-by-client",
        action="store_true",
        help="refuse cross-partition sorts and aggregates as the service does, so that clients merge them",
    )
    made.add_argument("--throttle", action="store_true", help="answer 429 beyond the containers' throughput")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; 0 after a clean stop, 1 when it could not start."""
    options = parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(serve(**vars(options)))
    except OSError as error:
        print(f"cannot start: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
