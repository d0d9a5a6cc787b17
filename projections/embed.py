"""The hybrid model, declared: an item with copies of a few fields of the items it refers to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, Field, InstanceOf, model_validator

from projections.declare import (
    Declaration,
    Index,
    KeyField,
    PathField,
    Projection,
    SoftDelete,
    Source,
    Target,
    _field_path,
)
from projections.errors import AskError
from projections.flows import Flow
from projections.identity import Identity
from projections.keys import Key, KeyValue, Owner, parse_path

REF: Final = "ref"
"""The partition key of a refs container: `<reference>|<entry id of the referenced item>`."""
HEADER_ID: Final = "header"
"""Of the document with the copied fields. Ids of back-references have a "~" in them."""
MOST_IN_PLACE: Final = 10
"""facts.md 25: operations in a patch."""
# Read by id within a logical partition; and what has expired is looked for.
REFS_INDEXING: Final[dict[str, Any]] = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": "/ref/?"}, {"path": "/expires/?"}],
    "excludedPaths": [{"path": "/*"}],
}


def _paths(value: Any) -> tuple[str, ...]:
    return tuple(map(_field_path, value if isinstance(value, list | tuple) else (value,)))


def _tops(paths: Sequence[str]) -> frozenset[str]:
    """The properties at the top of an item that paths lead through."""
    return frozenset(parse_path(path)[0] for path in paths)


Paths: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_paths)]


class Reference(Declaration):
    """Where an item says which other item it refers to, and what is copied from that one.

    `id` is the path of the referenced item's id, with "*" for the elements of a list: "/authorId", "/authorIds/*",
    "/authors/*/id". `key` has the paths of its partition key values, one a level, in the same way; None where the
    referenced container is keyed by id. An absent, null or empty id is no reference.

    With `of`, a projection of the same catalog, the copies are of the entry that it has of the referenced item.
    """

    source: Source = Field(default=None, validate_default=True)  # of the referenced items
    id: PathField
    fields: Annotated[Paths, Field(min_length=1)]  # of the referenced item, copied with its id
    key: Paths | None = None
    deletes: SoftDelete | None = None  # of referenced items
    of: InstanceOf[Projection] | None = None  # whose entries are copied from, in place of `source`

    @model_validator(mode="before")
    @classmethod
    def _from_entries(cls, fields: dict[str, Any]) -> dict[str, Any]:
        of = fields.get("of")
        if not isinstance(of, Projection):
            return fields
        if "source" in fields:
            raise ValueError("give source or of, not both")
        if not (isinstance(of, Index) and of.each is None) and not (isinstance(of, Embed) and not of.in_place):
            raise ValueError(f"of: {of.name} has not one entry for each item; give an Index or Embed that has")
        known = dict.fromkeys((*of.source.key.paths, "/id"))
        unknown = [path for path in of.key.inputs if path not in known]
        if unknown:
            raise ValueError(
                f"of: where {of.name} has an entry depends on {', '.join(unknown)} of its item, and whoever refers to "
                f"an item tells only its {' and '.join(known)}; key {of.name} by these"
            )
        entries = Source(container=of.container, key=of.key.paths, database=of.target.database)
        return {**fields, "source": entries}

    @property
    def items(self) -> Source:
        """The container of the items that are referred to; those of entries, where it is `of` a projection."""
        return self.of.source if self.of else self.source

    @property
    def many(self) -> bool:
        return "*" in parse_path(self.id)

    @property
    def keys(self) -> tuple[str, ...]:
        """The paths of the referenced item's partition key values in the embedding item."""
        return (self.id,) if self.key is None else self.key

    def identity(self, item: Identity) -> Identity:
        """Of what is copied from, given the identity of the item referred to."""
        if self.of is None:
            return item
        return Identity(Key.of(*self.of.key.values(item.told(self.items.key), item)), item.entry_id)

    def may_have_made(self, value: Any) -> bool:
        """Whether a value looks like a copy that this reference makes."""
        fields = {"id", *(parse_path(path)[0] for path in self.fields)}
        return isinstance(value, Mapping) and isinstance(value.get("id"), str) and value.keys() <= fields

    @model_validator(mode="after")
    def _fits(self) -> Reference:
        container, paths = self.items.container, ", ".join(self.items.key.paths)
        if self.key is None and self.items.key.paths != ("/id",):
            raise ValueError(f"key: {container} is keyed {paths}; give the paths where an item has these values")
        if len(self.keys) != len(self.items.key.paths):
            raise ValueError(f"key: {container} is keyed {paths}; give a path for each")
        if parse_path(self.id).count("*") > 1:
            raise ValueError("id: at most one list on the way")
        return self


