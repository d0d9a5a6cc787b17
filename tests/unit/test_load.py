"""Loading files: everything is checked before anything is written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from projections import load as loading
from projections.errors import LoadError
from projections.identity import Place
from projections.keys import UNDEFINED, Key
from projections.load import Loaded, Step, load
from projections.memory import MemoryStore
from projections.store import Container, Description

SHOP = Container("db", "orders")


async def opened() -> MemoryStore:
    store = MemoryStore()
    await store.create_container(Description(SHOP, ("/customerId",)))
    return store


async def stored(store: MemoryStore) -> list[dict[str, Any]]:
    found = [d async for page in store.query(SHOP, "SELECT * FROM c", {}) for d in page]
    return [{name: value for name, value in d.items() if not name.startswith("_")} for d in found]


def written(path: Path, *lines: Any) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def order(n: int, **fields: Any) -> dict[str, Any]:
    return {"id": str(n), "customerId": f"c{n % 3}"} | fields


async def test_items_arrive_as_they_are(tmp_path: Path) -> None:
    items = [order(1, big=12345678901234567890, text="é\u2028", price=0.1, none=None), order(2, customerId=7)]
    store = await opened()
    assert await load(store, SHOP, ["/customerId"], written(tmp_path / "f", *items)) == Loaded(2, 2)
    assert await stored(store) == items


async def test_gzip_is_known_by_its_content_and_a_bom_and_blank_lines_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "orders.data"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps(order(1)).encode() + b"\r\n\n  \n" +
                                   json.dumps(order(2)).encode()))  # fmt: skip
    store = await opened()
    assert (await load(store, SHOP, ["/customerId"], path)).items == 2
    assert await stored(store) == [order(1), order(2)]


async def test_an_empty_file_loads_nothing(tmp_path: Path) -> None:
    assert await load(await opened(), SHOP, ["/customerId"], written(tmp_path / "f")) == Loaded(0, 0)


@pytest.mark.parametrize("window", [2, 5000])
async def test_the_last_of_two_with_one_identity_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(loading, "WINDOW", window)
    lines = [order(1, v=1), order(2, v=1), order(1, v=2), order(1, v=3), order(1, v=4, customerId="other")]
    store = await opened()
    await load(store, SHOP, ["/customerId"], written(tmp_path / "f", *lines))
    assert {(d["id"], d["customerId"]): d["v"] for d in await stored(store)} == {
        ("1", "c1"): 3, ("2", "c2"): 1, ("1", "other"): 4,
    }  # fmt: skip


async def test_a_hierarchical_key(tmp_path: Path) -> None:
    store, container = MemoryStore(), Container("db", "places")
    await store.create_container(Description(container, ("/country", "/city")))
    item = {"id": "1", "country": "DE", "city": "Bonn"}
    await load(store, container, ("/country", "/city"), written(tmp_path / "f", item))
    assert len(await store.read(container, [Place("1", Key.of("DE", "Bonn"))])) == 1


async def test_what_the_store_refuses_is_named_with_what_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MAX_ITEM_BYTES", loading.MAX_ITEM_BYTES + 100)
    monkeypatch.setattr(loading, "WINDOW", 2)
    store = await opened()
    large = order(3, t="x" * (2 * 1024 * 1024))
    with pytest.raises(LoadError, match="line 3: the store refused the item") as caught:
        await load(store, SHOP, ["/customerId"], written(tmp_path / "f", order(1), order(2), large))
    assert str(caught.value.hint).startswith("2 items")
    assert len(await stored(store)) == 2


async def test_items_without_a_key_belong_to_the_missing_one(tmp_path: Path) -> None:
    store = await opened()
    await load(store, SHOP, ["/customerId"], written(tmp_path / "f", {"id": "1"}, {"id": "1", "customerId": None}))
    places = [Place("1", Key.of(UNDEFINED)), Place("1", Key.of(None))]
    assert len(await store.read(SHOP, places)) == 2


BROKEN = [
    ("{", "not JSON"),
    ('{"id": "1", "n": NaN}', "NaN"),
    ('{"id": "1", "n": 1e999}', "1e999"),
    ("[1]", "not a JSON object"),
    ("7", "not a JSON object"),
    ("[" * 100_000, "not JSON"),
    ({"customerId": "c"}, "no id"),
    ({"id": 7, "customerId": "c"}, "no id"),
    ({"id": "", "customerId": "c"}, "no id"),
    ({"id": "a/b", "customerId": "c"}, "character"),
    ({"id": "a#b", "customerId": "c"}, "character"),
    ({"id": "a?b", "customerId": "c"}, "character"),
    ({"id": "a\\b", "customerId": "c"}, "character"),
    ({"id": "a\nb", "customerId": "c"}, "character"),
    ({"id": "x" * 256, "customerId": "c"}, "256 characters"),
    ('{"id": "\\ud800", "customerId": "c"}', "not Unicode"),
    ({"id": "1", "customerId": {"a": 1}}, "/customerId is an object"),
    ({"id": "1", "customerId": ["a"]}, "/customerId is an object or an array"),
    ({"id": "1", "customerId": 2**53 + 1}, "2^53"),
    ({"id": "1", "customerId": "k" * 3000}, "3000 bytes"),
    ({"id": "1", "customerId": "c", "t": "x" * (2 * 1024 * 1024)}, "bytes; the store takes"),
    ('{"id": "1"' + " " * loading.MAX_LINE_BYTES + "}", "longer than"),
]


@pytest.mark.parametrize(("line", "reason"), BROKEN, ids=[reason for _, reason in BROKEN])
async def test_a_broken_line_is_named_and_nothing_is_written(tmp_path: Path, line: Any, reason: str) -> None:
    store = await opened()
    path = written(tmp_path / "f", order(1), "", order(2), line, order(3))
    with pytest.raises(LoadError, match=r"^line 4: ") as caught:
        await load(store, SHOP, ["/customerId"], path)
    assert reason in str(caught.value)
    assert caught.value.hint
    assert await stored(store) == []


async def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b'{"id": "1"}\n{"id": "\xff"}\n')
    with pytest.raises(LoadError, match="line 2: not UTF-8 at byte 9"):
        await load(await opened(), SHOP, ["/customerId"], path)


@pytest.mark.parametrize("damage", ["cut", "flipped"])
async def test_a_damaged_gzip_is_refused(tmp_path: Path, damage: str) -> None:
    packed = bytearray(gzip.compress("".join(f"{json.dumps(order(n))}\n" for n in range(2000)).encode()))
    if damage == "cut":
        del packed[len(packed) // 2 :]
    else:
        packed[-6] ^= 0xFF
    path = tmp_path / "f.gz"
    path.write_bytes(packed)
    store = await opened()
    with pytest.raises(LoadError, match="cannot be read beyond line"):
        await load(store, SHOP, ["/customerId"], path)
    assert await stored(store) == []


@pytest.mark.parametrize("name", ["absent", "."])
async def test_a_path_that_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LoadError, match="cannot read"):
        await load(await opened(), SHOP, ["/customerId"], tmp_path / name)


async def test_progress_reaches_the_end_in_both_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "WINDOW", 10)
    steps: list[Step] = []
    path = written(tmp_path / "f", *(order(n) for n in range(35)))
    await load(await opened(), SHOP, ["/customerId"], path, steps.append)
    for name in ("checking", "loading"):
        own = [step for step in steps if step.name == name]
        assert [step.items for step in own] == [10, 20, 30, 35]
        assert own[-1].done == own[-1].size == path.stat().st_size
