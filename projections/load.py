"""Bringing items into a container from a file of JSON Lines, all of which is checked before any of it is written."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal, NoReturn

from projections.batches import Write, write_all
from projections.errors import ItemError, LoadError
from projections.identity import Identity
from projections.keys import Key, Plain, plain, problem
from projections.store import Container, Document, Store, Upsert

WINDOW: Final = 5_000
"""Lines in memory at a time: enough for the items of one partition to share batches."""
WINDOW_BYTES: Final = 32 * 1024 * 1024
"""Bytes of lines in memory at a time, where lines are long."""
CONCURRENCY: Final = 32
"""Calls under way at a time."""
MAX_ITEM_BYTES: Final = 2 * 1024 * 1024
"""facts.md 36."""
MAX_LINE_BYTES: Final = 4 * MAX_ITEM_BYTES
"""White space and escapes may make a line longer than its item; beyond this it is not read to its end."""
MAX_ID: Final = 255
"""facts.md 26."""

_GZIP: Final = b"\x1f\x8b"
_BOM: Final = b"\xef\xbb\xbf"
_BAD_ID: Final = re.compile(r"[/\\?#\t\r\n]")


@dataclass(frozen=True, slots=True)
class Line:
    """One item of the file."""

    number: int  # from 1, blank lines counted
    identity: Identity
    item: Document
    size: int  # bytes of the line


@dataclass(frozen=True, slots=True)
class Step:
    """How far a load is."""

    name: Literal["checking", "loading"]
    done: int  # bytes of the file
    size: int  # bytes of the whole file
    items: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did."""

    lines: int  # with an item on them
    items: int  # written; fewer than lines where an item came twice in a short while


async def load(
    store: Store,
    container: Container,
    key_paths: Sequence[str],
    path: Path,
    on_progress: Callable[[Step], None] = lambda _: None,
) -> Loaded:
    """Upsert the items of a file into a container keyed by `key_paths`.

    Of two items with one identity the later one in the file wins. Loading a file again is safe.

    Raises:
        LoadError: the file is broken, and nothing was written; or the store refused an item of it, and the message
            says how much was written before.
    """
    key = plain(tuple(key_paths))
    items = 0
    for window in _windows(path, key):
        items += len(window.lines)
        on_progress(Step("checking", window.done, window.size, items))
        await asyncio.sleep(0)  # a large file takes a while: leave the loop to others now and then
    gate = asyncio.Semaphore(CONCURRENCY)
    lines = items = 0
    for window in _windows(path, key):
        items += await _write(store, container, window.lines, gate, items)
        lines += len(window.lines)
        on_progress(Step("loading", window.done, window.size, items))
    return Loaded(lines, items)


async def _write(
    store: Store, container: Container, lines: Sequence[Line], gate: asyncio.Semaphore, before: int
) -> int:
    """Upsert the items of some lines, the last one of each identity; how many that were."""
    newest = list({line.identity: line for line in lines}.values())
    writes = [Write(line.identity.key, Upsert(line.item)) for line in newest]
    results = await write_all(store, container, writes, gate)
    for line, result in zip(newest, results, strict=True):
        if isinstance(result, Exception):
            raise LoadError(
                f"line {line.number}: the store refused the item",
                item=str(line.identity),
                hint=f"{before} items and some of the next {len(newest)} are in {container}; "
                "correct the line and load the whole file again, which is safe",
            ) from result
    return len(newest)


# reading the file


@dataclass(frozen=True, slots=True)
class _Window:
    lines: list[Line]
    done: int
    size: int


def _windows(path: Path, key: Plain) -> Iterator[_Window]:
    """The items of a file, some thousand at a time.

    Raises:
        LoadError: the file cannot be read or a line of it is broken.
    """
    with _opened(path) as (raw, stream):
        size = path.stat().st_size
        window: list[Line] = []
        filled = 0
        for number, text in _lines(stream, path):
            line = _parse(number, text, key)
            window.append(line)
            filled += line.size
            if len(window) == WINDOW or filled > WINDOW_BYTES:
                yield _Window(window, raw.tell(), size)
                window, filled = [], 0
        yield _Window(window, size, size)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file, and what is in it, unpacked where it is gzip whatever its name."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise LoadError(f"cannot read {path}: {error.strerror}", hint="give the path of a JSON Lines file") from error
    with raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        yield raw, io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw


def _lines(stream: IO[bytes], path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, and their numbers."""
    number = 0
    while True:
        number += 1
        try:
            text = stream.readline(MAX_LINE_BYTES + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise LoadError(
                f"{path} cannot be read beyond line {number - 1}: {error}", hint="fetch or pack the file again"
            ) from error
        if not text:
            return
        if len(text) > MAX_LINE_BYTES:
            raise _broken(number, f"longer than {MAX_LINE_BYTES} bytes; an item has {MAX_ITEM_BYTES} at most")
        if number == 1:
            text = text.removeprefix(_BOM)
        if text.strip():
            yield number, text


def _parse(number: int, text: bytes, key: Plain) -> Line:
    try:
        item = _DECODER.decode(text.decode())
    except UnicodeDecodeError as error:
        raise _broken(number, f"not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise _broken(number, f"not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise _broken(number, f"not JSON that the store takes: {error}") from None
    if not isinstance(item, dict):
        raise _broken(number, "not a JSON object")
    _check_id(number, item.get("id"))
    values = key.of(item)
    for path, value in zip(key.paths, values, strict=True):
        _check_key(number, path, value)
    _check_size(number, text, item)
    return Line(number, Identity(Key.of(*values), item["id"]), item, len(text))


def _check_id(number: int, id_: Any) -> None:
    if not isinstance(id_, str) or not id_:
        raise _broken(number, "no id, or one that is no text", "every item needs an `id` of text")
    if len(id_) > MAX_ID:
        raise _broken(number, f"the id has {len(id_)} characters; {MAX_ID} are allowed")
    if _BAD_ID.search(id_):
        raise _broken(
            number, f"the id {id_!r} has a character that ids cannot have", "leave / \\ ? # and line ends out"
        )
    if not _is_unicode(id_):
        raise _broken(number, f"the id {id_!r} is not Unicode text")


def _check_key(number: int, path: str, value: Any) -> None:
    try:
        if problem(value) == "other":
            raise _broken(number, f"the key {path} is an object or an array", "a key is text, a number, true or false")
    except ItemError as error:
        raise _broken(number, f"the key {path} is {error.message}", error.hint) from None
    if isinstance(value, str) and not _is_unicode(value):
        raise _broken(number, f"the key {path} is not Unicode text")


def _check_size(number: int, text: bytes, item: Document) -> None:
    if len(text) <= MAX_ITEM_BYTES:
        return  # the item itself is never longer than its line
    size = len(json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    if size > MAX_ITEM_BYTES:
        raise _broken(number, f"an item of {size} bytes; the store takes {MAX_ITEM_BYTES}")


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text} is out of range")
    return value


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON value")


_DECODER: Final = json.JSONDecoder(parse_float=_number, parse_constant=_constant)


def _broken(number: int, reason: str, hint: str | None = None) -> LoadError:
    return LoadError(f"line {number}: {reason}", hint=hint or "correct the line and load again; nothing was written")
