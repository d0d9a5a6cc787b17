"""Versions side by side: built, promoted, rolled back and dropped while people write and read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from projections.aliases import Aliases
from projections.declare import Catalog, Index, Projection, Source
from projections.definitions import Definitions
from projections.dropping import Drop, KeptError
from projections.embed import Embed, Reference
from projections.errors import CatalogError, ConflictError, UnsafeError
from projections.keys import Key
from projections.named import NamedLookup
from projections.promotion import NotReadyError, Order, Outcome, Promotion
from projections.provision import Layout, initialise
from projections.store import Container, Store, Upsert
from projections.strategies import HashSuffix
from projections.verification import Report
from projections.verified import Verification
from projections.worker import Engine, Worker
from tests.integration.conftest import KilledError, MortalStore, Shop

ORDERS = Source(container="orders", key="/shop")
ONE = Index(name="by-number", source=ORDERS, key="/number")
TWO = Index(
    name="by-number", version=2, source=ORDERS, key=HashSuffix("/number", of="/number", count=4), include=("total",)
)
OTHER = Index(name="by-total", source=ORDERS, key="/total")
ITEMS = 12
BOTH = Catalog(projections=(ONE, TWO, OTHER))
ME = Order(who="me", why="a better key")


def order(number: int, total: int = 0) -> dict[str, Any]:
    return {"id": f"o{number}", "shop": f"s{number % 5}", "number": f"n{number}", "total": total}


async def clean(store: Store, layout: Layout, projection: Projection) -> Verification:
    return Verification(time.time(), 0)


def promotion(shop: Shop, **options: Any) -> Promotion:
    return Promotion(shop.store, shop.layout, **{"verified": clean, "wait": 5.0, **options})


async def promote(shop: Shop, version: int = 2, order: Order = ME, **options: Any) -> Outcome:
    return await promotion(shop, **options).promote("by-number", version, order)


def reader(shop: Shop, refresh: float = 0.0) -> NamedLookup:
    return NamedLookup(shop.store, shop.layout, "by-number", refresh=refresh)


async def in_use(shop: Shop) -> int:
    return (await reader(shop).projection()).version


def only(shop: Shop, *projections: Projection) -> Layout:
    """The same place under another catalog."""
    return Layout(Catalog(projections=projections), shop.layout.database)


async def drop(shop: Shop, store: Any = None, layout: Layout | None = None, **options: Any) -> None:
    found = await Drop.of(store or shop.store, layout or only(shop, TWO, OTHER), "by-number", 1, **options)
    await found.run("me")


async def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@asynccontextmanager
async def beside(*work: Any) -> AsyncIterator[None]:
    """Work that goes on meanwhile, and that must not fail."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            if not task.done():
                task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, BaseException) and not isinstance(found, asyncio.CancelledError):
                raise found


# the whole way


async def test_readers_see_every_item_while_versions_are_built_promoted_rolled_back_and_dropped(shop: Any) -> None:
    s = await shop(BOTH)
    await s.put(*(order(n) for n in range(ITEMS)))
    await Worker(s.store, s.layout, [ONE]).run(until_caught_up=True)
    lookup = reader(s, refresh=0.05)
    seen: set[bool] = set()
    reads = 0

    async def write() -> None:
        total = 0
        while True:
            total += 1
            await s.put(order(total % ITEMS, total))
            await asyncio.sleep(0.01)

    async def read() -> None:
        nonlocal reads
        while True:
            for n in range(ITEMS):
                found = (await lookup.entries(f"n{n}")).entries
                assert [entry["_source"]["id"] for entry in found] == [f"o{n}"]
                seen.add("shop" in found[0])  # version 1 has every field
                reads += 1

    async def further() -> set[bool]:
        """What a round of reading sees from now on."""
        seen.clear()
        start = reads
        await until(lambda: reads > start + ITEMS)
        return set(seen)

    worker = Worker(s.store, s.layout, [ONE, TWO])
    async with beside(write(), read()), beside(worker.run()):
        await until(lambda: worker.progress["by-number@2"].tally.total >= ITEMS)
        assert await further() == {True}
        assert (await promote(s, wait=30.0)).switched
        assert False in await further()
        assert await further() == {False}
        await promotion(s).rollback("by-number", ME)
        assert True in await further()
        assert await further() == {True}
        assert (await promote(s, wait=30.0)).switched
        assert False in await further()
    await s.run()
    await s.assert_converged()

    await drop(s, force=True)
    assert await s.store.describe(s.layout.target(ONE)) is None
    assert (await lookup.entries("n7")).entries[0]["_source"]["id"] == "o7"
    assert len(await s.entries("by-number@2")) == ITEMS
    assert len(await s.entries("by-total")) == ITEMS


