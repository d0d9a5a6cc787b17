"""All orders, and what each customer spends a month: replayed, deleted and restored, always to the last digit."""

from __future__ import annotations

import random
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.prove import figures
from tests.prove.account import Account
from tests.prove.figures import Group, Row
from tests.prove.report import Steps

CATALOG = "projections.example.shop:catalog"
SPENT = "spent-by-month"
STATE = "projections-state"
DELETED = 1_000
"""Orders that are deleted for a while, of all of them."""


def story(account: Account, folder: Path, share: float, seed: int, steps: Steps) -> None:
    """Add the orders up, and see the totals come back to the same digits whatever happens to them."""
    with steps.timed("reading the file"):
        orders = list(figures.some(figures.rows(folder / "orders.jsonl.gz"), share, by="customerId"))
    with steps.timed("load"):
        account.run("init")
        account.load("orders", map(_stored, orders))
    with steps.timed("first run"):
        account.run("run", "--until-caught-up", SPENT)
    first = _compare(account, orders, steps, "after the first run")
    for n, again in enumerate((_replay, _start_over), 1):
        with steps.timed(f"replay {n}"):
            again(account, len(orders), steps)
        steps.equal(f"replay {n} beside the first run", _compare(account, orders, steps, f"after replay {n}"), first)
    with steps.timed("audit"):
        [audited] = account.run("audit", SPENT, "--behind", "0")
        steps.expect(audited["examined"] >= len(orders), f"the audit has looked at {audited['examined']:,} orders")
    every = [order["orderId"] for order in orders]
    chosen = set(random.Random(seed).sample(every, min(int(DELETED * share), len(orders) // 2)))
    gone = [order for order in orders if order["orderId"] in chosen]
    left = [order for order in orders if order["orderId"] not in chosen]
    with steps.timed(f"deletion of {len(gone):,}"):
        _put(account, [_stored(order) | {"deleted": True} for order in gone])
    _compare(account, left, steps, "after the deletion")
    with steps.timed("restoration"):
        _put(account, [_stored(order) for order in gone])
    steps.equal("restored beside the first run", _compare(account, orders, steps, "after the restoration"), first)
    _look_up(account, orders, steps)


def _stored(order: Row) -> dict[str, Any]:
    """An order as the catalog wants it."""
    amount = float(order["amount"])  # its shortest text is the file's
    return {
        "id": order["id"], "customerId": order["customerId"], "orderId": order["orderId"], "total": amount,
        "createdAt": f"{order['orderDate']}T12:00:00Z",
    }  # fmt: skip


def _replay(account: Account, orders: int, steps: Steps) -> None:
    """Have everything applied again."""
    [report] = account.run("replay", SPENT)
    steps.expect(report["outcomes"] == {"unchanged": orders}, f"a replay came to {report['outcomes']}")


def _start_over(account: Account, orders: int, steps: Steps) -> None:
    """Have the worker read the whole feed again: without its checkpoints a projection begins at the beginning."""
    state, partition = account.container(STATE), f"{SPENT}@1"
    for found in list(state.query_items("SELECT c.id FROM c", partition_key=partition)):
        state.delete_item(found["id"], partition_key=partition)
    [report] = account.run("run", "--until-caught-up", SPENT)
    steps.expect(report["outcomes"] == {"unchanged": orders}, f"starting over came to {report['outcomes']}")


def _put(account: Account, orders: Iterable[dict[str, Any]]) -> None:
    """Change orders through the SDK, and have the projection follow."""
    container = account.container("orders")
    for order in orders:
        container.upsert_item(order)
    account.run("run", "--until-caught-up", SPENT)


# what has come of it


def _compare(account: Account, orders: Iterable[Row], steps: Steps, when: str) -> dict[Group, Row]:
    """Compare all totals with the file's; what is stored, digit by digit."""
    with steps.timed(f"comparing {when}"):
        expected = figures.spent(orders)
        stored = {(d["customerId"], d["month"]): d for d in account.documents(SPENT, "c.id = 'total'")}
        found = {group: figures.shown(d, expected[group]) if group in expected else d for group, d in stored.items()}
        steps.equal(f"{SPENT} {when}", found, expected)
    return {group: _digits(document) for group, document in stored.items()}


def _digits(total: Row) -> Row:
    """A total without what the store adds, and without how many share the largest order, which may be counted low."""
    exact = total["_source"]["exact"]
    largest = {name: value for name, value in exact["largest"].items() if name != "sharing"}
    return {
        **{name: value for name, value in total.items() if name[0] != "_"},
        "contributions": total["_source"]["contributions"],
        "exact": exact | {"largest": largest},
    }


def _look_up(account: Account, orders: Iterable[Row], steps: Steps) -> None:
    """The same through `lookup`: all months of the customer who spends most."""
    spent: dict[str, Decimal] = {}
    for order in orders:
        spent[order["customerId"]] = spent.get(order["customerId"], Decimal()) + order["amount"]
    best = max(sorted(spent), key=lambda customer: spent[customer])
    months = {group: row for group, row in figures.spent(orders).items() if group[0] == best}
    [answer] = account.run("lookup", SPENT, best, "--text")
    found = {(best, total["month"]): figures.shown(total, months[best, total["month"]]) for total in answer["entries"]}
    steps.equal(f"lookup of {best}", found, months)
