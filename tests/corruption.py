"""Damage to what a projection keeps, each kind to an item of its own; and what verify has to say of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from projections.aggregate import Aggregate
from projections.declare import Projection
from projections.embed import Embed, Header
from projections.entries import canonical, content_hash, content_of
from projections.identity import Identity, Place
from projections.keys import Key, at, parse_path
from projections.plan import record_place
from projections.provision import Layout
from projections.store import Container, Delete, Document, Store, Upsert
from projections.verification import Report
from tests.converged import documents

Told = tuple[str, str]
"""A class, and the item or the place."""


def told(report: Report) -> Counter[Told]:
    """What a report has said, whole."""
    assert len(report.examples) == report.differences.total()
    return Counter(
        (one.fault.value, str(one.identity) if one.identity else f"{one.place.id} {one.place.key}" if one.place else "")
        for one in report.examples
    )


class Damage:
    """Damages the containers of one projection. `expected`: what there is to be told of it."""

    def __init__(self, store: Store, layout: Layout, projection: Projection, seed: int = 1) -> None:
        self.store = store
        self.layout = layout
        self.projection = projection
        self.expected: Counter[Told] = Counter()
        self.target = layout.target(projection)
        self._paths = [parse_path(path) for path in projection.key.paths]
        self._random = random.Random(seed)
        self._entries: list[Document] = []
        self._used: set[Identity] = set()

    async def load(self) -> Damage:
        """See what there is to damage."""
        found = [d for d in await documents(self.store, self.target) if "hash" in d.get("_source", {})]
        if isinstance(self.projection, Header):
            found = [d for d in found if d["id"] == "header" and d["ref"].startswith(f"{self.projection.reference}|")]
        self._entries = sorted(found, key=lambda d: str(d["id"]) + str(self.place(d)))
        self._random.shuffle(self._entries)
        return self

    def place(self, entry: Document) -> Place:
        return Place(entry["id"], Key.of(*(at(entry, path) for path in self._paths)))

    def take(self) -> Document:
        """An entry of an item that is sound so far."""
        while True:
            entry = self._entries.pop()
            identity = Identity.from_stored(entry["_source"])
            if identity not in self._used:
                self._used.add(identity)
                return entry

    def expect(self, fault: str, entry: Document) -> None:
        fault = "contribution wrong" if isinstance(self.projection, Aggregate) else fault
        self.expected[fault, str(Identity.from_stored(entry["_source"]))] += 1

    async def do(self, *kinds: str) -> Counter[Told]:
        """Damage of these kinds, to an item each."""
        for kind in kinds:
            await getattr(self, f"_{kind}")()
        return self.expected

    async def put(self, container: Container, key: Key, document: Mapping[str, Any]) -> None:
        kept = {n: v for n, v in document.items() if n not in ("_etag", "_ts", "_rid", "_self", "_attachments", "_lsn")}
        await self.store.write(container, key, [Upsert(kept)])

    async def take_away(self, container: Container, place: Place) -> None:
        found = (await self.store.read(container, [place]))[place]
        await self.store.write(container, place.key, [Delete(place.id, found["_etag"])])

    # entries

    async def _deleted(self) -> None:
        entry = self.take()
        await self.take_away(self.target, self.place(entry))
        self.expect("missing", entry)

    async def _altered(self) -> None:
        entry = self.take()
        await self.put(self.target, self.place(entry).key, entry | {"tampered": True})
        self.expect("wrong content", entry)

    async def _outdated(self) -> None:
        entry = self.take()
        content = content_of(entry, "_source") | {"was": "otherwise"}
        mark = entry["_source"] | {"hash": content_hash(canonical(content, None)), "etag": '"before"'}
        await self.put(self.target, self.place(entry).key, {**content, "id": entry["id"], "_source": mark})
        self.expect("stale", entry)

    async def _rehashed(self) -> None:
        entry = self.take()
        await self.put(self.target, self.place(entry).key, entry | {"_source": entry["_source"] | {"hash": "0" * 32}})
        self.expect("wrong content", entry)

    async def _claimed(self) -> None:
        """Marked as another item's."""
        entry, other = self.take(), self.take()
        mark = entry["_source"] | {name: other["_source"][name] for name in ("id", "key")}
        await self.put(self.target, self.place(entry).key, entry | {"_source": mark})
        self.expect("wrong content", entry)

    async def _immortal(self) -> None:
        """Never to expire, or to expire."""
        entry = self.take()
        changed = {n: v for n, v in entry.items() if n != "ttl"} if "ttl" in entry else entry | {"ttl": 100_000}
        await self.put(self.target, self.place(entry).key, changed)
        self.expect("wrong content", entry)

    def _elsewhere(self, entry: Document) -> tuple[Place, Document]:
        """The same entry under another key."""
        moved = inner = dict(entry)
        path = self._paths[-1] if self._paths[-1] != ("id",) else self._paths[0]
        for name in path[:-1]:
            inner[name] = inner = dict(inner[name])
        of = f"{self.projection.reference}|" if isinstance(self.projection, Header) else ""
        inner[path[-1]] = f"{of}elsewhere-{entry['_source']['id']}"
        return self.place(moved), moved

    async def _moved(self) -> None:
        entry = self.take()
        place, moved = self._elsewhere(entry)
        await self.take_away(self.target, self.place(entry))
        await self.put(self.target, place.key, moved)
        self.expect("wrong place", entry)

    async def _doubled(self) -> None:
        entry = self.take()
        place, moved = self._elsewhere(entry)
        await self.put(self.target, place.key, moved)
        self.expect("wrong place", entry)

    async def _copied(self) -> None:
        """Under another id."""
        entry = self.take()
        copy = entry | {"id": f"{entry['id']}x"}
        await self.put(self.target, self.place(copy).key, copy)
        self.expect("wrong place", entry)

    async def _foreign(self) -> None:
        entry = self.take()
        made = {n: v for n, v in entry.items() if n != "_source"} | {"id": f"foreign-{entry['id']}"}
        await self.put(self.target, self.place(made).key, made)
        self.expected["foreign", f"{made['id']} {self.place(made).key}"] += 1

    async def _orphaned(self) -> None:
        """Its item is gone for good."""
        entry = self.take()
        identity = Identity.from_stored(entry["_source"])
        await self.take_away(self.layout.source(self.projection), Place(identity.id, identity.key))
        found = [d for d in await documents(self.store, self.target) if "hash" in d.get("_source", {})]
        own = [d for d in found if Identity.from_stored(d["_source"]) == identity]
        for one in [entry] if isinstance(self.projection, Header) else own:
            self.expect("stale" if isinstance(self.projection, Header) else "orphan", one)
        if isinstance(self.projection, Embed):
            for _ in await self.back_references(identity):
                self.expected["back-reference wrong", str(identity)] += 1

    # records

    async def record(self, entry: Document) -> tuple[Place, Document]:
        place = record_place(self.projection, Identity.from_stored(entry["_source"]))
        return place, (await self.store.read(self.layout.state, [place]))[place]

    def expect_record(self, entry: Document) -> None:
        self.expected["placement wrong", str(Identity.from_stored(entry["_source"]))] += 1

    async def alter_record(self, change: Any) -> None:
        entry = self.take()
        place, record = await self.record(entry)
        await self.put(self.layout.state, place.key, change(record))
        self.expect_record(entry)

    async def _unrecorded(self) -> None:
        entry = self.take()
        place, _ = await self.record(entry)
        await self.take_away(self.layout.state, place)
        self.expect_record(entry)

    async def _forgetful(self) -> None:
        await self.alter_record(lambda record: record | {"entries": []})

    async def _boastful(self) -> None:
        extra = Place("nothing~here", Key.of(*("nowhere" for _ in self._paths))).to_stored()
        await self.alter_record(lambda record: record | {"entries": [*record["entries"], extra]})

    async def _misparked(self) -> None:
        await self.alter_record(lambda record: record | {"parked": True})

    async def _unended(self) -> None:
        await self.alter_record(lambda record: record | {"leaving": [0]})

    async def _misattributed(self) -> None:
        other = self.take()["_source"]
        await self.alter_record(lambda record: record | {"source": {name: other[name] for name in ("id", "key")}})

    async def _strayed(self) -> None:
        """A record where nobody reads any."""
        entry = self.take()
        place, record = await self.record(entry)
        await self.put(self.layout.state, place.key, record | {"id": f"{place.id}x"})
        self.expect_record(entry)

    # dead letters

    async def _lettered(self) -> None:
        entry = self.take()
        identity, name = Identity.from_stored(entry["_source"]), self.projection.full_name
        letter = {
            "id": identity.entry_id, "projection": name, "source": identity.to_stored(), "error": "ItemError",
            "version": {"etag": "old", "ts": 1}, "reason": "none", "hint": None, "attempts": 1, "first": 1, "last": 1,
        }  # fmt: skip
        await self.put(self.layout.deadletters, Key.of(name), letter)
        self.expected["dead letter extra", str(identity)] += 1

    async def _unlettered(self) -> None:
        """An item that cannot be projected, of which nothing is on record."""
        name = self.projection.full_name
        letters = [d for d in await documents(self.store, self.layout.deadletters) if d["projection"] == name]
        letter = next(d for d in letters if Identity.from_stored(d["source"]) not in self._used)
        identity = Identity.from_stored(letter["source"])
        self._used.add(identity)
        await self.take_away(self.layout.deadletters, Place(letter["id"], Key.of(name)))
        if self.projection.placement == "tracked":
            await self.take_away(self.layout.state, record_place(self.projection, identity))
        self.expected["dead letter missing", str(identity)] += 1

    # back-references

    async def back_references(self, identity: Identity) -> list[Document]:
        refs = self.layout.refs(self.projection)
        assert refs
        return [d for d in await documents(self.store, refs)
                if d["id"] != "header" and Identity.from_stored(d["_source"]) == identity]  # fmt: skip

    async def referring(self) -> tuple[Document, Identity]:
        """The back-reference of an item that has some."""
        while True:
            identity = Identity.from_stored(self.take()["_source"])
            found = await self.back_references(identity)
            if found:
                return found[0], identity

    async def _unreferred(self) -> None:
        refs, (back, identity) = self.layout.refs(self.projection), await self.referring()
        assert refs
        await self.take_away(refs, Place(back["id"], Key.of(back["ref"])))
        self.expected["back-reference wrong", str(identity)] += 1

    async def _referred(self) -> None:
        refs, (back, identity) = self.layout.refs(self.projection), await self.referring()
        assert refs
        extra = back | {"ref": f"{back['ref']}x"}
        await self.put(refs, Key.of(extra["ref"]), extra)
        self.expected["back-reference wrong", str(identity)] += 1

    # totals

    async def group(self, id_: str = "total") -> Document:
        """A total, or the document of a distinct value, of a group that is sound so far."""
        found = [d for d in await documents(self.store, self.target) if d["id"].startswith(id_)]
        used = {key for _, key in self.expected}
        free = [d for d in found if f"total {self.place(d).key}" not in used]
        document = self._random.choice(sorted(free, key=lambda d: str(self.place(d))))
        self.expected["total wrong", f"total {self.place(document).key}"] += 1
        return document

    async def _miscounted(self) -> None:
        total = await self.group()
        mark = total["_source"] | {"contributions": total["_source"]["contributions"] + 1}
        await self.put(self.target, self.place(total).key, total | {"_source": mark})

    async def _misshown(self) -> None:
        total = await self.group()
        measure = next(iter(self.projection.measures))  # type: ignore[attr-defined]
        await self.put(self.target, self.place(total).key, total | {measure: 123_456})

    async def _misadded(self) -> None:
        """Every measure off, by itself and as shown."""
        total = await self.group()
        exact = {n: _off(state) for n, state in total["_source"]["exact"].items()}
        shown = {n: m.shown(exact.get(n)) for n, m in self.projection.measures.items()}  # type: ignore[attr-defined]
        mark = total["_source"] | {"exact": exact}
        await self.put(self.target, self.place(total).key, total | shown | {"_source": mark})

    async def _untotalled(self) -> None:
        total = await self.group()
        await self.take_away(self.target, self.place(total))

    async def _undistinct(self) -> None:
        value = await self.group("distinct~")
        await self.take_away(self.target, self.place(value))

    async def _misdistinct(self) -> None:
        value = await self.group("distinct~")
        await self.put(self.target, self.place(value).key, value | {"_source": {"contributions": 77}})

    async def _redistinct(self) -> None:
        value = await self.group("distinct~")
        await self.put(self.target, self.place(value).key, value | {"id": f"{value['id']}x"})


def _off(state: Any) -> Any:
    if isinstance(state, str):
        return str(int(float(state)) + 7)
    if isinstance(state, int):
        return state + 7
    if "value" in state:
        return state | {"value": 987_654}
    return {"sum": "7", "count": 7}


ENTRIES = (
    "deleted", "altered", "outdated", "rehashed", "claimed", "immortal", "moved", "doubled", "copied", "foreign",
    "orphaned",
)  # fmt: skip
RECORDS = ("unrecorded", "forgetful", "boastful", "misparked", "unended", "misattributed", "strayed")
LETTERS = ("lettered", "unlettered")
BACK_REFERENCES = ("unreferred", "referred")
TOTALS = ("miscounted", "misshown", "misadded", "untotalled", "undistinct", "misdistinct", "redistinct")


def cycled(kinds: Sequence[str], count: int) -> Iterator[str]:
    """So many kinds, in turn."""
    return (kinds[n % len(kinds)] for n in range(count))