# promote


async def built(shop: Any, catalog: Catalog = BOTH) -> Shop:
    s: Shop = await shop(catalog)
    await s.put(*(order(n) for n in range(5)))
    await s.run()
    return s


async def test_a_version_that_is_not_whole_is_not_promoted(shop: Any) -> None:
    s = await shop(BOTH)
    await s.put(order(1))
    with pytest.raises(NotReadyError, match="nobody has left word of a position"):
        await promote(s, wait=0.0)
    await s.run()
    await s.put(order(2))
    with pytest.raises(NotReadyError, match="behind its source"):
        await promote(s, wait=0.0, now=lambda: time.time() + 2)
    await s.run()
    with pytest.raises(NotReadyError, match=r"not verified: run `projections verify by-number@2`") as raised:
        await Promotion(s.store, s.layout).promote("by-number", 2, ME)
    assert raised.value.hint
    assert "--force" in raised.value.hint
    assert await in_use(s) == 1
    assert (await promote(s)).objections == ()
    assert await in_use(s) == 2


async def test_how_far_the_functions_host_is_its_leases_tell(shop: Any) -> None:
    s = await shop(BOTH)
    await s.put(*(order(n) for n in range(5)))
    engine = await Engine.open(s.store, s.layout, TWO)
    await engine.apply_page(await s.all(s.layout.source(TWO)), time.monotonic())
    source = await s.store.describe(s.layout.source(TWO))

    async def lease(lsn: int) -> None:
        document = {
            "id": f"by-number-2-localhost_db_{source.rid}..0", "LeaseToken": "0", "ContinuationToken": f'"{lsn}"',
            "FeedRange": {"Range": {"min": "", "max": "FF"}},
        }  # fmt: skip
        await s.store.write(s.layout.leases, Key.of(document["id"]), [Upsert(document)])

    later = {"wait": 0.0, "now": lambda: time.time() + 2}
    await lease(1)
    with pytest.raises(NotReadyError, match="behind its source"):
        await promote(s, **later)
    await lease(1_000)
    assert (await promote(s, **later)).switched


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Verification(time.time() + 60, 3), "3 differences"),
        (Verification(time.time() - 90_000, 0), "last 24 hours"),
        (None, "not verified"),
    ],
)
async def test_a_version_that_is_not_verified_is_not_promoted(shop: Any, found: Any, words: str) -> None:
    async def verified(*_: Any) -> Verification | None:
        return found

    s = await built(shop)
    with pytest.raises(NotReadyError, match=words):
        await promote(s, verified=verified)


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ({}, None),
        ({"scope": "10 %"}, "not verified"),
        ({"complete": False}, "not verified"),
        ({"differences": {"missing": 2, "orphan": 1}}, "3 differences"),
        ({"differences": {"missing": 2}, "repaired": {"missing": 2}}, None),
        ({"differences": {"missing": 2}, "repaired": {"missing": 1}, "left": {"missing": 1}}, "1 difference:"),
    ],
)
async def test_what_verify_has_stored_counts(shop: Any, stored: dict[str, Any], words: str | None) -> None:
    s = await built(shop)
    found = {**Report("by-number", "all").to_json(), "complete": True, **stored}
    document = {"id": "verified", "pk": "by-number@2", "at": time.time() + 1, **found}
    await s.store.write(s.layout.state, Key.of("by-number@2"), [Upsert(document)])
    promotion = Promotion(s.store, s.layout, wait=1.0)
    if words is None:
        assert (await promotion.promote("by-number", 2, ME)).objections == ()
    else:
        with pytest.raises(NotReadyError, match=words):
            await promotion.promote("by-number", 2, ME)


async def test_more_dead_letters_than_readers_are_used_to_stand_against_it(shop: Any) -> None:
    strict = Index(name="by-number", version=2, source=ORDERS, key="/number", null="deadletter")
    s = await shop(Catalog(projections=(ONE, strict)))
    await s.put(order(1), {**order(2), "number": None})
    await s.run()
    with pytest.raises(NotReadyError, match="1 dead letters, and version 1 has 0"):
        await promote(s)


async def test_force_has_its_way_and_is_on_record(shop: Any) -> None:
    s = await shop(BOTH)
    outcome = await promote(s, order=Order(who="me", force=True), wait=0.0)
    assert outcome.switched
    assert outcome.objections
    alias = await Aliases(s.store, s.layout).read("by-number")
    assert (alias.version, [(one.version, one.before, one.who, one.forced) for one in alias.history]) == (
        2, [(2, 1, "me", True)]
    )  # fmt: skip


