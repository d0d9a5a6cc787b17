"""Queries and read-all over a container's items: candidates, pages, continuations, plans."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from projections.emulator import charges
from projections.emulator.candidates import candidates, pins_one_key
from projections.emulator.catalog import Container
from projections.emulator.errors import CROSS_PARTITION_NOT_SERVABLE, bad_request
from projections.emulator.exchange import Reply, Request, feed_body
from projections.emulator.items import expired, milliseconds
from projections.emulator.jsontext import from_json, from_storage, to_json
from projections.emulator.pages import Page, Position, QueryOptions
from projections.emulator.query import BoundQuery, Query, QueryError, compile_query, query_plan
from projections.emulator.scopes import Scope, scope_of
from projections.emulator.storage import LAST_SEQUENCE, SEQUENCE_BITS, Item, Storage

CROSS_PARTITION_HEADER = "x-ms-documentdb-query-enablecrosspartition"
CROSS_PARTITION_TEXT = (
    f"Cross partition query is required but disabled. Please set {CROSS_PARTITION_HEADER} to true, specify "
    "x-ms-documentdb-partitionkey, or revise your query to avoid this exception."
)
DEFAULT_PAGE = 100
LARGEST_PAGE = 1000
MAX_PAGE_BYTES = 4 * 1024 * 1024  # the service's own limit of a response
_COUNT_ALL = re.compile(r"\s*SELECT\s+VALUE\s+COUNT\s*\(\s*1\s*\)\s+FROM\s+\w+\s*", re.IGNORECASE)
# base64 of {"UtilizedSingleIndexes":[],...}: no index is ever used, all lists are empty
_NO_INDEX_METRICS = base64.b64encode(
    b'{"UtilizedSingleIndexes":[],"PotentialSingleIndexes":[],"UtilizedCompositeIndexes":[],'
    b'"PotentialCompositeIndexes":[]}'
).decode()


class QueryRun:
    """One query (or read-all, without text) request on one container."""

    def __init__(self, storage: Storage, container: Container, request: Request, options: QueryOptions) -> None:
        self.storage = storage
        self.container = container
        self.request = request
        self.options = options
        self.scope = scope_of(container, request)
        self.now = milliseconds()
        self.scanned = 0
        asked = request.number("x-ms-max-item-count", 0)
        self.limit = min(asked, LARGEST_PAGE) if asked > 0 else (LARGEST_PAGE if asked == -1 else DEFAULT_PAGE)
        self.position = Position.decode(request.headers.get("x-ms-continuation"))

    def read_all(self) -> Reply:
        """Every item in scope."""
        return self._reply("read_all_items", self._by_document(None))

    def query(self) -> Reply:
        """The answer of the query in the body."""
        text, parameters = parse_body(self.request.body)
        try:
            compiled = compile_query(text)
            bound = compiled.bind(parameters)
            self._check_scope(compiled, bound)
            page = self._answer(compiled, bound, text, parameters)
        except QueryError as error:
            raise bad_request(str(error)) from None
        return self._reply("query", page)

    def _answer(self, compiled: Query, bound: BoundQuery, text: str, parameters: list[Any]) -> Page:
        if compiled.is_plain:
            return self._by_document(bound)
        if self.container.ttl is None and _COUNT_ALL.fullmatch(text):
            return self._count()
        return self._whole(bound, text, parameters)

    def _check_scope(self, compiled: Query, bound: BoundQuery) -> None:
        if self.scope.by_range or self.scope.key is not None:
            return
        if not self.request.flag(CROSS_PARTITION_HEADER):
            if pins_one_key(self.container, bound):
                return
            raise bad_request(CROSS_PARTITION_TEXT)
        if self.options.merge_by_client and not compiled.is_plain and not pins_one_key(self.container, bound):
            raise bad_request(
                "The provided cross partition query can not be directly served by the gateway. This is a first chance "
                "(internal) exception that all newer clients will know how to handle gracefully.",
                CROSS_PARTITION_NOT_SERVABLE,
            )
        if (
            compiled.has_aggregate
            and not compiled.is_value
            and not compiled.has_group_by
            and len(self.scope.ranges) > 1
        ):
            raise bad_request("Cross partition query only supports 'VALUE <AggregateFunc>' for aggregates.")

    def _reply(self, operation: str, page: Page) -> Reply:
        headers = {"x-ms-item-count": str(len(page.rows))}
        if page.following is not None:
            headers["x-ms-continuation"] = page.following.encode()
        if self.request.flag("x-ms-documentdb-populatequerymetrics"):
            headers["x-ms-documentdb-query-metrics"] = _metrics(page)
        if self.request.flag("x-ms-cosmos-populateindexmetrics"):
            headers["x-ms-cosmos-index-utilization"] = _NO_INDEX_METRICS
        return Reply(
            operation,
            body=feed_body(self.container.rid, "Documents", page.rows),
            charge=charges.query(len(page.range_ids), page.scanned, page.size),
            headers=headers,
            container=self.container,
            range_ids=page.range_ids,
        )

    # -- page by document --

    def _by_document(self, bound: BoundQuery | None) -> Page:
        """A page of a query that streams; it ends where its range ends, as the service's do."""
        narrowed = None if bound is None else candidates(self.storage, self.container, bound, self.scope)
        resume = self.position
        ranges = [one for one in self.scope.ranges if resume is None or one.maximum > resume.minimum]
        for number, one in enumerate(ranges):
            inside = resume is not None and one.minimum < resume.maximum
            start = (resume.at, resume.skip) if resume is not None and inside else (0, 0)
            items = self._items(narrowed, *self.scope.within(one), start[0])
            rows, size, stop = self._fill(self._rows(bound, items), *start)
            if stop is not None:
                return Page(rows, [one.id], Position(one.minimum, one.maximum, *stop), self.scanned, size)
            if number == len(ranges) - 1:
                return Page(rows, [one.id], None, self.scanned, size)
            if rows or narrowed is None:  # like the service, which gives an empty page for an empty range
                following = ranges[number + 1]
                return Page(rows, [one.id], Position(following.minimum, following.maximum), self.scanned, size)
        return Page([], self.scope.range_ids, None, 0, 0)

    def _items(self, narrowed: Sequence[Item] | None, minimum: str, maximum: str, at: int) -> Iterator[Item]:
        """The live items of a part of the key space, from a place on."""
        found: Iterator[Item]
        key = self.scope.key
        if narrowed is not None:
            first = (self.container.number << SEQUENCE_BITS) + at
            found = (item for item in narrowed if minimum <= item.epk < maximum and item.row >= first)
        elif key is not None and key.full:
            found = self.storage.of_key(self.container.number, key.epk, at - 1)
        else:
            found = self.storage.in_order(self.container.number, minimum, maximum, max(0, at - 1))
        if self.container.ttl is None:
            return found
        return (item for item in found if not expired(item, self.container, self.now))

    def _rows(self, bound: BoundQuery | None, items: Iterator[Item]) -> Iterator[tuple[int, int, bytes]]:
        """Sequence of the item, number of the row within it, and the row."""
        if bound is None:
            for item in items:
                self.scanned += 1
                yield item.row & LAST_SEQUENCE, 0, item.body
            return
        current: list[Any] = [None, None]
        last, number = 0, 0
        for row in bound.rows(self._documents(items, current)):
            item, document = current
            number = number + 1 if item.row == last else 0
            last = item.row
            yield last & LAST_SEQUENCE, number, item.body if row is document else to_json(row)

    def _documents(self, items: Iterator[Item], current: list[Any]) -> Iterator[Any]:
        """Parses one item at a time, and notes which one the query is at."""
        for item in items:
            self.scanned += 1
            current[:] = item, from_storage(item.body)
            yield current[1]

    def _fill(
        self, rows: Iterator[tuple[int, int, bytes]], at: int, skip: int
    ) -> tuple[list[bytes], int, tuple[int, int] | None]:
        """Rows up to the limit, their size, and where to go on in this range (None: it is done)."""
        page: list[bytes] = []
        size = 0
        for sequence, number, row in rows:
            if sequence == at and number < skip:
                continue
            if page and (len(page) >= self.limit or size > MAX_PAGE_BYTES):
                return page, size, (sequence, number)
            page.append(row)
            size += len(row)
        return page, size, None

    # -- answers that need all documents --

    def _count(self) -> Page:
        """The number of items, from the index alone."""
        scope = self.scope
        count = self.storage.count_in(self.container.number, scope.minimum, scope.maximum)
        return Page([b"%d" % count], scope.range_ids, None, 0, 0)

    def _whole(self, bound: BoundQuery, text: str, parameters: Any) -> Page:
        """A page of a sorted, grouped, distinct, cut or aggregated answer."""
        scope, resume = self.scope, self.position
        if resume is not None:
            if scope.minimum > resume.minimum and scope.by_range:
                # a child of the range the answer was begun on; its left-most sibling gives the rest for all
                return Page([], scope.range_ids, None, 0, 0)
            parts = self.container.partitions.overlapping(resume.minimum, resume.maximum)
            scope = Scope(resume.minimum, resume.maximum, parts, scope.key, scope.by_range)
        skip = resume.skip if resume is not None else 0
        name = (self.container.rid, scope.minimum, scope.maximum, text, json.dumps(parameters), skip)
        rows = self.options.answers.get(name) if skip else None
        if rows is None:
            rows = self._compute(bound, scope)
        page: list[bytes] = []
        size = 0
        for row in rows[skip : skip + self.limit]:
            if page and size + len(row) > MAX_PAGE_BYTES:
                break
            page.append(row)
            size += len(row)
        given = skip + len(page)
        if given >= len(rows):
            return Page(page, scope.range_ids, None, self.scanned, size)
        self.options.answers.put((*name[:-1], given), rows)
        return Page(page, scope.range_ids, Position(scope.minimum, scope.maximum, 0, given), self.scanned, size)

    def _compute(self, bound: BoundQuery, scope: Scope) -> list[bytes]:
        self.scope = scope
        narrowed = candidates(self.storage, self.container, bound, scope)
        current: list[Any] = [None, None]
        items = (item for one in scope.ranges for item in self._items(narrowed, *scope.within(one), 0))
        # a client merges what single ranges answer: there an aggregate without a value is no row, not a null
        partial = scope.by_range or scope.key is not None
        return [to_json(row) for row in bound.rows(self._documents(items, current), partial)]


