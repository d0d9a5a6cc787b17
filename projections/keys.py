"""Partition keys: typed values, paths, and levels of these. What computes values is in strategies.py and buckets.py.

A strategy has a write side (item -> key) and a read side (what to ask for). Values keep their type: 7, "7" and true
are three keys, null and a missing value two more.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from json.encoder import encode_basestring
from typing import Any, Final, Protocol, TypeAlias, cast

from projections.asking import combined, given
from projections.errors import AskError, CatalogError, ItemError


class Undefined:
    """The type of UNDEFINED."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = Undefined()
"""A value that is not there at all, which the store keeps apart from null."""

KeyValue: TypeAlias = str | int | float | bool | None | Undefined


def order(value: Any) -> tuple[int, Any]:
    """What values sort by, as the store sorts them: missing, null, false, true, numbers, text, and anything else."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 3, value
    if isinstance(value, str):
        return 4, value
    return (0, 0) if isinstance(value, Undefined) else (1, 0) if value is None else (5, 0)


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


@lru_cache(maxsize=4096)
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
        """The keys to ask for to find every entry with these values, in level order; or one mapping of paths to values.

        Raises:
            AskError: no key is made so; it says what to give.
        """


class Level(ABC):
    """One level of a key, which may be all of it: a path, or a value that is computed and kept at `path`."""

    path: str

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]: ...

    @abstractmethod
    def value(self, item: Mapping[str, Any], owner: Owner) -> Any:
        """The write side."""

    @property
    @abstractmethod
    def fields(self) -> tuple[str, ...]:
        """What has to be given to read, by path."""

    @property
    def extra(self) -> tuple[str, ...]:
        """What may be given beside, all or none of it."""
        return ()

    @property
    @abstractmethod
    def example(self) -> tuple[str, ...]:
        """A value for each of `fields`, as Python."""

    @abstractmethod
    def asked(self, values: Sequence[Any]) -> list[KeyValue]:
        """The read side: what to ask for, given values for `fields`, and perhaps for `extra`.

        Raises:
            AskError: one of them is of the wrong type.
        """

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return parse_path(self.path)

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    @property
    def copied(self) -> tuple[str, ...]:
        return ()

    def values(self, item: Mapping[str, Any], owner: Owner) -> tuple[Any, ...]:
        return (self.value(item, owner),)

    def stored(self, values: Sequence[KeyValue]) -> dict[str, KeyValue]:
        (value,) = values
        return {} if self.copied or isinstance(value, Undefined) else {self._names[0]: value}

    def ask(self, *values: Any) -> list[Key]:
        return _asked((self,), values)


@dataclass(frozen=True)
class Path(Level):
    """The value at one path is the key."""

    path: str

    def __post_init__(self) -> None:
        parse_path(self.path)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.path,)

    @property
    def fields(self) -> tuple[str, ...]:
        return (self.path,)

    @property
    def example(self) -> tuple[str, ...]:
        return (f'"{self._names[-1]}-1"',)

    @property
    def copied(self) -> tuple[str, ...]:
        return (self.path,)

    def of(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        """The raw value, as any container keyed so sees it."""
        return (at(item, self._names),)

    def value(self, item: Mapping[str, Any], owner: Owner) -> Any:
        return at(item, self._names)

    def asked(self, values: Sequence[Any]) -> list[KeyValue]:
        return [scalar(self.path, values[0])]


ID: Final = Path("/id")
"""As the last level of several: the entry's own id."""