async def test_a_dry_run_says_what_stands_against_it_and_switches_nothing(shop: Any) -> None:
    s = await shop(BOTH)
    outcome = await promote(s, order=Order(who="me", dry_run=True), wait=0.0)
    assert outcome.objections
    assert not outcome.switched
    assert await in_use(s) == 1


async def test_promoting_again_changes_nothing(shop: Any) -> None:
    s = await built(shop)
    await promote(s)
    assert not (await promote(s)).switched
    assert len((await Aliases(s.store, s.layout).read("by-number")).history) == 1


async def test_of_two_who_switch_at_once_one_is_told(shop: Any) -> None:
    s = await built(shop)
    aliases = Aliases(s.store, s.layout)
    stale = await aliases.read("by-number")
    await promote(s)
    with pytest.raises(ConflictError, match="version 2 meanwhile, by me"):
        await promotion(s)._switch(stale, 2, [], Order(who="you"))


async def test_only_versions_of_the_catalog_are_promoted(shop: Any) -> None:
    s = await built(shop)
    with pytest.raises(CatalogError, match=r"no version 3 of it; it has 1, 2"):
        await promote(s, 3)


async def test_promote_killed_at_any_call_is_done_or_not_and_can_be_repeated(
    shop: Any, mortal: type[MortalStore]
) -> None:
    s = await built(shop)
    for after in (False, True):
        for dies_at in range(1, 100):
            store: Any = mortal(s.store, dies_at, after=after)
            try:
                await Promotion(store, s.layout, verified=clean, wait=0.0).promote("by-number", 2, ME)
            except KilledError:
                assert await in_use(s) in (1, 2)
            assert (await promote(s)).alias.version == 2
            alias = await Aliases(s.store, s.layout).read("by-number")
            assert [one.version for one in alias.history[-1:]] == [2]
            await promotion(s).rollback("by-number", ME)
            if not store.died:
                break
        assert not store.died


# rollback


async def test_rollback_undoes_the_last_promote_and_goes_no_further(shop: Any) -> None:
    s = await built(shop)
    with pytest.raises(NotReadyError, match="nothing was promoted"):
        await promotion(s).rollback("by-number", ME)
    await promote(s)
    await promotion(s).rollback("by-number", Order(who="me", why="too slow"))
    assert await in_use(s) == 1
    with pytest.raises(NotReadyError, match="nothing was promoted since the last rollback"):
        await promotion(s).rollback("by-number", ME)
    assert await in_use(s) == 1
    history = (await Aliases(s.store, s.layout).read("by-number")).history
    assert [(one.version, one.back, one.why) for one in history] == [(2, False, "a better key"), (1, True, "too slow")]


async def test_nobody_is_taken_back_to_a_version_that_is_gone_or_far_behind(shop: Any) -> None:
    s = await built(shop)
    await promote(s)
    await s.put(order(9))
    await Worker(s.store, s.layout, [TWO]).run(until_caught_up=True)
    hour = promotion(s, now=lambda: time.time())
    assert await in_use(s) == 2
    await s.store.delete_container(s.layout.target(ONE))
    with pytest.raises(NotReadyError, match="there is no"):
        await hour.rollback("by-number", ME)
    with pytest.raises(CatalogError, match="no version 1"):
        await Promotion(s.store, only(s, TWO)).rollback("by-number", ME)


# drop


async def test_what_is_in_use_or_declared_is_not_dropped(shop: Any) -> None:
    s = await built(shop)
    with pytest.raises(KeptError, match="readers use version 1"):
        await drop(s, layout=s.layout, force=True)
    await promote(s)
    with pytest.raises(KeptError, match="the catalog declares version 1"):
        await drop(s, layout=s.layout)
    with pytest.raises(KeptError, match="a moment ago"):
        await drop(s)
    await drop(s, now=lambda: time.time() + 100)
    with pytest.raises(CatalogError, match="nothing is known of version 1"):
        await drop(s)


async def test_drop_shows_what_goes_and_leaves_what_is_others(shop: Any) -> None:
    s = await built(shop)
    await promote(s)
    leases = [
        {"id": f"{prefix}account..{n}", "LeaseToken": "0"}
        for prefix in ("by-number-1-", "by-number-2-")
        for n in (0, 1)
    ]
    for lease in leases:
        await s.store.write(s.layout.leases, Key.of(lease["id"]), [Upsert(lease)])
    found = await Drop.of(s.store, only(s, TWO, OTHER), "by-number", 1, force=True)
    going = {one.what: one.documents async for one in found.going()}
    assert going["target"] == 5
    assert going["leases by-number-1-"] == 2
    assert going["placement records and positions of by-number@1"] > 5
    await found.run("me")
    assert [
        d for d in await s.all(s.layout.state) if str(d["pk"]).startswith("by-number@1") or d["id"] == "by-number@1"
    ] == []
    assert sorted(d["id"] for d in await s.all(s.layout.leases)) == ["by-number-2-account..0", "by-number-2-account..1"]
    assert len(await s.all(s.layout.source(ONE))) == 5
    s.layout = only(s, TWO, OTHER)
    s.catalog = s.layout.catalog
    await s.assert_converged()


