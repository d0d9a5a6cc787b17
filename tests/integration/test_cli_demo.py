"""The demo, told in full by the command, and in small by the function."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from projections.demo import demo
from projections.demo.arrivals import Change, changes, summary
from projections.demo.rebuild import compare
from projections.example import catalog
from projections.example.data import orders
from projections.keys import Key
from projections.provision import Layout
from projections.store import Store, Upsert
from tests.converged import assert_converged
from tests.processes import start

LAYOUT = Layout(catalog, "shop")


class Notes:
    """A narrator who keeps what is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.tables: dict[str, list[list[Any]]] = {}

    def say(self, text: str) -> None:
        self.said.append(text)

    def progress(self, label: str, done: int, total: int) -> None:
        assert 0 <= done <= total

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self.tables[title] = [list(row) for row in rows]
        assert all(len(row) == len(columns) for row in self.tables[title])


async def test_a_small_demo_holds_what_it_says(store: Store) -> None:
    notes = Notes()
    story = await demo(store, notes, count=100, each=3)
    assert story.holds
    told = story.to_json()
    assert [kind["arrived"] for kind in told["arrivals"]] == [3, 3, 3, 3]
    assert {one["projection"]: one["entries"] for one in told["projections"]}["orders-by-id"] == 100
    source, projection, followed, point_read = told["lookups"]
    assert source["found"] == projection["found"] == followed["found"] == point_read["found"] == 1
    assert point_read["requestUnits"] < projection["requestUnits"] < source["requestUnits"]
    assert len(notes.said) == 6
    assert len(notes.tables) == 3
    await assert_converged(store, LAYOUT)


async def test_a_demo_that_does_not_hold_says_so(store: Store) -> None:
    story = await demo(store, Notes(), count=30, each=1)
    projection = catalog["orders-by-id"]
    stray = {"id": "x", "orderId": "o", "_source": {"id": "x", "key": ["c"], "hash": "h"}}
    await store.write(LAYOUT.target(projection), Key.of("o"), [Upsert(stray)])
    story.comparisons[projection.name] = comparison = await compare(store, LAYOUT, projection)
    assert [place.id for place in comparison.orphaned] == ["x"]
    assert not comparison.equal
    assert not story.holds


def test_the_changes_are_the_same_every_time_and_never_of_one_order() -> None:
    items = list(orders(50))
    first, back = changes(items, 5)
    assert [(c.kind, c.after) for c in first] == [(c.kind, c.after) for c in changes(items, 5)[0]]
    assert len({c.after["orderId"] for c in first}) == 15
    assert {c.after["orderId"] for c in back} == {c.after["orderId"] for c in first if c.kind == "delete"}


def test_a_change_that_never_came_is_counted() -> None:
    lost, come = Change("update", {}, {}), Change("update", {}, {}, seconds=0.5)
    assert summary([lost, come]) == [{"change": "update", "made": 2, "arrived": 1, "median": 0.5, "slowest": 0.5}]


def test_orders_come_from_the_seed_alone() -> None:
    assert list(orders(20, seed=3)) == list(orders(20, seed=3))
    assert list(orders(20, seed=3)) != list(orders(20, seed=4))


@pytest.mark.slow
def test_the_command() -> None:
    process = start(["demo", "--json"], "")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert json.loads(out)["holds"]
    assert "6. Is it true?" in err
