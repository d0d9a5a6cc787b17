"""The worker inside Azure Functions: what function_app.py registers, and what a trigger and the health route do.

The host moves a lease forward even when a call fails (facts.md 1), so a call returns only when every item of its batch
is reflected, left out by a rule, or parked. What cannot be settled before `functionTimeout` raises, and the unlimited
retry policy holds the range (facts.md 2).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from projections.declare import Index
from projections.errors import FatalError, ProjectionsError, SettingsError, TransientError, UnreachableError
from projections.identity import Place
from projections.keys import Key
from projections.outcomes import Result, Tally
from projections.patience import PatientStore
from projections.provision import Layout
from projections.settings import Settings
from projections.store import Container, Store
from projections.worker import Engine

log = logging.getLogger("projections")

CONNECTION: Final = "COSMOS"
"""The app setting, or the prefix of app settings, that says where the account is; `Settings.read` reads the same."""
MAX_ITEMS: Final = 200
"""Changes a call is given, unless one transaction has more; also what the host scales out by."""
RETRY: Final[dict[str, Any]] = {
    "strategy": "exponential_backoff",  # facts.md 5: any other spelling makes the functions vanish
    "max_retry_count": "-1",
    "minimum_interval": "00:00:05",
    "maximum_interval": "00:05:00",
}
"""Without end: when retries run out the host moves on and the batch is lost (facts.md 2)."""

SHORTEST_TIMEOUT: Final = 300.0
"""Seconds: the default of the plan with the shortest (Consumption)."""
LONGEST_TIMEOUT: Final = 600.0
"""Seconds: the grace that a platform upgrade gives to running calls, however long they may take otherwise."""
SHARE: Final = 0.8
"""The part of `functionTimeout` that work may take: a call that the host cuts off has not been seen to fail."""
CALL_SECONDS: Final = 15.0
"""How long a single call to the store is tried again before the whole batch starts anew, from fresh states."""
HEALTH_SECONDS: Final = 5.0
"""How long the account may take to answer the health route, and how long an answer is good for."""


@dataclass(frozen=True)
class Trigger:
    """What is registered for one projection."""

    projection: Index
    function: str  # the function's name
    source: Container
    leases: Container
    lease_prefix: str  # no other projection's, and no other version's

    @property
    def binding(self) -> dict[str, Any]:
        """The arguments of the host's trigger."""
        return {
            "connection": CONNECTION,
            "database_name": self.source.database,
            "container_name": self.source.name,
            "lease_database_name": self.leases.database,
            "lease_container_name": self.leases.name,
            "lease_container_prefix": self.lease_prefix,
            "create_lease_container_if_not_exists": False,  # a managed identity could not (facts.md 10)
            "start_from_beginning": True,  # counts while there are no leases: a projection is built from all there is
            "max_items_per_invocation": MAX_ITEMS,
        }


def triggers(layout: Layout) -> Iterator[Trigger]:
    """One trigger a projection: each reads the feed for itself and holds up no other."""
    names = {projection.full_name: _function_name(projection.full_name) for projection in layout.catalog}
    taken = [name.casefold() for name in names.values()]
    for projection in layout.catalog:
        name = names[projection.full_name]
        if taken.count(name.casefold()) > 1:  # "a.b" beside "a-b", or "A" beside "a"
            name += f"-{hashlib.sha256(projection.full_name.encode()).hexdigest()[:8]}"
        yield Trigger(projection, name, layout.source(projection), layout.leases, lease_prefix(projection))


def lease_prefix(projection: Index) -> str:
    """What the ids of a projection's leases begin with. Stored; a new one starts the feed from its beginning."""
    return f"{projection.name}-{projection.version}-"


