"""`deadletters` and `audit` at a terminal: what they print, what they change, how they exit."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from projections.cli.app import app
from projections.cli.durations import ago, seconds
from projections.cosmos import connect
from projections.deadletters import DeadLetters
from projections.deferred import Deferred, Pending
from projections.entries import State
from projections.identity import Identity
from projections.keys import Key
from projections.provision import Layout
from projections.settings import Settings
from projections.store import Delete, Store, Upsert
from projections.version import Version
from tests.processes import EmulatorProcess, start

_databases = itertools.count(1)
CATALOG = """
from pydantic import BaseModel
from projections.declare import Catalog, Index, Source

class Priced(BaseModel):
    total: int

ORDERS = Source(container="orders", key="/customerId")
catalog = Catalog(projections=(
    Index(name="priced", source=ORDERS, key="/orderId", {options}),
    Index(name="by-customer", source=ORDERS, key="/customerId", where=lambda item: item.get("out") is not True),
))
"""
STRICT = "model=Priced, deadletter_payload=True, where=lambda item: item.get('out') is not True"
MENDED = "where=lambda item: item.get('out') is not True"


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    process = EmulatorProcess(tmp_path_factory.mktemp("account"))
    yield process
    process.kill()


@dataclass
class Terminal:
    """Somebody at a terminal, with a database and a catalog of their own."""

    account: EmulatorProcess
    settings: Settings
    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def declare(self, options: str) -> None:
        """A new deployment."""
        name = f"catalog_{next(_databases)}"
        (self.folder / f"{name}.py").write_text(CATALOG.format(options=options))
        self.settings = Settings.read(self.environment | {"PROJECTIONS_CATALOG": f"{name}:catalog"})
        self.monkeypatch.setenv("PROJECTIONS_CATALOG", f"{name}:catalog")

    @property
    def environment(self) -> dict[str, str]:
        return {"COSMOS": self.account.connection_string, "COSMOS_DATABASE": self.settings.database}

    def __call__(self, *arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        assert "Traceback" not in result.stderr
        return result

    def lines(self, *arguments: str, code: int = 0) -> list[Any]:
        return [json.loads(line) for line in self(*arguments, "--json", code=code).stdout.splitlines()]

    def with_store(self, act: Any) -> Any:
        async def call() -> Any:
            async with connect(self.settings) as store:
                return await act(store, Layout(self.settings.load_catalog(), self.settings.database))

        return asyncio.run(call())

    def put(self, *items: dict[str, Any]) -> None:
        async def call(store: Store, layout: Layout) -> None:
            source = layout.source(layout.catalog["priced"])
            by_key: dict[str, list[Any]] = {}
            for item in items:
                by_key.setdefault(item["customerId"], []).append(Upsert(item))
            for key, operations in by_key.items():
                for at in range(0, len(operations), 100):
                    await store.write(source, Key.of(key), operations[at : at + 100])

        self.with_store(call)

    def remove(self, n: int) -> None:
        async def call(store: Store, layout: Layout) -> None:
            source = layout.source(layout.catalog["priced"])
            async for page in store.query(source, "SELECT * FROM c WHERE c.id = @id", {"@id": str(n)}):
                for item in page:
                    await store.write(source, Key.of(item["customerId"]), [Delete(item["id"], item["_etag"])])

        self.with_store(call)

    def age(self, n: int, seconds: int) -> None:
        """Make a letter look as if it had been written so long ago."""

        async def call(store: Store, layout: Layout) -> None:
            async for page in store.query(layout.deadletters, "SELECT * FROM c", {}):
                for letter in page:
                    if letter["source"]["id"] == str(n):
                        old = {k: v for k, v in letter.items() if not k.startswith("_")}
                        old |= {"first": letter["first"] - seconds, "last": letter["last"] - seconds}
                        await store.write(layout.deadletters, Key.of(letter["projection"]), [Upsert(old)])

        self.with_store(call)

    def letters(self) -> dict[str, int]:
        """The ids of the items that have a letter, and how often each was tried."""

        async def call(store: Store, layout: Layout) -> dict[str, int]:
            letters = DeadLetters(store, layout.deadletters, "priced@1")
            return {letter.identity.id: letter.attempts async for letter in letters.all()}

        return self.with_store(call)  # type: ignore[no-any-return]

    def ids(self) -> dict[str, str]:
        """Item id -> letter id."""
        return {letter["item"]["id"]: letter["id"] for letter in self.lines("deadletters", "list", "priced")}


def order(n: int, total: Any = 10, **fields: Any) -> dict[str, Any]:
    return {"id": str(n), "customerId": f"c{n % 3}", "orderId": f"o{n}", "total": total} | fields


def bad(n: int, **fields: Any) -> dict[str, Any]:
    return order(n, {"amount": "secret"}, **fields)


@pytest.fixture
def terminal(account: EmulatorProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    environment = {"COSMOS": account.connection_string, "COSMOS_DATABASE": f"letters{next(_databases)}"}
    monkeypatch.delenv("COSMOS__accountEndpoint", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(tmp_path)
    made = Terminal(account, Settings.read(environment), tmp_path, monkeypatch)
    made.declare(STRICT)
    made("init")
    return made


@pytest.fixture
def shop(terminal: Terminal) -> Terminal:
    """Five orders, of which 2, 3 and 4 are parked."""
    terminal.put(order(1), bad(2), bad(3), bad(4), order(5))
    terminal("run", "--until-caught-up")
    return terminal


# list and show


def test_deferred_items_are_listed_apart_from_dead_letters(shop: Terminal) -> None:
    async def defer(store: Store, layout: Layout) -> None:
        for n, reason in ((1, "busy (429)"), (5, "out of time")):
            deferred = Deferred(store, layout.deadletters, "priced@1", clock=lambda n=n: time.time() - 3600 * n)  # type: ignore[misc]
            identity = Identity(Key.of(f"c{n % 3}"), str(n))
            for _ in range(2):
                state = State(identity, Version('"e"', 1, 7), {"total": "secret"})
                await deferred.defer(Pending(known=[state]), reason)

    assert shop("deadletters", "list", "--deferred").stdout == ""
    shop.with_store(defer)
    one, five = shop.lines("deadletters", "list", "--deferred")
    assert one["first"] - five["first"] in range(14_390, 14_500)
    del one["first"], one["last"]
    assert one == {
        "projection": "priced@1", "id": one["id"], "item": {"key": ["c1"], "id": "1"}, "rid": None,
        "version": {"etag": '"e"', "ts": 1, "lsn": 7}, "reason": "busy (429)", "attempts": 2,
    }  # fmt: skip
    shown = shop("deadletters", "list", "priced", "--deferred")
    assert "2 deferred items" in shown.stderr
    assert "secret" not in shown.stdout
    assert "1h" in shown.stdout
    assert {line["item"]["id"] for line in shop.lines("deadletters", "list", "--deferred", "--older-than", "2h")} == {
        "5"
    }
    assert {line["item"]["id"] for line in shop.lines("deadletters", "list", "--deferred", "--reason", "BUSY")} == {"1"}
    assert shop.lines("deadletters", "list", "by-customer", "--deferred") == []
    assert set(shop.letters()) == {"2", "3", "4"}
    assert "choose by --reason" in shop("deadletters", "list", "--deferred", "--error", "X", code=2).stderr
    [status] = [line for line in shop.lines("status") if line["projection"] == "priced"]
    assert (status["deferred"], status["deadLetters"]) == (2, 3)
    assert 18_000 <= status["oldestDeferredSeconds"] < 18_200
    assert "2, oldest 5h" in " ".join(shop("status").stdout.split())


def test_list_shows_what_people_need(shop: Terminal) -> None:
    found = {line["item"]["id"]: line for line in shop.lines("deadletters", "list")}
    assert set(found) == {"2", "3", "4"}
    one = found["2"]
    assert set(one) == {
        "id",
        "projection",
        "item",
        "error",
        "reason",
        "hint",
        "path",
        "version",
        "attempts",
        "first",
        "last",
    }
    assert (one["projection"], one["item"]["key"], one["error"], one["path"]) == (
        "priced@1", ["c2"], "ItemError", "/total",
    )  # fmt: skip
    assert set(one["version"]) == {"etag", "ts", "lsn"}
    result = shop("deadletters", "list", "priced")
    assert "3 dead letters" in result.stderr
    assert one["id"] in result.stdout
    assert "secret" not in result.stdout + result.stderr
    nothing = shop("deadletters", "list", "by-customer")
    assert (nothing.stdout, "0 dead letters" in nothing.stderr) == ("", True)


def test_show_tells_all_and_the_item(shop: Terminal) -> None:
    ids = shop.ids()
    [one] = shop.lines("deadletters", "show", "priced", ids["2"])
    assert one["payload"]["total"] == {"amount": "secret"}
    text = shop("deadletters", "show", "priced", ids["2"], ids["3"]).stdout
    assert ids["2"] in text
    assert ids["3"] in text
    assert "/total" in text
    result = shop("deadletters", "show", "priced", ids["2"], "nobody~x", code=1)
    assert "no such dead letter: nobody~x" in result.stderr


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), "234"),
        (("--older-than", "1h"), "4"),
        (("--newer-than", "1h"), "23"),
        (("--newer-than", "2d"), "234"),
        (("--older-than", "60"), "34"),
        (("--older-than", "60", "--newer-than", "1h"), "3"),
        (("--error", "ItemError"), "234"),
        (("--error", "TooLargeError"), ""),
        (("--reason", "DOES NOT FIT priced"), "234"),
        (("--reason", "no such thing"), ""),
    ],
)
def test_choosing(shop: Terminal, options: tuple[str, ...], found: str) -> None:
    shop.age(3, 600)
    shop.age(4, 90_000)
    assert sorted(line["item"]["id"] for line in shop.lines("deadletters", "list", *options)) == list(found)
    assert len(shop.lines("deadletters", "retry", "priced", "--dry-run", *options, code=int(bool(found)))) == len(found)
    assert len(shop.lines("deadletters", "drop", "priced", "--dry-run", *options)) == len(found)
    assert shop.letters() == {"2": 1, "3": 1, "4": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "nobody"), "no projection 'nobody'"),
        (("retry", "nobody"), "no projection 'nobody'"),
        (("drop", "nobody"), "no projection 'nobody'"),
        (("show", "nobody", "x"), "no projection 'nobody'"),
        (("drop",), "Missing argument"),
        (("show", "priced"), "Missing argument"),
        (("list", "--older-than", "soon"), "no span of time"),
        (("list", "--older-than", "-5"), "no span of time"),
        (("retry", "--newer-than", "1h 30m"), "no span of time"),
        (("nonsense",), "No such command"),
    ],
)
def test_bad_arguments(terminal: Terminal, arguments: tuple[str, ...], message: str) -> None:
    result = terminal("deadletters", *arguments, code=2)
    assert result.stdout == ""
    assert message in " ".join(result.stderr.split()).replace("│ ", "")


def test_before_init(account: EmulatorProcess, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSMOS_DATABASE", "nothing-there")
    for command in (("deadletters", "list"), ("deadletters", "retry"), ("deadletters", "drop", "priced"), ("audit",)):
        result = terminal(*command, code=2)
        assert "no container" in result.stderr
        assert "projections init" in result.stderr


@pytest.mark.parametrize(
    ("text", "value"), [("90", 90), ("1.5", 1.5), ("90s", 90), ("1h30m", 5400), ("7d", 604_800), ("2w", 1_209_600)]
)
def test_spans_of_time(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("age", "text"), [(0, "0s"), (59.9, "59s"), (60, "1m 0s"), (3_700, "1h 1m"), (93_784, "1d 2h")]
)
def test_ages(age: float, text: str) -> None:
    assert ago(age) == text


# retry


def test_retry_reports_what_became_of_each(shop: Terminal) -> None:
    shop.put(order(2, 20), bad(3, out=True))
    shop.remove(4)
    shop.put(bad(6))
    ids = shop.ids()
    foreseen = {line["item"]["id"]: line["became"] for line in shop.lines("deadletters", "retry", "--dry-run")}
    assert foreseen == {"2": "projected", "3": "left out", "4": "gone"}
    assert shop.letters() == {"2": 1, "3": 1, "4": 1}
    found = {line["item"]["id"]: line for line in shop.lines("deadletters", "retry", "priced")}
    assert {id_: line["became"] for id_, line in found.items()} == foreseen
    assert found["2"]["id"] == ids["2"]
    assert shop.letters() == {}
    assert shop.lines("lookup", "priced", "o2")[0]["entries"][0]["total"] == 20


def test_retry_of_what_is_still_bad_exits_1(shop: Terminal) -> None:
    result = shop("deadletters", "retry", "priced", code=1)
    assert [row.split() for row in result.stdout.splitlines()][-1] == ["priced", "3", "0", "0", "0", "3"]
    assert shop.letters() == {"2": 2, "3": 2, "4": 2}
    shop.declare(MENDED)
    assert "would be tried" in shop("deadletters", "retry", "--dry-run").stdout
    shop("deadletters", "retry")
    assert shop.letters() == {}
    shop("deadletters", "retry")
    assert shop.lines("status")[0]["deadLetters"] == 0


def test_retry_of_some_by_id(shop: Terminal) -> None:
    ids = shop.ids()
    shop.declare(MENDED)
    shop("deadletters", "retry", "priced", ids["2"], ids["3"], ids["2"])
    assert shop.letters() == {"4": 1}
    result = shop("deadletters", "retry", "priced", ids["4"], ids["2"], code=1)
    assert f"no such dead letter: {ids['2']}" in result.stderr
    assert shop.letters() == {}


def test_hundreds_are_retried_and_dropped_to_the_last(terminal: Terminal) -> None:
    """What is retried or dropped leaves the list that is being read."""
    terminal.put(*(bad(n) for n in range(730)))
    terminal("run", "--until-caught-up")
    assert len(terminal.lines("deadletters", "list")) == 730
    assert len(terminal.lines("deadletters", "retry", code=1)) == 730
    assert set(terminal.letters().values()) == {2}
    terminal("deadletters", "drop", "priced", "--reason", "does not fit", "--yes")
    assert terminal.letters() == {}
    terminal("run", "--until-caught-up", "--audit")
    assert terminal.letters() == {}
    terminal.declare(MENDED)
    terminal.put(*(bad(n, again=True) for n in range(730)))
    terminal("run", "--until-caught-up")
    assert terminal.lines("status")[0]["entries"] == 730


def test_hundreds_are_mended_to_the_last(terminal: Terminal) -> None:
    terminal.put(*(bad(n) for n in range(730)))
    terminal("run", "--until-caught-up")
    terminal.declare(MENDED)
    assert {line["became"] for line in terminal.lines("deadletters", "retry", "priced")} == {"projected"}
    assert terminal.letters() == {}
    assert terminal.lines("status")[0]["entries"] == 730


# drop


def test_drop_shows_first_and_acts_when_told(shop: Terminal) -> None:
    for options in (("--dry-run",), ()):
        result = shop("deadletters", "drop", "priced", *options, code=0 if options else 2)
        assert "3 would be dropped; nothing was" in result.stderr
        assert all(id_ in result.stdout for id_ in shop.ids().values())
    assert len(shop.letters()) == 3
    result = shop("deadletters", "drop", "priced", "--yes")
    assert "3 dropped" in result.stderr
    assert shop.letters() == {}
    shop("deadletters", "drop", "priced")  # there is nothing to be sure about


def test_drop_one_by_one_needs_no_yes(shop: Terminal) -> None:
    ids = shop.ids()
    shop("deadletters", "drop", "priced", ids["2"], "--dry-run")
    assert len(shop.letters()) == 3
    assert [line["id"] for line in shop.lines("deadletters", "drop", "priced", ids["2"])] == [ids["2"]]
    assert shop.letters() == {"3": 1, "4": 1}
    result = shop("deadletters", "drop", "priced", ids["2"], ids["3"], code=1)
    assert "no such dead letter" in result.stderr
    assert shop.letters() == {"4": 1}


def test_what_is_dropped_stays_away_until_the_item_changes(shop: Terminal) -> None:
    shop("deadletters", "drop", "priced", "--yes")
    shop("audit", "--behind", "0")
    shop("run", "--until-caught-up")
    assert shop.letters() == {}
    shop.put(bad(2, again=True), order(3, 30))
    shop("run", "--until-caught-up")
    assert shop.letters() == {"2": 1}
    assert shop.lines("lookup", "priced", "o3")[0]["entries"][0]["total"] == 30


# audit


def old_enough(terminal: Terminal) -> None:
    time.sleep(1.1)  # a change of this very second is younger than 0 seconds behind


def test_audit_exits_by_what_it_found(shop: Terminal) -> None:
    old_enough(shop)
    good = shop.lines("audit", "--behind", "0")
    assert {line["projection"]: (line["examined"], line["repaired"], line["caughtUp"]) for line in good} == {
        "priced": (5, {}, True), "by-customer": (5, {}, True),
    }  # fmt: skip
    shop.put(order(7))  # and nobody projects it
    old_enough(shop)
    assert shop.lines("audit", "priced")[0]["examined"] == 0  # it is too young
    result = shop("audit", "priced", "--behind", "0", code=1)
    assert [row.split() for row in result.stdout.splitlines()][-1] == ["priced", "1", "written", "1", "yes"]
    assert "repaired" in result.stderr
    shop("audit", "priced", "--behind", "0")
    status = {line["projection"]: line["audit"] for line in shop.lines("status")}
    assert (status["priced"]["repaired"], status["by-customer"]["repaired"]) == (1, 0)
    assert "1 repaired" in shop("status").stdout
    shop("audit", "--behind", "-1", code=2)
    shop("audit", "nobody", code=2)


def test_audit_watches_until_it_is_told_to_stop(shop: Terminal) -> None:
    old_enough(shop)
    process = start(
        ["audit", "--watch", "--behind", "0", "--json"], shop.account.connection_string,
        COSMOS_DATABASE=shop.settings.database, PROJECTIONS_CATALOG=shop.settings.catalog, PYTHONPATH=str(shop.folder),
    )  # fmt: skip
    assert process.stdout
    first = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert (first["projection"], first["examined"]) == ("priced", 5)
    assert "stopping" in err


def test_an_alarm_at_the_terminal(terminal: Terminal) -> None:
    terminal.declare(f"{STRICT}, alarm_after=50")
    terminal.put(*(bad(n) for n in range(120)))
    result = terminal("run", "--until-caught-up", code=2)
    assert "error: projection priced: 120 items in a row cannot be projected (ItemError)" in result.stderr
    assert "hint: see `projections deadletters list priced`" in result.stderr
    health = {line["projection"]: line["health"] for line in terminal.lines("status", code=1)}
    assert health == {"priced": "alarm", "by-customer": "ok"}
    assert "alarm: 120 in a row parked (ItemError)" in terminal("status", code=1).stdout
    assert "stopped by its alarm" in terminal("doctor", code=1).stdout
    terminal.declare(f"{MENDED}, alarm_after=50")
    terminal("deadletters", "retry")
    terminal("run", "--until-caught-up")
    assert {line["health"] for line in terminal.lines("status")} == {"ok"}
