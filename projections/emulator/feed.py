"""The change feed: latest versions, and all versions and deletes where a container keeps a history."""

from __future__ import annotations

import email.utils
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC

from projections.emulator import charges
from projections.emulator.catalog import Container
from projections.emulator.errors import bad_request
from projections.emulator.exchange import Reply, Request, feed_body
from projections.emulator.items import expired, milliseconds, tidy
from projections.emulator.scopes import Scope, scope_of
from projections.emulator.storage import Storage

FEED_HEADER = "a-im"
DEFAULT_PAGE = 100
MAX_PAGE_BYTES = 4 * 1024 * 1024
_FULL_FIDELITY_OFF = (
    "All Versions and Deletes change feed mode must be enabled: the container has no 'changeFeedPolicy' with a "
    "'retentionDuration'."
)
_NO_BEGINNING = "The change feed of all versions and deletes starts now or from a continuation, not at a time before."
_TOO_OLD = "The change feed continuation is older than the retention of all versions and deletes."


@dataclass(frozen=True, slots=True)
class Start:
    """Where a reader stands: behind an LSN, at changes of this millisecond or later; ``now`` = at the end."""

    after: int
    since: int
    now: bool
    beginning: bool = False  # nothing else was asked for


def read(storage: Storage, container: Container, request: Request) -> Reply:
    """One page, or 304 with the position when there is nothing new."""
    scope = scope_of(container, request)
    start = _start(request)
    if request.headers[FEED_HEADER].lower().startswith("full"):
        changes = _all_versions(storage, container, scope, start)
    else:
        changes = _latest(storage, container, scope, start)
    if start.now:
        rows, last = list[bytes](), container.lsn
    else:
        rows, last = _page(changes, request.number("x-ms-max-item-count", -1))
    if not rows:
        # past whatever was filtered out, so that an idle reader does not look at it again
        return _reply(container, scope, 304, [], max(start.after, container.lsn))
    return _reply(container, scope, 200, rows, last)


def _start(request: Request) -> Start:
    headers = request.headers
    since = 0
    if (text := headers.get("if-modified-since")) is not None:
        try:
            moment = email.utils.parsedate_to_datetime(text)
        except (TypeError, ValueError):
            raise bad_request(f"The header If-Modified-Since is not a date: {text}") from None
        since = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()) * 1000
    token = headers.get("if-none-match")
    if token is None:
        return Start(0, since, False, beginning=True)
    if token.strip() == "*":
        return Start(0, since, True)
    try:
        after = int(token.strip().strip('"'))
    except ValueError:
        after = -1
    if not 0 <= after < 1 << 62:
        raise bad_request(f"The change feed continuation '{token}' is malformed.")
    return Start(after, since, False)


def _latest(storage: Storage, container: Container, scope: Scope, start: Start) -> Iterator[tuple[int, bytes]]:
    """Each item of the scope in its newest state, by the LSN of its last change."""
    now = milliseconds()
    for item in storage.changes(container.number, start.after, scope.minimum, scope.maximum, start.since):
        if not expired(item, container, now):
            yield item.lsn, item.body[:-1] + b',"_lsn":%d}' % item.lsn


def _all_versions(storage: Storage, container: Container, scope: Scope, start: Start) -> Iterator[tuple[int, bytes]]:
    """Every create, replace and delete, those by TTL included, as long as they are retained."""
    if not container.keeps_history:
        raise bad_request(_FULL_FIDELITY_OFF)
    if start.since or start.beginning:
        raise bad_request(_NO_BEGINNING)
    tidy(storage, container)
    if not start.now and start.after < storage.forgotten(container.number):
        raise bad_request(_TOO_OLD)
    return storage.recorded(container.number, start.after, scope.minimum, scope.maximum)


def _page(changes: Iterator[tuple[int, bytes]], asked: int) -> tuple[list[bytes], int]:
    """A page never cuts an LSN in two: a batch comes as a whole, even when it is larger than the page."""
    limit = asked if asked > 0 else DEFAULT_PAGE
    rows: list[bytes] = []
    last = size = 0
    for lsn, row in changes:
        if lsn != last and rows and (len(rows) >= limit or size > MAX_PAGE_BYTES):
            break
        rows.append(row)
        size += len(row)
        last = lsn
    return rows, last


def _reply(container: Container, scope: Scope, status: int, rows: list[bytes], lsn: int) -> Reply:
    return Reply(
        "change_feed",
        status,
        feed_body(container.rid, "Documents", rows) if rows else b"",
        charges.feed(sum(map(len, rows))),
        {"etag": f'"{lsn}"', "x-ms-item-count": str(len(rows))},
        container,
        scope.range_ids,
    )
