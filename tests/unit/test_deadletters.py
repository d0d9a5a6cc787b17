"""Which letters are asked for, what counts towards the alarm, and what the alarm does to a store that fails."""

from __future__ import annotations

from typing import Any

import pytest

from projections.alarm import Alarm, Raised, Streak
from projections.deadletters import FIELDS, Choice, DeadLetter, DeadLetters
from projections.declare import Catalog, Index, Source
from projections.errors import AlarmError, CatalogError, ThrottledError, TransientError, UnsafeError
from projections.identity import Identity
from projections.keys import Key
from projections.memory import MemoryStore
from projections.outcomes import Outcome, Result
from projections.provision import Layout, initialise
from projections.store import Container, Upsert

NOW = 1_700_000_000


def projection(**fields: Any) -> Index:
    return Index(name="p", source=Source(container="orders", key="/shop"), key="/k", **fields)


LAYOUT = Layout(Catalog(projections=(projection(),)), "db")


def result(n: int, outcome: Outcome = Outcome.PARKED, reason: str = "ItemError", **more: Any) -> Result:
    return Result(Identity(Key.of("s"), str(n)), outcome, reason, **more)


def parked(*numbers: int, **more: Any) -> list[Result]:
    return [result(n, **more) for n in numbers]


# choosing


@pytest.mark.parametrize(
    ("choice", "where", "parameters"),
    [
        (Choice(), "", {}),
        (Choice(reason="a' OR 1=1"), " WHERE CONTAINS(c.reason, @reason, true)", {"@reason": "a' OR 1=1"}),
        (Choice(error="E"), " WHERE c.error = @error", {"@error": "E"}),
        (Choice(until=5, since=0), " WHERE c.last <= @until AND c.last >= @since", {"@until": 5, "@since": 0}),
        (Choice(ids=("a", "b"), error="E"), " WHERE c.id IN (@id0, @id1) AND c.error = @error",
         {"@id0": "a", "@id1": "b", "@error": "E"}),
    ],
)  # fmt: skip
def test_a_choice_as_a_query(choice: Choice, where: str, parameters: dict[str, Any]) -> None:
    text, given = choice.query()
    assert text == f"SELECT {FIELDS} FROM c{where}"
    assert given == parameters
    assert "payload," not in text


def test_a_letter_never_shows_its_payload_by_accident() -> None:
    letter = DeadLetter("p@1", Identity(Key.of("s"), "1"), "E", "r", None, {}, 1, 1, 1, payload={"secret": 1})
    assert "secret" not in repr(letter)
    assert "secret" not in str([letter])
    assert letter.to_json()["payload"] == {"secret": 1}
    assert DeadLetter.from_stored(letter.to_json() | {"source": letter.identity.to_stored()}) == letter


async def test_letters_of_nobody_cost_nothing() -> None:
    async def never(name: str, container: Container) -> None:
        raise AssertionError(name)

    letters = DeadLetters(MemoryStore(before=never), LAYOUT.deadletters, "p@1")
    assert await letters.park([]) == set()
    assert await letters.find([]) == {}
    assert await letters.remove([]) == 0
    await letters.clear([])


# what counts


@pytest.mark.parametrize(
    ("pages", "counts"),
    [
        ([parked(1, 2, 3)], {"ItemError": 3}),
        ([parked(1, 2, 3), parked(1, 2, 3), parked(3, 4)], {"ItemError": 4}),  # read again
        ([parked(1, 2), [result(3, Outcome.WRITTEN)]], {}),
        ([parked(1, 2), [result(3, Outcome.UNCHANGED)]], {}),
        ([parked(1, 2), [result(3, Outcome.MOVED)]], {}),
        ([[result(3, Outcome.WRITTEN), *parked(1, 2)]], {"ItemError": 2}),
        ([parked(1, 2), [result(3, Outcome.SKIPPED, "where"), result(4, Outcome.REMOVED, "gone")]], {"ItemError": 2}),
        ([parked(1, 2), [result(3, Outcome.STALE)]], {"ItemError": 2}),
        ([parked(1, 2), parked(3, known=True)], {"ItemError": 2}),
        ([parked(1, 2), parked(3, reason="TooLargeError")], {"ItemError": 2, "TooLargeError": 1}),
        ([], {}),
    ],
)
def test_items_parked_in_a_row(pages: list[list[Result]], counts: dict[str, int]) -> None:
    streak = Streak()
    for page in pages:
        streak.note(page)
    assert streak.counts() == counts


def test_what_was_counted_before_a_restart_counts() -> None:
    streak = Streak({"ItemError": 7})
    streak.note(parked(1, 2))
    assert streak.counts() == {"ItemError": 9}
    assert streak.note([result(3, Outcome.WRITTEN)])
    assert streak.counts() == {}


