"""From an item to the entry it should own: what is copied, what is left out and why, what is parked."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from projections.declare import SoftDelete
from projections.entries import (
    MARK_BYTES,
    MAX_DOCUMENT_BYTES,
    Entry,
    Rules,
    State,
    canonical,
    content_hash,
    document,
    wanted,
)
from projections.errors import ItemError, TooLargeError
from projections.identity import Identity
from projections.keys import UNDEFINED, Key
from projections.version import Version
from projections.where import field
from tests.support import NOW, gone, index, item, state, want


def entry(projection: Any, doc: dict[str, Any], **rules: Any) -> Entry:
    """The one entry of an order."""
    found = want(projection, doc, **rules)
    assert found.skip is None
    (only,) = found.entries
    return only


def copied(doc: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """What a projection with these fields copies of an order, besides the status that is its key."""
    content = dict(entry(index(**fields), doc).content)
    assert content.pop("status") == doc["status"]
    return content


def parked(projection: Any, doc: dict[str, Any]) -> ItemError:
    """The order cannot be projected, and the error says what to do."""
    with pytest.raises(ItemError) as caught:
        want(projection, doc)
    assert caught.value.hint
    return caught.value


# what is copied


def test_all_fields_are_copied_but_the_id_and_what_the_store_writes():
    assert copied(item(total=5, lines=[1], note=None)) == {"shop": "s1", "total": 5, "lines": [1], "note": None}


def test_included_fields_are_copied_and_the_key_with_them():
    doc = item(total=5, note="x")
    assert copied(doc, include=["total"]) == {"total": 5}
    assert copied(doc, include=["total", "absent"]) == {"total": 5}
    assert copied(doc, include=[]) == {}


def test_included_fields_may_lie_deep():
    doc = item(a={"b": {"c": 1, "d": 2}, "e": 3}, l=[{"b": 1}], n=None)
    assert copied(doc, include=["/a/b/c"]) == {"a": {"b": {"c": 1}}}
    assert copied(doc, include=["/a/b/c", "/a/e"]) == {"a": {"b": {"c": 1}, "e": 3}}
    assert copied(doc, include=["/a", "/a/b/c"]) == {"a": doc["a"]}
    assert copied(doc, include=["/a/b/c", "/a"]) == {"a": doc["a"]}
    assert copied(doc, include=["/l/b", "/n/b", "/a/b/x"]) == {}


def test_a_deep_key_is_copied_beside_an_included_sibling():
    doc = item(a={"k": "x", "v": 1, "w": 2})
    assert entry(index(key="/a/k", include=["/a/v"]), doc).content == {"a": {"k": "x", "v": 1}}


def test_excluded_fields_are_left_out():
    doc = item(a={"b": {"c": 1, "d": 2}}, total=5)
    assert copied(doc, exclude=["total", "shop"]) == {"a": doc["a"]}
    assert copied(doc, exclude=["/a/b/c", "shop", "total"]) == {"a": {"b": {"d": 2}}}
    assert copied(doc, exclude=["/a/b/c", "/a/b/d", "shop", "total"]) == {"a": {"b": {}}}
    assert copied(doc, exclude=["/a/x/y", "/x", "/total/x"]) == {"shop": "s1", "a": doc["a"], "total": 5}


@pytest.mark.parametrize("name", ["_rid", "_self", "_etag", "_ts", "_attachments", "_lsn"])
def test_what_the_store_writes_is_never_copied(name):
    doc = item(**{name: NOW - 5 if name == "_ts" else "mine"}, inner={name: "kept"})
    assert copied(doc) == {"shop": "s1", "inner": {name: "kept"}}
    assert copied(doc, include=[name, f"/{name}/x"]) == {}


def test_case_20_text_that_looks_like_something_else_stays_text():
    fields = {
        "a": "2023-07-04T12:00:00+00:00", "b": "2021-08-23T06:23:40+02:00", "c": "2014-09-15T23:14:25.7251173Z",
        "d": "0001-01-01T00:00:00Z", "e": "2020-01-03", "f": "1e5", "g": "NaN", "h": "true", "i": "007", "j": "null",
        "k2": " x ", "l": "a\r\nb", "m": "e\u0301",
    }  # fmt: skip
    assert copied(item(**fields)) == {"shop": "s1", **fields}


def test_case_21_fields_named_like_the_workers_own_arrive_unchanged():
    fields = {
        "Id": "EntityKey-1", "Timestamp": "mine", "_ttl": 9, "_deleted": "no", "metadata": {"operationType": "delete"},
        "current": {}, "source": "s", "version": "v", "hash": "h", "key": 1, "etag": "e",
    }  # fmt: skip
    doc = item(**fields, _lsn=5, ttl="30 days", _etag="mine")
    assert copied(doc) == {"shop": "s1", **fields}
    stored = document(entry(index(), doc), state(doc), "_source", NOW)
    assert {name: stored[name] for name in fields} == fields
    assert "ttl" not in stored


def test_case_15_numbers_stay_as_they_are():
    fields = {"big": 3804086584686624768, "price": 0.1, "n": 100, "x": 1.0}
    content = copied(item(**fields))
    assert {name: (type(content[name]), content[name]) for name in fields} == {
        name: (type(value), value) for name, value in fields.items()
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
DEEP = ["/a", "/a/b", "/a/b/c", "/b/a", "/c"]


@given(st.dictionaries(st.sampled_from("abc"), JSON), st.lists(st.sampled_from(DEEP)), st.booleans())
def test_an_item_is_never_changed(fields, paths, include):
    doc = item(**fields, ttl=6000)
    before = deepcopy(doc)
    projection = index(**{"include" if include else "exclude": paths})
    made = entry(projection, doc, source_ttl=-1)
    document(made, state(doc), "_source", NOW)
    assert doc == before


# the key


def test_the_entry_is_placed_under_its_key():
    assert entry(index(), item(status=7)).place.key == Key.of(7)
    assert entry(index(key=("/shop", "/status")), item()).place.key == Key.of("s1", "open")


def test_case_6_entries_of_one_id_from_two_partitions_are_two():
    ana, bo = item(id="chat1", shop="ana"), item(id="chat1", shop="bo")
    assert entry(index(), ana).place != entry(index(), bo).place
    assert entry(index(), ana).place.key == entry(index(), bo).place.key


CASE_14 = [("n", None), ("m", UNDEFINED), ("e", ""), ("o", {}), ("a", []), ("w", "  "), ("b", False), ("z", 0)]


def with_region(id_: str, value: Any) -> dict[str, Any]:
    return item(id=id_, **({} if value is UNDEFINED else {"region": value}))


def test_case_14_null_missing_and_empty_keys_follow_their_rules():
    projection = index(key="/region", missing="skip", null="keep", other="deadletter")
    found: dict[str, Any] = {}
    for id_, value in CASE_14:
        try:
            made = want(projection, with_region(id_, value))
            found[id_] = made.skip or made.entries[0].place.key
        except ItemError:
            found[id_] = "parked"
    assert found == {
        "n": Key.of(None), "m": "missing key", "e": Key.of(""), "o": "parked", "a": "parked", "w": Key.of("  "),
        "b": Key.of(False), "z": Key.of(0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "rule", "skip"),
    [(UNDEFINED, "missing", "missing key"), (None, "null", "null key"), ({}, "other", "key is no scalar")],
)
def test_each_rule_can_skip_and_park(value, rule, skip):
    doc = with_region("1", value)
    assert want(index(key="/region", **{rule: "skip"}), doc).skip == skip
    assert "/region" in parked(index(key="/region", **{rule: "deadletter"}), doc).message


@pytest.mark.parametrize(("value", "rule"), [(UNDEFINED, "missing"), (None, "null")])
def test_missing_and_null_can_be_kept_as_keys(value, rule):
    made = entry(index(key="/region", include=[], **{rule: "keep"}), with_region("1", value))
    assert made.place.key == Key.of(value)
    assert made.content == ({} if value is UNDEFINED else {"region": None})


def test_case_19_the_rules_go_by_level():
    projection = index(key=("/shop", "/user", "/session"), missing="keep", null="skip")
    assert entry(projection, item(session="x")).place.key == Key.of("s1", UNDEFINED, "x")
    assert want(projection, item(session=None)).skip == "null key"


@pytest.mark.parametrize("value", [2**53 + 1, "x" * 2049])
def test_a_key_that_the_store_would_mistake_or_refuse_parks_the_item(value):
    parked(index(), item(status=value))


# what is left out


def test_where_leaves_items_out():
    projection = index(where=field("/total") >= 10)
    assert want(projection, item(total=9)).skip == "where"
    assert entry(projection, item(total=10))


def test_where_may_answer_anything_that_is_true_or_not():
    assert want(index(where=lambda order: order.get("lines")), item(lines=[])).skip == "where"
    assert entry(index(where=lambda order: order.get("lines")), item(lines=[1]))


def test_a_where_that_raises_parks_the_item():
    error = parked(index(where=lambda order: order["total"] > 5), item())
    assert "where raised KeyError" in error.message


def test_an_item_that_is_gone_owns_nothing():
    found = wanted(Rules(index()), gone(), NOW)
    assert (found.entries, found.skip, found.notes) == ((), "gone", ())


CASE_10 = [
    ("1", True), ("2", "true"), ("3", "True"), ("4", 1), ("5", "1"), ("6", False), ("7", "false"), ("8", 0),
    ("9", None), ("10", UNDEFINED), ("11", "2026-01-05T00:00:00Z"),
]  # fmt: skip


def soft_deleted(equals: list[Any]) -> tuple[set[str], set[str]]:
    """Which of the case's items count as deleted, and which have an unexpected marker."""
    projection = index(deletes=SoftDelete("/deleted", equals=equals))
    deleted, noted = set(), set()
    for id_, value in CASE_10:
        found = want(projection, item(id=id_, **({} if value is UNDEFINED else {"deleted": value})))
        assert bool(found.entries) is (found.skip is None)
        assert found.skip in (None, "deleted")
        deleted |= {id_} if found.skip else set()
        noted |= {id_} if found.notes else set()
    return deleted, noted


