"""The other side of worker.py: starts it, tells it what to call, reads what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("worker.py")
SETTINGS = ("COSMOS", "COSMOS__accountEndpoint", "COSMOS_DATABASE", "PROJECTIONS_CATALOG")


@dataclass(frozen=True)
class Invocation:
    """What came of a call: the host retries it unless it is `ok`."""

    ok: bool
    value: Any = None
    exception: Any = None


class FunctionsHost:
    """The app in a process of its own, with the settings of this and no other environment."""

    def __init__(self, settings: Mapping[str, str], folder: Path = ROOT) -> None:
        self._settings = settings
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._log = b""
        self._drain: asyncio.Task[None] | None = None
        self.indexed: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        inherited = {name: value for name, value in os.environ.items() if name not in SETTINGS}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, str(WORKER), str(self._folder),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**inherited, **self._settings}, limit=64 * 1024 * 1024,
        )  # fmt: skip
        self._drain = asyncio.create_task(self._read_log())
        self.indexed = await self._answer()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 5)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        assert self._drain
        await self._drain

    @property
    def log(self) -> str:
        """Everything that was logged so far."""
        return self._log.decode("utf-8", "replace")

    async def functions(self) -> dict[str, Any]:
        """The indexed functions by name."""
        answer = await self._ask({"do": "list"})
        return {function["name"]: function for function in answer["functions"]}

    async def deliver(self, function: str, documents: Sequence[Mapping[str, Any]] | None) -> Invocation:
        """Call a function as the Cosmos DB trigger does."""
        text = json.dumps(documents, ensure_ascii=False, separators=(",", ":"))
        return Invocation(**await self._ask({"do": "invoke", "function": function, "documents": text}))

    def kill(self) -> None:
        """kill -9: what is under way is never answered."""
        if self._process and self._process.returncode is None:
            self._process.kill()

    async def tick(self, function: str) -> Invocation:
        """Call a function as the timer trigger does."""
        return Invocation(**await self._ask({"do": "invoke", "function": function, "timer": "now"}))

    async def get(self, function: str, path: str) -> Invocation:
        """Call a function as the HTTP trigger does."""
        return Invocation(**await self._ask({"do": "invoke", "function": function, "http": ["GET", path]}))

    async def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        await self._process.stdin.drain()
        return await self._answer()

    async def _answer(self) -> dict[str, Any]:
        assert self._process
        assert self._process.stdout
        line = await self._process.stdout.readline()
        if not line:
            await asyncio.sleep(0.1)
            raise RuntimeError(f"the worker has ended:\n{self.log}")
        return dict(json.loads(line))

    async def _read_log(self) -> None:
        assert self._process
        assert self._process.stderr
        while chunk := await self._process.stderr.read(65_536):
            self._log += chunk
