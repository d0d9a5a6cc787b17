"""Small builders that the tests share: an orders catalog, items as the store gives them back, states of them."""

from __future__ import annotations

from typing import Any

from projections.declare import Index, Source
from projections.entries import Rules, State, Wanted, wanted
from projections.identity import Identity
from projections.keys import Key
from projections.version import Version

NOW = 1_700_000_000
"""The time it is in tests, in epoch seconds."""

ORDERS = Source(container="orders", key="/shop")


def index(**fields: Any) -> Index:
    """A projection of orders by status, with other fields where a test says so."""
    return Index(**{"name": "by-status", "source": ORDERS, "key": "/status", **fields})


def item(**fields: Any) -> dict[str, Any]:
    """An order as the store gives it back."""
    own = {"_rid": "r==", "_self": "s/", "_etag": '"e1"', "_ts": NOW - 100, "_attachments": "a/"}
    return {"id": "o1", "shop": "s1", "status": "open", **own, **fields}


def state(document: dict[str, Any] | None = None, *, key: Any = None, **fields: Any) -> State:
    """The state of an order as it was read."""
    document = item(**fields) if document is None else document
    identity = Identity(Key.of(document.get("shop") if key is None else key), document["id"])
    return State(identity, Version.of(document, from_feed=False), document)


def gone(id_: str = "o1", shop: str = "s1") -> State:
    """The state of an order that is not there."""
    return State(Identity(Key.of(shop), id_), Version(deleted=True), None)


def want(projection: Index, document: dict[str, Any] | None = None, *, now: float = NOW, **rules: Any) -> Wanted:
    """The entries wanted of one order."""
    return wanted(Rules(projection, **rules), state(document), now)
