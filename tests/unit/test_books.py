"""Totals against contributions, added up and group by group."""

from __future__ import annotations

from typing import Any

import pytest

from projections.aggregate import Aggregate
from projections.books import MOST_GROUPS, PRIME, Books, Fold, agrees, group_bucket, is_book, residue
from projections.keys import Key
from projections.measures import Avg, Count, Distinct, Max, Min, Sum
from projections.totals import contribution, value_document, value_id
from tests.support import ORDERS

MEASURES = {
    "orders": Count(), "spent": Sum("/total"), "mean": Avg("/total"), "least": Min("/total"), "most": Max("/total"),
    "kinds": Distinct("/kind"),
}  # fmt: skip
SPENT = Aggregate(name="spent", source=ORDERS, key="/status", measures=MEASURES)
OPEN = Key.of("open")


def contributions(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    made = [contribution(MEASURES, [row]) for row in rows]
    return [{"id": f"{n}~", "status": "open", "contribution": one} for n, one in enumerate(made)]


ROWS = ({"total": 0.1, "kind": "a"}, {"total": 0.2, "kind": "b"}, {"total": 10**20, "kind": "a"}, {"kind": None})


def group(*rows: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]], Fold]:
    """The contributions of a group, its books, and what they come to."""
    fold = Fold(SPENT)
    found = contributions(*rows)
    for one in found:
        fold.add(one)
    books = {
        value_id(value): value_document(value, n, "_source", {"status": "open"}) for value, n in fold.values.items()
    }
    books["total"] = fold.total.to_stored(MEASURES, "_source", {"status": "open"})
    return found, books, fold


def differs(*documents: dict[str, Any]) -> bool:
    books = Books(SPENT, "_source")
    for one in documents:
        books.add(OPEN, one)
    return bool(books.differing()[group_bucket(OPEN)])


def test_what_adds_up_comes_to_nothing_in_any_order() -> None:
    found, books, _ = group(*ROWS)
    assert not differs(*found, *books.values())
    assert not differs(*reversed([*found, *books.values()]))


@pytest.mark.parametrize("change", ["contribution", "value", "total", "extreme", "shown", "count"])
def test_what_does_not_add_up_shows(change: str) -> None:
    found, books, fold = group(*ROWS)
    total, exact = books["total"], dict(books["total"]["_source"]["exact"])
    if change == "contribution":
        found[0]["contribution"]["spent"] = "0.2"
    elif change == "value":
        del books[next(id_ for id_ in books if id_ != "total")]
    elif change == "total":
        del books["total"]
    elif change == "shown":
        total["spent"] = 7
    else:
        exact |= {"most": {"value": 5, "sharing": 1}} if change == "extreme" else {"orders": 9}
        shown = {name: measure.shown(exact.get(name)) for name, measure in MEASURES.items()}
        books["total"] = total | shown | {"_source": total["_source"] | {"exact": exact}}
    assert differs(*found, *books.values())
    now = Fold(SPENT)
    for one in found:
        now.add(one)
    assert not agrees(now, books, "_source")
    assert agrees(fold, group(*ROWS)[1], "_source")


def test_nonsense_is_looked_at() -> None:
    assert differs({"id": "total", "status": "open"})
    assert differs({"id": "1~", "contribution": {"spent": "much"}})
    fold = Fold(SPENT)
    fold.add({"id": "1~", "contribution": {"spent": "much"}})
    assert (fold.contributions, len(fold.odd)) == (0, 1)


def test_more_groups_than_are_remembered_are_looked_at() -> None:
    books = Books(SPENT, "_source")
    for n in range(MOST_GROUPS + 1):
        for one in contributions({"total": n}):
            books._note(Key.of(n), one)
    assert books._unknown[group_bucket(Key.of(MOST_GROUPS))]


def test_what_was_stored_has_forgotten_extremes() -> None:
    found, documents, _ = group(*ROWS)
    books = Books(SPENT, "_source")
    for one in [*found, *documents.values()]:
        books.add(OPEN, one)
    assert all(Books.from_stored(SPENT, "_source", books.to_stored()).differing())
    plain = SPENT.model_copy(update={"measures": {"orders": Count()}})
    assert not any(Books.from_stored(plain, "_source", Books(plain, "_source").to_stored()).differing())


def test_decimals_add_up_exactly() -> None:
    assert (residue("0.1") + residue("0.2") - residue("0.3")) % PRIME == 0
    assert (residue("-1e2") + residue("100.00")) % PRIME == 0


def test_books_are_no_contributions() -> None:
    assert is_book("total")
    assert is_book("distinct~kinds~abc")
    assert not is_book("o1~abc")
