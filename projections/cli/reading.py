"""`lookup`: what a projection holds under a key."""

from __future__ import annotations

import json
from typing import Annotated, NoReturn

import typer

from projections.cli.console import emit, say
from projections.cli.session import GOOD, AsJson, complete, opened
from projections.keys import KeyValue
from projections.lookup import Found, Lookup
from projections.provision import Layout
from projections.store import Store


def lookup(
    name: Annotated[str, typer.Argument(help="The projection.")],
    key: Annotated[list[str], typer.Argument(help="The key; one value a level.")],
    fresh: Annotated[bool, typer.Option("--fresh", help="Leave out entries that the source no longer backs.")] = False,
    source: Annotated[bool, typer.Option("--source", help="Show the source items, not the entries.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Take every KEY as text.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the entries under a key, one JSON document a line, and what reading them cost.

    A KEY that is a JSON number, true, false, null or a quoted JSON string is taken for that value: 7 is a number,
    '"7"' is text. Anything else is text as it stands; with --text everything is. Write -- before a negative number. A
    hierarchical key may be given from the left as far as it is known.

    With --json: one object with entries, items (with --source), dropped (by --fresh), requestUnits and calls.

    Exit codes: 0 also when there is nothing under the key; 2 it could not be done.
    """
    complete(_lookup(name, [value if text else parse_key(value) for value in key], source, fresh, as_json))


async def _lookup(name: str, values: list[KeyValue], source: bool, fresh: bool, as_json: bool) -> int:
    async with opened() as session:
        found = await look_up(session.store, session.layout, name, values, source=source, fresh=fresh)
    if as_json:
        emit(answer(name, values, found))
        return GOOD
    for document in found.entries if found.items is None else found.items:
        if document is not None:
            emit(document)
    dropped = f", {found.dropped} dropped as not fresh" if fresh else ""
    counted = f"{_count(len(found.entries), 'entry', 'entries')}{dropped}"
    say(f"{counted}; {found.request_units} RU in {_count(found.calls, 'call', 'calls')}")
    if not found.entries and any(not isinstance(value, str) for value in values):
        say(f"hint: asked for {json.dumps(values)}; for text that looks so, add --text")
    return GOOD


async def look_up(
    store: Store, layout: Layout, name: str, values: list[KeyValue], *, source: bool = False, fresh: bool = False
) -> Found:
    """The entries of the projection of this name under a key.

    Raises:
        CatalogError: there is no such projection.
        AskError: the values do not make a key of it.
    """
    return await Lookup(store, layout, layout.catalog[name]).entries(*values, source=source, fresh=fresh)


def answer(name: str, values: list[KeyValue], found: Found) -> dict[str, object]:
    """For programs."""
    items = {} if found.items is None else {"items": found.items}
    return {
        "projection": name,
        "key": values,
        "entries": found.entries,
        **items,
        "dropped": found.dropped,
        "requestUnits": found.request_units,
        "calls": found.calls,
    }


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
