"""What a user writes in a catalog. Checked when built; an error names the projection, the field and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, ValidationError, model_validator

from projections.errors import CatalogError
from projections.flows import Flow, loops
from projections.keys import Plain, Strategy, parse_path, plain, strategy

RuleName: TypeAlias = Literal["skip", "keep", "deadletter"]
"""What becomes of an item whose key is missing, null or no scalar: left out and counted, kept, or parked."""

STORES_OWN: Final = re.compile("_(rid|self|etag|ts|lsn|attachments)")
"""Properties that the store writes itself, whatever a document says."""


def _strategy(value: Any) -> Strategy:
    try:
        return strategy(value)
    except CatalogError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error


def _plain(value: Any) -> Plain:
    try:
        return plain(value)
    except CatalogError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error


def _field_path(value: Any) -> str:
    """A field name or a path -> a path."""
    if not isinstance(value, str) or not value:
        raise ValueError('give a field name or a path such as "/total"')
    try:
        parse_path(value if value.startswith("/") else f"/{value}")
    except CatalogError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
    return value if value.startswith("/") else f"/{value}"


if TYPE_CHECKING:
    KeyField: TypeAlias = Any  # a catalog writes a path, a strategy or a tuple of these; here it is a strategy
    PlainField: TypeAlias = Any
else:
    KeyField = Annotated[Any, BeforeValidator(_strategy)]
    PlainField = Annotated[Any, BeforeValidator(_plain)]
PathField = Annotated[str, BeforeValidator(_field_path)]


def _by_paths(value: Any) -> tuple[str, ...]:
    """One path or several -> paths."""
    paths = tuple(value) if isinstance(value, list | tuple) and value else (value,)
    if not all(isinstance(path, str) and path.startswith("/") for path in paths):
        raise ValueError('give "position", "value", or paths such as "/lines/sku"')
    return tuple(map(_field_path, paths))


def _each(value: Any) -> str:
    """The path of an array, "*" standing for every element of one on the way."""
    path = _field_path(value)
    names = parse_path(path)
    if names[0] == "*" or names[-1] == "*" or any(pair == ("*", "*") for pair in pairwise(names)):
        raise ValueError('name the arrays: "/lines" for its elements, "/orders/*/lines" for the lines of every order')
    if names[0] == "id" or STORES_OWN.fullmatch(names[0]):
        raise ValueError(f"/{names[0]} is no array")
    return path


ByPaths = Annotated[tuple[str, ...], BeforeValidator(_by_paths)]
EachField = Annotated[str, BeforeValidator(_each)]


class Declaration(BaseModel):
    """A frozen, keyword-only value that is checked when built."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise CatalogError(
                "; ".join(_explain(self, part) for part in error.errors()),
                projection=str(fields["name"]) if "name" in fields else None,
                hint=f"correct this {type(self).__name__} in the catalog",
            ) from None


