"""An emulator as a process, the commands on it, and the plain SDK beside them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from azure.cosmos import ContainerProxy, CosmosClient

from tests.processes import EmulatorProcess, spawn, start

DATABASE = "shop"
LOOK_SECONDS = 0.5
"""Between two looks at a process's memory."""


class Account:
    """What a team has: an account, a catalog, a terminal and the SDK. `folder` keeps the data and what is logged."""

    def __init__(self, folder: Path, catalog: str) -> None:
        self._folder = folder
        self._settings = {"PROJECTIONS_CATALOG": catalog, "COSMOS_DATABASE": DATABASE}
        self._emulator = EmulatorProcess(folder / "data")
        self.peak = 0.0  # megabytes that the largest worker had in memory

    def close(self) -> None:
        self._emulator.kill()

    @property
    def emulator_memory(self) -> float:
        """Megabytes of the emulator in memory."""
        return _resident(self._emulator.pid, "VmRSS")

    # the commands

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `projections ARGUMENTS`; what it says goes to files."""
        with self._out.open("wb") as out, self._err.open("wb") as err:
            return spawn(list(arguments), self._emulator.connection_string, out, err, **self._settings)

    def run(self, *arguments: str, good: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
        """Run `projections ARGUMENTS --json` to its end; the objects that it prints."""
        process = self.start(*arguments, "--json")
        while process.poll() is None:
            self.look(process)
            time.sleep(LOOK_SECONDS)
        assert process.returncode in good, f"{arguments} ended with {process.returncode}: {self.said()}"
        return [json.loads(line) for line in self._out.read_text(encoding="utf-8").splitlines()]

    def load(self, container: str, items: Iterable[Mapping[str, Any]]) -> None:
        """Load items into a container, from a file."""
        file = self._folder / "items.jsonl"
        with file.open("w", encoding="utf-8") as lines:
            lines.writelines(f"{json.dumps(item)}\n" for item in items)
        self.run("load", container, str(file))
        file.unlink()

    def status(self) -> dict[str, dict[str, Any]]:
        """What `status` says of each projection. It ends with 1 where one of the catalog does not run."""
        command = start(["status", "--json"], self._emulator.connection_string, **self._settings)
        out, err = command.communicate(timeout=300)
        assert command.returncode in (0, 1), f"status ended with {command.returncode}: {err}"
        return {one["projection"]: one for one in map(json.loads, out.splitlines())}

    def look(self, worker: subprocess.Popen[str]) -> None:
        """Take note of a worker's memory."""
        self.peak = max(self.peak, _resident(worker.pid, "VmHWM"))

    def said(self) -> str:
        """The end of what the last command has logged."""
        return self._err.read_text(encoding="utf-8")[-2000:]

    @property
    def _out(self) -> Path:
        return self._folder / "out"

    @property
    def _err(self) -> Path:
        return self._folder / "err"

    # the SDK

    def container(self, name: str) -> ContainerProxy:
        """A container, through a client of its own, so that any thread may have one."""
        client = CosmosClient.from_connection_string(self._emulator.connection_string)
        return client.get_database_client(DATABASE).get_container_client(name)

    def documents(self, name: str, where: str = "true") -> Iterator[dict[str, Any]]:
        """What is in a container."""
        text = f"SELECT * FROM c WHERE {where}"
        return iter(self.container(name).query_items(text, enable_cross_partition_query=True, max_item_count=1000))


def _resident(pid: int, what: str) -> float:
    """Megabytes that a process has in memory (VmRSS), or had at most (VmHWM); 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(what)), 0.0)
