"""Orders made up from a seed: the same seed gives the same orders, on every machine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

REGIONS: Final = ("north", "south", "east", "west")
PRODUCTS: Final = (
    ("desk lamp", 39.0), ("office chair", 249.5), ("standing desk", 579.0), ("notebook", 4.25), ("monitor", 329.0),
    ("keyboard", 89.9), ("bookshelf", 119.0), ("pencil", 0.6),
)  # fmt: skip
STATUSES: Final = ("open", "paid", "shipped", "cancelled")
_SHARES: Final = (30, 20, 45, 5)  # of the statuses, in percent
_OPENED: Final = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS_PER_CUSTOMER: Final = 8  # on average


def orders(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Orders with running numbers, of customers who order again now and then.

    The id counts per customer, as ids do: it takes the customer to tell two orders with one id apart.
    """
    chance = random.Random(seed)
    customers = max(1, count // ORDERS_PER_CUSTOMER)
    placed: dict[int, int] = {}
    for number in range(1, count + 1):
        customer = chance.randrange(customers)
        placed[customer] = placed.get(customer, 0) + 1
        yield _order(chance, number, customer, placed[customer])


def _order(chance: random.Random, number: int, customer: int, nth: int) -> dict[str, Any]:
    lines = [_line(chance) for _ in range(chance.randint(1, 4))]
    created = _OPENED + timedelta(minutes=7 * number)
    return {
        "id": str(nth),
        "customerId": f"c{customer:05}",
        "orderId": f"o{number:06}",
        "status": chance.choices(STATUSES, _SHARES)[0],
        "region": REGIONS[customer % len(REGIONS)],
        "createdAt": created.isoformat().replace("+00:00", "Z"),
        "lines": lines,
        "total": round(sum(line["quantity"] * line["price"] for line in lines), 2),
    }


def _line(chance: random.Random) -> dict[str, Any]:
    product, price = chance.choice(PRODUCTS)
    return {"product": product, "quantity": chance.randint(1, 3), "price": price}
