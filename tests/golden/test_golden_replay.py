"""What a replay stores beside its positions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from projections.keys import Key
from projections.memory import MemoryStore
from projections.replay import Selection
from projections.resumption import Resumption
from projections.store import Container, Description, FeedRange

STATE = Container("db", "state")
STORED = Path(__file__).parent / "replay.json"
SELECTION = Selection(keys=(Key.of("de", 7),), where=(("/state", "open"), ("/n", 1.5)), parked=False)
RANGES = [FeedRange("", "7F"), FeedRange("7F", "FF")]


async def stored() -> list[dict[str, Any]]:
    store = MemoryStore()
    await store.create_container(Description(STATE, ("/pk",)))
    await Resumption(store, STATE, "orders@1").begin(
        1_700_000_000, SELECTION.to_stored(), RANGES, 1_700_000_100.5, restart=False
    )
    pages = store.query(STATE, "SELECT * FROM c", {}, Key.of("orders@1 replay"))
    found = [doc for page in [page async for page in pages] for doc in page]
    return [{name: value for name, value in doc.items() if not name.startswith("_")} for doc in found]


async def test_what_a_replay_stores() -> None:
    found = sorted(await stored(), key=lambda doc: str(doc["id"]))
    assert json.dumps(found, indent=1) == STORED.read_text(encoding="utf-8").rstrip("\n")


async def test_what_is_stored_is_read() -> None:
    store = MemoryStore()
    await store.create_container(Description(STATE, ("/pk",)))
    resumption = Resumption(store, STATE, "orders@1")
    await resumption.begin(1_700_000_000, SELECTION.to_stored(), RANGES, 1_700_000_100, restart=False)
    again = Resumption(store, STATE, "orders@1")
    found = await again.begin(1_700_000_000, SELECTION.to_stored(), [], 1_700_000_200, restart=False)
    assert again.resumed
    assert [(c.feed_range, c.position) for c in found] == [(one, "@1700000000") for one in RANGES]
