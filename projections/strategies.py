"""Keys that are computed: several fields as one text, and suffixes that spread one key over several partitions."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from projections.asking import combined
from projections.buckets import TimeBucket
from projections.errors import AskError, CatalogError
from projections.keys import MOST_KEYS, KeyValue, Level, Owner, Path, at, kept_apart, parse_path, scalar
from projections.texts import as_text, joined, parted, separator, utf8

MOST_SUFFIXES: Final = 1_000
"""A read asks for every suffix."""


@dataclass(frozen=True, init=False)
class Concat(Level):
    """Several fields as one text, kept at `path`: Concat("/tenantId", "/userId") gives "acme_u7".

    The text can be read back, types and all (`parse`), so that no two different tuples share a key; `joined` in
    texts.py says how it is written. A part may be a TimeBucket, too.
    """

    parts: tuple[Path | TimeBucket, ...]
    separator: str = "_"
    path: str = "/partitionKey"

    def __init__(self, *parts: str | Path | TimeBucket, separator: str = "_", path: str = "/partitionKey") -> None:
        object.__setattr__(self, "parts", tuple(Path(part) if isinstance(part, str) else part for part in parts))
        object.__setattr__(self, "separator", separator)
        object.__setattr__(self, "path", path)
        self._check()

    def _check(self) -> None:
        separator(self.separator)
        if not self.parts or not all(isinstance(part, Path | TimeBucket) for part in self.parts):
            raise CatalogError("Concat takes paths and time buckets", hint='write Concat("/tenantId", "/userId")')
        if len(set(self.fields)) != len(self.parts):
            raise CatalogError("Concat names a field twice", hint="name each field once")
        kept_apart([self.path], self.inputs)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(path for part in self.parts for path in part.inputs)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(path for part in self.parts for path in part.fields)

    @property
    def example(self) -> tuple[str, ...]:
        return tuple(value for part in self.parts for value in part.example)

    def value(self, item: Mapping[str, Any], owner: Owner) -> str:
        return joined([part.value(item, owner) for part in self.parts], self.separator)

    def asked(self, values: Sequence[Any]) -> list[KeyValue]:
        parts = [part.asked((value,)) for part, value in zip(self.parts, values, strict=True)]
        return [joined(one, self.separator) for one in combined(parts, MOST_KEYS)]

    def parse(self, text: str) -> tuple[KeyValue, ...]:
        """The values of the fields that give this text.

        Raises:
            AskError: none do.
        """
        values = parted(text, self.separator)
        if len(values) != len(self.parts):
            raise AskError(f"{len(values)} values for {', '.join(self.fields)}", hint="this is another key's text")
        return values


Base: TypeAlias = Concat | TimeBucket
"""What a suffix can be put to."""


class Suffixed(Level):
    """A base and, behind a separator, the number of one of `count` partitions, from 0 on."""

    base: Any
    count: int
    separator: str

    def _check(self) -> None:
        separator(self.separator)
        if isinstance(self.base, str | Path):
            object.__setattr__(self, "base", Concat(self.base, separator=self.separator))
        if not isinstance(self.base, Concat | TimeBucket):
            raise CatalogError(
                f"{self.base!r} is no base of a suffix", hint="give a path, a Concat(...) or a TimeBucket(...)"
            )
        if isinstance(self.count, bool) or not isinstance(self.count, int) or not 1 <= self.count <= MOST_SUFFIXES:
            raise CatalogError(f"count: {self.count!r}", hint=f"give a number from 1 to {MOST_SUFFIXES:,}")
        kept_apart([self.path], self.inputs)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.base.inputs)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self.base.fields)

    @property
    def example(self) -> tuple[str, ...]:
        return tuple(self.base.example)

    @abstractmethod
    def suffix(self, item: Mapping[str, Any], owner: Owner) -> int:
        """Which of the partitions an entry is in."""

    def value(self, item: Mapping[str, Any], owner: Owner) -> str:
        return self._text(self.base.value(item, owner), self.suffix(item, owner))

    def _text(self, base: KeyValue, suffix: int) -> str:
        # stored; change with a version. The last separator is the suffix's: no number holds one.
        return f"{as_text(base)}{self.separator}{suffix}"

    def asked(self, values: Sequence[Any]) -> list[KeyValue]:
        bases = self.base.asked(values[: len(self.fields)])
        return [self._text(base, suffix) for base, suffix in combined([bases, self._suffixes(values)], MOST_KEYS)]

    def _suffixes(self, values: Sequence[Any]) -> Sequence[int]:
        return range(self.count)


@dataclass(frozen=True)
class RandomSuffix(Suffixed):
    """A base that is spread over `count` partitions as if at random, kept at `path`: "2026-11-30_3".

    The number is drawn from a stable hash of the entry's identity: a replay puts it into the same place, and an
    update finds it there. A read asks for every suffix.
    """

    base: str | Path | Base
    count: int
    separator: str = "_"
    path: str = "/partitionKey"

    def __post_init__(self) -> None:
        self._check()

    def suffix(self, item: Mapping[str, Any], owner: Owner) -> int:
        """Bytes 4 to 7 of the owner's digest, big-endian, modulo `count`: placement buckets go by bytes 0 to 3."""
        # stored; change with a version
        return int.from_bytes(owner.digest[4:8], "big") % self.count


@dataclass(frozen=True)
class HashSuffix(Suffixed):
    """A base that is spread over `count` partitions by the values of some fields, kept at `path`: "2026-11-30_3".

    Whoever knows these values knows the key, in every process and language. The number is: the values of `of` as one
    text, as Concat writes it with this separator (a single text without ~ and _ is that text itself); its UTF-8 bytes;
    SHA-256 of them; the first 4 bytes as a big-endian number; modulo `count`.

    A read for which the values of `of` are given asks for one key; others ask for every suffix.
    """

    base: str | Path | Base
    of: str | tuple[str, ...]
    count: int
    separator: str = "_"
    path: str = "/partitionKey"

    def __post_init__(self) -> None:
        named = (self.of,) if isinstance(self.of, str) else tuple(self.of)
        object.__setattr__(self, "of", named)
        if not named or len(set(named)) != len(named) or not all(isinstance(path, str) for path in named):
            raise CatalogError(f"of: {self.of!r}", hint='name the fields to hash, each once: of=("/orderId",)')
        for path in named:
            parse_path(path)
        self._check()

    @cached_property
    def _of(self) -> tuple[tuple[str, ...], ...]:
        return tuple(map(parse_path, self.of))

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().inputs, *self.of)))

    @property
    def extra(self) -> tuple[str, ...]:
        """Fields of `of` that are not given with the base. Of a time bucket not the time is given but the bucket."""
        parts = self.base.parts if isinstance(self.base, Concat) else (self.base,)
        known = {part.path for part in parts if isinstance(part, Path)}
        return tuple(path for path in self.of if path not in known)

    def suffix(self, item: Mapping[str, Any], owner: Owner) -> int:
        return self.hashed([at(item, names) for names in self._of])

    def hashed(self, values: Sequence[KeyValue]) -> int:
        """The suffix that values of `of` give."""
        # stored; change with a version
        digest = hashlib.sha256(utf8(joined(values, self.separator))).digest()
        return int.from_bytes(digest[:4], "big") % self.count

    def _suffixes(self, values: Sequence[Any]) -> Sequence[int]:
        if len(values) < len(self.fields) + len(self.extra):
            return range(self.count)
        known = dict(zip((*self.fields, *self.extra), values, strict=True))
        return [self.hashed([scalar(path, known[path]) for path in self.of])]