def _function_name(full_name: str) -> str:
    """A letter, then letters, digits, _ and -: "orders.by id@1" -> "orders-by-id-1"."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", full_name)
    return name if name[0].isalpha() else f"p-{name}"


def seconds_to_work(environment: Mapping[str, str], host_json: Path) -> float:
    """How long a call may take, from `functionTimeout` in host.json or the app setting that overrides it.

    Raises:
        SettingsError: it is no time span.
    """
    text = environment.get("AzureFunctionsJobHost__functionTimeout")
    if text is None and host_json.exists():
        text = json.loads(host_json.read_text(encoding="utf-8")).get("functionTimeout")
    if text is None:
        return SHORTEST_TIMEOUT * SHARE
    if text == "-1":
        return LONGEST_TIMEOUT * SHARE
    match = re.fullmatch(r"(?:(\d+)\.)?(\d\d):(\d\d):(\d\d)", text)
    if match is None:
        raise SettingsError(f"functionTimeout {text!r} is no time span", hint='write it as "00:10:00"')
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return min(LONGEST_TIMEOUT, ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds) * SHARE


class TriggeredWorker:
    """The worker of a Functions app: opened by the first call, in its event loop, and kept until the process ends.

    Making one reads settings and catalog and touches no network: the host indexes functions wherever it likes.
    """

    def __init__(
        self, settings: Settings, seconds: float, open_store: Callable[[Settings], Awaitable[Store]] | None = None
    ) -> None:
        self._open_store = open_store or _open_store
        self.layout = Layout(settings.load_catalog(), settings.database)
        self._settings = settings
        self._seconds = seconds
        self._store: Store | None = None
        self._engines: dict[str, Engine] = {}
        self._opening = asyncio.Lock()
        self._checking = asyncio.Lock()
        self._health: tuple[float, str] | None = None  # when it was asked, and the status

    @staticmethod
    def from_environment(folder: Path, environment: Mapping[str, str] | None = None) -> TriggeredWorker:
        """The worker of the app in a folder.

        Raises:
            SettingsError, CatalogError: the app cannot run like this; the host shows it as a failure to index.
        """
        environment = os.environ if environment is None else environment
        log.addFilter(_with_fields)
        for noisy in ("azure.core", "azure.cosmos", "azure.identity"):  # a line for every request otherwise
            logging.getLogger(noisy).setLevel(logging.WARNING)
        return TriggeredWorker(Settings.read(environment), seconds_to_work(environment, folder / "host.json"))

    # a batch

    async def apply(self, projection: Index, documents: Iterable[Mapping[str, Any]] | None) -> Tally:
        """Bring a projection in step with the items of which these documents tell; what happened to them.

        Raises:
            TransientError: the store was busy until the time was up.
            FatalError, UnsafeError: nothing can work until somebody mends the set-up.
        """
        items = list(_items(documents))
        tally = Tally()
        if not items:
            return tally
        started = time.monotonic()
        try:
            tally.add(await self._in_time(projection, items))
        except ProjectionsError as error:
            if not isinstance(error, TransientError):
                self._engines.pop(projection.full_name, None)  # the next call looks at the set-up again
            error.projection = error.projection or projection.full_name
            log.error("failed", extra={"projection": projection.full_name, "items": len(items), "hint": error.hint})
            raise
        seconds = round(time.monotonic() - started, 3)
        log.info("applied", extra={"projection": projection.full_name, "seconds": seconds, **tally.to_stored()})
        return tally

    async def _in_time(self, projection: Index, items: list[dict[str, Any]]) -> list[Result]:
        reason = "the store did not answer"

        def note(attempt: RetryCallState) -> None:
            nonlocal reason
            reason = str(attempt.outcome.exception()) if attempt.outcome else reason
            log.warning("waiting", extra={"projection": projection.full_name, "reason": reason})

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TransientError), wait=wait_random_exponential(max=10), before_sleep=note
        )
        try:
            async with asyncio.timeout(self._seconds):
                return await retrying(self._apply, projection, items)
        except TimeoutError:
            raise TransientError(
                f"not done within {self._seconds:g} s ({reason})", hint="raise the throughput, or wait for the account"
            ) from None

    async def _apply(self, projection: Index, items: list[dict[str, Any]]) -> list[Result]:
        engine = await self._engine(projection)
        return await engine.apply_notices(items)

    # what is opened once

    async def _engine(self, projection: Index) -> Engine:
        store = PatientStore(await self._opened(), min(CALL_SECONDS, self._seconds))
        async with self._checking:
            engine = self._engines.get(projection.full_name)
            if engine is None:
                engine = self._engines[projection.full_name] = await Engine.open(store, self.layout, projection)
            return engine

    async def _opened(self) -> Store:
        """The store. An opening that fails is forgotten, and the next call tries again."""
        async with self._opening:
            if self._store is None:
                self._store = await self._open_store(self._settings)
            return self._store

    # health

    async def health(self) -> tuple[int, str]:
        """The status code and JSON text for whoever watches the app. No reasons: everybody may ask."""
        now = time.monotonic()
        if self._health is None or now - self._health[0] > HEALTH_SECONDS:
            self._health = now, await self._status()
        status = self._health[1]
        body = {"status": status, "projections": [projection.full_name for projection in self.layout.catalog]}
        return 200 if status == "ok" else 503, json.dumps(body)

    async def _status(self) -> str:
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                store = await self._opened()
                await store.read(self.layout.state, [Place("health", Key.of("health"))])  # absent: 1 RU
        except (TimeoutError, TransientError, UnreachableError):
            return "unreachable"
        except ProjectionsError as error:
            log.error("not ready", extra={"reason": str(error), "hint": error.hint})
            return "not ready"
        return "ok"


async def _open_store(settings: Settings) -> Store:
    from projections.cosmos import open_store  # half a second to import, and indexing needs nothing of it

    return await open_store(settings)


def _items(documents: Iterable[Mapping[str, Any]] | None) -> Iterator[dict[str, Any]]:
    for document in documents or ():
        item = dict(document) if document is not None else {}
        if not {"id", "_rid", "_etag", "_ts"} <= item.keys():
            raise FatalError("the trigger was given something that is no item", hint="use its latest-version mode")
        yield item


_OWN_FIELDS: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def _with_fields(record: logging.LogRecord) -> bool:
    """The host forwards nothing of a record but its message, so the fields go in there."""
    fields = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS and value is not None}
    if fields:
        record.msg, record.args = f"{record.getMessage()} {json.dumps(fields, default=str)}", None
    return True
