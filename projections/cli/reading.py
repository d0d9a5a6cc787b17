"""`lookup`: what a projection holds under a key."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import typer

from projections.cli.console import emit, say
from projections.cli.session import GOOD, AsJson, complete, opened
from projections.declare import Projection
from projections.errors import AskError
from projections.keys import KeyValue
from projections.lookup import Found
from projections.named import NamedLookup

OPEN = "..."
"""As a KEY: this level is left open."""


def lookup(
    name: Annotated[str, typer.Argument(help="The projection.")],
    key: Annotated[list[str], typer.Argument(help="The key; one value a level, or /field=value.")],
    fresh: Annotated[bool, typer.Option("--fresh", help="Leave out entries that the source no longer backs.")] = False,
    source: Annotated[bool, typer.Option("--source", help="Show the source items, not the entries.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Take every KEY as text.")] = False,
    order_by: Annotated[str | None, typer.Option("--order-by", help="In the order of this field: /total.")] = None,
    descending: Annotated[bool, typer.Option("--descending", help="In falling order.")] = False,
    page_size: Annotated[int | None, typer.Option("--page-size", min=1, help="One page of so many at most.")] = None,
    token: Annotated[str | None, typer.Option("--token", help="Go on after the page that gave this token.")] = None,
    wait: Annotated[str | None, typer.Option("--wait", help="First wait for the write of this session token.")] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait at most.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Show the entries under a key, one JSON document a line, and what reading them cost.

    A KEY that is a JSON number, true, false, null or a quoted JSON string is taken for that value: 7 is a number,
    '"7"' is text. Anything else is text as it stands; with --text everything is. Write -- before a negative number. A
    hierarchical key may be given from the left as far as it is known; ... leaves a level open. Fields may be named
    instead: /region=north. A time bucket is asked for by its text, a time in it, or a span: 2026-11-01..2026-12-01, its
    end not included.

    With --json: one object with entries, items (with --source), dropped (by --fresh), token (with --page-size, where
    there is more), requestUnits and calls.

    With --wait nothing is read before the projection has passed a write to the source: the session token of the write's
    answer (x-ms-session-token) says which.

    Exit codes: 0 also when there is nothing under the key; 2 it could not be done, or not within the --timeout.
    """
    options = {"source": source, "fresh": fresh, "order_by": order_by, "descending": descending, "token": token}
    complete(_lookup(name, key, text, options, page_size, as_json, wait, timeout))


async def _lookup(
    name: str, key: list[str], text: bool, options: dict[str, Any], page_size: int | None, as_json: bool,
    wait: str | None, timeout: float,
) -> int:  # fmt: skip
    async with opened() as session:
        reading = await NamedLookup.open(session.store, session.layout, name)
        if wait is not None:
            await reading.wait_for(wait, timeout=timeout)
        values = key if text else parse_keys(await reading.projection(), key)
        total = _Total()
        async for found in _pages(reading, values, options, page_size, as_json):
            if as_json:
                emit(answer(name, values, found))
                return GOOD
            _show(found)
            total.add(found)
    _tell(total, values, fresh=options["fresh"])
    return GOOD


@dataclass
class _Total:
    """What the pages come to that were shown."""

    entries: int = 0
    dropped: int = 0
    calls: int = 0
    request_units: float = 0.0
    token: str | None = None  # of the last one

    def add(self, found: Found) -> None:
        self.entries += len(found.entries)
        self.dropped += found.dropped
        self.calls += found.calls
        self.request_units = round(self.request_units + found.request_units, 2)
        self.token = found.token


async def _pages(
    reading: NamedLookup, values: Sequence[Any], options: dict[str, Any], page_size: int | None, whole: bool
) -> AsyncIterator[Found]:
    """What there is to show: one page, everything at once, or page by page as it comes."""
    if whole or page_size is not None:
        yield await reading.entries(*values, page_size=page_size, **options)
        return
    async for found in reading.pages(*values, **options):
        yield found


def _show(found: Found) -> None:
    for document in found.entries if found.items is None else found.items:
        if document is not None:
            emit(document)


def _tell(total: _Total, values: Sequence[Any], *, fresh: bool) -> None:
    dropped = f", {total.dropped} dropped as not fresh" if fresh else ""
    counted = f"{_count(total.entries, 'entry', 'entries')}{dropped}"
    say(f"{counted}; {total.request_units} RU in {_count(total.calls, 'call', 'calls')}")
    if total.token is not None:
        say(f"hint: there is more; go on with --token {total.token}")
    if not total.entries and any(not isinstance(value, str) for value in values):
        say(f"hint: asked for {json.dumps(shown(values))}; for text that looks so, add --text")


def answer(name: str, values: Sequence[Any], found: Found) -> dict[str, object]:
    """For programs."""
    items = {} if found.items is None else {"items": found.items}
    more = {} if found.token is None else {"token": found.token}
    return {
        "projection": name,
        "key": shown(values),
        "entries": found.entries,
        **items,
        "dropped": found.dropped,
        **more,
        "requestUnits": found.request_units,
        "calls": found.calls,
    }


def shown(values: Sequence[Any]) -> list[Any]:
    """Values as JSON has them."""
    return [OPEN if value is ... else value for value in values]


def parse_keys(projection: Projection, texts: Sequence[str]) -> list[Any]:
    """Keys as typed: scalars in level order, or one mapping of fields to values.

    Raises:
        AskError: some are named and some are not.
    """
    paths = {*projection.key.inputs, *projection.key.paths}
    found = [re.fullmatch("(/[^=]+)=(.*)", text, re.DOTALL) for text in texts]
    named = [match for match in found if match and match[1] in paths]
    if not named:
        return [... if text == OPEN else parse_key(text) for text in texts]
    if len(named) < len(texts):
        raise AskError(
            "some values are named and some are not", projection=projection.label, hint="name all, or give all in order"
        )
    return [{match[1]: parse_key(match[2]) for match in named}]


def parse_key(text: str) -> KeyValue:
    """A key as typed: a JSON scalar where it is one, text otherwise."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text
    return value if value is None or isinstance(value, str | int | float | bool) else text


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are no JSON