# the alarm


async def alarm(store: MemoryStore, **fields: Any) -> Alarm:
    made = Alarm(store, LAYOUT.state, projection(**fields))
    await made.load()
    return made


async def opened() -> MemoryStore:
    store = MemoryStore()
    await initialise(store, LAYOUT)
    return store


async def test_it_is_raised_at_the_limit_and_again_after_a_restart_by_the_same_page() -> None:
    store = await opened()
    one = await alarm(store, alarm_after=5)
    await one.heed(parked(1, 2, 3), NOW)
    with pytest.raises(AlarmError, match=r"5 items in a row cannot be projected \(ItemError\)") as raised:
        await one.heed(parked(4, 5), NOW)
    assert isinstance(raised.value, UnsafeError)
    assert raised.value.projection == "p"
    stored = Raised("ItemError", 5, {"ItemError": 3}, NOW)
    assert await one.raised() == stored
    again = await alarm(store, alarm_after=5)
    await again.heed(parked(4), NOW)  # a shorter page of the same goes through
    again = await alarm(store, alarm_after=5)
    with pytest.raises(AlarmError):
        await again.heed(parked(4, 5), NOW)
    assert await again.raised() == stored


async def test_it_ends_with_the_first_entry() -> None:
    store = await opened()
    with pytest.raises(AlarmError):
        await (await alarm(store, alarm_after=2)).heed(parked(1, 2, 3), NOW)  # one page: nothing was counted before
    one = await alarm(store, alarm_after=2)
    await one.heed(parked(1), NOW)
    assert await one.raised()
    await one.heed([result(2, Outcome.WRITTEN), *parked(3)], NOW)
    assert await one.raised() is None
    await one.heed([result(2, Outcome.WRITTEN)], NOW)


async def test_with_no_limit_it_is_never_raised_and_one_that_was_ends() -> None:
    store = await opened()
    with pytest.raises(AlarmError):
        await (await alarm(store, alarm_after=2)).heed(parked(1, 2), NOW)
    one = await alarm(store, alarm_after=0)
    await one.heed(parked(*range(5_000)), NOW)
    assert await one.raised() is None


async def test_a_higher_limit_goes_on_from_the_count_before_the_page() -> None:
    store = await opened()
    one = await alarm(store, alarm_after=4)
    await one.heed(parked(1, 2), NOW)
    with pytest.raises(AlarmError):
        await one.heed(parked(3, 4), NOW)
    one = await alarm(store, alarm_after=6)
    await one.heed(parked(3, 4), NOW)
    with pytest.raises(AlarmError, match="6 items"):
        await one.heed(parked(5, 6), NOW)


async def test_an_alarm_that_cannot_be_stored_waits_and_is_not_forgotten() -> None:
    store = await opened()
    one = await alarm(store, alarm_after=2)
    busy = True

    async def before(name: str, container: Container) -> None:
        if busy and name == "write":
            raise ThrottledError

    store._before = before
    for _ in range(2):
        with pytest.raises(TransientError):
            await one.heed(parked(1, 2), NOW)
    busy = False
    with pytest.raises(AlarmError):
        await one.heed(parked(1, 2), NOW)


async def test_another_worker_may_have_ended_it_or_raised_it_anew() -> None:
    store = await opened()
    with pytest.raises(AlarmError):
        await (await alarm(store, alarm_after=2)).heed(parked(1, 2), NOW)
    one, two = await alarm(store, alarm_after=2), await alarm(store, alarm_after=2)
    good = [result(3, Outcome.WRITTEN)]
    await one.heed(good, NOW)
    await two.heed(good, NOW)  # it is gone already
    assert await two.raised() is None
    await store.write(LAYOUT.state, Key.of("p@1"), [Upsert(Raised("E", 9, {}, NOW).to_stored("p@1"))])
    three = await alarm(store, alarm_after=2)

    async def meanwhile(name: str, container: Container) -> None:
        if name == "write":
            store._before = None
            await store.write(LAYOUT.state, Key.of("p@1"), [Upsert(Raised("E", 10, {}, NOW).to_stored("p@1"))])

    store._before = meanwhile
    await three.heed(good, NOW)
    raised = await three.raised()
    assert raised
    assert raised.items == 10


@pytest.mark.parametrize("value", [-1, 1.5, "many", None])
def test_a_limit_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(CatalogError, match="alarm_after"):
        projection(alarm_after=value)


def test_defaults() -> None:
    assert (projection().alarm_after, projection().deadletter_payload) == (1_000, False)
