"""Stored shapes, pinned: what an earlier release wrote must stay readable, and other languages may read it too.

A test that fails here says that a stored shape has changed: that needs a new version of it, not a new file.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from projections.alarm import Raised
from projections.deadletters import DeadLetter, DeadLetters, Failure
from projections.entries import Entry, Rules, State, canonical, content_hash, document, wanted
from projections.errors import ItemError
from projections.identity import Identity, Place
from projections.keys import UNDEFINED, Key
from projections.memory import MemoryStore
from projections.outcomes import Outcome, Result, Tally
from projections.plan import Placement, placement_document, placement_from
from projections.store import Container
from projections.version import Version
from tests.support import NOW, index

HERE = Path(__file__).parent
IDENTITY = Identity(Key.of("s1", 7, UNDEFINED, None), "o/1 é")
VERSION = Version('"0100-e7"', NOW - 100, 42)
HERE_NOW, LEFT = Place("o_1__~abc", Key.of("open")), Place("o_1__~abc", Key.of(None, UNDEFINED))


def golden(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def text(value: Any) -> str:
    """JSON in which 1, 1.0 and true differ, as do orders of names."""
    return json.dumps(value, ensure_ascii=False, indent=1)


# entries


def order() -> State:
    item = {
        "id": "o/1 é", "shop": "s1", "status": "open", "total": 12.5, "count": 3, "paid": False, "note": None,
        "lines": [{"sku": "漢", "n": 1}], "ttl": 500, "_etag": VERSION.etag, "_ts": VERSION.ts, "_lsn": VERSION.lsn,
    }  # fmt: skip
    return State(IDENTITY, VERSION, item)


def made() -> Entry:
    return wanted(Rules(index(), source_ttl=-1), order(), NOW).entries[0]


def test_an_entry():
    assert text(document(made(), order(), "_source", NOW)) == text(golden("entry"))


# placement records

PLACEMENTS = {
    "placement": Placement(IDENTITY, VERSION, (HERE_NOW,)),
    "placement-former": Placement(IDENTITY, Version('"e"', NOW), (HERE_NOW,), former=((LEFT, NOW - 60),)),
    "placement-leaving": Placement(IDENTITY, VERSION, (HERE_NOW, LEFT), leaving=(LEFT,)),
    "placement-parked": Placement(IDENTITY, VERSION, parked=True),
    "placement-tombstone": Placement(IDENTITY, VERSION.gone(), former=((HERE_NOW, NOW), (LEFT, NOW - 60))),
}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_a_placement_record(name):
    stored = placement_document(PLACEMENTS[name], "by-status@1|3", "o_1__~abc", 604_800)
    assert text(stored) == text(golden(name))


@pytest.mark.parametrize("name", PLACEMENTS)
def test_a_stored_placement_record_is_read(name):
    assert placement_from(golden(name) | {"_etag": "e"}) == replace(PLACEMENTS[name], etag="e")


# dead letters


FITS_NOT = ItemError("does not fit Order (/total: int_type)", path="/total", hint="mend the item")
LETTERS = {  # the letter's file -> whether the projection keeps payloads, and what more is in the item
    "dead-letter": (False, {}),
    "dead-letter-payload": (True, {}),
    "dead-letter-too-large": (True, {"note": "x" * 1_900_000}),
}


def bad(name: str) -> State:
    state = order()
    return replace(state, item={**(state.item or {}), **LETTERS[name][1]})


@pytest.mark.parametrize("name", LETTERS)
async def test_a_dead_letter(name):
    store, container = MemoryStore(clock=lambda: NOW), Container("db", "letters")
    await store.create_container(DeadLetters.description(container))
    times = iter([NOW - 60, NOW])
    letters = DeadLetters(store, container, "by-status@1", clock=lambda: next(times), payload=LETTERS[name][0])
    for _ in range(2):
        await letters.park([Failure(bad(name), FITS_NOT)])
    (page,) = [page async for page in store.query(container, "SELECT * FROM c", {})]
    (stored,) = page
    assert text({name: value for name, value in stored.items() if not name.startswith("_")}) == text(golden(name))


@pytest.mark.parametrize("name", LETTERS)
def test_a_stored_dead_letter_is_read(name):
    assert DeadLetter.from_stored(golden(name)) == DeadLetter(
        "by-status@1", IDENTITY, "ItemError", "does not fit Order (/total: int_type)", "mend the item",
        VERSION.to_stored(), 2, NOW - 60, NOW, "/total", bad(name).item if name == "dead-letter-payload" else None,
        1_900_211 if name == "dead-letter-too-large" else None,
    )  # fmt: skip


def test_a_dead_letter_of_the_first_release_is_read():
    stored = {name: value for name, value in golden("dead-letter").items() if name != "path"}
    assert DeadLetter.from_stored(stored).path is None


# the alarm


def test_an_alarm():
    raised = Raised("ItemError", 1000, {"TooLargeError": 3, "ItemError": 500}, NOW)
    assert text(raised.to_stored("by-status@1")) == text(golden("alarm"))
    assert Raised.from_stored(golden("alarm")) == raised


# tallies


def test_a_tally():
    tally = Tally()
    results = [(Outcome.WRITTEN, None), (Outcome.SKIPPED, "where"), (Outcome.WRITTEN, None), (Outcome.REMOVED, "gone")]
    tally.add([Result(IDENTITY, outcome, reason, ("a note",)) for outcome, reason in results])
    assert text(tally.to_stored()) == text(golden("tally"))
    assert Tally.from_stored(golden("tally")) == tally


# what is worked out from identities and contents

IDENTITIES = golden("identities")
CONTENTS = golden("contents")


def read(row: dict[str, Any]) -> Identity:
    return Identity.from_stored(row)


@pytest.mark.parametrize("row", IDENTITIES, ids=lambda row: ascii((row["id"][:20], row["key"]))[:60])
def test_digest_entry_id_and_bucket(row):
    identity = read(row)
    found = {"digest": identity.digest.hex(), "entry": identity.entry_id, "of 16": identity.bucket(16)}
    assert found | {"of 1000": identity.bucket(1000)} == {name: row[name] for name in (*found, "of 1000")}


@pytest.mark.parametrize("row", CONTENTS, ids=lambda row: row["hash"][:8])
def test_content_hash(row):
    assert content_hash(canonical(row["content"], row["expires"])) == row["hash"]
