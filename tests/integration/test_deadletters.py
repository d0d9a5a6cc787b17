"""Dead letters on the emulator: in bulk, first of all writes, cleared by every way to success; and the alarm."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from projections.audit import Audit
from projections.deadletters import Choice, DeadLetters, Failure
from projections.declare import Catalog, Index, Projection, Source
from projections.deferred import notice
from projections.entries import State
from projections.errors import AlarmError, FatalError, ItemError, ThrottledError, TooLargeError, TransientError
from projections.identity import Identity, Place
from projections.keys import Key
from projections.metering import measured
from projections.outcomes import Outcome
from projections.provision import Layout
from projections.store import Container, Delete, Upsert, WriteError
from projections.version import Version
from projections.worker import Engine, Worker

ORDERS = Source(container="orders", key="/customerId")
OpenShop = Callable[[Catalog], Any]


class Priced(BaseModel):
    total: int


PRICED = Index(name="priced", source=ORDERS, key="/orderId", model=Priced)
BY_ID = Index(name="by-id", source=ORDERS, key="/orderId")


def declared(**fields: Any) -> Index:
    return PRICED.model_copy(update=fields)


def order(n: int, total: Any = 10, **fields: Any) -> dict[str, Any]:
    return {"id": str(n), "customerId": f"c{n % 7}", "orderId": f"o{n}", "total": total} | fields


def bad(n: int, **fields: Any) -> dict[str, Any]:
    return order(n, {"amount": "secret"}, **fields)


async def fill(s: Any, *items: dict[str, Any]) -> None:
    """Many items with few calls."""
    by_key: dict[str, list[Any]] = {}
    for item in items:
        by_key.setdefault(item["customerId"], []).append(Upsert(item))
    for key, operations in by_key.items():
        for start in range(0, len(operations), 100):
            await s.store.write(s.layout.source(PRICED), Key.of(key), operations[start : start + 100])


def letters_of(s: Any, projection: Index = PRICED) -> DeadLetters:
    return DeadLetters(s.store, s.layout.deadletters, projection.full_name)


async def audit(s: Any, projection: Index) -> Any:
    engine = await Engine.open(s.store, s.layout, projection)
    return await Audit(s.store, s.layout, engine, behind=-10).run()


# what a letter says


async def test_a_letter_says_who_where_why_and_how_often(shop: OpenShop, caplog: pytest.LogCaptureFixture) -> None:
    s = await shop(Catalog(projections=(PRICED,)))
    await s.put(bad(1))
    with caplog.at_level(logging.INFO):
        await s.run()
    [item] = await s.all(s.layout.source(PRICED))
    [letter] = await s.parked("priced")
    assert letter.identity == Identity(Key.of("c1"), "1")
    assert (letter.error, letter.path, letter.attempts) == ("ItemError", "/total", 1)
    assert (letter.version["etag"], letter.version["ts"]) == (item["_etag"], item["_ts"])
    assert letter.version["lsn"] > 0
    assert letter.first == letter.last
    assert letter.payload is None
    assert "secret" not in repr(letter) + caplog.text + str([vars(record) for record in caplog.records])


async def test_the_item_is_kept_where_that_is_declared_and_never_logged(
    shop: OpenShop, caplog: pytest.LogCaptureFixture
) -> None:
    s = await shop(Catalog(projections=(declared(deadletter_payload=True),)))
    await s.put(bad(1))
    with caplog.at_level(logging.DEBUG, "projections"):
        await s.run()
    [letter] = await s.parked("priced")
    assert letter.payload["total"] == {"amount": "secret"}
    assert "secret" not in repr(letter) + caplog.text + str([vars(record) for record in caplog.records])
    [[listed]] = [page async for page in letters_of(s).chosen(Choice())]
    assert (listed, listed.payload) == (replace(letter, payload=None), None)


async def test_a_payload_that_does_not_fit_is_left_out_and_its_size_told(shop: OpenShop) -> None:
    """Too large, or nested deeper than a letter may be: there is a letter all the same."""
    s = await shop(Catalog(projections=(declared(deadletter_payload=True),)))
    await s.put(bad(1, body="x" * 1_950_000), bad(2, body="漢" * 310_000), bad(3))
    worker = await s.run()
    assert worker.progress["priced"].tally.outcomes == {"parked": 3}
    letters = {letter.identity.id: letter for letter in await s.parked("priced")}
    assert {id_: letter.payload is not None for id_, letter in letters.items()} == {"1": False, "2": False, "3": True}
    assert letters["1"].payload_bytes > 1_950_000
    assert letters["3"].payload_bytes is None


async def test_a_letter_that_is_refused_with_its_payload_is_written_without() -> None:
    async def refuse(document: dict[str, Any]) -> ItemError | None:
        return TooLargeError() if "payload" in document else None

    store = RefusingStore(refuse)
    letters = DeadLetters(store, Container("db", "letters"), "p@1", payload=True)  # type: ignore[arg-type]
    assert await letters.park([failure(1), failure(2)]) == {failure(1).state.identity, failure(2).state.identity}
    assert [("payload" in document, document["payloadBytes"] > 10) for document in store.written] == [(False, True)] * 2


async def test_a_letter_that_the_store_will_never_take_stops_the_work() -> None:
    async def refuse(document: dict[str, Any]) -> ItemError | None:
        return ItemError("full") if document["source"]["id"] == "2" else None

    for payload in (False, True):
        letters = DeadLetters(RefusingStore(refuse), Container("db", "letters"), "p@1", payload=payload)  # type: ignore[arg-type]
        with pytest.raises(FatalError, match="'2'") as raised:
            await letters.park([failure(1), failure(2), failure(3)])
        assert "deadletters drop" in str(raised.value.hint)


def failure(n: int) -> Failure:
    item = {**bad(n), "_etag": f"e{n}", "_ts": n}
    return Failure(State(Identity(Key.of("c"), str(n)), Version.of(item, from_feed=False), item), ItemError("no"))


class RefusingStore:
    """Takes upserts, but for those that a test refuses."""

    def __init__(self, refuse: Callable[[dict[str, Any]], Any]) -> None:
        self._refuse = refuse
        self.written: list[dict[str, Any]] = []

    async def read(self, container: Container, places: Any) -> dict[Any, Any]:
        return {}

    async def write(self, container: Container, key: Key, operations: list[Upsert]) -> list[str]:
        for index, operation in enumerate(operations):
            error = await self._refuse(operation.document)
            if error:
                raise WriteError(index, error)
        self.written += [operation.document for operation in operations]
        return ["e"] * len(operations)


# many at once


async def test_five_hundred_bad_items_are_parked_with_few_calls(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(declared(parked="keep"),)))
    await fill(s, *(bad(n) for n in range(500)))
    engine = await Engine.open(s.store, s.layout, s.catalog["priced"])
    items = [item | {"_lsn": 1} for item in await s.all(s.layout.source(PRICED))]
    failures = [Failure(engine._state(item), ItemError("no", path="/total")) for item in items]
    assert await engine.deadletters.find([Identity(Key.of("c"), "nobody")]) == {}  # the container is open
    with measured() as cost:
        new = await engine.deadletters.park(failures)
    assert len(new) == 500
    assert cost.calls <= 7  # one bulk read, five batches
    assert await engine.deadletters.park(failures[:250]) == set()
    assert sorted(letter.attempts for letter in await s.parked("priced")) == [1] * 250 + [2] * 250


# the letter comes first, and nothing is lost for want of it


@pytest.mark.parametrize("parked", ["remove", "keep"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_call_a_bad_item_is_on_record_or_read_again(
    shop: OpenShop, mortal: Callable[..., Any], parked: str, after: bool
) -> None:
    s = await shop(Catalog(projections=(declared(parked=parked),)))
    await s.put(order(1), order(2))
    await s.run()
    await s.put(bad(1), order(2, 11), bad(3))
    for n in range(1, 60):
        dying = mortal(s.store, n, after=after)
        try:
            await s.run(dying)
        except BaseException as death:
            if type(death).__name__ != "KilledError":
                raise
        marked = {record["source"]["id"] for record in await s.placements("priced") if record.get("parked")}
        assert marked <= {letter.identity.id for letter in await s.parked("priced")}
        if not dying.died:
            break
    assert n > 5
    assert {letter.identity.id for letter in await s.parked("priced")} == {"1", "3"}


@pytest.mark.parametrize("error", [ThrottledError, FatalError])
async def test_case_24_b_while_letters_cannot_be_written_the_position_waits(
    shop: OpenShop, error: type[Exception]
) -> None:
    s = await shop(Catalog(projections=(PRICED,)))
    await s.put(order(1), bad(2), order(3))

    class Down:
        def __getattr__(self, name: str) -> Any:
            return getattr(s.store, name)

        async def write(self, container: Container, *arguments: Any) -> Any:
            if container == s.layout.deadletters:
                raise error
            return await s.store.write(container, *arguments)

    worker = Worker(Down(), s.layout, [PRICED], poll_seconds=(0.01, 0.01))  # type: ignore[arg-type]
    if error is FatalError:
        with pytest.raises(FatalError):
            await worker.run(until_caught_up=True)
    else:
        running = asyncio.create_task(worker.run(until_caught_up=True))
        await asyncio.sleep(0.5)
        assert not running.done()
        worker.stop()
        await running
    assert worker.progress["priced"].tally.total == 0
    again = await s.run()
    assert again.progress["priced"].tally.total == 3
    assert [letter.identity.id for letter in await s.parked("priced")] == ["2"]


# a later success clears it


@pytest.mark.parametrize("placement", ["tracked", "append_only"])
@pytest.mark.parametrize("way", ["live", "audit", "retry", "notice"])
@pytest.mark.parametrize("success", ["mended", "left out", "gone"])
async def test_a_later_success_clears_the_letter(shop: OpenShop, placement: str, way: str, success: str) -> None:
    if way == "live" and success == "gone":
        pytest.skip("the latest-version feed does not tell")
    projection = declared(placement=placement, where=lambda item: item.get("out") is not True)
    s = await shop(Catalog(projections=(projection,)))
    await s.put(bad(1), bad(2))
    await s.run()
    assert len(await s.parked("priced")) == 2
    [item] = [item for item in await s.all(s.layout.source(PRICED)) if item["id"] == "1"]
    if success == "gone":
        await s.store.write(s.layout.source(PRICED), Key.of("c1"), [Delete("1", item["_etag"])])
    else:
        await s.put(order(1) if success == "mended" else bad(1, out=True))
    engine = await Engine.open(s.store, s.layout, projection)
    if way == "live":
        await s.run()
    elif way == "audit":
        await engine.audit_page([item])
    elif way == "retry":
        results = await engine.retry(await s.parked("priced"))
        assert {result.identity.id: result.outcome for result in results}["2"] is Outcome.PARKED
    else:
        await engine.apply_present([notice(engine.projection, item)])
    left = await s.parked("priced")
    assert [letter.identity.id for letter in left] == ["2"]
    assert left[0].attempts == (2 if way == "retry" else 1)


async def test_a_letter_that_a_dead_worker_wrote_is_cleared_by_audit(shop: OpenShop) -> None:
    """It died before the record said so, and the item was mended before anybody looked again."""
    s = await shop(Catalog(projections=(PRICED,)))
    await s.put(bad(1))
    [item] = await s.all(s.layout.source(PRICED))
    engine = await Engine.open(s.store, s.layout, PRICED)
    await engine.deadletters.park([Failure(engine._state(item), ItemError("no"))])
    await s.put(order(1))
    await s.run()
    assert (await audit(s, PRICED)).repaired.total == 0
    assert await s.parked("priced") == []
    await s.assert_converged()


@pytest.mark.parametrize("placement", ["tracked", "append_only"])
async def test_an_audit_counts_no_attempt(shop: OpenShop, placement: str) -> None:
    s = await shop(Catalog(projections=(declared(placement=placement),)))
    await s.put(bad(1))
    await s.run()
    before = await s.parked("priced")
    report = await audit(s, s.catalog["priced"])
    assert (report.examined, report.repaired.total) == (1, 0)
    assert await s.parked("priced") == before


async def test_a_letter_of_a_newer_state_outlives_an_older_success(shop: OpenShop) -> None:
    """Without placement records, a slow worker with a good state must not take the letter of a newer bad one."""
    projection = declared(placement="append_only")
    s = await shop(Catalog(projections=(projection,)))
    await s.put(order(1))
    [old] = await s.all(s.layout.source(PRICED))
    await s.put(bad(1))
    await s.run()
    engine = await Engine.open(s.store, s.layout, projection)
    [result] = await engine.apply_page([old | {"_lsn": 1}], read_at=time.monotonic())
    assert result.outcome is Outcome.PARKED
    assert len(await s.parked("priced")) == 1


async def test_clearing_costs_an_append_only_projection_one_call_a_page(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(declared(placement="append_only"),)))
    await fill(s, *(order(n) for n in range(200)))
    engine = await Engine.open(s.store, s.layout, s.catalog["priced"])
    items = [item | {"_lsn": 1} for item in await s.all(s.layout.source(PRICED))]
    states = [engine._state(item) for item in items]
    assert await engine.deadletters.find([states[0].identity]) == {}  # the container is open
    with measured() as letters:
        assert await engine.deadletters.find([state.identity for state in states]) == {}
    assert letters.calls == 1
    assert letters.request_units < 10  # the entries cost a thousand
    await engine.apply_page(items, time.monotonic())
    with measured() as cost:
        await engine.apply_page(items, time.monotonic())
    with measured() as entries:
        places = [Place(state.identity.entry_id, Key.of(f"o{state.identity.id}")) for state in states]
        assert len(await s.store.read(s.layout.target(PRICED), places)) == 200
    assert cost.calls == entries.calls + 1


# retry


async def test_case_24_d_a_retry_takes_the_present_state(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(PRICED,)))
    await s.put(*(bad(n) for n in range(1, 5)))
    await s.run()
    letters = await s.parked("priced")
    await s.put(order(2, 20))
    await s.run()
    await s.put(order(3, 30))
    [item] = [item for item in await s.all(s.layout.source(PRICED)) if item["id"] == "4"]
    await s.store.write(s.layout.source(PRICED), Key.of("c4"), [Delete("4", item["_etag"])])
    engine = await Engine.open(s.store, s.layout, PRICED)
    with measured() as cost:
        foreseen = {result.identity.id: result.outcome.value for result in await engine.foresee(letters)}
    assert foreseen == {"1": "parked", "2": "written", "3": "written", "4": "skipped"}
    results = {result.identity.id: result for result in await engine.retry(letters)}
    assert {id_: result.outcome.value for id_, result in results.items()} == {
        "1": "parked", "2": "unchanged", "3": "written", "4": "skipped",
    }  # fmt: skip
    assert results["4"].reason == "gone"
    assert sorted(entry["total"] for entry in await s.entries("priced")) == [20, 30]
    assert [(letter.identity.id, letter.attempts) for letter in await s.parked("priced")] == [("1", 2)]
    assert cost.calls < 10
    await s.run()
    await s.assert_converged()


# choosing


async def test_choices(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(PRICED,)))
    now = 1_000
    letters = DeadLetters(s.store, s.layout.deadletters, PRICED.full_name, clock=lambda: now)
    for n, error in enumerate([ItemError("The key /k is missing"), TooLargeError("has 9 bytes"), ItemError("%_'\"")]):
        now = 1_000 + n * 100
        await letters.park([replace(failure(n), error=error)])
    id_ = failure(1).state.identity.entry_id

    async def found(**choice: Any) -> list[str]:
        return sorted([letter.identity.id async for page in letters.chosen(Choice(**choice)) for letter in page])

    assert await found() == ["0", "1", "2"]
    assert await found(reason="KEY /K") == ["0"]
    assert await found(reason="%_'\"") == ["2"]
    assert await found(reason="") == ["0", "1", "2"]
    assert await found(error="ItemError") == ["0", "2"]
    assert await found(error="itemerror") == []
    assert await found(until=1_100) == ["0", "1"]
    assert await found(since=1_100) == ["1", "2"]
    assert await found(since=1_100, error="ItemError") == ["2"]
    assert await found(ids=(id_, "none")) == ["1"]
    assert [letter.identity.id for letter in await letters.read([id_, "none"])] == ["1"]
    assert (await letters.count(), await letters.oldest()) == (3, 1_000)
    assert await letters_of(s, BY_ID).oldest() is None


async def test_many_letters_come_in_pages(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(PRICED,)))
    letters = letters_of(s)
    await letters.park([failure(n) for n in range(350)])
    sizes = [len(page) async for page in letters.chosen(Choice())]
    assert sum(sizes) == 350
    assert max(sizes) < 350


async def test_removing_leaves_what_was_parked_again_meanwhile(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(PRICED,)))
    letters = letters_of(s)
    await letters.park([failure(1), failure(2), failure(3)])
    read = await s.parked("priced")
    await letters.park([failure(2)])
    await letters.clear([failure(3).state.identity])
    assert await letters.remove(read) == 1
    assert [letter.identity.id for letter in await s.parked("priced")] == ["2"]
    with pytest.raises(TransientError):
        await DeadLetters(Throttled(s.store), s.layout.deadletters, PRICED.full_name).remove(read)  # type: ignore[arg-type]


class Throttled:
    def __init__(self, store: Any) -> None:
        self._store = store

    async def write(self, *arguments: Any) -> Any:
        raise ThrottledError


# the alarm


def redeclare(s: Any, *projections: Index) -> None:
    """A new deployment."""
    s.catalog = Catalog(projections=projections)
    s.layout = Layout(s.catalog, s.layout.database)


async def position(s: Any, projection: Projection = PRICED) -> list[Any]:
    prefix = "range "
    return [d["position"] for d in await s.all(s.layout.state) if d["pk"] == "priced@1" and d["id"].startswith(prefix)]


async def test_case_24_c_a_wrong_deployment_stops_before_the_whole_source_is_parked(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(declared(alarm_after=100), BY_ID)))
    await fill(s, *(bad(n) for n in range(400)))
    worker = Worker(s.store, s.layout, list(s.catalog), page_size=40)
    with pytest.raises(AlarmError, match="the catalog is likely to be wrong") as raised:
        await worker.run(until_caught_up=True)
    assert raised.value.projection == "priced"
    assert "deadletters list priced" in str(raised.value.hint)
    parked, stays = len(await s.parked("priced")), await position(s)
    assert 100 <= parked < 300
    assert len(await s.entries("by-id")) == 400  # the other one goes on
    for _ in range(3):  # restarted as it is: nothing more is parked, and the position stays
        with pytest.raises(AlarmError):
            await s.run(page_size=40)
    assert (len(await s.parked("priced")), await position(s)) == (parked, stays)
    # raising the limit goes on from there
    redeclare(s, declared(alarm_after=1_000), BY_ID)
    worker = await s.run(page_size=40)
    assert len(await s.parked("priced")) == 400


async def test_the_alarm_ends_when_an_item_has_an_entry_again(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(declared(alarm_after=50),)))
    await fill(s, *(bad(n) for n in range(120)))
    with pytest.raises(AlarmError):
        await s.run(page_size=30)
    redeclare(s, declared(alarm_after=50, model=None))
    worker = await s.run(page_size=30)
    assert worker.progress["priced"].tally.outcomes["parked"] == 0
    engine = await Engine.open(s.store, s.layout, s.catalog["priced"])
    assert await engine.alarm.raised() is None
    letters = await s.parked("priced")
    assert {result.outcome for result in await engine.retry(letters)} == {Outcome.WRITTEN}
    await s.assert_converged()


async def test_a_retry_ends_the_alarm_and_never_raises_it(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(declared(alarm_after=50),)))
    await fill(s, *(bad(n) for n in range(120)))
    with pytest.raises(AlarmError):
        await s.run(page_size=30)
    engine = await Engine.open(s.store, s.layout, s.catalog["priced"])
    letters = await s.parked("priced")
    assert {result.outcome for result in await engine.retry(letters)} == {Outcome.PARKED}
    assert await engine.alarm.raised()
    await fill(s, order(int(letters[0].identity.id)))
    await engine.retry(letters)
    assert await engine.alarm.raised() is None


async def test_a_small_bad_source_raises_no_alarm_however_often_it_is_read(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(declared(alarm_after=50),)))
    await fill(s, *(bad(n) for n in range(49)))
    engine = await Engine.open(s.store, s.layout, s.catalog["priced"])
    items = [item | {"_lsn": 1} for item in await s.all(s.layout.source(PRICED))]
    for _ in range(4):
        await engine.apply_page(items, time.monotonic())
        await engine.audit_page(items)
    await fill(s, bad(50))
    [more] = [item for item in await s.all(s.layout.source(PRICED)) if item["id"] == "50"]
    with pytest.raises(AlarmError):
        await engine.apply_page([more | {"_lsn": 2}], time.monotonic())


async def test_an_audit_under_a_wrong_catalog_stops_too_and_one_of_parked_items_does_not(shop: OpenShop) -> None:
    """Else it would take the entries away that live work is kept from."""
    s = await shop(Catalog(projections=(declared(alarm_after=50, model=None),)))
    await fill(s, *(bad(n) for n in range(300)))
    await s.run()
    wrong = declared(alarm_after=50)
    engine = await Engine.open(s.store, s.layout, wrong)
    with pytest.raises(AlarmError):
        await Audit(s.store, s.layout, engine, behind=-10, page_size=40).run()
    assert len(await s.entries("priced")) >= 150
    never = declared(alarm_after=0)
    assert (await audit(s, never)).repaired.outcomes == {}
    assert len(await s.parked("priced")) == 300
    engine = await Engine.open(s.store, s.layout, wrong)
    items = await s.all(s.layout.source(PRICED))
    assert {result.known for result in await engine.audit_page(items)} == {True}


async def test_the_functions_path_raises_the_alarm(shop: OpenShop) -> None:
    s = await shop(Catalog(projections=(declared(alarm_after=50),)))
    await fill(s, *(bad(n) for n in range(80)))
    engine = await Engine.open(s.store, s.layout, s.catalog["priced"])
    items = await s.all(s.layout.source(PRICED))
    await engine.apply_present([notice(engine.projection, item) for item in items[:40]])
    with pytest.raises(AlarmError):
        await engine.apply_present([notice(engine.projection, item) for item in items[40:]])
