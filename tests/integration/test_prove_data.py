"""The part of the proof that runs whole data sets: on a small one that is made up here; and its figures, by hand."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.prove import data, figures
from tests.prove.report import Part, Steps

AIRLINES = {"UA": "United", "AA": "American", "9E": "Endeavor"}
PLANES = [{"id": f"N{n}", "manufacturer": "AIRBUS", "model": "A320", "seats": 180 + n, "year": 2004} for n in range(9)]


def written(folder: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as lines:
        lines.writelines(f"{json.dumps(row)}\n" for row in rows)


def flight(chance: random.Random, n: int) -> dict[str, Any]:
    carrier, date = chance.choices(list(AIRLINES), (6, 2, 1))[0], f"2013-0{n // 200 + 1}-0{n % 200 // 50 + 1}"
    made = {"id": f"{date}-{carrier}{n}", "date": date, "carrier": carrier, "flight": n, "origin": "EWR", "dest": "IAH"}
    made |= {"scheduled": f"{date}T10:00:00Z", "arr_delay": chance.choice([None, chance.randrange(-60, 400)])}
    return made | ({"tailnum": f"N{chance.randrange(14)}"} if chance.random() < 0.9 else {})


def order(chance: random.Random, n: int) -> dict[str, Any]:
    customer, nth = f"{n // 5:05}", n % 5
    return {
        "id": str(nth), "customerId": customer, "orderId": f"{customer}-{nth:03}", "quantity": 1,
        "orderDate": f"1997-0{chance.randrange(1, 4)}-11", "amount": round(chance.uniform(0, 200), 2),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_part_finds_nothing_wrong_on_a_small_data_set(tmp_path: Path) -> None:
    chance = random.Random(7)
    written(tmp_path, "airlines", [{"id": id_, "carrier": id_, "name": name} for id_, name in AIRLINES.items()])
    written(tmp_path, "planes", PLANES)
    written(tmp_path, "flights", [flight(chance, n) for n in range(600)])
    written(tmp_path, "orders", [order(chance, n) for n in range(300)])
    parts = list(data.prove(lambda *_: None, folder=tmp_path, share=1.0, seed=1))
    assert [(part.what, part.divergences) for part in parts] == [("data: flights", []), ("data: orders", [])]
    assert all(part.runs > 600 for part in parts)


# the figures, by hand


def test_figures_of_flights() -> None:
    flights = [
        {"carrier": "UA", "scheduled": "2013-01-31T23:00:00Z", "arr_delay": 11, "tailnum": "N1", "date": "2013-01-31"},
        {"carrier": "UA", "scheduled": "2013-01-01T10:00:00Z", "arr_delay": -4, "tailnum": "N1", "flight": 7},
        {"carrier": "UA", "scheduled": "2013-01-01T10:00:00Z", "arr_delay": None},
        {"carrier": "AA", "scheduled": "2013-02-01T00:00:00Z", "arr_delay": None, "tailnum": "N2"},
    ]
    assert figures.delays(flights) == {
        ("UA", "2013-01"): {
            "flights": 3, "minutes": 7, "mean": 3.5, "worst": 11, "planes": 1, "exact": {"minutes": "7"}
        },
        ("AA", "2013-02"): {
            "flights": 1, "minutes": 0, "mean": None, "worst": None, "planes": 1, "exact": {"minutes": "0"}
        },
    }  # fmt: skip
    planes = {"N1": {"id": "N1", "manufacturer": "AIRBUS", "model": "A320", "seats": 180, "year": 2004}}
    assert figures.with_names(flights[0], {"UA": "United"}, planes) == {
        "carrier": "UA", "scheduled": "2013-01-31T23:00:00Z", "tailnum": "N1", "date": "2013-01-31",
        "airline": {"id": "UA", "name": "United"},
        "plane": {"id": "N1", "manufacturer": "AIRBUS", "model": "A320", "seats": 180},
    }  # fmt: skip
    assert set(figures.with_names(flights[3], {"UA": "United"}, planes)) == {"carrier", "scheduled", "tailnum"}


def test_figures_of_orders() -> None:
    amounts = ("0.1", "0.2", "0.30", "12.0", "5")
    orders = [{"customerId": "c", "orderDate": "1997-01-02", "amount": Decimal(amount)} for amount in amounts]
    orders += [{"customerId": "c", "orderDate": "1997-02-01", "amount": Decimal("0.0")}]
    assert figures.spent(orders) == {
        ("c", "1997-01"): {"orders": 5, "spent": 17.6, "mean": 3.52, "largest": 12, "exact": {"spent": "17.6"}},
        ("c", "1997-02"): {"orders": 1, "spent": 0, "mean": 0.0, "largest": 0, "exact": {"spent": "0"}},
    }


def test_a_file_is_read_as_it_is_written_and_shared_out_in_whole_groups(tmp_path: Path) -> None:
    written(tmp_path, "orders", [{"customerId": str(n // 3), "amount": n / 10} for n in range(30)])
    orders = list(figures.rows(tmp_path / "orders.jsonl.gz"))
    assert orders[11] == {"customerId": "3", "amount": Decimal("1.1")}
    assert [row["customerId"] for row in figures.some(orders, 0.2, by="customerId")] == [*"444", *"999"]
    assert list(figures.some(orders, 1.0, by="customerId")) == orders


def test_what_differs_is_said() -> None:
    part = Part("data")
    steps = Steps(part, lambda *_: None, 1)
    steps.equal("totals", {"a": 1, "b": 2, "d": 4}, {"a": 1, "b": 3, "c": 4})
    assert part.runs == 3
    assert part.divergences == [
        "totals: 1 missing, such as ['c']",
        "totals: 1 too many, such as ['d']",
        "totals: 1 other, such as [('b', 2, 3)]",
    ]
