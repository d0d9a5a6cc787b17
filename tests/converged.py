"""R1 and R2 of the field cases, as one check: every target equals a fresh rebuild, and every item is accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from projections.aggregate import Aggregate
from projections.deadletters import DeadLetters
from projections.declare import Projection
from projections.embed import Embed
from projections.entries import NO_HEADERS, Rules, State, wanted
from projections.errors import ItemError
from projections.identity import Identity, Place
from projections.keys import Key, at, parse_path
from projections.provision import Layout
from projections.references import HeaderState
from projections.store import Container, Document, Store
from projections.version import Version
from tests.totals import known, totals


async def documents(store: Store, container: Container) -> list[Document]:
    """Everything in a container, by listing it."""
    return [document async for page in store.query(container, "SELECT * FROM c", {}) for document in page]


async def assert_converged(store: Store, layout: Layout) -> None:
    """Each target equals a fresh rebuild; every item is reflected, left out by a rule, or parked; records agree."""
    for projection in layout.catalog:
        expected, bad = await assert_entries(store, layout, projection)
        if isinstance(projection, Embed):
            await _assert_refs(store, layout, projection, expected)
        letters = {
            letter.identity async for letter in DeadLetters(store, layout.deadletters, projection.full_name).all()
        }
        assert letters == bad, f"{len(letters - bad)} dead letters too many, {len(bad - letters)} too few"
        if projection.placement == "tracked":
            listed = await _listed(store, layout, projection)
            assert listed == set(expected), (
                f"the records do not list what there is: {sorted(map(str, listed ^ set(expected)))[:3]}"
            )


async def assert_entries(
    store: Store, layout: Layout, projection: Projection
) -> tuple[dict[Place, str], set[Identity]]:
    """The target equals a fresh rebuild; what that is, and which items it parks."""
    items = await documents(store, layout.source(projection))
    headers = await _headers(store, layout, projection) if isinstance(projection, Embed) else {}
    expected, bad = rebuild(layout, projection, items, headers)
    if projection.fills_source:
        return expected, bad
    own = {place: hash_ for place, hash_ in expected.items() if place.container == "target"}
    found = _stored(projection, layout.catalog.reserved, await documents(store, layout.target(projection)))
    assert found == own, f"{projection.name}: {_difference(found, own)}"
    if isinstance(projection, Aggregate):
        sound = [item for item in items if Identity.of(item, projection.source.key) not in bad]
        await _assert_totals(store, layout, projection, sound)
    return expected, bad


async def _assert_totals(store: Store, layout: Layout, projection: Aggregate, items: list[Document]) -> None:
    """What is beside the contributions is what the items themselves come to, worked out anew."""
    reserved = layout.catalog.reserved
    found = {
        place: {name: value for name, value in doc.items() if not name.startswith("_") or name == reserved}
        for place, doc in _placed(projection, await documents(store, layout.target(projection))).items()
        if place.id.count("~") != 1
    }
    expected = totals(projection, items, reserved)
    assert known(found, reserved) == known(expected, reserved), f"{projection.name}: {_difference(found, expected)}"


async def _headers(store: Store, layout: Layout, embed: Embed) -> dict[str, HeaderState | None]:
    """The headers as a fresh rebuild would have them, from the referenced containers themselves."""
    found: dict[str, HeaderState | None] = {}
    for name, reference in embed.references.items():
        [part] = [part for part in embed.parts if part.reference == name]
        for item in await documents(store, layout.source(part)):
            state = State(Identity.of(item, reference.source.key), Version.of(item, from_feed=False), item)
            [entry] = wanted(Rules(part, layout.catalog.reserved, -1), state, item["_ts"]).entries
            found[str(entry.content["ref"])] = HeaderState(state.version, entry.content.get("copy"), item["_etag"])
    return found


async def _assert_refs(store: Store, layout: Layout, embed: Embed, expected: Mapping[Place, str]) -> None:
    """There is a back-reference for each reference that an item makes, and no other; no fan-out is due."""
    refs = layout.refs(embed)
    assert refs
    stored = [doc for doc in await documents(store, refs) if doc["id"] != "header"]
    found = {Place(doc["id"], Key.of(doc["ref"]), "refs") for doc in stored}
    back = {place for place in expected if place.container == "refs"}
    assert found == back, f"{embed.name}: {len(found - back)} back-references too many, {len(back - found)} too few"
    jobs = [doc for doc in await documents(store, layout.state) if doc["pk"].endswith("|fanout")]
    assert not jobs, f"{len(jobs)} fan-outs are not done"


def rebuild(
    layout: Layout,
    projection: Projection,
    items: list[Document],
    headers: Mapping[str, HeaderState | None] = NO_HEADERS,
) -> tuple[dict[Place, str], set[Identity]]:
    """What a fresh rebuild would store (place -> content hash), and which items it would park."""
    rules = Rules(projection, layout.catalog.reserved, -1)
    expected: dict[Place, str] = {}
    bad: set[Identity] = set()
    for item in items:
        identity = Identity.of(item, projection.source.key)
        try:
            state = State(identity, Version.of(item, from_feed=False), item)
            want = wanted(rules, state, item["_ts"], headers)
        except ItemError:
            bad.add(identity)
            continue
        assert want.filling is None, f"{projection.name}: {identity} has {want.filling} to come"
        expected |= {entry.place: entry.hash for entry in want.entries}
    return expected, bad


def _stored(projection: Projection, reserved: str, entries: list[Document]) -> dict[Place, str]:
    """The entries; beside those an Aggregate has totals, which are made from no single item."""
    placed = _placed(projection, entries)
    beside = isinstance(projection, Aggregate)
    return {place: d[reserved]["hash"] for place, d in placed.items() if not (beside and place.id.count("~") != 1)}


def _placed(projection: Projection, found: list[Document]) -> dict[Place, Document]:
    paths = [parse_path(path) for path in projection.key.paths]
    return {Place(d["id"], Key.of(*(at(d, path) for path in paths))): d for d in found}


async def _listed(store: Store, layout: Layout, projection: Projection) -> set[Place]:
    prefix = f"{projection.full_name}|"
    records = [d for d in await documents(store, layout.state) if d["pk"].startswith(prefix)]
    return {Place.from_stored(entry) for record in records for entry in record["entries"]}


def _difference(found: dict[Place, Any], expected: dict[Place, Any]) -> str:
    missing = [place for place in expected if place not in found]
    extra = [place for place in found if place not in expected]
    other = [place for place in found if place in expected and found[place] != expected[place]]
    return f"{len(missing)} missing {missing[:3]}, {len(extra)} extra {extra[:3]}, {len(other)} other {other[:3]}"