@dataclass(frozen=True)
class RefKey:
    """The key of what is kept about one referenced item."""

    reference: str

    paths = (f"/{REF}",)
    inputs: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()

    def values(self, item: Mapping[str, Any], owner: Owner) -> tuple[Any, ...]:
        # stored; change with a version
        return (f"{self.reference}|{owner.entry_id}",)

    def stored(self, values: Sequence[KeyValue]) -> dict[str, KeyValue]:
        return {REF: values[0]}

    def ask(self, *values: Any) -> list[Key]:
        raise AskError("what is kept about references is not looked up")


class Embed(Projection):
    """The item, and under the name of each reference a copy of fields of the item it refers to.

    Where the reference's `id` has "*" that is a list of copies, in the order of the item's list. When a referenced item
    changes, every entry with a copy of it is brought up to date: the fan-out. With `in_place` there are no entries: the
    copies go into the items of the source themselves.
    """

    key: KeyField = None  # of the entries; in place there are none
    references: Annotated[dict[str, InstanceOf[Reference]], Field(min_length=1)]
    include: tuple[PathField, ...] | None = None  # the item's own fields to copy; all when None
    exclude: tuple[PathField, ...] = ()
    fan_out_ru_per_second: float | None = Field(default=None, gt=0)  # that a fan-out may use; None: no cap
    fan_out_warning: int = Field(default=10_000, ge=1)  # entries of one referenced item, above which there is a warning
    in_place: bool = False  # the copies go into the items themselves; there is no target

    @model_validator(mode="before")
    @classmethod
    def _of_the_source(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """In place, where an item is, is not for the projection to say."""
        if not fields.get("in_place"):
            if "key" not in fields:
                raise ValueError("key: is required")
            return fields
        source = fields.get("source")
        if not isinstance(source, Source):
            return fields
        for name in ("key", "target", "include", "exclude"):
            if name in fields:
                raise ValueError(f"{name}: with in_place the items stay where and what they are; leave it out")
        return {**fields, "key": source.key.paths, "target": Target(database=source.database)}

    @model_validator(mode="after")
    def _fits(self) -> Embed:
        if self.include is not None and self.exclude:
            raise ValueError("give include or exclude, not both")
        if self.placement == "append_only":
            raise ValueError("placement: back-references have to be removed; use tracked")
        if self.in_place and len(self.references) > MOST_IN_PLACE:
            raise ValueError(f"references: {MOST_IN_PLACE} at most with in_place, which a single patch can write")
        for name, reference in self.references.items():
            if not name or name in ("id", "ttl") or name.startswith("_") or "/" in name or "|" in name:
                raise ValueError(f"references: copies cannot be kept under {name!r}; choose another name")
            taken = {parse_path(path)[0] for path in (reference.id, *reference.keys)}
            if name in taken and self.include is None and f"/{name}" not in self.exclude:
                remedy = "choose another name" if self.in_place else "choose another name, or exclude it"
                raise ValueError(f"references: the item itself has /{name}; {remedy}")
            if any(parse_path(path)[0] == name for path in self.key.paths):
                raise ValueError(f"references: {name} is where the key is kept; choose another name")
        return self

    @property
    def container(self) -> str:
        return self.source.container if self.in_place else self._own_container

    @property
    def refs_container(self) -> str:
        """The refs container's name: headers and back-references."""
        return f"{self._own_container}-refs"

    @property
    def fills_source(self) -> bool:
        return self.in_place

    @property
    def flows(self) -> tuple[Flow, ...]:
        if not self.in_place:
            return super().flows
        return tuple(
            flow
            for name, reference in self.references.items()
            for flow in (
                Flow(reference.source, _tops(reference.fields), name),
                Flow(self.source, _tops((reference.id, *reference.keys)), name),
            )
        )

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.source, *(reference.source for reference in self.references.values()))

    @property
    def upstream(self) -> tuple[Projection, ...]:
        return tuple(reference.of for reference in self.references.values() if reference.of)

    @property
    def parts(self) -> tuple[Header, ...]:
        return tuple(Header.of(self, name) for name in self.references)


class Header(Projection):
    """What keeps the headers of one reference: a part of an Embed, with a feed and checkpoints of its own."""

    key: Any
    embed: InstanceOf[Embed]
    reference: str

    @staticmethod
    def of(embed: Embed, name: str) -> Header:
        reference = embed.references[name]
        return Header(
            name=f"{embed.name}.{name}",
            source=reference.source,
            key=RefKey(name),
            embed=embed,
            reference=name,
            version=embed.version,
            target=Target(database=embed.target.database, throughput=embed.target.throughput, indexing=REFS_INDEXING),
            deletes=reference.deletes,
            ttl=embed.ttl,
            parked="keep",
            deadletter_payload=embed.deadletter_payload,
            ru_per_second=embed.ru_per_second,
            alarm_after=embed.alarm_after,
            placement="append_only",
        )

    @property
    def container(self) -> str:
        return self.embed.refs_container

    @property
    def upstream(self) -> tuple[Projection, ...]:
        of = self.embed.references[self.reference].of
        return (of,) if of else ()

    @property
    def fields(self) -> tuple[str, ...]:
        return self.embed.references[self.reference].fields