@dataclass(frozen=True)
class Hierarchical:
    """Up to three levels, from the broadest to the narrowest, each a path or computed."""

    levels: tuple[Level, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.levels) <= 3:
            raise CatalogError(
                f"a hierarchical key has {len(self.levels)} levels", hint="Cosmos DB takes one to three levels"
            )
        if len(set(self.paths)) != len(self.levels):
            hint = "give each level its own path" + ("" if self.is_plain else ": the computed ones take path=...")
            raise CatalogError("a hierarchical key names a path twice", hint=hint)
        kept_apart([level.path for level in self.levels if not isinstance(level, Path)], (*self.inputs, *self.copied))

    @property
    def is_plain(self) -> bool:
        """Whether all levels are paths."""
        return all(isinstance(level, Path) for level in self.levels)

    @cached_property
    def _own_id(self) -> bool:
        return len(self.levels) > 1 and self.levels[-1] == ID

    @cached_property
    def _of_item(self) -> tuple[Level, ...]:
        """The levels that come from the item."""
        return self.levels[:-1] if self._own_id else self.levels

    @cached_property
    def paths(self) -> tuple[str, ...]:
        return tuple(level.path for level in self.levels)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for level in self._of_item for path in level.inputs))

    @cached_property
    def copied(self) -> tuple[str, ...]:
        return tuple(path for level in self._of_item for path in level.copied)

    @cached_property
    def _names(self) -> tuple[tuple[str, ...], ...]:
        return tuple(map(parse_path, self.paths))

    def of(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        """One raw value a level, as any container keyed so sees them."""
        return tuple(at(item, names) for names in self._names)

    def values(self, item: Mapping[str, Any], owner: Owner) -> tuple[Any, ...]:
        found = tuple(level.value(item, owner) for level in self._of_item)
        return (*found, owner.entry_id) if self._own_id else found

    def stored(self, values: Sequence[KeyValue]) -> dict[str, KeyValue]:
        kept = [level.stored((value,)) for level, value in zip(self.levels, values, strict=True)]
        return {name: value for one in kept for name, value in one.items()}

    def ask(self, *values: Any) -> list[Key]:
        return _asked(self.levels, values)


Plain: TypeAlias = Path | Hierarchical
"""What a container that holds items is keyed by: paths alone."""


def strategy(declared: Any) -> Strategy:
    """A path, a strategy, or a tuple of these, one a level -> the strategy.

    Raises:
        CatalogError: none of these.
    """
    if isinstance(declared, Level | Hierarchical):
        return declared
    if isinstance(declared, str):
        return Path(declared)
    if isinstance(declared, list | tuple) and declared:
        levels = tuple(Path(part) if isinstance(part, str) else part for part in declared)
        if all(isinstance(level, Level) for level in levels):
            return levels[0] if len(levels) == 1 else Hierarchical(levels)
    raise CatalogError(
        f"{declared!r} is not a key",
        hint='give a path such as "/orderId", a strategy such as Concat("/tenantId", "/userId") or, for a hierarchical '
        "key, a tuple of these",
    )


def plain(declared: Any) -> Plain:
    """A path or a tuple of paths -> the strategy.

    Raises:
        CatalogError: neither.
    """
    found = strategy(declared)
    if isinstance(found, Path) or (isinstance(found, Hierarchical) and found.is_plain):
        return found
    raise CatalogError(
        f"{declared!r} computes a key",
        hint="items are kept under their own fields: give the paths that the container is keyed by",
    )


def kept_apart(paths: Sequence[str], taken: Sequence[str]) -> None:
    """Refuse computed values to be kept at paths where an entry may have something else.

    Raises:
        CatalogError: one of them is no top-level property, or among those taken.
    """
    for path in paths:
        names = parse_path(path)
        if len(names) != 1 or names[0] in ("id", "ttl") or names[0].startswith("_"):
            raise CatalogError(
                f"a computed value cannot be kept at {path}",
                hint='give path="/name", a property of its own: not id, not ttl, none that begins with _, none deeper',
            )
        if names[0] in {parse_path(other)[0] for other in taken}:
            raise CatalogError(
                f"the key is kept at {path}, which it is made from, too",
                hint="give the computed value another path=...",
            )


MOST_KEYS: Final = 1_000
"""Keys that one lookup may ask for."""


def _asked(levels: Sequence[Level], values: Sequence[Any]) -> list[Key]:
    found = given(levels, values)
    asked = [level.asked(one) for level, one in zip(levels, found, strict=False)]
    try:
        return [fitting(Key.of(*one)) for one in combined(asked, MOST_KEYS)]
    except ItemError as error:
        raise AskError(error.message) from None


def scalar(path: str, value: Any) -> KeyValue:
    """A value that a key can have, as it was given.

    Raises:
        AskError: it is none.
    """
    try:
        wrong = problem(value) == "other"
    except ItemError as error:
        raise AskError(f"{path}: {error.message}", hint=error.hint) from None
    if wrong:
        raise AskError(
            f"{path}: {type(value).__name__} is no value of a key", hint="give text, a number, True, False or None"
        )
    return cast(KeyValue, value)


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
