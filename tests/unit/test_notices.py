"""Which identities the host may have rewritten, and which true ones a rewritten one may stand for."""

from __future__ import annotations

from typing import Any

import pytest

from projections.identity import Identity
from projections.keys import UNDEFINED, Key
from projections.notices import doubtful, may_be, moment
from tests.functions_runtime.payload import as_delivered


def identity(id_: str, *key: Any) -> Identity:
    return Identity(Key.of(*key), id_)


DATES = [
    "2023-07-04T12:00:00",
    "2023-07-04T12:00:00Z",
    "2023-07-04T12:00:00z",
    "2023-07-04T12:00:00.1",
    "2014-09-15T23:14:25.7251173Z",
    "2023-07-04T12:00:00+00:00",
    "2023-07-04T12:00:00.500-08:00",
    "2023-07-04T12:00:00+0530",
    "2023-07-04T12:00:00+05",
    "2023-07-04T24:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.9999999-14:00",
]
NO_DATES: list[Any] = [
    "2020-01-03",
    "2023-07-04T12:00",
    "2023-07-04 12:00:00",
    "2023-07-04t12:00:00",
    "2023-02-29T12:00:00Z",
    "2023-07-04T24:00:01Z",
    "2023-07-04T12:60:00Z",
    "2023-07-04T12:00:00.12345678Z",
    "2023-07-04T12:00:00.Z",
    " 2023-07-04T12:00:00Z",
    "2023-07-04T12:00:00Z\n",
    "٢٠٢٣-07-04T12:00:00Z",
    "0000-01-01T00:00:00Z",
    "order-1",
    "",
    7,
    7.5,
    True,
    None,
    UNDEFINED,
]


@pytest.mark.parametrize("text", DATES)
def test_what_the_host_takes_for_a_date(text: str) -> None:
    assert moment(text) is not None
    assert doubtful(identity(text, "k"))
    assert doubtful(identity("i", text))
    assert doubtful(identity("i", "k", text))


@pytest.mark.parametrize("value", NO_DATES)
def test_what_the_host_leaves_alone(value: Any) -> None:
    assert moment(value) is None
    assert not doubtful(identity("i", value))


@pytest.mark.parametrize("hours_east", [0, 2, -8])
@pytest.mark.parametrize("text", [t for t in DATES if t[-1] not in "z05" and "T24" not in t and "9999-" not in t])
def test_rewriting_keeps_the_moment(text: str, hours_east: int) -> None:
    (item,) = as_delivered([{"id": text}], hours_east)
    assert may_be(identity(text, "k"), identity(item["id"], "k"))


def test_a_time_in_no_zone_is_another_moment() -> None:
    assert not may_be(identity("2023-07-04T12:00:00", "k"), identity("2023-07-04T12:00:00Z", "k"))


@pytest.mark.parametrize(
    ("true", "noticed"),
    [
        (identity("a", 1), identity("a", True)),
        (identity("a", 1), identity("a", "1")),
        (identity("a", None), identity("a", UNDEFINED)),
        (identity("a", "k"), identity("a", "k", "k")),
        (identity("a", "k"), identity("b", "k")),
        (identity("2023-07-04T12:00:00Z", "k"), identity("2023-07-04T12:00:01Z", "k")),
        (identity("2023-07-04T12:00:00Z", "k"), identity("2023-07-04T12:00:00Z", "l")),
    ],
)
def test_other_identities_are_other_items(true: Identity, noticed: Identity) -> None:
    assert not may_be(true, noticed)


def test_equal_numbers_are_one_key() -> None:
    assert may_be(identity("a", 7), identity("a", 7.0))