def test_case_10_only_the_declared_marker_deletes_and_odd_ones_are_noted():
    deleted, noted = soft_deleted([True])
    assert deleted == {"1"}
    assert noted == {"2", "3", "4", "5", "7", "8", "11"}


def test_case_10_several_markers_each_by_type():
    deleted, noted = soft_deleted([True, "true", 1])
    assert deleted == {"1", "2", "4"}
    assert noted == set()


def test_case_10_null_can_be_a_marker_and_is_not_missing():
    assert soft_deleted([None])[0] == {"9"}


def test_case_10_an_undeleted_item_is_back():
    projection = index(deletes=SoftDelete("/deleted"))
    assert want(projection, item(deleted=True)).skip == "deleted"
    assert entry(projection, item(deleted=False))


def test_a_deleted_item_need_not_fit_anything_else():
    projection = index(deletes=SoftDelete("/deleted"), where=lambda order: order["total"] > 5, model=Order)
    assert want(projection, item(deleted=True, status={})).skip == "deleted"


# expiry


def expiry(doc: dict[str, Any], source_ttl: int | None, **fields: Any) -> int | None:
    return entry(index(**fields), doc, source_ttl=source_ttl).expires


@pytest.mark.parametrize(
    ("source_ttl", "ttl", "seconds"),
    [
        (-1, UNDEFINED, None),
        (-1, 160, 160),
        (-1, -1, None),
        (3600, UNDEFINED, 3600),
        (3600, 160, 160),
        (3600, -1, None),
        (None, 160, None),
        (None, UNDEFINED, None),
    ],
)
def test_an_entry_expires_when_its_item_does(source_ttl, ttl, seconds):
    doc = item(_ts=NOW, **({} if ttl is UNDEFINED else {"ttl": ttl}))
    assert expiry(doc, source_ttl) == (None if seconds is None else NOW + seconds)