def _explain(declaration: Declaration, error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"] if not str(part).startswith(("is-instance", "function-")))
    text = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        text = f"there is no such field; {type(declaration).__name__} has {', '.join(type(declaration).model_fields)}"
    elif error["type"] == "missing":
        text = "is required"
    return f"{where}: {text}" if where else text


class Source(Declaration):
    """The container whose change feed is read.

    In mode "AllVersionsAndDeletes" its feed tells of deletes, too; the account has to keep that one.
    """

    container: str = Field(min_length=1, max_length=255)
    key: PlainField  # its partition key: one path, or a tuple of paths
    database: str | None = None  # the catalog's when None
    mode: Literal["LatestVersion", "AllVersionsAndDeletes"] = "LatestVersion"  # of its feed, as the service calls it

    @property
    def name(self) -> str:
        return self.container

    @property
    def all_versions(self) -> bool:
        """Whether its feed tells of deletes."""
        return self.mode == "AllVersionsAndDeletes"


class Throughput(Declaration):
    """Request units per second of a container; none of the two means serverless or the database's shared throughput."""

    manual: int | None = Field(default=None, ge=400)
    autoscale: int | None = Field(default=None, ge=1000)  # the maximum

    @model_validator(mode="after")
    def _one(self) -> Throughput:
        if self.manual is not None and self.autoscale is not None:
            raise ValueError("give manual or autoscale, not both")
        return self


class Target(Declaration):
    """The container that holds a projection's entries."""

    container: str | None = Field(default=None, min_length=1, max_length=255)  # the projection's name when None
    database: str | None = None  # the catalog's when None
    throughput: Throughput = Field(default_factory=Throughput)
    indexing: dict[str, Any] | None = None  # an indexing policy; the service's default when None
    unique_keys: tuple[tuple[PathField, ...], ...] = ()
    default_ttl: int | None = -1  # seconds; -1 lets single entries expire, None switches expiry off


class SoftDelete(Declaration):
    """An item counts as deleted when this field holds one of these values, by type and value."""

    path: PathField
    equals: tuple[str | int | float | bool | None, ...] = Field(default=(True,), min_length=1)

    def __init__(self, path: str | None = None, **fields: Any) -> None:
        super().__init__(**(fields if path is None else {"path": path, **fields}))


class Projection(Declaration):
    """What every kind of projection declares."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    source: Source
    key: KeyField  # of the entries
    where: Callable[[Mapping[str, Any]], bool] | None = None  # a predicate of `field`, or a pure function
    model: type[BaseModel] | None = None  # items that do not fit it are parked
    missing: RuleName = "skip"
    null: RuleName = "skip"
    other: Literal["skip", "deadletter"] = "deadletter"  # the key is an object or array
    target: Target = Field(default_factory=Target)
    version: int = Field(default=1, ge=1)
    deletes: SoftDelete | None = None
    ttl: Literal["mirror", "ignore"] = "mirror"  # expiring items: entries expire with them, or stay until verify
    parked: Literal["remove", "keep"] = "remove"  # what becomes of the entries of an item that is parked
    deadletter_payload: bool = False  # a dead letter holds the item itself, as it was when it was parked
    ru_per_second: float | None = Field(default=None, gt=0)  # request units that its work may use; None: no cap
    alarm_after: int = Field(default=1_000, ge=0)  # items parked in a row before the projection stops; 0: never
    placement: Literal["tracked", "append_only"] = "tracked"
    placement_buckets: int = Field(default=16, ge=1, le=4096)  # permanent for a version
    strict: bool = True  # look at the source again after writing; without, a second worker can leave faults to audit

    @property
    def full_name(self) -> str:
        """Name and version: what marks stored things as this projection's."""
        return f"{self.name}@{self.version}"

    @property
    def label(self) -> str:
        """What people call it: the name; of a version after the first, name and version."""
        return self.name if self.version == 1 else self.full_name

    @property
    def container(self) -> str:
        """The target container's name."""
        return self._own_container

    @property
    def _own_container(self) -> str:
        named = self.target.container or self.name
        return named if self.version == 1 else f"{named}-v{self.version}"

    @property
    def upstream(self) -> tuple[Projection, ...]:
        """Projections whose entries it reads."""
        return ()

    @property
    def flows(self) -> tuple[Flow, ...]:
        """What in its sources changes what in its target."""
        return tuple(Flow(source) for source in self.sources)

    @property
    def fills_source(self) -> bool:
        """Whether it has no target: what it makes goes into the items of its source."""
        return False

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every container whose changes reach the target."""
        return (self.source,)

    @property
    def parts(self) -> tuple[Projection, ...]:
        """What it rests on: projections behind the scenes, with feeds and checkpoints of their own."""
        return ()

    @model_validator(mode="after")
    def _key_can_be_stored(self) -> Projection:
        for key in map(parse_path, () if self.fills_source else self.key.copied):
            if key == ("id",):
                raise ValueError(
                    "key: /id is the entry's own id; use the path of another field, or let it be the last level of "
                    'several: key=("/tenantId", "/id")'
                )
            if key[0] == "ttl" or STORES_OWN.fullmatch(key[0]):
                raise ValueError(f"key: /{key[0]} is not copied to entries; use the path of another field")
        if "/_lsn" in self.key.inputs:
            raise ValueError("key: /_lsn is the feed's, and no part of an item; use another field")
        return self


class Rowed(Projection):
    """What declares several entries an item. Each has a row: what it is made from.

    `by` says what tells the entries of one item apart. "position": where the row stands; an element put in before
    others changes all that follow. "value": the row's whole element; equal ones are one entry. A path, or several:
    their values in the row; `duplicates` says what two rows with the same values come to.
    """

    by: Literal["position", "value"] | ByPaths = "position"
    duplicates: Literal["deadletter", "first", "last"] = "deadletter"

    @model_validator(mode="after")
    def _elements_go_away(self) -> Rowed:
        several = isinstance(self, Custom) or getattr(self, "each", None) is not None
        if several and self.placement == "append_only":
            raise ValueError("placement: entries of elements that go away have to be removed; use tracked")
        return self


class Index(Rowed):
    """One entry per item under another key; with `each`, one per element of an array in it.

    An element takes the place of its array: with each="/lines" an entry's row is the item in which /lines is one line,
    so that its key may be /lines/sku. In "/orders/*/lines" the orders are taken apart first, then the lines of each.
    """

    include: tuple[PathField, ...] | None = None  # the fields to copy; all when None
    exclude: tuple[PathField, ...] = ()
    each: EachField | None = None

    @model_validator(mode="after")
    def _fits(self) -> Index:
        if self.include is not None and self.exclude:
            raise ValueError("give include or exclude, not both")
        for path in self.exclude:
            names = parse_path(path)
            if any(parse_path(key)[: len(names)] == names for key in self.key.copied):
                raise ValueError(f"exclude: {path} holds the key; an entry cannot be without it")
        for name in sorted(self._kept & self._copied):
            raise ValueError(
                f"key: it is kept at /{name}, where a field of the item is copied to; give the key another path=..., "
                f"or exclude /{name}"
            )
        if self.each is None and self.model_fields_set & {"by", "duplicates"}:
            raise ValueError("by, duplicates: these tell elements apart; give each, too")
        return self

    @property
    def _kept(self) -> set[str]:
        """The top-level properties that hold computed levels of the key."""
        return {parse_path(path)[0] for path in self.key.paths if path not in self.key.copied} - {"id"}

    @property
    def _copied(self) -> set[str]:
        """The top-level properties that are known to be copied."""
        known = (*self.source.key.paths, *([self.each] if self.each else [])) if self.include is None else self.include
        return {parse_path(path)[0] for path in known} - {parse_path(path)[0] for path in self.exclude}


class Custom(Rowed):
    """Entries that a function makes of an item: what the other kinds cannot say.

    `project` takes the item (a dict; with `model`, an instance of it) and gives rows (dicts or models), each the
    content of one entry. It must be pure: the same rows for the same item, always, and the item left as it was. It is
    called twice, and an item for which the answers differ is parked.
    """

    project: Callable[[Any], Iterable[Any]]


class Catalog(Declaration):
    """The projections of one app, and the containers that they share."""

    projections: tuple[InstanceOf[Projection], ...]
    database: str | None = None  # COSMOS_DATABASE when None
    state: str = "projections-state"  # checkpoints and placement records
    deadletters: str = "projections-deadletters"
    leases: str = "projections-leases"  # the Functions host's
    reserved: str = Field(default="_source", pattern=r"^_[A-Za-z][A-Za-z0-9_]*$")  # the property that marks entries

    def __iter__(self) -> Iterator[Projection]:  # type: ignore[override]
        return iter(self.projections)

    @property
    def parts(self) -> tuple[Projection, ...]:
        """Whatever reads a feed: each projection after those that it rests on."""
        return tuple(part for projection in self.projections for part in (*projection.parts, projection))

    def __getitem__(self, name: str) -> Projection:
        """The projection of this name, or name@version; of a name with several versions the lowest.

        Raises:
            CatalogError: there is none.
        """
        return self.versions(name)[0]

    def versions(self, name: str) -> tuple[Projection, ...]:
        """Every declared version of a name, the lowest first; of a name@version that one.

        Raises:
            CatalogError: there is none.
        """
        found = [projection for projection in self.parts if name in (projection.name, projection.full_name)]
        if found:
            return tuple(sorted(found, key=lambda projection: projection.version))
        known = ", ".join(sorted(p.label for p in self.projections))
        raise CatalogError(f"there is no projection {name!r}", hint=f"the catalog has: {known or 'none'}")

    @model_validator(mode="after")
    def _consistent(self) -> Catalog:
        _unique(
            [p.full_name for p in self.projections], "two projections are called {}; give each its own name or version"
        )
        places = [(self._place(p.target.database, p.container), p.fills_source) for p in self.projections]
        filled = {place for place, fills in places if fills}
        _unique([*filled, *(place for place, fills in places if not fills)],
                "two projections write to the container {}; give each its own target")  # fmt: skip
        copied = [{f"{self._place(p.target.database, p.container)}: /{flow.into}" for flow in p.flows if flow.into}
                  for p in self.projections]  # fmt: skip
        _unique([place for places in copied for place in places],
                "two projections copy into the same property, {}; choose another name of a reference")  # fmt: skip
        if STORES_OWN.fullmatch(self.reserved):
            raise ValueError(f"reserved: {self.reserved} is the store's own; choose another name")
        return self

    @model_validator(mode="after")
    def _none_of_the_workers_own(self) -> Catalog:
        shared = {self._place(None, name) for name in (self.state, self.deadletters, self.leases)}
        for projection in self:
            target = self._place(projection.target.database, projection.container)
            if shared & {target, *(self._place(source.database, source.container) for source in projection.sources)}:
                raise ValueError(
                    f"projection {projection.name}: source or target is one of the worker's own containers"
                )
        return self

    @model_validator(mode="after")
    def _no_loops(self) -> Catalog:
        """A projection that feeds itself, directly or through others, would never come to rest."""
        flows = {
            projection.full_name: [
                flow.between(
                    self._place(flow.source.database, flow.source.container),
                    self._place(projection.target.database, projection.container),
                )
                for flow in projection.flows
            ]
            for projection in self
        }
        for projection in self:
            if not loops(flows[projection.full_name], [flow for each in flows.values() for flow in each]):
                continue
            if projection.fills_source:
                raise ValueError(
                    f"projection {projection.name}: what it copies changes with its own copies, and it would never "
                    "come to rest; copy other fields"
                )
            raise ValueError(
                f"projection {projection.name}: its target {projection.container} feeds its own source; "
                "write to another container"
            )
        return self

    @model_validator(mode="after")
    def _reads_no_entries_but_of_upstream(self) -> Catalog:
        """An entry that goes away leaves no trace in its container's feed: whoever reads entries has to be told."""
        owners = {self._place(p.target.database, p.container): p for p in self if not p.fills_source}
        for projection in self:
            for of in projection.upstream:
                if of not in self.projections:
                    raise ValueError(f"projection {projection.name}: it refers to {of.name}; add that to the catalog")
            for source in projection.sources:
                owner = owners.get(self._place(source.database, source.container))
                if owner is not None and owner not in (projection, *projection.upstream):
                    raise ValueError(
                        f"projection {projection.name}: its source {source.container} has the entries of {owner.name}; "
                        f"read {owner.source.container} as that does, or refer to entries with Reference(of=...)"
                    )
        return self

    def _place(self, database: str | None, container: str) -> str:
        return f"{database or self.database or ''}/{container}"


def _unique(names: list[str], message: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(message.format(name.strip("/")))
