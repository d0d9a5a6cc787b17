"""Computed keys: what each strategy makes of an item, what it refuses, and what it asks for."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from projections.buckets import MOST_BUCKETS, Span, TimeBucket
from projections.declare import Index, Source
from projections.entries import Rules, wanted
from projections.errors import AskError, CatalogError, ItemError, SkippedError
from projections.identity import Element, Identity
from projections.keys import MAX_EXACT, MOST_KEYS, UNDEFINED, Hierarchical, Key, Path, plain, strategy
from projections.strategies import Concat, HashSuffix, RandomSuffix
from projections.texts import joined, number, parted
from tests.support import NOW, index, state, want

OWNER = Identity(Key.of("s1"), "o1")
ALL = [
    "/status",
    Concat("/status", "/total"),
    TimeBucket("/at", "day"),
    RandomSuffix("/status", count=4),
    RandomSuffix(Concat("/status", "/total", separator="-"), count=4),
    RandomSuffix(TimeBucket("/at", "day"), count=4),
    HashSuffix("/status", of="/total", count=4),
    HashSuffix(TimeBucket("/at", "month"), of=("/status", "/total"), count=4),
    ("/status", TimeBucket("/at", "month"), "/id"),
    ("/status", HashSuffix("/total", of="/at", count=4)),
]


def key_of(declared: Any, item: dict[str, Any]) -> Key:
    return Key.of(*strategy(declared).values(item, OWNER))


def ask(declared: Any, *values: Any) -> list[tuple[Any, ...]]:
    return [key.values for key in strategy(declared).ask(*values)]


def refused(call: Any, words: str, hint: str = "") -> None:
    with pytest.raises(CatalogError) as caught:
        call()
    assert words in caught.value.message
    assert caught.value.hint
    assert hint in caught.value.hint


# several fields as one text

CASE_16 = [
    ("a-b", "c"), ("a", "b-c"), ("a", None), ("a", ""), ("", "a"), ("a", "null"), ("a_b", "c"), ("a", "b_c"),
    ("a|b", "c"), ("a\\", "-c"), (1, "x"), ("1", "x"),
]  # fmt: skip


@pytest.mark.parametrize("separator", list("_-|.:/#+"))
def test_case_16_parts_do_not_run_together(separator):
    concat = Concat("/tenant", "/day", separator=separator)
    texts = [concat.value({"tenant": tenant, "day": day}, OWNER) for tenant, day in CASE_16]
    assert len(set(texts)) == len(CASE_16)
    assert [concat.parse(text) for text in texts] == CASE_16


def test_an_ordinary_text_reads_as_it_is():
    assert Concat("/tenant", "/day").value({"tenant": "acme", "day": "2026-01-05"}, OWNER) == "acme_2026-01-05"


scalars = some.one_of(
    some.text(),
    some.text(alphabet="~_sntfud1"),
    some.text(alphabet=some.characters(categories=["Cs", "Lu"])),
    some.integers(-MAX_EXACT, MAX_EXACT),
    some.floats(allow_nan=False, allow_infinity=False),
    some.booleans(),
    some.none(),
    some.just(UNDEFINED),
)
tuples = some.lists(scalars, min_size=1, max_size=4)


def typed(values: Any) -> list[Any]:
    """As the store tells values apart."""
    return [(type(v).__name__ if not isinstance(v, int | float) or v in (True, False) else "number", v) for v in values]


@given(tuples, some.sampled_from("_-.+|"))
@example([7, "7", None, "~n", UNDEFINED, "~u", True, "~t"], "_")
def test_any_values_come_back_from_their_text(values, separator):
    assert Key.of(*parted(joined(values, separator), separator)) == Key.of(*values)


@given(tuples, tuples, some.sampled_from("_-.+|"))
def test_no_two_tuples_have_one_text(one, other, separator):
    same = joined(one, separator) == joined(other, separator)
    assert same == (Key.of(*one) == Key.of(*other))


@given(some.floats(allow_nan=False, allow_infinity=False))
def test_a_number_comes_back_from_its_text(value):
    assert float(number(value)) == value


@pytest.mark.parametrize("text", ["~", "~x", "a~", "~nn", "~n~", "~d", "~d07", "~d1e999", "~dx", "~d7.0", "~dNaN"])
def test_what_no_values_give_is_not_read(text):
    with pytest.raises(AskError, match="no text of a key"):
        Concat("/a").parse(text)


def test_a_text_of_another_number_of_values_is_not_read():
    with pytest.raises(AskError, match="/a, /b"):
        Concat("/a", "/b").parse("x")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_a_number_that_json_does_not_have_is_an_item_error(value):
    with pytest.raises(ItemError, match="JSON"):
        number(value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Concat(), "takes paths"),
        (lambda: Concat("/a", 7), "takes paths"),
        (lambda: Concat("/a", RandomSuffix("/b", count=2)), "takes paths"),
        (lambda: Concat("/a", "/a"), "twice"),
        (lambda: Concat("a"), "not a path"),
        (lambda: Concat("/a", separator="~"), "no separator"),
        (lambda: Concat("/a", separator=""), "no separator"),
        (lambda: Concat("/a", separator="::"), "no separator"),
        (lambda: Concat("/a", separator="s"), "no separator"),
        (lambda: Concat("/a", separator="1"), "no separator"),
        (lambda: Concat("/a", separator="\n"), "no separator"),
        (lambda: Concat("/a", separator="·"), "no separator"),
        (lambda: Concat("/a", path="/a"), "made from"),
        (lambda: Concat("/a/b", path="/a"), "made from"),
        (lambda: Concat("/a", path="/x/y"), "cannot be kept"),
        (lambda: Concat("/a", path="/id"), "cannot be kept"),
        (lambda: Concat("/a", path="/ttl"), "cannot be kept"),
        (lambda: Concat("/a", path="/_source"), "cannot be kept"),
        (lambda: Concat("/a", path="x"), "not a path"),
        (lambda: TimeBucket("/a", "decade"), "size"),
        (lambda: TimeBucket("/a", "day", unit="us"), "unit"),
        (lambda: TimeBucket("/a", "day", naive="local"), "naive"),
        (lambda: TimeBucket("/_ts", "day", unit="ms"), "seconds"),
        (lambda: TimeBucket("/_ts", "day", unit="iso"), "seconds"),
        (lambda: TimeBucket("a", "day"), "not a path"),
        (lambda: TimeBucket("/at", "day", path="/at"), "made from"),
        (lambda: RandomSuffix("/a", count=0), "count"),
        (lambda: RandomSuffix("/a", count=1_001), "count"),
        (lambda: RandomSuffix("/a", count=True), "count"),
        (lambda: RandomSuffix("/a", count="4"), "count"),
        (lambda: RandomSuffix(7, count=4), "no base"),
        (lambda: RandomSuffix(RandomSuffix("/a", count=2), count=4), "no base"),
        (lambda: RandomSuffix(("/a", "/b"), count=4), "no base"),
        (lambda: RandomSuffix("/a", count=4, separator="ab"), "no separator"),
        (lambda: RandomSuffix("/partitionKey", count=4), "made from"),
        (lambda: HashSuffix("/a", of=(), count=4), "of"),
        (lambda: HashSuffix("/a", of=("/b", "/b"), count=4), "of"),
        (lambda: HashSuffix("/a", of=(7,), count=4), "of"),
        (lambda: HashSuffix("/a", of="b", count=4), "not a path"),
        (lambda: HashSuffix("/a", of="/partitionKey", count=4), "made from"),
        (lambda: strategy(("/a", Concat("/b"), Concat("/c"))), "twice"),
        (lambda: strategy(("/partitionKey", Concat("/b"))), "twice"),
        (lambda: strategy(("/partitionKey/x", Concat("/b"))), "made from"),
        (lambda: strategy((Concat("/b"), TimeBucket("/partitionKey", "day", path="/day"))), "made from"),
        (lambda: strategy(("/a", "/b", "/c", Concat("/d"))), "4 levels"),
        (lambda: plain(Concat("/a")), "computes"),
        (lambda: plain(("/a", Concat("/b"))), "computes"),
    ],
)
def test_a_strategy_that_cannot_be_is_refused_with_a_hint(make, words):
    refused(make, words)


def test_computed_levels_that_clash_are_to_be_given_another_path():
    refused(lambda: strategy((Concat("/b"), TimeBucket("/at", "day"))), "twice", "path=...")
    fine = strategy((Concat("/b"), TimeBucket("/at", "day", path="/day"), "/id"))
    assert (fine.paths, fine.inputs, fine.copied) == (("/partitionKey", "/day", "/id"), ("/b", "/at"), ())


# time buckets

DAY = TimeBucket("/at", "day")


@pytest.mark.parametrize(
    ("at", "day"),
    [
        ("2026-03-29T23:30:00-02:00", "2026-03-30"),
        ("2026-03-30T01:30:00Z", "2026-03-30"),
        ("2026-03-30T01:30:00", "2026-03-30"),
        ("2026-03-30T01:30:00.1234567Z", "2026-03-30"),
        ("2026-03-30T01:30:00,123456789012+00:00", "2026-03-30"),
        ("2026-03-30 01:30z", "2026-03-30"),
        ("2026-03-30t01:30:59+01", "2026-03-30"),
        ("2026-03-30T23:59:59.9999999-0001", "2026-03-31"),
        ("2026-03-30", "2026-03-30"),
        ("0007-03-30", "0007-03-30"),
    ],
)
def test_case_18_the_day_is_that_of_utc(at, day):
    assert DAY.value({"at": at}, OWNER) == day


@pytest.mark.parametrize(
    "at",
    [
        "2026-02-30", "30/03/2026", "", " ", "2026", "2026-03", "2026-W12", "20260330", "2026-03-30T24:00:00Z",
        "2026-03-30T01Z", "2026-03-30T01:60Z", "2026-03-30T01:30:60Z", "2026-03-30T01:30+24:00",
        "2026-03-30T01:30+01:60", "2026-03-30T01:30Z\n", "2026-03-30T01:30 Z", "12026-03-30", "-2026-03-30",
        "2026-03-30T01:30:00.Z", "٢٠٢٦-03-30", "0001-01-01T00:00+01:00", "9999-12-31T23:59-01:00", "0000-01-01",
        1774834200, 1774834200000, True, 1.5, {}, [],
    ],
    ids=repr,
)  # fmt: skip
def test_case_18_what_is_no_time_is_an_item_error_that_says_what_is_expected_and_not_what_is_there(at):
    with pytest.raises(ItemError) as caught:
        DAY.value({"at": at}, OWNER)
    assert caught.value.path == "/at"
    assert "/at" in caught.value.message
    assert "ISO 8601" in caught.value.message
    if str(at).strip() not in ("", "2026", "2026-03", "True", "1.5", "{}", "[]"):
        assert str(at) not in caught.value.message


@pytest.mark.parametrize(
    ("at", "hour"),
    [("2026-10-25T02:30:00+02:00", "2026-10-25T00"), ("2026-10-25T02:30:00+01:00", "2026-10-25T01")],
)
def test_case_18_the_hour_when_clocks_go_back_is_two_hours(at, hour):
    assert TimeBucket("/at", "hour").value({"at": at}, OWNER) == hour


@pytest.mark.parametrize(
    ("unit", "at", "minute"),
    [
        ("s", 1774834200, "2026-03-30T01:30"), ("s", 1774834259.999, "2026-03-30T01:30"), ("s", 0, "1970-01-01T00:00"),
        ("s", -1, "1969-12-31T23:59"), ("s", -0.5, "1969-12-31T23:59"), ("ms", 1774834259999, "2026-03-30T01:30"),
        ("ms", 1774834260000, "2026-03-30T01:31"), ("ms", -1, "1969-12-31T23:59"),
    ],
)  # fmt: skip
def test_numbers_are_times_where_the_unit_says_so(unit, at, minute):
    assert TimeBucket("/at", "minute", unit=unit).value({"at": at}, OWNER) == minute


@pytest.mark.parametrize("at", ["1774834200", "2026-03-30", True, 2**53, -(2**53), {}, float("nan"), float("inf")])
def test_another_type_or_a_time_beyond_all_years_is_an_item_error(at):
    with pytest.raises(ItemError, match=r"/at is no time: .*a number of seconds since 1970") as caught:
        TimeBucket("/at", "day", unit="s").value({"at": at}, OWNER)
    assert str(at) not in caught.value.message


def test_ts_is_in_seconds_by_itself():
    assert TimeBucket("/_ts", "minute").value({"_ts": 1774834200}, OWNER) == "2026-03-30T01:30"


def test_a_time_without_offset_is_a_reason_to_park_if_declared_so():
    strict = TimeBucket("/at", "day", naive="deadletter")
    assert strict.value({"at": "2026-03-30T01:30+00:00"}, OWNER) == "2026-03-30"
    for at in ("2026-03-30T01:30", "2026-03-30"):
        with pytest.raises(ItemError, match="no offset"):
            strict.value({"at": at}, OWNER)


@pytest.mark.parametrize(
    ("at", "week"),
    [
        ("2027-01-01", "2026-W53"), ("2027-01-03", "2026-W53"), ("2027-01-04", "2027-W01"), ("2024-12-30", "2025-W01"),
        ("2021-01-03", "2020-W53"), ("2026-11-30", "2026-W49"), ("2026-11-29", "2026-W48"), ("0001-01-01", "0001-W01"),
    ],
)  # fmt: skip
def test_a_week_has_a_year_of_its_own(at, week):
    assert TimeBucket("/at", "week").value({"at": at}, OWNER) == week


times = some.datetimes(timezones=some.just(UTC))
SIZES = ["year", "month", "week", "day", "hour", "minute"]


@given(times, times, some.sampled_from(SIZES))
def test_the_texts_of_buckets_sort_by_time(one, other, size):
    earlier, later = sorted([one, other])
    buckets = [TimeBucket("/at", size).value({"at": at.isoformat()}, OWNER) for at in (earlier, later)]
    assert buckets[0] <= buckets[1]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/New_York"])
def test_case_18_the_time_zone_of_the_machine_does_not_matter(zone):
    program = (
        "from projections.buckets import TimeBucket\n"
        "day = TimeBucket('/at', 'hour')\n"
        "print(day.value({'at': '2026-03-29T23:30:00-02:00'}, None), day.value({'at': '2026-03-30T01:30:00'}, None))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TZ": zone}, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["2026-03-30T01", "2026-03-30T01"]


# reading by time

BERLIN = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("size", "given_", "asked"),
    [
        ("day", "2026-11-30", ["2026-11-30"]),
        ("day", "2026-11-30T23:30-02:00", ["2026-12-01"]),
        ("day", "2026-11-30T14", ["2026-11-30"]),
        ("day", date(2026, 11, 30), ["2026-11-30"]),
        ("day", datetime(2026, 11, 30, 0, 30, tzinfo=BERLIN), ["2026-11-29"]),
        ("day", datetime(2026, 11, 30, 0, 30), ["2026-11-30"]),
        ("month", "2026-11-30", ["2026-11"]),
        ("month", "2026-W49", ["2026-11", "2026-12"]),
        ("year", 2026, ["2026"]),
        ("year", "2026", ["2026"]),
        ("year", "9999", ["9999"]),
        ("week", "2026-W48", ["2026-W48"]),
        ("week", "2026-11-30", ["2026-W49"]),
        ("hour", date(2026, 11, 30), [f"2026-11-30T{n:02}" for n in range(24)]),
        ("minute", "2026-11-30T14:05", ["2026-11-30T14:05"]),
        ("day", "2026-11-30..2026-12-02", ["2026-11-30", "2026-12-01"]),
        ("day", Span("2026-11-30T23:30-02:00", date(2026, 12, 3)), ["2026-12-01", "2026-12-02"]),
        ("day", Span(datetime(2026, 12, 31, 23, 59), datetime(2027, 1, 1, 0, 1)), ["2026-12-31", "2027-01-01"]),
        ("month", Span("2026-11", "2027-02"), ["2026-11", "2026-12", "2027-01"]),
        ("week", Span("2026-12-27", "2027-01-05"), ["2026-W52", "2026-W53", "2027-W01"]),
        ("year", Span(2025, 2027), ["2025", "2026"]),
        ("day", None, [None]),
        ("day", UNDEFINED, [UNDEFINED]),
    ],
)
def test_a_time_is_asked_for_as_every_bucket_that_it_touches(size, given_, asked):
    assert ask(TimeBucket("/at", size), given_) == [(text,) for text in asked]


def test_numbers_are_asked_for_where_they_are_the_unit():
    assert ask(TimeBucket("/at", "day", unit="s"), 1774834200) == [("2026-03-30",)]
    assert ask(TimeBucket("/at", "day", unit="ms"), Span(1774834200000, 1774920600000)) == [
        ("2026-03-30",), ("2026-03-31",),
    ]  # fmt: skip
    assert ask(TimeBucket("/_ts", "day"), "2026-03-30") == [("2026-03-30",)]


@pytest.mark.parametrize(
    "wrong", ["yesterday", "2026-13", "2026-W54", 7, True, {}, "2026-02-30", 1.5, "..", "2026-11.."]
)
def test_what_is_no_time_cannot_be_asked_for(wrong):
    with pytest.raises(AskError) as caught:
        DAY.ask(wrong)
    assert "2026-11-30" in str(caught.value.hint)


@pytest.mark.parametrize("span", [Span("2026-11-30", "2026-11-30"), Span("2026-12", "2026-11")])
def test_a_span_without_time_cannot_be_asked_for(span):
    with pytest.raises(AskError, match="empty"):
        DAY.ask(span)


def test_a_span_of_too_many_buckets_is_refused_before_any_is_read():
    start = datetime(2026, 1, 1)
    assert len(DAY.ask(Span(start, start + timedelta(days=MOST_BUCKETS)))) == MOST_BUCKETS
    for span in (Span(start, start + timedelta(days=MOST_BUCKETS, minutes=1)), Span("0001", "9999")):
        with pytest.raises(AskError, match="more than 1,000 buckets of a day"):
            DAY.ask(span)


def test_a_naive_datetime_is_refused_where_naive_times_are():
    with pytest.raises(AskError):
        TimeBucket("/at", "day", naive="deadletter").ask(datetime(2026, 11, 30))


@given(
    times, some.timedeltas(timedelta(minutes=1), timedelta(days=30)), some.sampled_from(SIZES[:4]), some.floats(0, 1)
)
def test_every_item_in_a_span_is_in_a_bucket_that_is_asked_for(start, length, size, part):
    if start.year > 9990:
        return
    bucket = TimeBucket("/at", size)
    inside = start + length * min(part, 0.999)
    texts = [values[0] for values in ask(bucket, Span(start, start + length))]
    assert bucket.value({"at": inside.isoformat()}, OWNER) in texts
    assert texts == sorted(set(texts))
    last = bucket.value({"at": (start + length - timedelta(microseconds=1)).isoformat()}, OWNER)
    assert (texts[0], texts[-1]) == (bucket.value({"at": start.isoformat()}, OWNER), last)


# suffixes


def owners(count: int) -> list[Identity]:
    return [Identity(Key.of(f"s{n % 7}"), str(n)) for n in range(count)]


def test_random_suffixes_are_spread_evenly_and_independently_of_placement_buckets():
    suffix, many = RandomSuffix("/a", count=8), owners(8_000)
    pairs = [(suffix.suffix({}, owner), owner.bucket(16)) for owner in many]
    for drawn in (0, 7):
        assert 850 < sum(pair[0] == drawn for pair in pairs) < 1_150
    assert len(set(pairs)) == 8 * 16


def test_a_random_suffix_stays_what_it_is_and_differs_by_element():
    suffix = RandomSuffix("/a", count=1_000)
    assert suffix.value({"a": "x"}, OWNER) == suffix.value({"a": "x", "b": 1}, OWNER)
    elements = {suffix.value({"a": "x"}, Element(OWNER, str(n))) for n in range(50)}
    assert len(elements) > 40


@pytest.mark.parametrize("base", ["/a", Concat("/a", separator="."), Concat("/a", separator="-")])
def test_suffixes_do_not_run_into_their_base(base):
    suffixes = [RandomSuffix(base, count=12, separator=separator) for separator in "_-."]
    for suffix in suffixes:
        texts = [suffix._text(suffix.base.value({"a": a}, OWNER), n)
                 for a in ("a", "a_1", "a-1", "a.1", "", "~", 1, "1", None) for n in range(12)]  # fmt: skip
        assert len(set(texts)) == len(texts)


def test_a_suffix_uses_the_separator_of_its_own():
    assert RandomSuffix(Concat("/a", "/b", separator="-"), count=1).value({"a": "x", "b": "y"}, OWNER) == "x-y_0"
    assert RandomSuffix("/a", count=1, separator="-").value({"a": "x-y_z"}, OWNER) == "x~sy_z-0"


def test_reading_asks_for_every_random_suffix():
    assert ask(RandomSuffix("/a", count=3), "x") == [("x_0",), ("x_1",), ("x_2",)]
    assert ask(RandomSuffix(Concat("/a", "/b"), count=2), "x", 7) == [("x_~d7_0",), ("x_~d7_1",)]
    days = RandomSuffix(TimeBucket("/at", "day"), count=2)
    assert ask(days, "2026-11-30..2026-12-02") == [
        ("2026-11-30_0",), ("2026-11-30_1",), ("2026-12-01_0",), ("2026-12-01_1",),
    ]  # fmt: skip


def test_reading_asks_for_one_hashed_suffix_where_its_fields_are_known():
    strategy_ = HashSuffix("/a", of=("/order", "/line"), count=16)
    found = ask(strategy_, "x", "o1", 7)
    assert found == [(strategy_.value({"a": "x", "order": "o1", "line": 7.0}, OWNER),)]
    assert found == ask(strategy_, {"/a": "x", "/order": "o1", "/line": 7})
    assert ask(strategy_, "x") == ask(strategy_, {"/a": "x"}) == [(f"x_{n}",) for n in range(16)]
    for wrong in [("x", "o1"), ("x", "o1", 7, 8), ({"/a": "x", "/order": "o1"},), ({"/order": "o1", "/line": 7},)]:
        with pytest.raises(AskError) as caught:
            strategy_.ask(*wrong)
        assert "/order, /line may be added" in str(caught.value.hint)


def test_a_suffix_of_the_bases_own_fields_is_always_known():
    strategy_ = HashSuffix(Concat("/a", "/b"), of="/b", count=16)
    assert strategy_.extra == ()
    assert ask(strategy_, "x", "y") == [(strategy_.value({"a": "x", "b": "y"}, OWNER),)]


def test_of_a_time_bucket_the_time_itself_is_not_known():
    strategy_ = HashSuffix(TimeBucket("/at", "day"), of="/at", count=4)
    assert len(ask(strategy_, "2026-11-30")) == len(ask(strategy_, {"/at": "2026-11-30"})) == 4
    at = "2026-11-30T10:00:00Z"
    assert ask(strategy_, "2026-11-30", at) == [(strategy_.value({"at": at}, OWNER),)]


VALUES = ["dev-1", "dev-2", "", "ключ", "🙂", 7, "7", 7.0, None, True]


def test_case_17_hashed_suffixes_are_the_same_in_every_process():
    program = (
        "from projections.strategies import HashSuffix\n"
        f"print([HashSuffix('/d', of='/d', count=8).hashed([v]) for v in {VALUES!r}])"
    )
    found = {
        subprocess.run([sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
                       capture_output=True, text=True, check=True).stdout.strip()
        for seed in ("0", "1", "random")
    }  # fmt: skip
    assert found == {"[2, 2, 2, 2, 5, 5, 3, 5, 5, 4]"}


# what all of them promise

ITEMS = [
    {"status": status, "total": total, "at": at}
    for status in ("open", "a_b", 7, "7", True)
    for total in (1, "1", 2.5)
    for at in ("2026-11-30T23:30:00-02:00", "2026-10-01")
]


@pytest.mark.parametrize("declared", ALL, ids=repr)
def test_an_item_is_found_by_its_own_values(declared):
    key = strategy(declared)
    for item in ITEMS:
        values = [item[path[1:]] for path in dict.fromkeys(getattr(key, "fields", key.inputs))]
        assert any(asked.values == key_of(declared, item).values[: len(asked.values)] for asked in key.ask(*values))


@pytest.mark.parametrize("declared", ALL, ids=repr)
def test_an_entry_holds_its_key_where_the_store_looks_for_it(declared):
    projection = index(key=declared, include=("note",))
    [entry] = want(projection, item_of(note="n")).entries
    document = entry.content | {"id": entry.place.id}
    assert Hierarchical(tuple(map(Path, projection.key.paths))).of(document) == entry.place.key.values


def item_of(**fields: Any) -> dict[str, Any]:
    return state(at="2026-11-30T23:30:00-02:00", total=5, **fields).item  # type: ignore[return-value]


@pytest.mark.parametrize("declared", ALL, ids=repr)
@pytest.mark.parametrize(("value", "skip"), [(None, "null key"), (UNDEFINED, "missing key")])
def test_missing_and_null_inputs_go_by_the_rules_of_the_projection(declared, value, skip):
    for path in strategy(declared).inputs:
        item = item_of()
        item.pop(path[1:]) if value is UNDEFINED else item.update({path[1:]: value})
        assert want(index(key=declared), item).skip == skip
        with pytest.raises(ItemError, match=path):
            want(index(key=declared, missing="deadletter", null="deadletter"), item)
        [entry] = want(index(key=declared, missing="keep", null="keep"), item).entries
        assert len(entry.place.key.values) == len(strategy(declared).paths)


@pytest.mark.parametrize("declared", ALL[1:-2], ids=repr)
def test_what_is_kept_without_a_value_is_found_without_one(declared):
    key = strategy(declared)
    for value in (None, UNDEFINED):
        item = item_of()
        for path in key.inputs:
            item.pop(path[1:]) if value is UNDEFINED else item.update({path[1:]: value})
        [entry] = want(index(key=declared, missing="keep", null="keep"), item).entries
        assert entry.place.key in key.ask(*[value for _ in key.fields])


@pytest.mark.parametrize("declared", ALL, ids=repr)
@pytest.mark.parametrize("value", [{}, [], {"a": 1}])
def test_an_input_that_is_no_scalar_is_parked(declared, value):
    for path in strategy(declared).inputs:
        with pytest.raises(ItemError, match=path):
            want(index(key=declared), item_of() | {path[1:]: value})


@pytest.mark.parametrize("declared", ALL, ids=repr)
@pytest.mark.parametrize("value", [2**53 + 1, 1e300, float("nan"), float("inf"), 10**400, "x" * 2_049], ids=str)
def test_an_input_that_cannot_be_a_key_is_parked(declared, value):
    for path in strategy(declared).inputs:
        with pytest.raises(ItemError):
            want(index(key=declared), item_of() | {path[1:]: value})


@pytest.mark.parametrize("declared", [one for one in ALL if "/at" not in strategy(one).inputs], ids=repr)
def test_lone_surrogates_do_no_harm(declared):
    for path in strategy(declared).inputs:
        [entry] = want(index(key=declared), item_of() | {path[1:]: "a\ud800"}).entries
        assert entry.place.key in strategy(declared).ask(
            *["a\ud800" if one == path else item_of()[one[1:]] for one in strategy(declared).fields]
        )


def test_the_limit_of_a_key_counts_what_is_computed():
    fits = {"status": "x" * 1_000, "total": "y" * 1_047}
    [entry] = want(index(key=Concat("/status", "/total")), item_of(**{"status": fits["status"]}) | fits).entries
    assert len(entry.place.key.values[0]) == 2_048
    with pytest.raises(ItemError, match="2049 bytes"):
        want(index(key=Concat("/status", "/total")), item_of() | fits | {"total": "y" * 1_048})
    with pytest.raises(AskError, match="2049 bytes"):
        strategy(Concat("/status", "/total")).ask("x" * 1_000, "y" * 1_048)


# levels

THREE = ("/tenant", TimeBucket("/at", "month"), "/id")


def test_the_last_level_can_be_the_entrys_own_id():
    [entry] = want(index(key=THREE), item_of(tenant="acme")).entries
    assert entry.place.key.values == ("acme", "2026-12", entry.place.id)
    assert entry.content["partitionKey"] == "2026-12"
    assert "id" not in entry.content


def test_of_elements_it_is_the_elements_own_id():
    lines = index(key=("/shop", "/id"), each="/lines", by="position")
    entries = want(lines, item_of(lines=[1, 2])).entries
    assert [entry.place.key.values for entry in entries] == [("s1", entry.place.id) for entry in entries]


def test_a_source_keyed_by_its_id_is_read_by_the_items_own_id():
    source = Source(container="orders", key=("/shop", "/id"))
    assert Identity.of({"id": "o1", "shop": "s1"}, source.key) == Identity(Key.of("s1", "o1"), "o1")
    assert Identity.of({"id": "o1"}, Source(container="o", key="/id").key) == Identity(Key.of("o1"), "o1")
    [entry] = wanted(Rules(index(source=source)), state(key="s1"), NOW).entries
    assert entry.place.key == Key.of("open")


def test_prefixes_are_read_from_the_left():
    assert ask(THREE, "acme") == ask(THREE, "acme", ...) == ask(THREE, {"/tenant": "acme"}) == [("acme",)]
    assert ask(THREE, "acme", "2026-11") == ask(THREE, {"/at": "2026-11", "/tenant": "acme"}) == [("acme", "2026-11")]
    assert ask(THREE, "acme", "2026-11", "e1") == [("acme", "2026-11", "e1")]
    assert ask(THREE, "acme", Span("2026-11", "2027-01")) == [("acme", "2026-11"), ("acme", "2026-12")]


@pytest.mark.parametrize(
    "values",
    [
        ("acme", ..., "e1"),
        (..., "2026-11"),
        ({"/at": "2026-11"},),
        ({"/id": "e1", "/tenant": "acme"},),
        (..., ..., "e1"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_level_left_open_before_another_is_refused_with_what_it_would_cost(values):
    with pytest.raises(SkippedError) as caught:
        strategy(THREE).ask(*values)
    assert "every physical partition" in caught.value.message
    assert "RU" in caught.value.message
    assert "declare another projection" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        (THREE, ()), (THREE, (...,)), (THREE, ({},)), (THREE, ("a", "2026-11", "e", "x")), (THREE, ({"/nowhere": 1},)),
        ("/a", ("x", "y")), ("/a", ()), (Concat("/a", "/b"), ("x",)), (Concat("/a", "/b"), ("x", "y", "z")),
        (Concat("/a", "/b"), ("x", ...)), (Concat("/a", "/b"), (("x",),)), (Concat("/a", "/b"), ({"/a": 1},)),
        ("/a", ({"x": 1},)),
    ],
    ids=repr,
)  # fmt: skip
def test_the_wrong_values_are_refused_with_what_to_give(declared, values):
    with pytest.raises(AskError) as caught:
        strategy(declared).ask(*values)
    assert "give the values of" in str(caught.value.hint)
    assert "entries(" in str(caught.value.hint)


@pytest.mark.parametrize("value", [object(), 2**53 + 1, float("nan"), b"x", {1}])
def test_a_value_that_no_key_has_is_refused(value):
    for declared in ("/a", Concat("/a"), RandomSuffix("/a", count=2), ("/a", "/b")):
        with pytest.raises(AskError, match="/a"):
            strategy(declared).ask(value)


def test_levels_of_several_fields_take_them_in_order_or_as_a_tuple():
    declared = (Concat("/a", "/b"), HashSuffix("/c", of="/d", count=9, path="/pk2"))
    assert ask(declared, "x", "y") == ask(declared, ("x", "y")) == [("x_y",)]
    assert len(ask(declared, "x", "y", "c")) == 9
    assert ask(declared, "x", "y", "c", "d") == ask(declared, ("x", "y"), ("c", "d"))
    assert ask(declared, {"/a": "x", "/b": "y", "/c": "c", "/d": "d"}) == ask(declared, "x", "y", "c", "d")


def test_more_keys_than_the_limit_are_refused():
    declared = RandomSuffix(TimeBucket("/at", "day"), count=100)
    assert len(ask(declared, "2026-11-01..2026-11-11")) == MOST_KEYS
    with pytest.raises(AskError, match="1,100 keys"):
        strategy(declared).ask("2026-11-01..2026-11-12")


# declarations


def test_a_computed_key_is_declared_like_any_other():
    for declared in ALL:
        assert index(key=declared).key == strategy(declared)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"source": Source(container="o", key="/partitionKey")}, "/partitionKey"),
        ({"include": ("partitionKey",)}, "/partitionKey"),
        ({"each": "/partitionKey"}, "/partitionKey"),
        ({"key": Concat("/_lsn")}, "_lsn"),
        ({"key": (Concat("/a"), "/id", "/b")}, "let it be the last level"),
        ({"key": "/id"}, "let it be the last level"),
    ],
)
def test_what_could_not_be_stored_is_refused(fields, words):
    with pytest.raises(CatalogError, match=words):
        index(**{"key": Concat("/a", "/b"), **fields})


def test_a_field_that_is_excluded_leaves_its_place_to_the_key():
    source = Source(container="o", key="/partitionKey")
    projection = index(source=source, key=Concat("/status", "/total"), exclude=("/partitionKey",))
    [entry] = want(projection, item_of(partitionKey="theirs")).entries
    assert entry.content["partitionKey"] == "open_~d5"


def test_an_item_with_a_property_where_the_key_is_kept_is_parked():
    with pytest.raises(ItemError, match="a property partitionKey, under which the key is kept") as caught:
        want(index(key=Concat("/status", "/total")), item_of(partitionKey="theirs"))
    assert "path=" in str(caught.value.hint)
    [entry] = want(index(key=Concat("/status", "/total")), item_of(partitionKey="open_~d5")).entries
    assert entry.content["partitionKey"] == "open_~d5"


def test_sources_are_keyed_by_paths_alone():
    for key in (Concat("/a"), ("/a", TimeBucket("/at", "day")), RandomSuffix("/a", count=2)):
        with pytest.raises(CatalogError, match="computes a key"):
            Source(container="orders", key=key)


def test_strategies_are_values():
    for one, other in itertools.combinations([strategy(declared) for declared in ALL], 2):
        assert one != other
    assert len({strategy(declared) for declared in ALL}) == len(ALL)
    assert Index(name="a", source=Source(container="o", key="/k"), key=ALL[1]).key == Concat("/status", "/total")