@pytest.mark.parametrize("ttl", ["30 days", "60", True, None, 0, -5, {}, []], ids=repr)
def test_case_21_a_ttl_that_is_none_is_left_alone(ttl):
    assert expiry(item(ttl=ttl), -1) is None


def test_expiry_can_be_ignored():
    doc = item(ttl=60)  # expired for 40 s
    assert expiry(doc, -1, ttl="ignore") is None


def test_case_12_an_expired_item_owns_nothing():
    doc = item(_ts=1000, ttl=60)
    assert want(index(), doc, now=1059, source_ttl=-1).entries
    assert want(index(), doc, now=1060, source_ttl=-1).skip == "expired"
    assert want(index(), doc, now=1061, source_ttl=None).entries


def stored_ttl(expires_in: int, late: float) -> int:
    doc = item(_ts=NOW, ttl=expires_in)
    return document(entry(index(), doc, source_ttl=-1, now=NOW), state(doc), "_source", NOW + late)["ttl"]


def test_the_stored_ttl_is_the_time_that_remains():
    assert stored_ttl(160, late=0) == 160
    assert stored_ttl(160, late=100.9) == 60
    assert stored_ttl(160, late=500) == 1


def test_a_new_expiry_is_new_content():
    assert (
        entry(index(), item(ttl=600), source_ttl=-1).hash
        != entry(index(), item(ttl=600, _ts=NOW), source_ttl=-1).hash
        != entry(index(), item(), source_ttl=-1).hash
    )


def test_without_expiry_a_touched_item_has_the_same_content():
    assert entry(index(), item(_ts=NOW, _etag="e2")).hash == entry(index(), item()).hash


# items that cannot be projected


class Line(BaseModel):
    price: float


class Order(BaseModel):
    id: str
    lines: list[Line] = []


def test_case_24_an_item_of_another_shape_is_parked_with_the_failing_path():
    projection = index(model=Order)
    shapes = {"1": [{"price": 2}], "2": [{"price": {"amount": "12,50"}}], "4": {"price": 3}, "5": [{"price": 4}]}
    assert entry(projection, item(id="1", lines=shapes["1"]))
    assert entry(projection, item(id="5", lines=shapes["5"]))
    assert entry(projection, item(id="3"))
    assert "/lines/0/price" in parked(projection, item(id="2", lines=shapes["2"])).message
    assert "/lines: list_type" in parked(projection, item(id="4", lines=shapes["4"])).message


