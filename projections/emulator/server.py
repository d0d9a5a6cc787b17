"""The HTTP server around the account, and the ``Emulator`` that starts and stops it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import sqlite3
import ssl
import sys
import threading
import uuid
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote

from aiohttp import web
from aiohttp.web import RequestPayloadError

from projections.emulator import auth, certificate, sessions
from projections.emulator.account import Account, Statistics
from projections.emulator.auth import EMULATOR_KEY
from projections.emulator.errors import ServiceError, bad_request
from projections.emulator.exchange import Reply, Request
from projections.emulator.items import milliseconds, tidy
from projections.emulator.routes import dispatch
from projections.emulator.storage import FILE_NAME

log = logging.getLogger(__name__)

SWEEP_SECONDS = 30.0
KEEP_ALIVE = 3600  # a connection that the server closes first costs a client a failed write
MAX_HEAD = 65536  # ids and keys come escaped, session tokens name every range
MAX_BODY = 4 * 1024 * 1024  # items and batches are refused above 2 MB with their own words
GATEWAY_VERSION = "version=2.14.0"
_COMMON = {
    "Cache-Control": "no-store, no-cache",
    "x-ms-gatewayversion": GATEWAY_VERSION,
    "x-ms-serviceversion": GATEWAY_VERSION,
}


class Emulator:
    """An embedded Cosmos DB account on a socket.

    ``async with Emulator() as emulator`` starts an empty one in memory on a free port; ``data`` names a folder (or
    file) to keep everything in. Cross-partition queries that need a merge (ORDER BY, aggregates, TOP, DISTINCT) are
    answered whole; with ``merge_by_client`` they are refused with 400/1004 as the service does, and the client asks for
    a plan and merges what the single ranges answer.
    """

    def __init__(
        self,
        data: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        https: bool = False,
        *,
        merge_by_client: bool = False,
        throttle: bool = False,
    ) -> None:
        self.host = host
        self.port = port
        self.https = https
        self.merge_by_client = merge_by_client
        self.throttle = throttle
        self._data = None if data is None else Path(data)
        self._runner: web.ServerRunner | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._account: Account | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Opens the data and accepts connections."""
        if not _is_loopback(self.host):
            print(  # noqa: T201
                f"warning: listening on {self.host}, which other machines can reach; the key is public knowledge",
                file=sys.stderr,
            )
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        folder, path = _places(self._data)
        context = certificate.server_context(folder, self.host) if self.https else None
        try:
            self._account = Account(path, self.merge_by_client, self.throttle)
        except sqlite3.Error as error:
            raise OSError(f"the data in {path} cannot be opened: {error}") from error
        try:
            self.port = await self._listen(context)
        except BaseException:
            await self.stop()
            raise
        self._sweeper = asyncio.create_task(self._sweep())

    async def _listen(self, context: ssl.SSLContext | None) -> int:
        """Opens the socket; returns its port."""
        server = web.Server(
            self._serve,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE,
            max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port, ssl_context=context).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Closes the connections and the data."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
            self._sweeper = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._account is not None:
            self._account.close()
            self._account = None

    @property
    def url(self) -> str:
        """The account endpoint, with a slash at the end."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.https else 'http'}://{name}:{self.port}/"

    @property
    def connection_string(self) -> str:
        """Endpoint and key in the usual form."""
        return f"AccountEndpoint={self.url};AccountKey={EMULATOR_KEY};"

    @property
    def account(self) -> Account:
        """The state behind the socket."""
        if self._account is None:
            raise RuntimeError("the emulator is not running")
        return self._account

    @property
    def statistics(self) -> Statistics:
        """Requests and charge by operation."""
        return self.account.statistics

    def split(self, database: str, container: str, range_id: str) -> tuple[str, str]:
        """Splits a partition range, as the service does when it grows; returns the ids of the children.

        May be called from any thread; the split itself runs on the emulator's own.
        """

        def run() -> tuple[str, str]:
            catalog = self.account.catalog
            return catalog.split(catalog.container(database, container), range_id)

        async def run_there() -> tuple[str, str]:
            return run()

        if self._loop is None or self._thread == threading.get_ident():
            return run()
        return asyncio.run_coroutine_threadsafe(run_there(), self._loop).result()

    def forget(self, database: str, container: str) -> None:
        """Lets the retention of a container's all-versions feed pass: whoever was not done with it is too late."""
        found = self.account.catalog.container(database, container)
        self.account.storage.forget_up_to(found.number, found.lsn, milliseconds())

    async def _sweep(self) -> None:
        """Clears away what has expired, as the service does behind the scenes; reads do not wait for it."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                for container in list(self.account.catalog.all_containers()):
                    tidy(self.account.storage, container)
            except Exception:
                log.exception("expired items could not be cleared away")

    async def _serve(self, incoming: web.BaseRequest) -> web.Response:
        """Answers one HTTP request; whatever goes wrong, the client gets JSON and no traceback."""
        activity = incoming.headers.get("x-ms-activity-id", "")
        if not (activity.isascii() and activity.isprintable() and activity):
            activity = str(uuid.uuid4())
        account = self.account
        try:
            request = await self._read(incoming)
            auth.check(request)
            reply = dispatch(account, request)
        except ServiceError as error:
            reply = _refusal(error)
        except UnicodeEncodeError:
            reply = _refusal(bad_request("The request contains text that is not valid Unicode."))
        except RequestPayloadError as error:
            reply = _refusal(bad_request(f"The request body cannot be read: {error}"))
        except Exception:
            log.exception("request failed: %s %s, activity %s", incoming.method, incoming.raw_path, activity)
            reply = _refusal(ServiceError(500, f"The emulator failed; its log has the cause. ActivityId: {activity}"))
        account.statistics.note(reply.operation, reply.status, reply.charge)
        return _response(reply, activity)

    async def _read(self, incoming: web.BaseRequest) -> Request:
        body = b""
        if incoming.headers.get("expect", "").lower() == "100-continue" and incoming.transport is not None:
            incoming.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if incoming.body_exists:
            chunks = []
            size = 0
            async for chunk in incoming.content.iter_any():
                size += len(chunk)
                if size > MAX_BODY:
                    raise ServiceError(413, "Request size is too large.")
                chunks.append(chunk)
            body = b"".join(chunks)
        path = _segments(incoming.raw_path)
        host = incoming.headers.get("host") or f"{self.host}:{self.port}"
        scheme = "https" if self.https else "http"
        return Request(incoming.method, path, incoming.headers, body, f"{scheme}://{host}/")


@lru_cache(maxsize=4096)
def _segments(target: str) -> tuple[str, ...]:
    """The decoded parts of a request target."""
    try:
        return tuple(unquote(part, errors="strict") for part in target.partition("?")[0].split("/") if part)
    except UnicodeDecodeError:
        raise bad_request("The path is not valid UTF-8.") from None


def _refusal(error: ServiceError) -> Reply:
    headers = dict(error.headers)
    if error.substatus:
        headers["x-ms-substatus"] = str(error.substatus)
    return Reply("refused", error.status, error.body(), error.charge, headers)


def _response(reply: Reply, activity: str) -> web.Response:
    headers = dict(_COMMON)
    headers["x-ms-activity-id"] = activity
    headers["x-ms-request-charge"] = f"{reply.charge:g}"
    if reply.body:
        headers["Content-Type"] = "application/json"
    container = reply.container
    if container is not None:
        lsn = str(container.lsn)
        headers["x-ms-alt-content-path"] = container.content_path
        headers["x-ms-content-path"] = container.rid
        headers["lsn"] = lsn
        if reply.range_ids:
            headers["x-ms-session-token"] = sessions.token(reply.range_ids, container.lsn)
            headers["x-ms-documentdb-partitionkeyrangeid"] = reply.range_ids[-1]
    headers.update(reply.headers)
    return web.Response(status=reply.status, body=reply.body or None, headers=headers)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _places(data: Path | None) -> tuple[Path | None, Path | None]:
    """Folder and SQLite file of a data argument that may name either."""
    if data is None:
        return None, None
    if data.is_file() or (data.suffix and not data.is_dir()):
        data.parent.mkdir(parents=True, exist_ok=True)
        return data.parent, data
    data.mkdir(parents=True, exist_ok=True)
    return data, data / FILE_NAME