async def test_a_drop_killed_at_any_call_goes_on_when_repeated(shop: Any, mortal: type[MortalStore]) -> None:
    s = await built(shop)
    await promote(s)
    for after in (False, True):
        for dies_at in range(1, 200):
            await initialise(s.store, s.layout)
            await Worker(s.store, s.layout, [ONE]).run(until_caught_up=True)
            store: Any = mortal(s.store, dies_at, after=after)
            with suppress(KilledError):
                await drop(s, store, force=True)
            if await Definitions(s.store, s.layout).read("by-number@1"):
                await drop(s, force=True)
            assert await s.store.describe(s.layout.target(ONE)) is None
            assert not [d for d in await s.all(s.layout.state) if str(d["pk"]).startswith("by-number@1")]
            if not store.died:
                break
        assert not store.died


async def test_what_is_being_dropped_is_not_started(shop: Any) -> None:
    s = await built(shop)
    definition = await Definitions(s.store, s.layout).read("by-number@1")
    assert definition
    await Definitions(s.store, s.layout).dropping(definition, "me")
    with pytest.raises(UnsafeError, match="being dropped, by me"):
        await s.run()


async def test_an_embed_goes_with_its_references(shop: Any) -> None:
    people = Source(container="people", key="/id")
    reference = {"person": Reference(source=people, id="/personId", fields=("name",))}
    one = Embed(name="with-person", source=ORDERS, key="/number", references=reference)
    two = Embed(name="with-person", version=2, source=ORDERS, key="/shop", references=reference)
    s = await shop(Catalog(projections=(one, two)))
    await s.store.write(s.layout.source(one.parts[0]), Key.of("p1"), [Upsert({"id": "p1", "name": "Ann"})])
    await s.put({**order(1), "personId": "p1"})
    await s.run()
    await s.assert_converged()
    assert (await Promotion(s.store, s.layout, verified=clean, wait=1.0).promote("with-person", 2, ME)).switched
    await (await Drop.of(s.store, s.layout, "with-person", 1, force=True)).run("me")
    names = await s.store.containers(s.layout.database)
    assert "with-person-v2-refs" in names
    assert "people" in names
    assert not {"with-person", "with-person-refs"} & set(names)
    assert not [
        d for d in await s.all(s.layout.state) if "with-person@1" in d["pk"] or "with-person.person@1" in d["pk"]
    ]


async def test_a_container_that_somebody_else_uses_stays(shop: Any) -> None:
    s = await built(shop)
    await promote(s)
    reads_it = Index(name="of-entries", source=Source(container="by-number", key="/number"), key="/total")
    found = await Drop.of(s.store, only(s, TWO, reads_it), "by-number", 1, force=True)
    assert found.staying() == [Container(s.layout.database, "by-number")]
    await found.run("me")
    assert await s.store.describe(s.layout.target(ONE)) is not None


# reading by name


async def test_a_token_stays_with_the_version_that_gave_it(shop: Any) -> None:
    s = await built(shop)
    await s.put(*(order(n, 7) for n in range(5)))
    wide = Index(name="by-total", version=2, source=ORDERS, key="/total", include=("number",))
    s.catalog = Catalog(projections=(ONE, OTHER, wide))
    s.layout = Layout(s.catalog, s.layout.database)
    await s.open()
    await s.run()
    lookup = NamedLookup(s.store, s.layout, "by-total", refresh=0.0)
    page = await lookup.entries(7, page_size=2)
    assert page.token
    await Promotion(s.store, s.layout, verified=clean, wait=1.0).promote("by-total", 2, ME)
    rest = await lookup.entries(7, page_size=10, token=page.token)
    assert len(page.entries) + len(rest.entries) == 5
    assert all("shop" in entry for entry in (*page.entries, *rest.entries))
    assert "shop" not in (await lookup.entries(7)).entries[0]
    assert [len(page.entries) async for page in lookup.pages(7, page_size=3)] == [3, 2]


async def test_readers_without_the_version_that_is_in_use_are_told(shop: Any) -> None:
    s = await built(shop)
    await promote(s)
    with pytest.raises(CatalogError, match=r"readers use version 2 of by-number, which .* \(1\)"):
        await NamedLookup.open(s.store, only(s, ONE), "by-number")
    assert (await NamedLookup(s.store, s.layout, "by-number@1").projection()).version == 1
