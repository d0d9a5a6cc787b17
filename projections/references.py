"""Which items an item refers to, and what of them goes into its entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from projections.embed import HEADER_ID, Embed, Reference, RefKey
from projections.errors import ItemError
from projections.identity import Identity, Place
from projections.keys import Key, Undefined, at, parse_path, problem
from projections.version import Version

REFS: Final[Literal["refs"]] = "refs"
"""Which container a back-reference is in; see `Place`."""


@dataclass(frozen=True)
class Use:
    """One reference that an item makes."""

    reference: str
    identity: Identity  # of the referenced item

    @cached_property
    def text(self) -> str:
        """The partition of what is kept about the referenced item."""
        return str(RefKey(self.reference).values({}, self.identity)[0])

    @property
    def header(self) -> Place:
        return Place(HEADER_ID, Key.of(self.text), REFS)

    def back(self, item: Identity) -> Place:
        """Of the back-reference to the item."""
        return Place(item.entry_id, Key.of(self.text), REFS)


@dataclass(frozen=True)
class HeaderState:
    """The copied fields of a referenced item, and their version. `copy` is None when the item is gone."""

    version: Version
    copy: Mapping[str, Any] | None
    etag: str

    @staticmethod
    def of(document: Mapping[str, Any], reserved: str) -> HeaderState:
        return HeaderState(Version.from_stored(document[reserved]), document.get("copy"), document["_etag"])


def uses(projection: Embed, item: Mapping[str, Any]) -> list[Use]:
    """The references that an item makes, those of a list in its order.

    Raises:
        ItemError: an id or key that no item can have.
    """
    return [
        Use(name, identity)
        for name, reference in projection.references.items()
        for identity in _identities(name, reference, item)
    ]


def header_places(projection: Embed, item: Mapping[str, Any] | None) -> list[Place]:
    """Where the headers are of what an item refers to; nowhere, where that makes no sense and the item is parked."""
    try:
        return list(dict.fromkeys(use.header for use in uses(projection, item or {})))
    except ItemError:
        return []


def _identities(name: str, reference: Reference, item: Mapping[str, Any]) -> Iterator[Identity]:
    for element in _elements(name, reference, item):
        id_ = _value(reference.id, item, element)
        if id_ is None or isinstance(id_, Undefined) or id_ == "":
            continue
        if not isinstance(id_, str):
            raise ItemError(
                f"reference {name}: {reference.id} is no text, as an id is", path=reference.id, hint="mend the item"
            )
        yield reference.identity(Identity(Key.of(*_key(name, reference, item, element)), id_))


def _key(name: str, reference: Reference, item: Mapping[str, Any], element: Any) -> Iterator[Any]:
    for path in reference.keys:
        value = _value(path, item, element)
        if problem(value) == "other":
            raise ItemError(f"reference {name}: {path} is no scalar, as a key is", path=path, hint="mend the item")
        yield value


def _elements(name: str, reference: Reference, item: Mapping[str, Any]) -> list[Any]:
    """The elements of the list on the way, or a single one that stands for the item."""
    if not reference.many:
        return [None]
    names = parse_path(reference.id)
    found = at(item, names[: names.index("*")])
    if found is None or isinstance(found, Undefined):
        return []
    if not isinstance(found, list):
        path = reference.id[: reference.id.index("/*")]
        raise ItemError(f"reference {name}: {path} is no list", path=path, hint="mend the item")
    return found


def _value(path: str, item: Mapping[str, Any], element: Any) -> Any:
    """The value at a path of the item, or behind the "*" of the element."""
    names = parse_path(path)
    if "*" not in names:
        return at(item, names)
    inner = names[names.index("*") + 1 :]
    return at(element, inner) if inner else element


def filled(
    projection: Embed, item: Mapping[str, Any], copied: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What in place has to be set in the item, and which properties have to go, for its copies to be right.

    Raises:
        ItemError: there is something under the name of a reference that is no copy, and would be lost.
    """
    values: dict[str, Any] = {}
    removed = []
    for name, reference in projection.references.items():
        there, copy = item.get(name), copied.get(name)
        if there and not all(map(reference.may_have_made, there if reference.many else [there])):
            raise ItemError(
                f"the item has a property {name} that is no copy", path=f"/{name}",
                hint="give the reference another name, or take the property out of the item",
            )  # fmt: skip
        if copy and not alike(there, copy):
            values[name] = copy
        elif there and not copy:
            removed.append(name)
    return values, tuple(removed)


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 is 1.0, and not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def copies(
    projection: Embed, made: list[Use], headers: Mapping[str, HeaderState | None]
) -> tuple[dict[str, Any], dict[str, Version]]:
    """What goes into the entry, by reference, and the versions it comes from. What has not arrived is left out."""
    found: dict[str, Any] = {name: [] for name, reference in projection.references.items() if reference.many}
    for use in made:
        header = headers.get(use.text)
        if header is None or header.copy is None:
            continue
        if projection.references[use.reference].many:
            found[use.reference].append(header.copy)
        else:
            found[use.reference] = header.copy
    known = {use.text: headers.get(use.text) for use in made}
    return found, {text: header.version if header else Version() for text, header in known.items()}
