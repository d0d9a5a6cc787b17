"""Stored shapes of positions, pinned; and that no stored shape is without such a test."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from projections.feed import Checkpoint, Checkpoints, Span, Versions
from projections.identity import Place
from projections.keys import Key
from projections.memory import MemoryStore
from projections.outcomes import Tally
from projections.provision import STATE_KEY_PATH
from projections.store import Container, Create, Description, FeedRange
from projections.triggers import lease_prefix
from tests.support import index

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "projections"
STATE = Container("d", "state")
LOW, HIGH = FeedRange("", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"), FeedRange("1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "FF")

# The tests that pin what a module stores. Whoever marks another place as stored adds a test, and then the module here.
PINNED = {
    "alarm": "test_golden.py", "aliases": "test_golden_versions.py", "definitions": "test_golden_versions.py",
    "describing": "test_golden_versions.py", "revision": "test_golden_versions.py",
    "buckets": "test_golden_keys.py", "deadletters": "test_golden.py",
    "deferred": "test_deferred.py", "embed": "test_golden_embed.py", "fanout": "test_golden_embed.py",
    "entries": "test_golden.py", "feed": "test_golden_feed.py", "identity": "test_golden.py",
    "differences": "test_golden_verify.py", "sides": "test_golden_verify.py", "sums": "test_golden_verify.py",
    "books": "test_books.py", "verification": "test_golden_verify.py", "verify": "test_golden_verify.py",
    "measures": "test_golden_totals.py", "outcomes": "test_golden.py", "plan": "test_golden.py",
    "replay": "test_golden_replay.py", "resumption": "test_golden_replay.py",
    "rows": "test_golden_elements.py", "strategies": "test_golden_keys.py", "texts": "test_golden_keys.py",
    "totals": "test_golden_totals.py", "version": "test_golden.py",
}  # fmt: skip


def golden(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def plain(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if not name.startswith("_")}


async def stored() -> tuple[dict[str, Any], dict[str, Any]]:
    """The record of ranges and a checkpoint, as they come to rest."""
    store = MemoryStore()
    await store.create_container(Description(STATE, (STATE_KEY_PATH,)))
    checkpoints = Checkpoints(store, STATE, "by-status@1")
    tally = Tally(Counter(written=3, skipped=1), Counter({"skipped: missing key": 1}))
    await checkpoints.begin([Checkpoint(LOW), Checkpoint(HIGH)])
    await checkpoints.save(Checkpoint(LOW, "b3BhcXVl", tally, 1_700_000_000))
    places = [Place(id_, Key.of("by-status@1")) for id_ in ("ranges", f"range {LOW}")]
    found = await store.read(STATE, places)
    return plain(found[places[0]]), plain(found[places[1]])


async def test_the_record_of_feed_ranges() -> None:
    assert (await stored())[0] == golden("ranges")


async def test_a_checkpoint() -> None:
    assert json.dumps((await stored())[1], indent=1) == json.dumps(golden("checkpoint"), indent=1)


async def test_stored_checkpoints_are_read() -> None:
    store = MemoryStore()
    await store.create_container(Description(STATE, (STATE_KEY_PATH,)))
    await store.write(STATE, Key.of("by-status@1"), [Create(golden("ranges")), Create(golden("checkpoint"))])
    low, high = await Checkpoints(store, STATE, "by-status@1").load([])
    assert (low.feed_range, low.position, low.caught_up) == (LOW, "b3BhcXVl", 1_700_000_000)
    assert low.tally.outcomes == {"written": 3, "skipped": 1}
    assert (high.feed_range, high.position) == (HIGH, None)


VERSIONS = {
    "checkpoint-loading": ("bGF0ZXN0", Versions("dmVyc2lvbnM=", 1_700_000_000)),
    "checkpoint-versions": (
        "dmVyc2lvbnM=", Versions(None, 1_700_000_600, (Span(1_690_000_000, 1_700_000_000),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(VERSIONS))
async def test_a_checkpoint_of_a_source_in_all_versions_mode(name: str) -> None:
    store = MemoryStore()
    await store.create_container(Description(STATE, (STATE_KEY_PATH,)))
    position, versions = VERSIONS[name]
    saved = Checkpoint(LOW, position, Tally(Counter(written=3)), 1_700_000_000, versions=versions)
    checkpoints = Checkpoints(store, STATE, "by-status@1")
    await checkpoints.begin([saved, Checkpoint(HIGH)])
    await checkpoints.save(saved)
    place = Place(f"range {LOW}", Key.of("by-status@1"))
    document = plain((await store.read(STATE, [place]))[place])
    assert json.dumps(document, indent=1) == json.dumps(golden(name), indent=1)
    read, _ = await checkpoints.load([])
    assert (read.position, read.versions, read.loading) == (position, versions, versions.then is not None)


def test_lease_prefixes_stay_as_they_are() -> None:
    """Another prefix would start the feed anew."""
    assert lease_prefix(index(name="by-status"), all_versions=True) == "by-status-1-versions-"
    assert lease_prefix(index(name="by-status")) == "by-status-1-"
    assert lease_prefix(index(name="by-status", version=2)) == "by-status-2-"


def test_every_module_that_stores_something_has_its_shapes_pinned() -> None:
    modules = [path for path in PACKAGE.glob("*.py") if "# stored; change with a version" in path.read_text("utf-8")]
    assert sorted(path.stem for path in modules) == sorted(PINNED)
    for test in set(PINNED.values()):
        assert list((HERE.parent).rglob(test)), test