def test_a_reason_never_shows_the_values_of_an_item():
    error = parked(index(model=Order), item(lines=[{"price": "secret"}]))
    assert "secret" not in str(error)
    assert "secret" not in str(error.hint)


def test_a_reason_stays_short_however_much_is_wrong():
    assert len(parked(index(model=Order), item(lines=[{}] * 500)).message) < 500


def test_a_model_that_raises_parks_the_item():
    class Broken(BaseModel):
        id: str

        @field_validator("id")
        @classmethod
        def check(cls, value: str) -> str:
            raise KeyError(value)

    assert "Broken raised KeyError" in parked(index(model=Broken), item()).message


def test_a_model_checks_and_does_not_rewrite():
    class Loose(BaseModel):
        total: int

    assert copied(item(total="5"), model=Loose) == {"shop": "s1", "total": "5"}


def test_case_21_an_item_with_the_reserved_property_is_parked_not_overwritten():
    error = parked(index(), item(_source={"mine": 1}))
    assert "_source" in error.message
    assert want(index(), item(_source=1), reserved="_from").entries


# the document


def test_the_document_is_marked_with_what_it_was_made_from():
    doc = item(total=5, _etag='"e7"', _ts=NOW - 3)
    made = entry(index(), doc)
    current = State(Identity(Key.of("s1"), "o1"), Version.of({**doc, "_lsn": 9}, from_feed=True), doc)
    stored = document(made, current, "_from", NOW)
    assert stored.pop("_from") == {
        "id": "o1", "key": ["s1"], "etag": '"e7"', "ts": NOW - 3, "lsn": 9, "hash": made.hash,
    }  # fmt: skip
    assert stored == {"id": made.place.id, "shop": "s1", "status": "open", "total": 5}


def with_content_of(size: int, letter: str = "x") -> dict[str, Any]:
    """An order whose copied fields take so many bytes as JSON, or a letter less."""
    bare = len(json.dumps(entry(index(), item(body="")).content, separators=(",", ":")))
    return item(body=letter * ((size - bare) // len(letter.encode())))


@pytest.mark.parametrize("letter", ["x", "漢"])
def test_case_23_an_entry_of_just_the_limit_is_made_and_is_really_within_it(letter):
    longest = Identity(Key.of("k" * 2_048), "i" * 255)
    doc = with_content_of(MAX_DOCUMENT_BYTES - MARK_BYTES, letter)
    made = entry(index(), doc)
    current = State(longest, Version('"' + "e" * 60 + '"', NOW, 2**53, deleted=False), doc)
    stored = document(replace(made, expires=2**31), current, "_" + "r" * 60, NOW - 2**31)
    assert len(json.dumps(stored, ensure_ascii=False, separators=(",", ":")).encode()) <= MAX_DOCUMENT_BYTES


@pytest.mark.parametrize("letter", ["x", "漢", '"'])
def test_case_23_an_item_that_grows_past_the_limit_is_too_large(letter):
    error = parked(index(), with_content_of(MAX_DOCUMENT_BYTES - MARK_BYTES + len(letter.encode()), letter))
    assert isinstance(error, TooLargeError)
    assert str(MAX_DOCUMENT_BYTES) in error.message
    assert "exclude" in str(error.hint)


def test_case_23_leaving_fields_out_makes_a_large_item_fit():
    assert entry(index(exclude=["body"]), with_content_of(MAX_DOCUMENT_BYTES))


def test_a_lone_surrogate_is_content_like_any_other():
    doc = item(note="\ud800")
    assert document(entry(index(), doc), state(doc), "_source", NOW)["note"] == "\ud800"


# the hash


def hashed(content: dict[str, Any], expires: int | None = None) -> str:
    return content_hash(canonical(content, expires))


def shuffled(value: Any) -> Any:
    """The same value with the names of every object in reverse order."""
    if isinstance(value, dict):
        return {name: shuffled(value[name]) for name in reversed(value)}
    return [shuffled(inner) for inner in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(max_size=3), JSON), st.none() | st.integers(0, 2**31))
def test_the_order_of_names_does_not_matter_to_the_hash(content, expires):
    assert hashed(content, expires) == hashed(shuffled(content), expires)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": "1"}), ({"a": 1}, {"a": True}), ({"a": None}, {}), ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": {}}, {"a": []}), ({"a": ""}, {"a": " "}), ({"a": "e\u0301"}, {"a": "\u00e9"}),
        ({"a": 0.1}, {"a": 0.10001}),
    ],
    ids=repr,
)  # fmt: skip
def test_other_content_has_another_hash(one, other):
    assert hashed(one) != hashed(other)


def test_expiry_is_part_of_the_hash():
    assert len({hashed({}, None), hashed({}, 0), hashed({}, 60)}) == 3
