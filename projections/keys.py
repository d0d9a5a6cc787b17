"""Partition keys: typed values, and the strategies that compute them from an item.

A strategy has a write side (item -> key) and a read side (what to ask for). Values keep their type: 7, "7" and true
are three keys, null and a missing value two more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any, Final, Protocol, TypeAlias, cast

from projections.errors import CatalogError, ItemError


class Undefined:
    """The type of UNDEFINED."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = Undefined()
"""A value that is not there at all, which the store keeps apart from null."""

KeyValue: TypeAlias = str | int | float | bool | None | Undefined

MAX_KEY_BYTES: Final = 2_048
"""facts.md 36. The longest partition key of a container with large keys."""
MAX_EXACT: Final = 2**53
"""Keys are hashed as doubles: whole numbers beyond this run into their neighbours."""


@dataclass(frozen=True, slots=False)
class Key:
    """The partition key of one document, as canonical JSON: equal text means the same logical partition."""

    text: str

    @staticmethod
    def of(*values: KeyValue) -> Key:
        if len(values) == 1 and type(values[0]) is str:  # nearly every key; a key is made several times for a change
            return Key(f"[{encode_basestring(values[0])}]")
        return Key(json.dumps([_encode(v) for v in values], ensure_ascii=False, separators=(",", ":")))

    @staticmethod
    def from_list(stored: Sequence[Any]) -> Key:
        """From the stored form: a JSON list in which a missing value is {}."""
        return Key.of(*(UNDEFINED if v == {} and isinstance(v, dict) else v for v in stored))

    @cached_property
    def values(self) -> tuple[KeyValue, ...]:
        return tuple(UNDEFINED if isinstance(v, dict) else v for v in json.loads(self.text))

    def to_list(self) -> list[Any]:
        """The stored form: a JSON list in which a missing value is {}."""
        return cast(list[Any], json.loads(self.text))

    def __str__(self) -> str:
        return self.text


def _encode(value: KeyValue) -> Any:
    if isinstance(value, Undefined):
        return {}
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT:
        return int(value)  # the store takes 7 and 7.0 for one key
    return value


def at(item: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value at a path of an item, or UNDEFINED."""
    value: Any = item
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return UNDEFINED
        value = value[name]
    return value


def parse_path(text: str) -> tuple[str, ...]:
    """ "/a/b" -> ("a", "b").

    Raises:
        CatalogError: not a path.
    """
    if not text.startswith("/") or text == "/" or "" in text[1:].split("/"):
        raise CatalogError(f"{text!r} is not a path", hint='write a path as "/field" or "/field/inner"')
    return tuple(part.strip('"') for part in text[1:].split("/"))


class Owner(Protocol):
    """Whose key is computed: an entry, before it has a place."""

    @property
    def entry_id(self) -> str:
        """The entry's own id."""

    @property
    def digest(self) -> bytes:
        """32 bytes that are stable, and spread evenly over entries."""


class Strategy(Protocol):
    """How a key is computed from an item: the write side (`values`) and the read side (`ask`)."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The partition key paths of a container keyed so, one a level."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The paths of the item that the key is made from; rules for missing and null values go by these."""

    @property
    def copied(self) -> tuple[str, ...]:
        """Those of `paths` where the store finds the item's own value, so that an entry has to hold it."""

    def values(self, item: Mapping[str, Any], owner: Owner) -> tuple[Any, ...]:
        """One value a level; UNDEFINED where there is none.

        Raises:
            ItemError: an input cannot be used so.
        """

    def stored(self, values: Sequence[KeyValue]) -> dict[str, KeyValue]:
        """What an entry has to hold beside what it copies: the computed levels, by top-level property."""

    def ask(self, *values: Any) -> list[Key]:
        """The keys to ask for to find every entry with these values, in level order.

        Raises:
            AskError: no key is made so; it says what to give.
        """


@dataclass(frozen=True)
class Path:
    """The value at one path is the key."""

    path: str

    def __post_init__(self) -> None:
        parse_path(self.path)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return parse_path(self.path)

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.path,)

    @property
    def copied(self) -> tuple[str, ...]:
        return (self.path,)

    def of(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        """The raw value, as any container keyed so sees it."""
        return (at(item, self._names),)

    def values(self, item: Mapping[str, Any], owner: Owner) -> tuple[Any, ...]:
        return self.of(item)

    def stored(self, values: Sequence[KeyValue]) -> dict[str, KeyValue]:
        return {}

    def ask(self, *values: Any) -> list[Key]:
        return [Key.of(*values)]


@dataclass(frozen=True)
class Hierarchical:
    """Up to three paths, one a level, from the broadest to the narrowest."""

    levels: tuple[Path, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.levels) <= 3:
            raise CatalogError(
                f"a hierarchical key has {len(self.levels)} levels", hint="Cosmos DB takes one to three levels"
            )
        if len(set(self.paths)) != len(self.levels):
            raise CatalogError("a hierarchical key names a path twice", hint="give each level its own path")

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(level.path for level in self.levels)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(path for level in self.levels for path in level.inputs)

    @property
    def copied(self) -> tuple[str, ...]:
        return tuple(path for level in self.levels for path in level.copied)

    def of(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        """One raw value a level, as any container keyed so sees them."""
        return tuple(value for level in self.levels for value in level.of(item))

    def values(self, item: Mapping[str, Any], owner: Owner) -> tuple[Any, ...]:
        return tuple(value for level in self.levels for value in level.values(item, owner))

    def stored(self, values: Sequence[KeyValue]) -> dict[str, KeyValue]:
        return {}

    def ask(self, *values: Any) -> list[Key]:
        return [Key.of(*values)]


Plain: TypeAlias = Path | Hierarchical
"""What a container that holds items is keyed by."""


def strategy(declared: Any) -> Plain:
    """A path, a tuple of paths, or a strategy -> the strategy.

    Raises:
        CatalogError: none of these.
    """
    if isinstance(declared, Path | Hierarchical):
        return declared
    if isinstance(declared, str):
        return Path(declared)
    if isinstance(declared, list | tuple) and declared:
        levels = [Path(part) if isinstance(part, str) else part for part in declared]
        if all(isinstance(level, Path) for level in levels):
            return levels[0] if len(levels) == 1 else Hierarchical(tuple(levels))
    raise CatalogError(
        f"{declared!r} is not a key", hint='give a path such as "/orderId" or, for a hierarchical key, a tuple of paths'
    )


def problem(value: Any) -> str | None:
    """Why a value cannot simply be a key: "missing", "null" or "other"; None when it can.

    Raises:
        ItemError: a number or text that the store would take for another one.
    """
    if isinstance(value, Undefined):
        return "missing"
    if value is None:
        return "null"
    if not isinstance(value, str | int | float):
        return "other"
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float) and not abs(value) <= MAX_EXACT:  # NaN is not, either
        raise ItemError("a number too large for a key: beyond 2^53 neighbours become one key", hint="use text")
    if isinstance(value, str) and len(value) > MAX_KEY_BYTES // 4:
        fitting(Key.of(value))
    return None


def fitting(key: Key) -> Key:
    """The key, if it is not too long for the store, all its levels together.

    Raises:
        ItemError: it is.
    """
    if len(key.text) > MAX_KEY_BYTES // 4:
        size = sum(len(value.encode("utf-8", "surrogatepass")) for value in key.values if isinstance(value, str))
        if size > MAX_KEY_BYTES:
            raise ItemError(f"a key of {size} bytes; the store takes {MAX_KEY_BYTES}", hint="use a shorter key")
    return key