def plan(container: Container, request: Request) -> Reply:
    """The query plan, for clients that run queries range by range themselves."""
    text, parameters = parse_body(request.body)
    try:
        made = query_plan(text, parameters, container.body["partitionKey"]["paths"])
    except QueryError as error:
        raise bad_request(str(error)) from None
    return Reply("query_plan", body=to_json(made), charge=1.0, container=container)


def parse_body(body: bytes) -> tuple[str, list[Any]]:
    """Text and parameters of a query body."""
    sent = from_json(body)
    text = sent.get("query") if isinstance(sent, dict) else None
    if not isinstance(text, str):
        raise bad_request("The query body needs a text in 'query'.")
    parameters = sent.get("parameters") or []
    if not isinstance(parameters, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in parameters
    ):
        raise bad_request("The query parameters have to be an array of objects with 'name' and 'value'.")
    return text, parameters


def _metrics(page: Page) -> str:
    """The figures of a query in the service's notation; times are not measured."""
    hit = len(page.rows) / page.scanned if page.scanned else 1.0
    return (
        f"totalExecutionTimeInMs=0.00;queryCompileTimeInMs=0.00;queryLogicalPlanBuildTimeInMs=0.00;"
        f"queryPhysicalPlanBuildTimeInMs=0.00;queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs=0.00;"
        f"indexLookupTimeInMs=0.00;instructionCount=0;documentLoadTimeInMs=0.00;systemFunctionExecuteTimeInMs=0.00;"
        f"userFunctionExecuteTimeInMs=0.00;retrievedDocumentCount={page.scanned};retrievedDocumentSize={page.size};"
        f"outputDocumentCount={len(page.rows)};outputDocumentSize={page.size};writeOutputTimeInMs=0.00;"
        f"indexUtilizationRatio={hit:.2f}"
    )
