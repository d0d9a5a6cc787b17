"""Real processes for tests: the emulator on its file, and the commands, to be killed as processes are."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from projections.settings import emulator_connection

ROOT = Path(__file__).parents[1]


class EmulatorProcess:
    """`python -m projections.emulator --data DIR`, on the same port again after a restart."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "projections.emulator", "--port", str(self.port), "--data", str(self.data)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.url = _ready_line(self._process).removeprefix("ready ").strip()
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    @property
    def connection_string(self) -> str:
        return emulator_connection(self.url)

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def kill(self) -> None:
        assert self._process
        assert self._process.stdout
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()


def _ready_line(process: subprocess.Popen[str], seconds: float = 20) -> str:
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    assert ready, "the process did not say that it is ready"
    return process.stdout.readline()


def environment(connection_string: str, **settings: str) -> dict[str, str]:
    """The environment of a command: this one, with these settings and no others of ours."""
    ours = ("COSMOS", "PROJECTIONS_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"COSMOS": connection_string} | settings


def start(arguments: list[str], connection_string: str, **settings: str) -> subprocess.Popen[str]:
    """Start `projections ARGUMENTS`."""
    return spawn(arguments, connection_string, subprocess.PIPE, subprocess.PIPE, **settings)


def spawn(
    arguments: list[str], connection_string: str, stdout: int | IO[Any], stderr: int | IO[Any], **settings: str
) -> subprocess.Popen[str]:
    """Start `projections ARGUMENTS`; what it says goes where told, since a pipe that nobody reads would hold it up."""
    return subprocess.Popen(
        [sys.executable, "-m", "projections", *arguments],
        cwd=ROOT, env=environment(connection_string, **settings), stdout=stdout, stderr=stderr, text=True,
    )  # fmt: skip


def kill_after(process: subprocess.Popen[Any], seconds: float) -> bool:
    """kill -9 after a time; whether the process was still running."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    alive = process.poll() is None
    process.kill()
    process.communicate()
    return alive


def run(arguments: list[str], connection_string: str, *, timeout: float = 300, **settings: str) -> str:
    """Run `projections ARGUMENTS` to its end; its stdout."""
    process = start(arguments, connection_string, **settings)
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out
