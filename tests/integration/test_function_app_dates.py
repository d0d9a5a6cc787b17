"""Items whose very identity is a date, which the host rewrites: every one keeps the entries that are its own."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from projections.store import Document
from tests.functions_runtime.payload import as_delivered
from tests.functions_runtime.site import Site

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        importlib.util.find_spec("azure_functions_runtime") is None,
        reason="azure-functions-runtime is not installed; `make test` installs it",
    ),
]

PROJECTION = "readings.by-device"
DAY = "2023-07-04T12:00:00+00:00"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with Site() as site:
        yield site


def reading(id_: str, day: Any = DAY, **fields: Any) -> Document:
    return {"id": id_, "day": day, "device": "d1", **fields}


async def deliver(site: Site, *ids: str, hours_east: int = 2) -> list[Document]:
    """Deliver the latest changes of readings; the entries there are afterwards."""
    answer = await site.deliver(PROJECTION, await site.feed("readings", *ids), hours_east)
    assert answer.ok, answer.exception
    return await site.entries(PROJECTION, *ids)


@pytest.mark.parametrize(
    ("id_", "day"),
    [
        ("plain-1", "2023-07-04T12:00:00+00:00"),  # the key is a date that the host moves to its own zone
        ("plain-2", "2014-09-15T23:14:25.7251170Z"),  # a zero at the end
        ("plain-3", "2023-07-04T12:00:00"),  # arrives as it is
        ("plain-4", "2023-07-04T12:00:00Z"),
        ("2021-08-23T06:23:40+02:00", "d1"),  # the id is one
        ("2021-08-23T06:23:40.100Z", "d1"),
        ("2021-08-23T06:23:41.100Z", "2021-08-23T00:00:00.000Z"),  # both are
        ("2021-08-23T06:23:42.100Z", 20210823),
        ("2021-08-23T06:23:43.100Z", None),
        ("plain-5", "2020-01-03"),  # no date to the host
    ],
)
async def test_an_identity_that_is_a_date(site: Site, id_: str, day: Any) -> None:
    await site.put("readings", "day", reading(id_, day))

    (entry,) = await deliver(site, id_)

    assert entry["_source"]["id"] == id_
    assert entry["_source"]["key"] == [day]
    assert entry["day"] == day


async def test_a_date_in_the_partition_without_key(site: Site) -> None:
    await site.put("readings", "day", {"id": "2021-08-23T06:23:44.100Z", "device": "d1"})

    (entry,) = await deliver(site, "2021-08-23T06:23:44.100Z")

    assert entry["_source"]["key"] == [{}]


async def test_two_items_that_look_like_one(site: Site) -> None:
    """Rewritten, both are `2022-01-01T00:00:00Z`; the second really is."""
    ids = ("2022-01-01T00:00:00.000Z", "2022-01-01T00:00:00Z")
    await site.put("readings", "day", *(reading(id_, note=id_) for id_ in ids))
    assert len({item["id"] for item in as_delivered(await site.feed("readings", *ids))}) == 1

    entries = await deliver(site, *ids)

    assert [entry["note"] for entry in entries] == sorted(ids)


async def test_an_item_that_is_gone_loses_its_entry_and_its_double_does_not(site: Site) -> None:
    ids = ("2022-02-01T00:00:00.000Z", "2022-02-01T00:00:00Z")
    await site.put("readings", "day", *(reading(id_) for id_ in ids))
    assert len(await deliver(site, *ids)) == 2
    notices = await site.feed("readings", ids[0])
    await site.remove("readings", DAY, ids[0])

    assert (await site.deliver(PROJECTION, notices)).ok

    (entry,) = await site.entries(PROJECTION, *ids)
    assert entry["_source"]["id"] == ids[1]


async def test_the_double_that_is_gone_is_the_one_that_loses_its_entry(site: Site) -> None:
    ids = ("2022-03-01T00:00:00.000Z", "2022-03-01T00:00:00Z")
    await site.put("readings", "day", *(reading(id_) for id_ in ids))
    assert len(await deliver(site, *ids)) == 2
    notices = await site.feed("readings", ids[1])
    await site.remove("readings", DAY, ids[1])

    assert (await site.deliver(PROJECTION, notices, hours_east=-8)).ok

    (entry,) = await site.entries(PROJECTION, *ids)
    assert entry["_source"]["id"] == ids[0]


async def test_an_item_that_is_gone_without_a_trace_is_counted(site: Site) -> None:
    await site.put("readings", "day", reading("2022-04-01T00:00:00.000Z"))
    notices = await site.feed("readings", "2022-04-01T00:00:00.000Z")
    await site.remove("readings", DAY, "2022-04-01T00:00:00.000Z")

    assert (await site.deliver(PROJECTION, notices)).ok

    assert await site.entries(PROJECTION, "2022-04-01T00:00:00.000Z") == []
    assert '"outcomes": {"skipped": 1}, "reasons": {"skipped: gone": 1}' in site.host.log.splitlines()[-1]


async def test_an_item_made_anew_under_the_old_identity(site: Site) -> None:
    id_ = "2022-05-01T00:00:00.500Z"
    await site.put("readings", "day", reading(id_, note="first"))
    old = await site.feed("readings", id_)
    await deliver(site, id_)
    await site.remove("readings", DAY, id_)
    await site.put("readings", "day", reading(id_, note="second"))

    assert (await site.deliver(PROJECTION, old)).ok

    (entry,) = await site.entries(PROJECTION, id_)
    assert entry["note"] == "second"


async def test_more_dates_than_one_query_takes(site: Site) -> None:
    ids = [f"2022-06-01T00:{n // 60:02}:{n % 60:02}.100Z" for n in range(240)]
    await site.put(
        "readings", "day", *(reading(id_, f"2022-06-0{n % 3 + 1}T00:00:00.000Z") for n, id_ in enumerate(ids))
    )

    assert len(await deliver(site, *ids)) == 240
